//! What the loop does where Dynamo's router has some prompts computed by the instances that decode them.

use super::observe::Observer;
use super::run::Simulation;
use super::source::Source;
use crate::cluster::Cluster;
use crate::cluster::router::Router;
use crate::cluster::router::dynamo::conditional::{Known, computes_prompt, is_busy};
use crate::ids::InstanceId;
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// The instance that decodes a request and is going to compute its prompt too, by the rule of Dynamo's router;
    /// `None` where one that prefills computes it, or there is no such rule.
    pub(super) fn find_conditionally(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) -> Option<InstanceId> {
        let rules = self.cluster.disaggregation.as_ref()?.conditional()?;
        let (_, request) = self.transit.get(transit);
        let segments = request.content.segments.clone();
        let (entrances, count) = (self.cluster.entrances(), self.cluster.instances.len() as u32);
        let looks_at_prefill = rules.policy.looks_at_prefill();
        if let Some(segments) = segments {
            let from = if looks_at_prefill { 0 } else { entrances };
            self.hear_of_caches(now, from..count, &segments, observer);
        }
        let seen = self.seen(now);
        let (id, request) = self.transit.get(transit);
        let request = request.view(id);
        let Cluster { instances, router, disaggregation, .. } = &mut self.cluster;
        let parts = disaggregation.as_mut()?;
        let decode = parts.prospect(request, instances, seen)?;
        let is_prefill_busy = looks_at_prefill.then(|| {
            let Router::Dynamo(dynamo) = &*router else { return None };
            let threshold = dynamo.prefill_busy_threshold()?;
            let prefills = &instances[..entrances as usize];
            let prefill = self.gateway.prospect(router, prefills, seen, request)?;
            Some(is_busy(&prefill, threshold))
        });
        let is_prefill_busy = is_prefill_busy.flatten();
        let prompt_tokens = u64::from(request.prompt_tokens);
        let known = Known { prompt_tokens, decode, is_prefill_busy };
        let stays = computes_prompt(&rules, &known);
        stays.then(|| parts.pin(request, &decode, instances, seen))?
    }
}
