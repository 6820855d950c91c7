//! What the loop does where Dynamo's router has some prompts computed by the instances that decode them, and requests
//! wait there for an instance that decodes.

use super::observe::Observer;
use super::run::Simulation;
use super::source::Source;
use crate::cluster::router::dynamo::conditional::{Known, computes_prompt, is_busy};
use crate::cluster::{Cluster, Routed, Router};
use crate::ids::RequestId;
use crate::units::SimTime;

/// A request that waits at the router of those that decode.
#[derive(Debug)]
pub(super) struct AtDecodes {
    /// Its place in the transit.
    transit: u32,
    prompt: Prompt,
}

/// How far the prompt of such a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prompt {
    /// An instance that prefills has computed it, and holds its KV.
    Computed,
    /// The instance that decodes is going to compute it.
    ToCompute,
}

impl<W: Source> Simulation<W> {
    /// Sends a request to the instance that decodes it and computes its prompt too, by the rule of Dynamo's router; to
    /// which, or whether it waits for that. `None` where one that prefills computes it, or there is no such rule.
    pub(super) fn send_conditionally(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) -> Option<Routed> {
        let offer = self.offer_conditionally(now, transit, observer)?;
        let (id, _) = self.transit.get(transit);
        match offer {
            Routed::To(decode) => self.send_to_decode(now, transit, decode, observer),
            Routed::Waits => self.wait_for_decode(id, transit, Prompt::ToCompute),
            Routed::Full | Routed::Nowhere | Routed::Unavailable => return None,
        }
        Some(offer)
    }

    fn offer_conditionally(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) -> Option<Routed> {
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
            match self.gateway.prospect(router, prefills, seen, request) {
                Some(prefill) => Some(is_busy(&prefill, threshold)),
                // As one whose queue rejects. Of those that are down nothing is known.
                None => self.gateway.is_full().then_some(true),
            }
        });
        let is_prefill_busy = is_prefill_busy.flatten();
        let prompt_tokens = u64::from(request.prompt_tokens);
        let known = Known { prompt_tokens, decode, is_prefill_busy };
        computes_prompt(&rules, &known).then(|| parts.pin(request, &decode, instances, seen))
    }

    /// A request waits at the router of those that decode.
    pub(super) fn wait_for_decode(&mut self, id: RequestId, transit: u32, prompt: Prompt) {
        self.at_decodes.insert(id, AtDecodes { transit, prompt });
        if prompt == Prompt::Computed && self.faults.is_some() {
            self.wait_to_be_sent_on(id);
        }
    }

    /// Requests that waited at the router of those that decode go where it sends them now.
    pub(super) fn release_decodes(&mut self, now: SimTime, observer: &mut impl Observer) {
        loop {
            let seen = self.seen(now);
            let released = self.parts().released(seen);
            if released.is_empty() {
                return;
            }
            for (id, offer) in released {
                let Some(AtDecodes { transit, prompt }) = self.at_decodes.remove(&id) else {
                    continue;
                };
                self.release_decode(now, transit, (prompt, offer), observer);
            }
        }
    }

    fn release_decode(
        &mut self,
        now: SimTime,
        transit: u32,
        (prompt, offer): (Prompt, Routed),
        observer: &mut impl Observer,
    ) {
        let (id, request) = self.transit.get(transit);
        match (offer, prompt) {
            (Routed::To(decode), _) => {
                let Some(parts) = &mut self.cluster.disaggregation else { return };
                parts.send_to(request.view(id), decode);
                match prompt {
                    Prompt::Computed => self.send_computed_on(now, transit, decode, observer),
                    Prompt::ToCompute => self.send_to_decode(now, transit, decode, observer),
                }
            }
            // Its instance is down or drains. Nothing of it is computed, so that it may go anywhere.
            (_, Prompt::ToCompute) => {
                self.offer(now, transit, observer);
            }
            (_, Prompt::Computed) => {
                self.transit.take(transit);
                self.strand(now, id, observer);
            }
        }
    }

    /// A request waits for an instance that decodes no longer, because its client does not; how far its prompt is, if it
    /// waited there.
    pub(super) fn leave_decodes(&mut self, id: RequestId) -> Option<Prompt> {
        let AtDecodes { transit, prompt } = self.at_decodes.remove(&id)?;
        self.parts().stopped_waiting(id);
        self.transit.take(transit);
        Some(prompt)
    }
}
