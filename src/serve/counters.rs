//! What a replica has done, for those who watch it: counters and distributions, whose names are their vendors'.
//!
//! What is counted when follows the server that is simulated.
//!
//! * `vllm.rs`, `sglang.rs`: the rules of each; `pace.rs`: how fast tokens come, as SGLang says it
//! * `request.rs`: what of a request is counted; `histogram.rs`: distributions

mod histogram;
mod pace;
mod request;
mod sglang;
mod vllm;

pub(super) use self::histogram::{Buckets, Histogram};
use self::pace::Pace;
pub(super) use self::request::{Cached, Came, Counted, Output, Phases, Siblings};
use super::answer::End;
use super::app::Dialect;
use crate::engine::tiers::{TierKind, TierLoad};
use crate::engine::{DraftCounts, StepPlan};
use crate::units::{SimDuration, SimTime};

/// Answers per prompt, and how often a request was preempted.
const FEW: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0];
const PREEMPTIONS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0];

/// Requests and their answers.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    pub(super) requests: u64,
    pub(super) prompt_tokens: u64,
    pub(super) generation_tokens: u64,
    pub(super) first_token_s: Histogram,
    pub(super) time_per_output_token_s: Histogram,
    pub(super) request_s: Histogram,
}

/// Answers whose clients have tokens as they come, and the others. SGLang tells them apart; all of vLLM are whole.
#[derive(Debug, Clone)]
pub(super) struct ByStreaming {
    pub(super) whole: Answers,
    pub(super) streamed: Answers,
}

impl ByStreaming {
    fn of(&mut self, streams: bool) -> &mut Answers {
        if streams { &mut self.streamed } else { &mut self.whole }
    }
}

/// Sums of prompt tokens that need not be computed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CachedSums {
    /// Found in the cache of the replica.
    pub(super) local: u64,
    /// Come from elsewhere.
    pub(super) external: u64,
}

/// Tokens that caches were asked for, and those that they had.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lookups {
    pub(super) queries: u64,
    pub(super) hits: u64,
}

/// Tokens that steps have worked on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Processed {
    /// Prompt tokens that were computed.
    pub(super) prefilled: u64,
    /// Prompt tokens found in the cache.
    pub(super) cached: u64,
    pub(super) decoded: u64,
}

/// Tokens of requests that were preempted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Preempted {
    pub(super) prompt_tokens: u64,
    pub(super) answer_tokens: u64,
}

/// KV on its way to or from a replica, in requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Underway {
    /// Prompts that are computed and whose KV others have not got.
    pub(super) sent: u32,
    /// Requests that have memory for KV that others compute.
    pub(super) awaited: u32,
}

/// Of one replica.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    dialect: Dialect,
    /// Whether what is not in its cache is looked for elsewhere.
    asks_elsewhere: bool,
    pub(super) prompt_tokens: u64,
    pub(super) prompt_tokens_cached: CachedSums,
    pub(super) generation_tokens: u64,
    pub(super) preemptions: u64,
    pub(super) preempted: Preempted,
    /// Requests that the last step preempted.
    pub(super) preempted_last: u32,
    /// Of prompts, when their requests are admitted: its own cache, and those elsewhere.
    pub(super) cache: Lookups,
    pub(super) elsewhere: Lookups,
    /// Of what was found elsewhere, what came from tiers below the memory of the GPUs.
    pub(super) from_tiers: [u64; TierKind::ALL.len()],
    /// And what came from another replica.
    pub(super) from_replicas: u64,
    /// Cached prompt tokens of requests that are over.
    pub(super) cached_tokens: u64,
    /// Of the last step that prefilled, the share of tokens that were found in the cache.
    pub(super) hit_share: f64,
    pub(super) processed: Processed,
    pub(super) drafts: DraftCounts,
    pub(super) pace: Pace,
    pub(super) stopped: u64,
    pub(super) cut: u64,
    pub(super) aborted: u64,
    pub(super) failed: u64,
    /// How often it was told to end requests.
    pub(super) abort_orders: u64,
    pub(super) underway: Underway,
    pub(super) answers: ByStreaming,
    pub(super) gap_s: Histogram,
    pub(super) queue_s: Histogram,
    pub(super) prefill_s: Histogram,
    pub(super) decode_s: Histogram,
    pub(super) inference_s: Histogram,
    pub(super) request_prompt_tokens: Histogram,
    pub(super) request_computed_tokens: Histogram,
    pub(super) request_generation_tokens: Histogram,
    pub(super) request_longest_tokens: Histogram,
    pub(super) request_max_tokens: Histogram,
    pub(super) request_answers: Histogram,
    pub(super) request_preemptions: Histogram,
    pub(super) step_tokens: Histogram,
    /// Tokens of the step whose outputs are being told.
    step_output: u64,
}

