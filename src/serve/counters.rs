//! What a replica has done, for those who watch it: counters and distributions, whose names are their vendors'.

use super::answer::End;
use super::relay::seconds;
use crate::engine::{DraftCounts, Life, StepPlan};
use crate::units::SimDuration;

/// A distribution in fixed bins.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    /// The upper bounds of all bins but the last, in order.
    pub(super) bounds: &'static [f64],
    /// What is in each, not in those below too.
    pub(super) counts: Vec<u64>,
    pub(super) sum: f64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub(super) fn add_many(&mut self, value: f64, count: u64) {
        let bin = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bin] += count;
        self.sum += value * count as f64;
    }

    pub(super) fn add(&mut self, value: f64) {
        self.add_many(value, 1);
    }
}

/// The bins of the distributions of an engine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bins {
    pub(super) first_token_s: &'static [f64],
    pub(super) gap_s: &'static [f64],
    pub(super) request_s: &'static [f64],
    pub(super) tokens: &'static [f64],
    pub(super) step_tokens: &'static [f64],
}

/// How long the parts of a request took.
#[derive(Debug)]
pub(super) struct Lasted {
    pub(super) all: SimDuration,
    pub(super) queue: SimDuration,
    pub(super) prefill: Option<SimDuration>,
    pub(super) decode: Option<SimDuration>,
    pub(super) inference: SimDuration,
}

/// Of one replica.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    pub(super) prompt_tokens: u64,
    pub(super) generation_tokens: u64,
    pub(super) preemptions: u64,
    /// Prompt tokens of which caches were asked, and those that they had.
    pub(super) cache_queries: u64,
    pub(super) cache_hits: u64,
    pub(super) drafts: DraftCounts,
    pub(super) stopped: u64,
    pub(super) cut: u64,
    pub(super) aborted: u64,
    pub(super) failed: u64,
    pub(super) first_token_s: Histogram,
    pub(super) gap_s: Histogram,
    pub(super) time_per_output_token_s: Histogram,
    pub(super) request_s: Histogram,
    pub(super) queue_s: Histogram,
    pub(super) prefill_s: Histogram,
    pub(super) decode_s: Histogram,
    pub(super) inference_s: Histogram,
    pub(super) request_prompt_tokens: Histogram,
    pub(super) request_generation_tokens: Histogram,
    pub(super) request_max_tokens: Histogram,
    pub(super) step_tokens: Histogram,
}

impl Counters {
    pub(super) fn new(bins: &Bins) -> Self {
        let request_s = Histogram::new(bins.request_s);
        let tokens = Histogram::new(bins.tokens);
        Self {
            prompt_tokens: 0,
            generation_tokens: 0,
            preemptions: 0,
            cache_queries: 0,
            cache_hits: 0,
            drafts: DraftCounts::default(),
            stopped: 0,
            cut: 0,
            aborted: 0,
            failed: 0,
            first_token_s: Histogram::new(bins.first_token_s),
            gap_s: Histogram::new(bins.gap_s),
            time_per_output_token_s: Histogram::new(bins.gap_s),
            request_s: request_s.clone(),
            queue_s: request_s.clone(),
            prefill_s: request_s.clone(),
            decode_s: request_s.clone(),
            inference_s: request_s,
            request_prompt_tokens: tokens.clone(),
            request_generation_tokens: tokens.clone(),
            request_max_tokens: tokens,
            step_tokens: Histogram::new(bins.step_tokens),
        }
    }

    /// A step was decided.
    pub(super) fn planned(&mut self, plan: &StepPlan) {
        let prefill = plan.shape.prefill_tokens;
        self.preemptions += plan.preempted.len() as u64;
        self.step_tokens.add(f64::from(prefill) + f64::from(plan.shape.decode_seqs));
    }

    /// A request is admitted, of whose prompt so many tokens were found in a cache.
    pub(super) fn looked_up(&mut self, prompt_tokens: u64, hit: u64) {
        self.cache_queries += prompt_tokens;
        self.cache_hits += hit;
    }

    pub(super) fn first_token(&mut self, after: SimDuration, prompt_tokens: u64) {
        self.prompt_tokens += prompt_tokens;
        self.first_token_s.add(seconds(after));
    }

    /// Some tokens come so long after those before.
    pub(super) fn gap(&mut self, gap: SimDuration, tokens: u32) {
        // As vLLM: one observation for each output, however many tokens it has.
        if tokens > 0 {
            self.gap_s.add(seconds(gap));
        }
    }

    /// A request is over.
    pub(super) fn over(&mut self, end: End, lasted: &Lasted, (life, max_tokens): (&Life, u32)) {
        match end {
            End::Stop => self.stopped += 1,
            End::Length => self.cut += 1,
            End::Aborted | End::ShuttingDown => self.aborted += 1,
            End::Rejected | End::Busy | End::Failed => self.failed += 1,
        }
        if !matches!(end, End::Stop | End::Length) {
            return;
        }
        self.request_s.add(seconds(lasted.all));
        self.queue_s.add(seconds(lasted.queue));
        self.inference_s.add(seconds(lasted.inference));
        if let Some(prefill) = lasted.prefill {
            self.prefill_s.add(seconds(prefill));
        }
        if let Some(decode) = lasted.decode {
            self.decode_s.add(seconds(decode));
            if life.generated > 1 {
                let each = seconds(decode) / f64::from(life.generated - 1);
                self.time_per_output_token_s.add(each);
            }
        }
        self.request_prompt_tokens.add(f64::from(life.prompt_tokens));
        self.request_generation_tokens.add(f64::from(life.generated));
        self.request_max_tokens.add(f64::from(max_tokens));
    }
}
