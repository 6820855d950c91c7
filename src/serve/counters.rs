//! What a replica has done, for those who watch it: counters and distributions, whose names are their vendors'.
//!
//! What is counted when follows the server that is simulated: vLLM counts tokens as they come (0.33.0,
//! `vllm/v1/metrics/stats.py`), SGLang those of requests that are over (0.5.23,
//! `python/sglang/srt/managers/tokenizer_manager.py`, `collect_metrics`); both Apache-2.0.

mod pace;
mod request;

use self::pace::Pace;
pub(super) use self::request::{Counted, Lasted, Siblings};
use super::answer::End;
use super::app::Dialect;
use super::relay::seconds;
use crate::engine::{DraftCounts, StepPlan};
use crate::units::{SimDuration, SimTime};

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
    pub(super) queue_s: &'static [f64],
    pub(super) tokens: &'static [f64],
    pub(super) step_tokens: &'static [f64],
}

/// Answers per prompt, and how often a request was preempted.
const FEW: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0];
const PREEMPTIONS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0];

/// Requests whose clients have tokens as they come, or the others: SGLang tells them apart.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) requests: u64,
    pub(super) prompt_tokens: u64,
    pub(super) generation_tokens: u64,
    pub(super) first_token_s: Histogram,
    pub(super) time_per_output_token_s: Histogram,
    pub(super) request_s: Histogram,
}

/// Of one replica.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    dialect: Dialect,
    pub(super) prompt_tokens: u64,
    /// Those of them that were found in the cache, and that came from elsewhere.
    pub(super) prompt_tokens_cached: [u64; 2],
    pub(super) generation_tokens: u64,
    pub(super) preemptions: u64,
    /// Prompt tokens and tokens of answers of requests that were preempted.
    pub(super) preempted_tokens: [u64; 2],
    /// Requests that the last step preempted.
    pub(super) preempted_last: u32,
    /// Prompt tokens of which caches were asked, and those that they had.
    pub(super) cache_queries: u64,
    pub(super) cache_hits: u64,
    /// Cached prompt tokens of requests that are over.
    pub(super) cached_tokens: u64,
    /// Of the last step that prefilled, the share of tokens that were found in the cache.
    pub(super) hit_share: f64,
    /// Tokens of prompts that steps have computed, and of answers.
    pub(super) computed_tokens: [u64; 2],
    pub(super) drafts: DraftCounts,
    pub(super) pace: Pace,
    pub(super) stopped: u64,
    pub(super) cut: u64,
    pub(super) aborted: u64,
    pub(super) failed: u64,
    /// Answers as a whole, and streams; all are the former where the server does not tell.
    pub(super) ways: [Way; 2],
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
}

impl Counters {
    pub(super) fn new(dialect: Dialect, bins: &Bins) -> Self {
        let request_s = Histogram::new(bins.request_s);
        let tokens = Histogram::new(bins.tokens);
        let way = Way {
            requests: 0,
            prompt_tokens: 0,
            generation_tokens: 0,
            first_token_s: Histogram::new(bins.first_token_s),
            time_per_output_token_s: Histogram::new(bins.gap_s),
            request_s: request_s.clone(),
        };
        Self {
            dialect,
            prompt_tokens: 0,
            prompt_tokens_cached: [0; 2],
            generation_tokens: 0,
            preemptions: 0,
            preempted_tokens: [0; 2],
            preempted_last: 0,
            cache_queries: 0,
            cache_hits: 0,
            cached_tokens: 0,
            hit_share: 0.0,
            computed_tokens: [0; 2],
            drafts: DraftCounts::default(),
            pace: Pace::default(),
            stopped: 0,
            cut: 0,
            aborted: 0,
            failed: 0,
            ways: [way.clone(), way],
            gap_s: Histogram::new(bins.gap_s),
            queue_s: Histogram::new(bins.queue_s),
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
            step_tokens: Histogram::new(bins.step_tokens),
        }
    }

    fn way(&mut self, streams: bool) -> &mut Way {
        let is_told = self.dialect == Dialect::Sglang && streams;
        &mut self.ways[usize::from(is_told)]
    }

    /// A step was decided, with so many tokens found in the cache for those that it admits first.
    pub(super) fn planned(&mut self, plan: &StepPlan, hits: u64) {
        let prefill = plan.shape.prefill_tokens;
        let decode = plan.shape.decode_seqs;
        self.preemptions += plan.preempted.len() as u64;
        self.preempted_last = plan.preempted.len() as u32;
        self.step_tokens.add(f64::from(prefill) + f64::from(decode));
        self.computed_tokens[0] += u64::from(prefill);
        self.computed_tokens[1] += u64::from(decode);
        if prefill > 0 {
            self.hit_share = hits as f64 / (hits + u64::from(prefill)) as f64;
        }
    }

    /// A request loses its memory.
    pub(super) fn preempted(&mut self, prompt_tokens: u64, tokens: u32) {
        self.preempted_tokens[0] += prompt_tokens;
        self.preempted_tokens[1] += u64::from(tokens);
    }