impl Counters {
    pub(super) fn new(dialect: Dialect, buckets: &Buckets, asks_elsewhere: bool) -> Self {
        let request_s = Histogram::new(buckets.request_s);
        let tokens = Histogram::new(buckets.tokens);
        let answers = Answers {
            requests: 0,
            prompt_tokens: 0,
            generation_tokens: 0,
            first_token_s: Histogram::new(buckets.first_token_s),
            time_per_output_token_s: Histogram::new(buckets.gap_s),
            request_s: request_s.clone(),
        };
        Self {
            dialect,
            asks_elsewhere,
            prompt_tokens: 0,
            prompt_tokens_cached: CachedSums::default(),
            generation_tokens: 0,
            preemptions: 0,
            preempted: Preempted::default(),
            preempted_last: 0,
            cache: Lookups::default(),
            elsewhere: Lookups::default(),
            from_tiers: [0; TierKind::ALL.len()],
            from_replicas: 0,
            cached_tokens: 0,
            hit_share: 0.0,
            processed: Processed::default(),
            drafts: DraftCounts::default(),
            pace: Pace::default(),
            stopped: 0,
            cut: 0,
            aborted: 0,
            failed: 0,
            abort_orders: 0,
            underway: Underway::default(),
            answers: ByStreaming { whole: answers.clone(), streamed: answers },
            gap_s: Histogram::new(buckets.gap_s),
            queue_s: Histogram::new(buckets.queue_s),
            prefill_s: request_s.clone(),
            decode_s: request_s.clone(),
            inference_s: request_s,
            request_prompt_tokens: tokens.clone(),
            request_computed_tokens: tokens.clone(),
            request_generation_tokens: tokens.clone(),
            request_longest_tokens: tokens.clone(),
            request_max_tokens: tokens,
            request_answers: Histogram::new(FEW),
            request_preemptions: Histogram::new(PREEMPTIONS),
            step_tokens: Histogram::new(buckets.step_tokens),
            step_output: 0,
        }
    }

    /// A step was decided, with so many tokens found in the cache for those that it admits first.
    pub(super) fn planned(&mut self, plan: &StepPlan, first_hits: u64) {
        let prefill = plan.shape.prefill_tokens;
        self.preemptions += plan.preempted.len() as u64;
        self.preempted_last = plan.preempted.len() as u32;
        self.processed.prefilled += u64::from(prefill);
        self.processed.cached += plan.hits.iter().map(|(_, hit)| u64::from(*hit)).sum::<u64>();
        if prefill > 0 {
            self.hit_share = first_hits as f64 / (first_hits + u64::from(prefill)) as f64;
        }
    }

    /// A request loses its memory.
    pub(super) fn preempted(&mut self, prompt_tokens: u64, tokens: u32) {
        self.preempted.prompt_tokens += prompt_tokens;
        self.preempted.answer_tokens += u64::from(tokens);
    }

