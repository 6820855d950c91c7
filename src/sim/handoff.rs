//! What the loop does where some instances prefill and others decode.

use super::conditional::Prompt;
use super::drive::{self, Gone};
use super::event::Event;
use super::observe::{Observer, Occurrence};
use super::run::Simulation;
use super::source::Source;
use crate::cluster::{Ask, Cluster, Disaggregation, Order, Role, Routed, Transfer, Wires};
use crate::des::Class;
use crate::engine::Finish;
use crate::engine::scheduler::Handoff;
use crate::ids::{InstanceId, RequestId};
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// The two kinds of instances.
    ///
    /// # Panics
    /// When instances do all of a request.
    pub(super) fn parts(&mut self) -> &mut Disaggregation {
        self.parts_on_wires().0
    }

    /// The same, and the links that KV caches take.
    pub(super) fn parts_on_wires(&mut self) -> (&mut Disaggregation, &mut Wires) {
        let Cluster { disaggregation, wires, .. } = &mut self.cluster;
        (disaggregation.as_mut().expect("instances have roles"), wires)
    }

    /// Requests left instances of this role: gateways count them out.
    pub(super) fn count_out(&mut self, role: Role) {
        for id in self.outcome.dropped.drain(..) {
            if let (Role::Prefill, Some(parts)) = (role, &mut self.cluster.disaggregation) {
                parts.forget(id);
            }
            if let Some(faults) = &mut self.faults {
                faults.left(id);
            }
        }
        for Gone { id, tokens, .. } in &self.outcome.left {
            if let Some(faults) = &mut self.faults {
                faults.left(*id);
            }
            if let Some(gate) = &mut self.gate {
                gate.room.queue().left(*id, *tokens);
            }
            match (role, &mut self.cluster.disaggregation) {
                (Role::Decode, Some(parts)) => {
                    parts.left(*id);
                    if self.gateway.counts_until_answered() {
                        self.gateway.left(*id);
                    }
                }
                _ => self.gateway.left(*id),
            }
        }
    }

    /// Sends requests whose prompts are computed on to instances that decode.
    pub(super) fn forward(&mut self, now: SimTime, observer: &mut impl Observer) {
        let mut prefilled = std::mem::take(&mut self.outcome.prefilled);
        for id in prefilled.drain(..) {
            if !self.gateway.counts_until_answered() {
                self.gateway.left(id);
            }
            if self.parts().order() == Order::DestinationFirst {
                self.send_computed(now, id, observer);
                continue;
            }
            if self.parts().waits_to_be_sent_on() {
                self.wait_to_be_sent_on(id);
            } else {
                self.send_on(now, id, observer);
            }
        }
        self.outcome.prefilled = prefilled;
    }

    /// Sends a request whose prompt is computed to an instance that decodes.
    pub(super) fn send_on(&mut self, now: SimTime, id: RequestId, observer: &mut impl Observer) {
        // A router that looks for it in the caches of those that decode knows them as they are now.
        if let Some(segments) = self.parts().looked_for(id) {
            let decodes = self.cluster.entrances()..self.cluster.instances.len() as u32;
            self.hear_of_caches(now, decodes, &segments, observer);
        }
        let seen = self.seen(now);
        let Cluster { instances, disaggregation, .. } = &mut self.cluster;
        let parts = disaggregation.as_mut().expect("instances have roles");
        let (request, offer) = parts.hand_over(id, instances, seen);
        match offer {
            Routed::To(instance) => {
                let transit = self.transit.put(id, request);
                self.send_computed_on(now, transit, instance, observer);
            }
            Routed::Waits => {
                let transit = self.transit.put(id, request);
                self.wait_for_decode(id, transit, Prompt::Computed);
            }
            Routed::Full | Routed::Nowhere | Routed::Unavailable => self.strand(now, id, observer),
        }
    }

    /// A request whose prompt is computed goes to an instance that decodes.
    pub(super) fn send_computed_on(
        &mut self,
        now: SimTime,
        transit: u32,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let (id, _) = self.transit.get(transit);
        if let Some(faults) = &mut self.faults {
            faults.moved(id, instance);
        }
        observer.on(now, Occurrence::Forwarded(id, instance));
        self.pass_front_end(now, instance, Event::Enqueue { instance, transit });
    }

    /// Starts the transfers that an instance asks for.
    pub(super) fn start_transfers(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        if self.outcome.loads.is_empty() {
            return;
        }
        let mut loads = std::mem::take(&mut self.outcome.loads);
        let order = self.parts().order();
        for (id, tokens) in loads.drain(..) {
            if order == Order::DestinationFirst {
                let at = now.max(self.parts().placed(id, tokens));
                self.queue.push(at, Class::Input, Event::Prefill { request: id });
                continue;
            }
            let ask = Ask { request: id, decode: instance, tokens };
            let bytes = if let Some((bytes, at)) = self.parts().ask(ask, now) {
                self.queue.push(at, Class::Transfer, Event::LookUp { request: id });
                bytes
            } else {
                let (parts, wires) = self.parts_on_wires();
                parts.start(wires, id, instance, tokens, now)
            };
            observer.on(now, Occurrence::TransferBegan(instance, id, bytes));
        }
        self.outcome.loads = loads;
        if order == Order::SourceFirst {
            self.await_wires();
        }
    }

    /// The instance that decodes a request which goes to one that prefills it; `None` where the router holds all for dead.
    pub(super) fn find_destination(&mut self, now: SimTime, transit: u32) -> Option<InstanceId> {
        let seen = self.seen(now);
        let (id, request) = self.transit.get(transit);
        let Cluster { instances, disaggregation, .. } = &mut self.cluster;
        let parts = disaggregation.as_mut().expect("instances have roles");
        parts.find_destination(request.view(id), instances, seen)
    }

    /// A request is sent to both of its instances, first to the one that decodes it.
    pub(super) fn reserve(
        &mut self,
        now: SimTime,
        transit: u32,
        (prefill, decode): (InstanceId, InstanceId),
    ) {
        let ready = self.through_front_end(now, prefill, transit);
        let (id, request) = self.transit.get(transit);
        let prompt_tokens = request.prompt_tokens;
        self.parts().reserve((id, prompt_tokens), (prefill, ready), decode);
        self.begin_pair(id, (prefill, ready), decode);
        self.pass_front_end(now, decode, Event::Expect { decode, transit });
    }

    /// A request reaches the instance that is going to decode it.
    pub(super) fn expect_kv(
        &mut self,
        now: SimTime,
        decode: InstanceId,
        transit: u32,
        observer: &mut impl Observer,
    ) {
        let (id, request) = self.transit.take(transit);
        if !self.is_expected(id, decode) {
            return self.meet(now, id, decode, observer);
        }
        self.see_steps(now, decode, observer);
        let engine = &mut self.cluster.instances[decode.index()];
        let changed = drive::interrupt((decode, engine), now, observer);
        match engine.enqueue(id, &request, Handoff::PrefilledElsewhere) {
            Ok(()) => {
                self.parts().awaited(id, request);
                self.awaken_for(now, decode, changed);
                self.meet(now, id, decode, observer);
            }
            Err(finish) => {
                if let Some(at) = changed {
                    self.awaken(at, decode);
                }
                self.pairs.is_answered(id);
                self.refuse(now, decode, (id, finish), observer);
                self.meet(now, id, decode, observer);
            }
        }
    }

    /// A request for which there is memory elsewhere reaches the instance that prefills it.
    pub(super) fn enqueue_prefill(
        &mut self,
        now: SimTime,
        id: RequestId,
        observer: &mut impl Observer,
    ) {
        let Some((request, instance)) = self.parts().reach_prefill(id) else { return };
        if self.pairs.is_open(id) {
            // Its server does not answer, and has not taken it.
            return;
        }
        if !self.is_taken_in(now, id, instance, observer) {
            return;
        }
        self.see_steps(now, instance, observer);
        let place = (instance, &mut self.cluster.instances[instance.index()]);
        let is_awaited = self.awaited[instance.index()];
        let part = (id, &Disaggregation::prompt_of(&request), Handoff::DecodedElsewhere);
        let entered = drive::enqueue(place, now, part, is_awaited, observer);
        if let Some(at) = entered.wake {
            self.awaken(at, instance);
        }
        if let Some(finish) = entered.refused {
            let decode = self.parts().refused(id);
            self.set_free(now, id, decode, observer);
            self.leave_refused(now, id, finish);
            self.end_drain(now, instance, observer);
            self.end_drain(now, decode, observer);
        } else if request.session.is_some() {
            self.turns.insert(id, request);
        }
    }

    fn refuse(
        &mut self,
        now: SimTime,
        decode: InstanceId,
        (id, finish): (RequestId, Finish),
        observer: &mut impl Observer,
    ) {
        let prefill = self.parts().refused_before(id);
        observer.on(now, Occurrence::Refused(prefill, id));
        self.leave_refused(now, id, finish);
        self.end_drain(now, prefill, observer);
        self.end_drain(now, decode, observer);
    }

    fn leave_refused(&mut self, now: SimTime, id: RequestId, finish: Finish) {
        if let Some(faults) = &mut self.faults {
            faults.left(id);
        }
        self.gateway.left(id);
        self.outcome.left.push(Gone { id, finish, tokens: 0, at: now });
        self.settle(now);
    }

    /// A prompt is computed, and its KV goes to the instance that has memory for it.
    fn send_computed(&mut self, now: SimTime, id: RequestId, observer: &mut impl Observer) {
        let decode = self.parts().destination(id).expect("it has a destination");
        observer.on(now, Occurrence::Forwarded(id, decode));
        if self.is_computed_in_vain(now, id, decode, observer) {
            return;
        }
        let load = self.cluster.instances[decode.index()].scheduler().load();
        observer.on(now, Occurrence::Queued(decode, id, load));
        let (parts, wires) = self.parts_on_wires();
        let bytes = parts.send_rest(wires, id, now);
        observer.on(now, Occurrence::TransferBegan(decode, id, bytes));
        self.await_wires();
    }

    /// Schedules what steps that were just decided let go of the KV of their prompts.
    pub(super) fn plan_releases(&mut self) {
        let mut chunks = std::mem::take(&mut self.outcome.chunks);
        for chunk in chunks.drain(..) {
            for at in self.parts().chunk_planned(&chunk) {
                let event = Event::Release { request: chunk.request };
                self.queue.push(at, Class::Transfer, event);
            }
        }
        self.outcome.chunks = chunks;
    }

    /// A part of the KV of a request is computed, and sent.
    pub(super) fn release_part(
        &mut self,
        now: SimTime,
        id: RequestId,
        observer: &mut impl Observer,
    ) {
        let (parts, wires) = self.parts_on_wires();
        if let Some(prefill) = parts.release(wires, id, now) {
            observer.on(now, Occurrence::SendingBegan(prefill, id));
        }
        self.await_wires();
    }

    /// Tells both ends of a transfer that has ended.
    pub(super) fn end_transfer(
        &mut self,
        now: SimTime,
        transfer: Transfer,
        observer: &mut impl Observer,
    ) {
        observer.on(now, Occurrence::Released(transfer.prefill, transfer.request));
        self.end_copy(now, transfer.prefill);
        for instance in [transfer.prefill, transfer.decode] {
            self.notify(now, instance, transfer.request, observer);
        }
    }

    /// Has the instance that holds the KV of a request, if one does, forget it: nobody will ask for it.
    pub(super) fn release(&mut self, now: SimTime, id: RequestId, observer: &mut impl Observer) {
        let Some(prefill) = self.parts().give_up(id) else { return };
        if !self.is_up(prefill) {
            // What it held is gone with it.
            return;
        }
        observer.on(now, Occurrence::Released(prefill, id));
        self.notify(now, prefill, id, observer);
    }

    /// Something came to an instance that a request of it has waited for.
    pub(super) fn notify(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        id: RequestId,
        observer: &mut impl Observer,
    ) {
        self.see_steps(now, instance, observer);
        let engine = &mut self.cluster.instances[instance.index()];
        let changed = drive::interrupt((instance, engine), now, observer);
        engine.transferred(id);
        self.awaken_for(now, instance, changed);
    }
}