    /// A step of this shape has ended.
    pub(super) fn stepped(
        &mut self,
        at: SimTime,
        plan: &StepPlan,
        (tokens, drafts): (u32, &DraftCounts),
    ) {
        self.drafts.add(drafts);
        if plan.shape.decode_seqs > 0 && plan.shape.prefill_tokens == 0 {
            self.pace.stepped(at, tokens, drafts);
        }
    }

    /// A request is admitted for the first time, of whose prompt so many tokens were found in a cache.
    pub(super) fn looked_up(&mut self, prompt_tokens: u64, hit: u64) {
        self.cache_queries += prompt_tokens;
        self.cache_hits += hit;
    }

    /// The first token of a request, with so many tokens of its prompt found in the cache and come from elsewhere.
    pub(super) fn first_token(
        &mut self,
        after: SimDuration,
        prompt_tokens: u64,
        cached: [u32; 2],
        streams: bool,
    ) {
        self.prompt_tokens += prompt_tokens;
        for (sum, tokens) in self.prompt_tokens_cached.iter_mut().zip(cached) {
            *sum += u64::from(tokens);
        }
        self.way(streams).first_token_s.add(seconds(after));
    }

    /// Some tokens come so long after those before.
    pub(super) fn gap(&mut self, gap: SimDuration, tokens: u32) {
        match self.dialect {
            _ if tokens == 0 => {}
            // One observation for each output, however many tokens it has.
            Dialect::Vllm => self.gap_s.add(seconds(gap)),
            // Each token has its share.
            Dialect::Sglang => {
                self.gap_s.add_many(seconds(gap) / f64::from(tokens), u64::from(tokens));
            }
        }
    }

    /// A request is over.
    pub(super) fn over(&mut self, end: End, lasted: &Lasted, counted: &Counted<'_>) {
        match end {
            End::Stop => self.stopped += 1,
            End::Length => self.cut += 1,
            End::Aborted | End::ShuttingDown => self.aborted += 1,
            End::Rejected | End::Busy | End::Failed => self.failed += 1,
        }
        match self.dialect {
            Dialect::Vllm => self.over_in_vllm(end, lasted, counted),
            Dialect::Sglang => self.over_in_sglang(end, lasted, counted),
        }
    }

    fn over_in_vllm(&mut self, end: End, lasted: &Lasted, counted: &Counted<'_>) {
        if !end.is_answer() {
            return;
        }
        let life = counted.life;
        self.ways[0].request_s.add(seconds(lasted.all));
        self.queue_s.add(seconds(lasted.queue));
        self.inference_s.add(seconds(lasted.inference));
        if let Some(prefill) = lasted.prefill {
            self.prefill_s.add(seconds(prefill));
        }
        if let Some(decode) = lasted.decode {
            self.decode_s.add(seconds(decode));
            // Of an answer of one token it is 0.
            let gaps = life.generated.saturating_sub(1);
            let each = if gaps > 0 { seconds(decode) / f64::from(gaps) } else { 0.0 };
            self.ways[0].time_per_output_token_s.add(each);
        }
        self.sizes(counted);
        self.request_max_tokens.add(f64::from(counted.max_tokens));
        self.request_preemptions.add(f64::from(life.preemptions));
        let together = match counted.siblings {
            Some(siblings) => siblings.over(life.generated),
            None => Some((1, life.generated)),
        };
        if let Some((answers, longest)) = together {
            self.request_answers.add(f64::from(answers));
            self.request_longest_tokens.add(f64::from(longest));
        }
    }

    fn over_in_sglang(&mut self, end: End, lasted: &Lasted, counted: &Counted<'_>) {
        let life = counted.life;
        if !end.is_answer() && (end != End::Aborted || life.first_scheduled.is_none()) {
            return;
        }
        let way = self.way(counted.streams);
        way.requests += 1;
        way.prompt_tokens += u64::from(life.prompt_tokens);
        way.generation_tokens += u64::from(life.generated);
        way.request_s.add(seconds(lasted.all));
        let gaps = life.generated.saturating_sub(1);
        if let Some(decode) = lasted.decode.filter(|it| end.is_answer() && *it > SimDuration::ZERO)
            && gaps > 0
            && !counted.is_prompt
        {
            way.time_per_output_token_s.add(seconds(decode) / f64::from(gaps));
        }
        self.cached_tokens += u64::from(counted.cached_tokens);
        self.queue_s.add(seconds(lasted.queue));
        self.sizes(counted);
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

    const BINS: Bins = Bins {
        first_token_s: &[1.0],
        gap_s: &[0.5, 1.0],
        request_s: &[1.0],
        queue_s: &[0.0],
        tokens: &[1.0],
        step_tokens: &[1.0],
    };

    #[test]
    fn a_gap_is_one_observation_of_vllm_and_one_for_each_token_of_sglang() {
        let of = |dialect| {
            let mut counters = Counters::new(dialect, &BINS);
            counters.gap(SimDuration::from_secs_f64(1.2), 3);
            counters.gap(SimDuration::from_secs_f64(9.0), 0);
            (counters.gap_s.counts.clone(), counters.gap_s.sum)
        };
        assert_eq!(of(Dialect::Vllm), (vec![0, 0, 1], 1.2));
        let (counts, sum) = of(Dialect::Sglang);
        assert_eq!(counts, [3, 0, 0]);
        assert!((sum - 1.2).abs() < 1e-12, "{sum}");
    }
}
