//! What the loop does where an instance that prefills sends one KV cache after the other, and its steps
//! stand still meanwhile.

use super::event::Event;
use super::run::Simulation;
use super::source::Source;
use crate::cluster::Withdrawn;
use crate::des::Class;
use crate::engine::CopyStart;
use crate::ids::{InstanceId, RequestId};
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// An instance that prefills is asked for the KV of a request.
    pub(super) fn look_up(&mut self, now: SimTime, request: RequestId) {
        if let Some((prefill, true)) = self.parts().look_up(request) {
            self.ask_copy(now, prefill);
        }
    }

    /// The KV cache that is asked for first is sent as soon as the instance can copy it.
    fn ask_copy(&mut self, now: SimTime, prefill: InstanceId) {
        let start = self.cluster.instances[prefill.index()].ask_copy(now);
        if start == CopyStart::At(now) {
            return self.send_copy(now, prefill);
        }
        let sender = self.parts().sender(prefill).expect("it sends");
        let request = sender.wait(start == CopyStart::AfterStep);
        if let CopyStart::At(at) = start {
            self.queue.push(at, Class::Transfer, Event::Copy { prefill, request });
        }
    }

    /// The KV cache of a request can be copied, if it is still asked for.
    pub(super) fn begin_copy(&mut self, now: SimTime, prefill: InstanceId, request: RequestId) {
        let sender = self.parts().sender(prefill).expect("it sends");
        if sender.waits_with(request) {
            self.send_copy(now, prefill);
        }
    }

    /// The KV cache that was asked for first is sent.
    fn send_copy(&mut self, now: SimTime, prefill: InstanceId) {
        let ask = self.parts().sender(prefill).expect("it sends").send();
        let (parts, wires) = self.parts_on_wires();
        parts.start(wires, ask.request, ask.decode, ask.tokens, now);
        self.cluster.instances[prefill.index()].begin_copy(now);
        self.await_wires();
    }

    /// An instance that prefills went on: a KV cache may have waited for the end of its step.
    pub(super) fn send_after_step(&mut self, now: SimTime, prefill: InstanceId) {
        let follows = self.parts().sender(prefill).is_some_and(|sender| sender.follows_step());
        if follows && self.cluster.instances[prefill.index()].is_idle() {
            self.send_copy(now, prefill);
        }
    }

    /// The KV cache of a request is not needed any more. If it was asked for and has not arrived the instance
    /// that has it goes on with the next one; whether it was.
    pub(super) fn withdraw(&mut self, now: SimTime, request: RequestId) -> bool {
        let Some((prefill, how_far)) = self.parts().withdraw(request) else { return false };
        match how_far {
            Withdrawn::Question => {}
            Withdrawn::Transfer => self.end_copy(now, prefill),
            Withdrawn::Copy => {
                let wake = self.cluster.instances[prefill.index()].cancel_copy(now);
                self.awaken(wake, prefill);
                if self.parts().sender(prefill).is_some_and(|sender| sender.has_next()) {
                    self.ask_copy(now, prefill);
                }
            }
        }
        true
    }

    /// A KV cache has arrived, or will not: the next one may be sent, and the step goes on.
    pub(super) fn end_copy(&mut self, now: SimTime, prefill: InstanceId) {
        let Some(sender) = self.parts().sender(prefill) else { return };
        let has_another = sender.sent();
        let wake = self.cluster.instances[prefill.index()].end_copy(now);
        self.awaken(wake, prefill);
        if has_another {
            self.ask_copy(now, prefill);
        }
    }
}
