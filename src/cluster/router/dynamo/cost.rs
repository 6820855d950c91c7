//! The default cost of a rank (NVIDIA Dynamo 1.6.1, `dynamo-default-cost-fn`), in KV blocks.
//!
//! ```text
//! cached = floor((device + host weight · host + disk weight · disk) · block size + 0.5)          tokens
//! raw    = prefill tokens booked + max(0, prompt tokens − cached) + cached
//! k      = credit / (1 + decay · ((booked − least booked) / block size) / max(1, blocks of the prompt, rounded up))
//! cost   = scale · max(0, raw / block size − (k · device + host weight · host + disk weight · disk))
//!          + active blocks + blocks of the prompt that are not active there + request weight · live requests
//! ```
//!
//! Left out: shared caches beyond workers (`shared_cache_multiplier`), decay of prefill tokens by a model of their time
//! (`router_prefill_load_model`).

use super::Overlap;
use super::load::Standing;
use crate::scenario::DynamoConfig;

/// Which workers a router chooses from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pool {
    /// Those that do all.
    #[default]
    Aggregated,
    /// Those that prefill.
    Prefill,
    /// Those that decode. The selection service knows its workers by this name, whatever they do.
    Decode,
}

/// What all ranks have in common as a request is weighed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    block_size: f64,
    /// The same as a count.
    block_tokens: u64,
    prompt_tokens: u64,
    prompt_blocks: f64,
    credit: f64,
    decay: f64,
    host: f64,
    disk: f64,
    scale: f64,
    request: f64,
    prefill: Prefill,
    least_prefill_tokens: u64,
}

/// How the prefill counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefill {
    Counts,
    /// Not at all: credit is taken from nothing.
    Not,
    /// Not at all: credit is taken from the active blocks.
    NotButCredit,
}

/// What is known of a rank.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    pub overlap: Overlap,
    pub prefill_tokens: u64,
    /// Active blocks, with those of the prompt.
    pub blocks: u64,
    pub requests: u32,
}

impl Weights {
    /// Of a request, as its least loaded rank has so many prefill tokens.
    pub(super) fn new(
        config: &DynamoConfig,
        pool: Pool,
        block_size: u32,
        prompt_tokens: u64,
        tracks_prefill: bool,
        least_prefill_tokens: u64,
    ) -> Self {
        let takes_credit = pool == Pool::Decode && config.overlap_score_credit > 0.0;
        let prefill = match (tracks_prefill, takes_credit) {
            (true, _) => Prefill::Counts,
            (false, true) => Prefill::NotButCredit,
            (false, false) => Prefill::Not,
        };
        Self {
            block_size: f64::from(block_size),
            block_tokens: u64::from(block_size),
            prompt_tokens,
            prompt_blocks: prompt_tokens.div_ceil(u64::from(block_size)).max(1) as f64,
            credit: config.overlap_score_credit,
            decay: config.overlap_score_credit_decay,
            host: config.host_cache_hit_weight,
            disk: config.disk_cache_hit_weight,
            scale: config.prefill_load_scale,
            request: config.decode_active_request_weight,
            prefill,
            least_prefill_tokens,
        }
    }

    /// The cost of a rank.
    #[inline]
    pub(super) fn cost(&self, state: &State) -> f64 {
        let overlap = state.overlap;
        let (device, lower) = (f64::from(overlap.device), self.lower(overlap));
        let blocks = state.blocks as f64;
        let requests = self.request * f64::from(state.requests);
        if self.prefill != Prefill::Counts {
            let credit = self.credit * device + lower;
            return match self.prefill {
                Prefill::NotButCredit => (blocks - credit).max(0.0) + requests,
                _ => blocks + requests,
            };
        }
        let cached = self.cached_tokens(overlap);
        let raw = (state.prefill_tokens + self.prompt_tokens.max(cached)) as f64;
        let credit = self.credit_of(state.prefill_tokens) * device + lower;
        self.scale * (raw / self.block_size - credit).max(0.0) + blocks + requests
    }

    /// Whether [`fresh`](Self::fresh) costs what [`cost`](Self::cost) does of ranks that have nothing of the prompt.
    pub(super) fn know_fresh(&self) -> bool {
        self.prefill == Prefill::Counts && self.decay <= 0.0
    }

    /// The cost of a rank that has nothing of the prompt, cached or active, of which so many blocks would come to it.
    /// Of a fleet most ranks are like that.
    #[inline]
    pub(super) fn fresh(&self, load: &Standing, blocks: f64) -> f64 {
        let raw = load.prefill_tokens + self.prompt_tokens as f64;
        let blocks = load.blocks + blocks;
        self.scale * (raw / self.block_size) + blocks + self.request * load.requests
    }

    /// Those of a prompt that are in device memory alone are counted without rounding.
    #[inline]
    fn cached_tokens(&self, overlap: Overlap) -> u64 {
        if overlap.host == 0 && overlap.disk == 0 {
            return u64::from(overlap.device) * self.block_tokens;
        }
        cached_tokens(self.host, self.disk, self.block_size, overlap)
    }

    #[inline]
    fn lower(&self, overlap: Overlap) -> f64 {
        self.host * f64::from(overlap.host) + self.disk * f64::from(overlap.disk)
    }

    #[inline]
    fn credit_of(&self, prefill_tokens: u64) -> f64 {
        if self.decay <= 0.0 {
            return self.credit;
        }
        let more = (prefill_tokens - self.least_prefill_tokens) as f64 / self.block_size;
        self.credit * (1.0 / (1.0 + self.decay * (more / self.prompt_blocks)))
    }
}

/// Tokens of a prompt that tiers hold, each by its weight, rounded half up.
#[inline]
pub(super) fn cached_tokens(host: f64, disk: f64, block_size: f64, overlap: Overlap) -> u64 {
    let lower = host * f64::from(overlap.host) + disk * f64::from(overlap.disk);
    // To a whole number is down, as nothing here is negative.
    ((f64::from(overlap.device) + lower) * block_size + 0.5) as u64
}

/// What preferred taints make of a cost, by the sum of the weights of those that a worker has.
pub(super) fn preferred(cost: f64, weights: f64) -> f64 {
    cost * (-weights.tanh()).exp()
}
