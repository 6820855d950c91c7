//! The least predicted latency, in the manner of llm-d's predicted-latency scorer (llm-d 0.7,
//! `architecture/advanced/latency-predictor`).
//!
//! For every instance the router predicts the time to the first token and per further token of a request that
//! comes there now: from what was sent there and has not left, from the requests that run as its engine last
//! reported, from what its cache had of the prompt, and from the law of its step times. Requests that were
//! sent and do not run are prefilled first, in steps of the engine's token budget beside those that
//! decode, then the request itself; all of them decode with it. Prompts that wait count whole, contexts
//! are the mean prompt: what answers add nobody knows.
//!
//! Without limits a request goes where the weighted sum of both is least, each as a share of the largest
//! prediction. With limits it goes where both hold with the least headroom, so that others keep room for what
//! is harder to serve; where none holds both, to the least weighted sum.
//!
//! Otherwise than there: the law of step times is known, where llm-d learns from traffic; the mean is
//! predicted, not a percentile; headroom is a share of its limit; nothing is drawn at random.

use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::scenario::LatencyPredictingConfig;
use crate::units::SimDuration;

/// What a request would meet on an instance, in ms.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Prediction {
    id: InstanceId,
    ttft_ms: f64,
    tpot_ms: f64,
}

/// The least predicted latency, or the least headroom within limits.
#[derive(Debug, Clone)]
pub struct LatencyPredicting {
    config: LatencyPredictingConfig,
    predictions: Vec<Prediction>,
}

impl LatencyPredicting {
    /// A router that has predicted nothing.
    pub fn new(config: LatencyPredictingConfig) -> Self {
        Self { config, predictions: Vec::new() }
    }

    /// The weighted sum of two figures.
    fn weighted(&self, ttft: f64, tpot: f64) -> f64 {
        self.config.ttft_weight * ttft + self.config.tpot_weight * tpot
    }

    /// The share of the limits that is left; `None` where one does not hold.
    fn headroom(&self, prediction: &Prediction) -> Option<f64> {
        let left = |limit: Option<f64>, value: f64| limit.map_or(0.0, |limit| 1.0 - value / limit);
        let ttft = left(self.config.slo_ttft_ms, prediction.ttft_ms);
        let tpot = left(self.config.slo_tpot_ms, prediction.tpot_ms);
        (ttft >= 0.0 && tpot >= 0.0).then(|| self.weighted(ttft, tpot))
    }

    fn has_limits(&self) -> bool {
        self.config.slo_ttft_ms.is_some() || self.config.slo_tpot_ms.is_some()
    }
}

/// What a request that comes to an instance now would meet.
fn predict(id: InstanceId, request: RequestView<'_>, view: &ClusterView<'_>) -> Prediction {
    let sent = view.outstanding[id.index()];
    let running = view.signals[id.index()].running.min(sent.requests);
    let mean = sent.prompt_tokens / u64::from(sent.requests.max(1));
    let ahead = mean * u64::from(sent.requests - running);
    let cached = view.caches.tokens(id, request).min(request.prompt_tokens);
    let own = u64::from(request.prompt_tokens - cached).max(1);
    let decoding = |sequences: u32| {
        let mut shape = view.steps.empty(id);
        let context = mean.max(1);
        shape.add_decodes(sequences, u64::from(sequences) * context, context as u32);
        shape
    };
    let budget = u64::from(view.steps.token_budget(id).saturating_sub(running).max(1));
    let prefilling = |tokens: u64| {
        let mut shape = decoding(running);
        shape.add_prefill(tokens as u32, 0, true);
        view.steps.price(id, shape).as_millis_f64()
    };
    let tokens = ahead + own;
    let mut ttft_ms = match tokens % budget {
        0 => 0.0,
        rest => prefilling(rest),
    };
    if tokens >= budget {
        ttft_ms += (tokens / budget) as f64 * prefilling(budget);
    }
    let tpot_ms = view.steps.price(id, decoding(sent.requests + 1)).as_millis_f64();
    Prediction { id, ttft_ms, tpot_ms }
}

impl Route for LatencyPredicting {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        let mut predictions = std::mem::take(&mut self.predictions);
        predictions.clear();
        predictions.extend(view.up().map(|id| predict(id, request, view)));
        let within = predictions.iter().filter_map(|it| Some((self.headroom(it)?, it.id)));
        let within = within.filter(|_| self.has_limits()).min_by(|a, b| a.0.total_cmp(&b.0));
        let largest = |of: fn(&Prediction) -> f64| {
            predictions.iter().map(of).fold(f64::MIN_POSITIVE, f64::max)
        };
        let (ttft, tpot) = (largest(|it| it.ttft_ms), largest(|it| it.tpot_ms));
        let sum = |it: &Prediction| self.weighted(it.ttft_ms / ttft, it.tpot_ms / tpot);
        let least = predictions.iter().map(|it| (sum(it), it.id));
        let least = least.min_by(|a, b| a.0.total_cmp(&b.0));
        self.predictions = predictions;
        within.or(least).expect("an instance is up").1
    }

    fn needs(&self) -> Needs {
        let interval = SimDuration::from_secs_f64(self.config.signal_interval_ms / 1e3);
        Needs { signals: Some(interval), caches: Some(interval), ..Needs::OUTSTANDING }
    }
}