    /// A step has ended.
    pub(super) fn stepped(
        &mut self,
        at: SimTime,
        plan: &StepPlan,
        (tokens, drafts): (u32, &DraftCounts),
    ) {
        self.drafts.add(drafts);
        match self.dialect {
            Dialect::Vllm => {}
            Dialect::Sglang => sglang::stepped(self, at, plan, (tokens, drafts)),
        }
    }

    /// A request is computed for the first time, after so long in the queue.
    pub(super) fn left_queue(&mut self, waited: SimDuration) {
        match self.dialect {
            Dialect::Vllm => {}
            Dialect::Sglang => sglang::left_queue(self, waited),
        }
    }

    /// A request is admitted for the first time, of whose prompt so many tokens were found.
    pub(super) fn looked_up(&mut self, prompt_tokens: u64, cached: Cached) {
        let Cached { local, external } = cached;
        self.cache.queries += prompt_tokens;
        self.cache.hits += u64::from(local);
        if self.asks_elsewhere {
            self.elsewhere.queries += prompt_tokens.saturating_sub(u64::from(local));
            self.elsewhere.hits += u64::from(external);
        }
    }

    /// What was found for a request comes from these tiers.
    pub(super) fn loads(&mut self, load: &TierLoad) {
        if load.is_first {
            for (sum, tokens) in self.from_tiers.iter_mut().zip(load.tokens) {
                *sum += u64::from(tokens);
            }
        }
    }

    /// Tokens of a request come out, whose latest output was `last`; or the request is over.
    pub(super) fn came(&mut self, last: &mut Option<Output>, came: &Came) {
        match self.dialect {
            Dialect::Vllm => vllm::came(self, last, came),
            Dialect::Sglang => sglang::came(self, last, came),
        }
    }

    /// A prompt is computed for another server. Only vLLM's prefill servers observe TTFT.
    pub(super) fn prompt_came(&mut self, came: &Came) {
        match self.dialect {
            Dialect::Vllm => vllm::came(self, &mut None, came),
            Dialect::Sglang => {}
        }
    }

    /// All tokens of a step have come.
    pub(super) fn step_is_out(&mut self) {
        vllm::step_is_out(self);
    }

    /// A request is over.
    pub(super) fn over(&mut self, end: End, phases: &Phases, counted: &Counted<'_>) {
        match end {
            End::Stop => self.stopped += 1,
            End::Length => self.cut += 1,
            End::Aborted | End::ShuttingDown => self.aborted += 1,
            End::Rejected | End::Busy | End::Failed => self.failed += 1,
        }
        match self.dialect {
            Dialect::Vllm => vllm::over(self, end, phases, counted),
            Dialect::Sglang => sglang::over(self, end, phases, counted),
        }
    }

    fn sizes(&mut self, Counted { life, cached_tokens, .. }: &Counted<'_>) {
        self.request_prompt_tokens.add(f64::from(life.prompt_tokens));
        let computed = life.prompt_tokens.saturating_sub(*cached_tokens);
        self.request_computed_tokens.add(f64::from(computed));
        self.request_generation_tokens.add(f64::from(life.generated));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKETS: Buckets = Buckets {
        first_token_s: &[1.0],
        gap_s: &[0.5, 1.0],
        request_s: &[1.0],
        queue_s: &[0.0],
        tokens: &[1.0],
        step_tokens: &[1.0],
    };

    pub(super) fn counters(dialect: Dialect) -> Counters {
        Counters::new(dialect, &BUCKETS, false)
    }

    /// Tokens of an answer, up to the last of so many, come after so many milliseconds.
    pub(super) fn tokens(ms: u32, tokens: u32, before: u32) -> Came {
        let at = SimTime::from_secs_f64(f64::from(ms) / 1e3);
        Came {
            at,
            arrival: SimTime::ZERO,
            first: at,
            new: tokens - before,
            tokens,
            streams: false,
            prompt_tokens: 0,
            cached: Cached::default(),
            end: None,
        }
    }
}
