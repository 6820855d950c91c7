//! What the relay counts of queues, caches and KV under way.

use super::Relay;
use crate::engine::StepPlan;
use crate::engine::tiers::TierLoad;
use crate::ids::{InstanceId, RequestId};
use crate::units::SimTime;

impl Relay {
    /// A step was decided.
    pub(super) fn planned(&mut self, at: SimTime, instance: InstanceId, plan: &StepPlan) {
        self.preempted(instance, &plan.preempted);
        let hits = self.admitted(at, instance, plan);
        self.counters[instance.index()].planned(plan, hits);
    }

    /// Requests are admitted, or load their KV first: tokens found in the cache for those that are for the first time.
    pub(super) fn admitted(&mut self, at: SimTime, instance: InstanceId, plan: &StepPlan) -> u64 {
        for (id, tokens) in &plan.loads {
            self.awaits(instance, *id, *tokens);
        }
        let counters = &mut self.counters[instance.index()];
        let mut hits = 0;
        for (id, hit) in &plan.hits {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            // One that comes back after a preemption does not count again.
            if stream.admitted.replace(instance) != Some(instance) {
                hits += u64::from(*hit);
                stream.cached.local = *hit;
                counters.looked_up(stream.prompt.len() as u64, stream.cached);
                counters.left_queue(at.saturating_since(stream.queued));
            }
        }
        hits
    }

    /// A request gets memory for KV of so many tokens, which comes from another instance or a tier below.
    fn awaits(&mut self, instance: InstanceId, id: RequestId, tokens: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let counters = &mut self.counters[instance.index()];
        let receives = self.receives[instance.index()];
        if stream.admitted != Some(instance) {
            stream.cached.external = tokens;
            if receives {
                counters.from_replicas += u64::from(tokens);
            }
        }
        if receives && stream.awaited.is_none() {
            stream.awaited = Some(instance);
            counters.underway.awaited += 1;
        }
    }

    /// The KV of a request has come to where it is awaited, or does not come.
    pub(super) fn awaited_is_over(&mut self, id: RequestId) {
        let awaited = self.streams.get_mut(&id).and_then(|stream| stream.awaited.take());
        if let Some(instance) = awaited {
            self.counters[instance.index()].underway.awaited -= 1;
        }
    }

    /// What a request loads comes from these tiers.
    pub(super) fn loads(&mut self, instance: InstanceId, load: &TierLoad) {
        self.counters[instance.index()].loads(load);
    }

    /// A request joins a batch that decodes, without a step that prefills it.
    pub(super) fn landed(&mut self, at: SimTime, instance: InstanceId, id: RequestId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.admitted.replace(instance) != Some(instance) {
            self.counters[instance.index()].left_queue(at.saturating_since(stream.queued));
        }
    }

    pub(super) fn preempted(&mut self, instance: InstanceId, requests: &[RequestId]) {
        let counters = &mut self.counters[instance.index()];
        for id in requests {
            let Some(stream) = self.streams.get_mut(id) else { continue };
            counters.preempted(stream.prompt.len() as u64, stream.told);
        }
    }

    /// Somebody orders this request to be ended, or its client has gone.
    pub(in crate::serve) fn abort_ordered(&mut self, id: RequestId) {
        if let Some(instance) = self.streams.get(&id).and_then(|stream| stream.instance) {
            self.counters[instance.index()].abort_orders += 1;
        }
    }

    /// Somebody orders all requests to be ended, of one replica or of each.
    pub(in crate::serve) fn abort_of_all_ordered(&mut self, replica: Option<InstanceId>) {
        for (counters, id) in self.counters.iter_mut().zip((0..).map(InstanceId)) {
            if replica.is_none_or(|it| it == id) {
                counters.abort_orders += 1;
            }
        }
    }
}
