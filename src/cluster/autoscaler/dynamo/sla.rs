//! Decisions by latencies: what the next request would see at each replica now, and at those that would be left.

use super::forward::{Capabilities, ForwardPassMetrics, ForwardTime, passes};
use super::planner::{Reason, Wish};
use crate::scenario::DynamoPlannerConfig;

/// What latencies of a pool are estimated by.
#[derive(Clone, Copy)]
pub(super) struct Estimator<'a> {
    pub(super) config: &'a DynamoPlannerConfig,
    pub(super) capabilities: &'a Capabilities,
    pub(super) model: &'a dyn ForwardTime,
    /// Prompt tokens of a request, on average.
    pub(super) isl: f64,
    /// Tokens in KV memory of a sequence that decodes, on average.
    pub(super) decode_length: f64,
    /// Prompt tokens that are computed beside sequences that decode, on average.
    pub(super) prefill_beside: u64,
    /// The share of prompt tokens that caches hold, at most 0.95.
    pub(super) hit_rate: f64,
    /// Tokens that come out of a pass for a sequence.
    pub(super) accept_length: f64,
}

/// How much of what a replica has is counted.
#[derive(Debug, Clone, Copy)]
struct Scaled {
    queue: f64,
    decode: f64,
}

/// What decodes beside prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    /// Nothing: the replica only prefills.
    Nothing,
    /// What the replica decodes.
    Decode,
}

/// A wish, and the worst that was estimated, in ms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimated {
    pub(super) wish: Wish,
    pub(super) worst_ms: Option<f64>,
}

impl Estimator<'_> {
    /// By the time to the first token.
    pub(super) fn prefill(&self, workers: &[ForwardPassMetrics], beside: Beside) -> Estimated {
        let times = workers.iter().map(|worker| {
            let now = Scaled { queue: 1.0, decode: 1.0 };
            self.ttft_ms(worker, now, beside, Backlog::Left)
        });
        let more = concentration(workers);
        let can_take = |worker: &ForwardPassMetrics| {
            let ttft = |queue| {
                let scaled = Scaled { queue, decode: more };
                self.ttft_ms(worker, scaled, beside, Backlog::Decodes)
            };
            let own = ttft(0.0);
            let budget = (self.config.ttft_ms - own) * self.sensitivity();
            budget > 0.0 && ttft(more) - own < budget
        };
        let times: Vec<f64> = times.collect();
        self.decide(&times, self.config.ttft_ms, workers.iter().all(can_take))
    }

    /// By the time between tokens.
    pub(super) fn decode(&self, workers: &[ForwardPassMetrics], beside: Beside) -> Estimated {
        let times = workers.iter().map(|worker| self.itl_ms(worker, 1.0, Beside::Nothing));
        let more = concentration(workers);
        let can_take = |worker: &ForwardPassMetrics| {
            let (_, kv_tokens) = decoding(worker, beside);
            let kv_tokens = (kv_tokens as f64 * more) as u64;
            kv_tokens < self.capabilities.max_kv_tokens
                && self.itl_ms(worker, more, beside) < self.config.itl_ms * self.sensitivity()
        };
        let times: Vec<f64> = times.collect();
        self.decide(&times, self.config.itl_ms, workers.iter().all(can_take))
    }

    fn sensitivity(&self) -> f64 {
        f64::from(self.config.load_scaling_down_sensitivity) / 100.0
    }

    /// Until the first token of a request that comes now.
    fn ttft_ms(
        &self,
        worker: &ForwardPassMetrics,
        scaled: Scaled,
        beside: Beside,
        backlog: Backlog,
    ) -> f64 {
        let queued = worker.queued_prefill_tokens as f64 * scaled.queue + self.isl;
        let tokens = (queued * (1.0 - self.hit_rate)).ceil() as u64;
        let decode = match beside {
            Beside::Nothing => (0, 0),
            Beside::Decode => {
                let waiting = if backlog == Backlog::Decodes { worker.queued_kv_tokens } else { 0 };
                let kv_tokens = (worker.scheduled_kv_tokens + waiting) as f64 * scaled.decode;
                let seqs = f64::from(worker.decode_seqs) * scaled.decode;
                (seqs.ceil() as u64, kv_tokens.ceil() as u64)
            }
        };
        passes(self.model, tokens, self.capabilities.max_num_batched_tokens, decode) * 1000.0
    }

    /// Between tokens of a request that decodes with all that there is, or waits.
    fn itl_ms(&self, worker: &ForwardPassMetrics, scale: f64, with_prompts: Beside) -> f64 {
        let (seqs, kv_tokens) = decoding(worker, with_prompts);
        let seqs = (seqs as f64 * scale + 1.0).ceil() as u64;
        let kv_tokens = (kv_tokens as f64 * scale + self.decode_length).ceil() as u64;
        self.model.forward_seconds(self.prefill_beside, seqs, kv_tokens) * 1000.0
            / self.accept_length
    }

    fn decide(&self, times: &[f64], limit: f64, can_take: bool) -> Estimated {
        let replicas = times.len() as u32;
        let worst_ms = times.iter().copied().reduce(f64::max);
        let wish = if times.iter().all(|&time| time > limit) {
            Wish::for_replicas(replicas.saturating_add(1))
        } else if replicas <= 1 {
            Wish::none(Reason::NoChange)
        } else if can_take {
            Wish::for_replicas((replicas - 1).max(self.config.min_endpoint))
        } else {
            Wish::none(Reason::ScaleDownRefusedConsolidation)
        };
        Estimated { wish, worst_ms }
    }
}

/// Sequences that wait to decode, beside those that prefill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backlog {
    /// They go on waiting.
    Left,
    /// They decode too.
    Decodes,
}

/// Sequences of a replica and their tokens in KV memory, with those that wait to decode; with the prompts that wait too, as if they
/// were computed.
fn decoding(worker: &ForwardPassMetrics, with_prompts: Beside) -> (u64, u64) {
    let (seqs, kv_tokens) = match with_prompts {
        Beside::Nothing => (0, 0),
        Beside::Decode => (worker.queued_prefill_requests, worker.queued_prefill_tokens),
    };
    let seqs = u64::from(worker.decode_seqs) + u64::from(seqs);
    (seqs, worker.scheduled_kv_tokens + worker.queued_kv_tokens + kv_tokens)
}

/// What each replica has when there is one less, of what it has now.
fn concentration(workers: &[ForwardPassMetrics]) -> f64 {
    let replicas = workers.len() as f64;
    if workers.len() > 1 { replicas / (replicas - 1.0) } else { 1.0 }
}
