//! What becomes of hand-overs where something fails.

use super::{Disaggregation, Transfer};
use crate::cluster::sender::Withdrawn;
use crate::ids::{FlowId, InstanceId, RequestId};
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

    /// Ends the transfer of a request before its time; whether there was one.
    pub fn cancel(&mut self, id: RequestId, now: SimTime) -> bool {
        let is_of = |transfer: &Option<Transfer>| transfer.is_some_and(|it| it.request == id);
        let Some(flow) = self.transfers.iter().position(is_of) else { return false };
        self.transfers[flow] = None;
        self.network.cancel(FlowId::from_index(flow), now);
        true
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

    /// The transfers under way from or to an instance, by request.
    pub fn under_way(&self, instance: InstanceId) -> Vec<RequestId> {
        let touches = |it: &&Transfer| it.prefill == instance || it.decode == instance;
        let mut ids: Vec<_> =
            self.transfers.iter().flatten().filter(touches).map(|it| it.request).collect();
        ids.sort_unstable();
        ids
    }

    /// The NICs of an instance carry this share of their rate from now on.
    pub fn set_nic_share(&mut self, instance: InstanceId, share: f64, now: SimTime) {
        let nic = self.nics[(instance.0 - self.roles.whole) as usize];
        self.network.set_share(nic, share, now);
    }

    /// A decode instance does not answer: it gets no requests.
    pub fn lose(&mut self, decode: InstanceId) {
        self.gateway.lose(InstanceId(decode.0 - self.roles.entrances()));
    }

    /// A decode instance answers again.
    pub fn regain(&mut self, decode: InstanceId) {
        self.gateway.regain(InstanceId(decode.0 - self.roles.entrances()));
    }
}
