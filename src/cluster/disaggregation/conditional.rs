//! Prompts that instances compute which decode them, where Dynamo's router says so (NVIDIA Dynamo 1.6.1, conditional
//! disaggregation). The rule itself is in [`dynamo::conditional`](crate::cluster::router::dynamo::conditional).

use std::sync::Arc;

use super::Disaggregation;
use crate::cluster::router::dynamo::Prospect;
use crate::cluster::router::{Routed, Router};
use crate::engine::Instance;
use crate::ids::{InstanceId, RequestId};
use crate::kv::CacheEvent;
use crate::request::{RequestView, Segment};
use crate::scenario::DynamoConditionalDisagg;
use crate::units::SimTime;

impl Disaggregation {
    /// When instances that decode compute prompts, by Dynamo's router; nothing where it does not say, or somebody
    /// outside leads requests.
    pub fn conditional(&self) -> Option<DynamoConditionalDisagg> {
        match &self.decode_router {
            Router::Dynamo(router) if self.led.is_none() => router.conditional().copied(),
            _ => None,
        }
    }

    /// Whether instances that decode may compute prompts, whoever says so.
    pub fn computes_prompts(&self) -> bool {
        self.local_prefill.is_some() || self.conditional().is_some()
    }

    /// Where a request would be decoded now, by the place among instances that decode, and what is there.
    pub fn prospect(
        &mut self,
        request: RequestView<'_>,
        instances: &[Instance],
        now: SimTime,
    ) -> Option<Prospect> {
        let decodes = &instances[self.roles.entrances() as usize..];
        self.gateway.prospect(&mut self.decode_router, decodes, now, request)
    }

    /// A request goes to the instance that was looked at for it, which computes its prompt too, or waits for it.
    pub fn pin(
        &mut self,
        request: RequestView<'_>,
        prospect: &Prospect,
        instances: &[Instance],
        now: SimTime,
    ) -> Routed {
        let decodes = &instances[self.roles.entrances() as usize..];
        let pinned = (request, InstanceId(prospect.rank.0));
        let offer = self.gateway.pin(&mut self.decode_router, decodes, now, pinned);
        self.of_all(offer)
    }

    /// What has become of requests that waited for an instance that decodes, in order.
    pub fn released(&mut self, now: SimTime) -> Vec<(RequestId, Routed)> {
        let released = self.gateway.released(&mut self.decode_router, now);
        released.into_iter().map(|(id, offer)| (id, self.of_all(offer))).collect()
    }

    /// A request that waited for an instance goes to it.
    pub fn send_to(&mut self, request: RequestView<'_>, decode: InstanceId) {
        self.gateway.send_to(request, InstanceId(decode.0 - self.roles.entrances()));
    }

    /// A request that waited for an instance that decodes is given up.
    pub fn stopped_waiting(&mut self, id: RequestId) {
        self.gateway.stopped_waiting(id);
    }

    /// Whether the router of instances that decode is told what their caches hold.
    pub fn hears_caches(&self) -> bool {
        self.gateway.hears_caches()
    }

    /// What the prompt of a request quotes that is about to be sent on, where its router looks for it in caches.
    pub fn looked_for(&self, id: RequestId) -> Option<Arc<[Segment]>> {
        self.prefilling.get(&id).filter(|_| self.hears_caches())?.content.segments.clone()
    }

    /// The prompt of a request is computed, by an instance that decodes it.
    pub fn computed(&mut self, id: RequestId) {
        if self.conditional().is_some() {
            self.gateway.prefilled(id);
        }
    }

    /// The cache of an instance that decodes has changed by `now`, or is going to, at these moments.
    pub fn hear(
        &mut self,
        now: SimTime,
        decode: InstanceId,
        events: impl IntoIterator<Item = (SimTime, CacheEvent)>,
    ) {
        let decode = InstanceId(decode.0 - self.roles.entrances());
        self.gateway.hear(&mut self.decode_router, now, decode, events);
    }

    /// Whether the router of instances that decode has forgotten all requests, as far as it has been told.
    pub fn is_router_at_rest(&mut self, now: SimTime) -> bool {
        self.released(now);
        self.decode_router.is_at_rest()
    }
}
