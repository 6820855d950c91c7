//! Requests per second that one replica can serve: the best over batches, of those that keep the latencies if any does.

use super::forward::{Capabilities, ForwardTime, passes};
use crate::scenario::DynamoPlannerConfig;

/// Batches that are tried, at most; more are thinned out evenly.
const BATCHES_TRIED: u64 = 128;

/// The requests of which the rate is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    /// Prompt tokens.
    pub(super) isl: u64,
    /// Output tokens, not 0.
    pub(super) osl: u64,
    /// The share of prompt tokens that caches hold, at most 0.95.
    pub(super) hit_rate: f64,
    /// Tokens that come out of a pass for a sequence.
    pub(super) accept_length: f64,
}

impl Shape {
    /// Prompt tokens that are computed.
    fn computed(&self) -> u64 {
        ((self.isl as f64 * (1.0 - self.hit_rate)).ceil() as u64).max(1)
    }

    /// Tokens in KV memory half way through the answer.
    fn context(&self) -> u64 {
        (self.isl + self.osl / 2).max(1)
    }
}

/// A rate, and whether it keeps the latencies.
#[derive(Debug, Clone, Copy)]
struct Rate {
    keeps: bool,
    per_s: f64,
}

/// Of a replica that prefills.
pub(super) fn prefill(
    config: &DynamoPlannerConfig,
    capabilities: &Capabilities,
    model: &dyn ForwardTime,
    shape: Shape,
) -> Option<f64> {
    let computed = shape.computed();
    let fit = u64::from(capabilities.max_num_batched_tokens) / computed;
    let most = fit.min(capabilities.max_num_seqs.into()).max(1);
    best(batches(most).map(|batch| {
        let seconds = passes(model, computed * batch, capabilities.max_num_batched_tokens, (0, 0));
        Some(Rate { keeps: seconds * 1000.0 <= config.ttft_ms, per_s: batch as f64 / seconds })
    }))
}

/// Of a replica that decodes.
pub(super) fn decode(
    config: &DynamoPlannerConfig,
    capabilities: &Capabilities,
    model: &dyn ForwardTime,
    shape: Shape,
) -> Option<f64> {
    let context = shape.context();
    best(batches(most_that_decode(capabilities, context)).map(|batch| {
        let seconds = model.forward_seconds(0, batch, batch * context) / shape.accept_length;
        let per_s = batch as f64 / (shape.osl as f64 * seconds);
        Some(Rate { keeps: seconds * 1000.0 <= config.itl_ms, per_s })
    }))
}

/// Of a replica that does both, with as many prompt tokens in a pass as sequences of the batch end in it.
pub(super) fn aggregated(
    config: &DynamoPlannerConfig,
    capabilities: &Capabilities,
    model: &dyn ForwardTime,
    shape: Shape,
) -> Option<f64> {
    let (computed, context) = (shape.computed(), shape.context());
    let tokens_max = capabilities.max_num_batched_tokens;
    // A token of a prompt in each pass has to fit beside them.
    let most =
        most_that_decode(capabilities, context).min(u64::from(tokens_max).saturating_sub(1).max(1));
    best(batches(most).map(|batch| {
        let in_a_pass = batch as f64 * shape.accept_length * computed as f64 / shape.osl as f64;
        let in_a_pass = in_a_pass.ceil() as u64;
        if in_a_pass.saturating_add(batch) > u64::from(tokens_max) {
            return None;
        }
        let decode = (batch, batch * context);
        let seconds = model.forward_seconds(in_a_pass, decode.0, decode.1) / shape.accept_length;
        let ttft = passes(model, in_a_pass + computed, tokens_max, decode);
        let keeps = seconds * 1000.0 <= config.itl_ms && ttft * 1000.0 <= config.ttft_ms;
        Some(Rate { keeps, per_s: batch as f64 / (shape.osl as f64 * seconds) })
    }))
}

/// Sequences of so many tokens that decode together; 0 where one is longer than the KV memory.
fn most_that_decode(capabilities: &Capabilities, context: u64) -> u64 {
    let fit = capabilities.max_kv_tokens / context;
    fit.min(capabilities.max_num_seqs.into())
}

/// From 1 to the most, evenly.
fn batches(most: u64) -> impl Iterator<Item = u64> {
    let tried = most.min(BATCHES_TRIED);
    (0..tried).map(move |place| 1 + place * (most - 1) / (tried - 1).max(1))
}

/// The highest rate of those that keep the latencies, or of all.
fn best(rates: impl Iterator<Item = Option<Rate>>) -> Option<f64> {
    let (mut kept, mut any) = (None, None);
    let higher = |best: Option<f64>, rate: f64| Some(best.map_or(rate, |best| best.max(rate)));
    for rate in rates.flatten().filter(|rate| rate.per_s.is_finite()) {
        any = higher(any, rate.per_s);
        if rate.keeps {
            kept = higher(kept, rate.per_s);
        }
    }
    kept.or(any)
}
