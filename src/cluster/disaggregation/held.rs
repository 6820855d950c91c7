//! Requests that instances have: those that prefill until their KV is fetched, those that decode until they leave.

use super::Disaggregation;
use crate::ids::{InstanceId, RequestId};

impl Disaggregation {
    /// Nobody will ask for the KV of a request: the instance that holds it, if one still does, which
    /// may forget it.
    pub fn give_up(&mut self, id: RequestId) -> Option<InstanceId> {
        let prefill = self.prefill_of.remove(&id)?;
        self.held[(prefill.0 - self.roles.whole) as usize] -= 1;
        Some(prefill)
    }

    /// A prefill instance is going to compute a request, and to hold its KV.
    pub(super) fn hold(&mut self, id: RequestId, prefill: InstanceId) {
        self.give_up(id);
        self.prefill_of.insert(id, prefill);
        self.held[(prefill.0 - self.roles.whole) as usize] += 1;
    }

    /// Whether an instance prefills requests, or holds the KV of some for others.
    pub fn holds_kv(&self, instance: InstanceId) -> bool {
        let place = instance.0.checked_sub(self.roles.whole).map(|place| place as usize);
        place.and_then(|place| self.held.get(place)).is_some_and(|held| *held > 0)
    }

    /// Whether no instance that decodes has a request, as far as that is counted.
    pub fn is_at_rest(&self) -> bool {
        self.gateway.is_at_rest()
    }

    /// Counts the requests of instances that decode, whether the router needs that or not.
    pub fn count_outstanding(&mut self) {
        self.gateway.count_outstanding(self.roles.decodes);
    }

    /// Requests that were sent to an instance that decodes and have not left it, where they are counted.
    pub fn outstanding(&self, decode: InstanceId) -> u32 {
        self.gateway.outstanding(InstanceId(decode.0 - self.roles.entrances()))
    }
}
