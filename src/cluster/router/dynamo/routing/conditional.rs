//! The routers of pools where some prompts are computed by those that decode (NVIDIA Dynamo 1.6.1,
//! `lib/llm/src/kv_router/prefill_router`).
//!
//! The pool of those that decode then has all settings of the router, its queue too: it looks at caches and at prefill
//! tokens. What was prefilled elsewhere is sent there without prefill tokens and shares no blocks, but what is cached
//! counts. A prompt that is computed there is pinned to the rank that was looked at, and waits for that one while it is
//! busy.

use super::super::{Options, Prospect, Rank};
use super::Dynamo;
use crate::cluster::ClusterView;
use crate::cluster::router::Routed;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::scenario::{DynamoConditionalDisagg, DynamoConfig};
use crate::units::SimTime;

/// The settings of the pool of those that decode.
pub(super) fn of_decodes(config: &DynamoConfig) -> DynamoConfig {
    if config.conditional_disagg.is_some() {
        return config.clone();
    }
    DynamoConfig {
        overlap_score_credit: 0.0,
        router_track_prefill_tokens: false,
        router_assume_kv_reuse: false,
        router_predicted_ttl_secs: None,
        router_queue_threshold: None,
        policy: None,
        ..config.clone()
    }
}

/// What a request asks the pool of those that decode for whose prompt was computed elsewhere.
pub(super) fn prefilled_elsewhere(own: Option<Options>) -> Options {
    Options { tracks_prefill: Some(false), assumes_reuse: Some(false), ..own.unwrap_or_default() }
}

impl Dynamo {
    /// Which prompts its instances compute, if they decode and compute some.
    pub fn conditional(&self) -> Option<&DynamoConditionalDisagg> {
        self.config.conditional_disagg.as_ref().filter(|_| self.computes_some)
    }

    /// Above which share of a step in booked prefill tokens an instance is busy that would prefill.
    pub fn prefill_busy_threshold(&self) -> Option<f64> {
        self.config.prefill_busy_threshold()
    }

    /// Where a request would go now that none has computed anything of, and what is there.
    pub fn prospect(
        &mut self,
        now: SimTime,
        request: RequestView<'_>,
        view: &ClusterView<'_>,
    ) -> Option<Prospect> {
        let now = self.clock.at(now);
        self.see_fleet(now, view);
        self.take_in(now);
        let options = self.session(request);
        let ask = self.ask(request, options);
        self.router.prospect(now, &ask, &mut self.stream)
    }

    /// The same request goes to this instance, which computes its prompt too.
    pub fn pin(
        &mut self,
        now: SimTime,
        request: RequestView<'_>,
        instance: InstanceId,
        view: &ClusterView<'_>,
    ) -> Routed {
        let own = self.session(request).unwrap_or_default();
        let options = Options { pinned: Some(Rank(instance.0)), ..own };
        self.offer_with(now, request, Some(options), view)
    }
}
