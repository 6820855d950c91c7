//! What vLLM counts, and when.
//!
//! vLLM 0.33.0 (Apache-2.0): `vllm/v1/metrics/stats.py` (`IterationStats`, `PromptTokenStats`), `loggers.py`
//! (`PrometheusStatLogger.record`) and `vllm/v1/engine/async_llm.py`, whose outputs are those of a step.

use super::request::Output;
use super::{Came, Counted, Counters, Phases};
use crate::serve::answer::End;
use crate::serve::relay::seconds;

/// Tokens come out, all of a step in one output.
pub(super) fn came(counters: &mut Counters, last: &mut Option<Output>, came: &Came) {
    if came.new == 0 {
        return;
    }
    counters.generation_tokens += u64::from(came.new);
    counters.step_output += u64::from(came.new);
    if let Some(before) = last.replace(Output::of(came)) {
        // One observation for each output, however many tokens it has.
        counters.gap_s.add(seconds(came.at.saturating_since(before.at)));
        return;
    }
    let (prompt, cached) = (came.prompt_tokens, came.cached);
    counters.prompt_tokens += u64::from(prompt);
    counters.prompt_tokens_cached.local += u64::from(cached.local);
    counters.prompt_tokens_cached.external += u64::from(cached.external);
    // The whole prompt counts in the step of its first token (`PrefillStats.num_computed_tokens`).
    let computed = prompt.saturating_sub(cached.local + cached.external);
    counters.step_output += u64::from(computed);
    let after = came.first.saturating_since(came.arrival);
    counters.answers.whole.first_token_s.add(seconds(after));
}

/// All outputs of a step have been told; one without outputs is no observation.
pub(super) fn step_is_out(counters: &mut Counters) {
    let tokens = std::mem::take(&mut counters.step_output);
    if tokens > 0 {
        counters.step_tokens.add(tokens as f64);
    }
}

/// A request is over.
pub(super) fn over(counters: &mut Counters, end: End, phases: &Phases, counted: &Counted<'_>) {
    if !end.is_answer() {
        return;
    }
    let life = counted.life;
    counters.answers.whole.request_s.add(seconds(phases.all));
    counters.queue_s.add(seconds(phases.queue));
    counters.inference_s.add(seconds(phases.inference));
    if let Some(prefill) = phases.prefill {
        counters.prefill_s.add(seconds(prefill));
    }
    if let Some(decode) = phases.decode {
        counters.decode_s.add(seconds(decode));
        // Of an answer of one token it is 0.
        let gaps = life.generated.saturating_sub(1);
        let each = if gaps > 0 { seconds(decode) / f64::from(gaps) } else { 0.0 };
        counters.answers.whole.time_per_output_token_s.add(each);
    }
    counters.sizes(counted);
    counters.request_max_tokens.add(f64::from(counted.max_tokens));
    counters.request_preemptions.add(f64::from(life.preemptions));
    let together = match counted.siblings {
        Some(siblings) => siblings.over(life.generated),
        None => Some((1, life.generated)),
    };
    if let Some((answers, longest)) = together {
        counters.request_answers.add(f64::from(answers));
        counters.request_longest_tokens.add(f64::from(longest));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{counters, tokens};
    use super::*;
    use crate::serve::app::Dialect;
    use crate::serve::counters::Cached;

    #[test]
    fn a_gap_is_one_observation_however_many_tokens_come() {
        let mut counters = counters(Dialect::Vllm);
        let mut last = None;
        for (ms, all, before) in [(100, 1, 0), (1300, 4, 1), (9000, 4, 4)] {
            counters.came(&mut last, &tokens(ms, all, before));
        }
        // 1.2 s after the first.
        assert_eq!(counters.gap_s.counts, [0, 0, 1]);
        assert!((counters.gap_s.sum - 1.2).abs() < 1e-12);
        assert_eq!(counters.generation_tokens, 4);
    }

    #[test]
    fn a_step_counts_the_prompts_whose_first_tokens_it_has() {
        let mut counters = counters(Dialect::Vllm);
        // Nothing comes of the first chunks of a prompt.
        counters.step_is_out();
        let cached = Cached { local: 16, external: 32 };
        let mut last = [None; 2];
        counters.came(&mut last[0], &Came { prompt_tokens: 100, cached, ..tokens(100, 1, 0) });
        counters.came(&mut last[1], &Came { prompt_tokens: 7, ..tokens(100, 1, 0) });
        counters.step_is_out();
        // 100 - 48 and 7 of prompts, and a token of each.
        assert!((counters.step_tokens.sum - 61.0).abs() < 1e-9);
        counters.came(&mut last[0], &tokens(200, 4, 1));
        counters.step_is_out();
        assert!((counters.step_tokens.sum - 64.0).abs() < 1e-9, "accepted drafts are tokens");
        assert_eq!(counters.step_tokens.counts.iter().sum::<u64>(), 2);
    }
}
