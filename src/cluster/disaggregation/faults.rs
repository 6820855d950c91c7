//! What becomes of hand-overs where something fails.

use super::Disaggregation;
use crate::cluster::sender::Withdrawn;
use crate::cluster::{Health, Reply};
use crate::ids::{InstanceId, RequestId};
use crate::units::SimTime;

impl Disaggregation {
    /// The prefill instance that computes a request or holds its KV.
    pub fn holder(&self, id: RequestId) -> Option<InstanceId> {
        self.prefill_of.get(&id).copied()
    }

    /// No prefill instance computes a request or holds its KV any more.
    pub fn forget(&mut self, id: RequestId) {
        self.prefilling.remove(&id);
        self.give_up(id);
    }

    /// Whether the decode side asks for one KV cache after the other.
    pub fn is_asked(&self) -> bool {
        !self.senders.is_empty()
    }

    /// A KV cache that was asked for is not needed: from whom, and how far that had come; nothing where it was
    /// not asked for.
    pub fn withdraw(&mut self, id: RequestId) -> Option<(InstanceId, Withdrawn)> {
        let first = self.roles.whole;
        if self.asked.remove(&id).is_some() {
            return self.holder(id).map(|prefill| (prefill, Withdrawn::Question));
        }
        let mut senders = (first..).zip(&mut self.senders);
        senders.find_map(|(prefill, sender)| Some((InstanceId(prefill), sender.withdraw(id)?)))
    }

    /// A decode instance does not answer: it gets no requests.
    pub fn lose(&mut self, decode: InstanceId) {
        self.gateway.lose(InstanceId(decode.0 - self.roles.entrances()));
    }

    /// What is sent to a decode instance fares so from now on, of which its router finds out.
    pub fn connects(&mut self, now: SimTime, decode: InstanceId, health: Health) {
        let decode = InstanceId(decode.0 - self.roles.entrances());
        self.gateway.connects(&mut self.decode_router, now, decode, health);
    }

    /// A decode instance is gone with all that it had cached.
    pub fn gone(&mut self, decode: InstanceId) {
        let decode = InstanceId(decode.0 - self.roles.entrances());
        self.gateway.gone(&mut self.decode_router, decode);
    }

    /// The router sees how a decode instance replies to a request.
    pub fn answered(&mut self, now: SimTime, decode: InstanceId, reply: Reply) {
        let decode = InstanceId(decode.0 - self.roles.entrances());
        self.gateway.answered(&mut self.decode_router, now, decode, reply);
    }

    /// A decode instance answers again.
    pub fn regain(&mut self, decode: InstanceId) {
        self.gateway.regain(InstanceId(decode.0 - self.roles.entrances()));
    }
}
