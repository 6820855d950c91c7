//! What SGLang counts, and when.
//!
//! SGLang 0.5.23 (Apache-2.0): `python/sglang/srt/managers/tokenizer_manager.py` (`collect_metrics`), which sees
//! outputs as `managers/scheduler_components/output_streamer.py` sends them, and `metrics_reporter.py` beside it.

use super::request::Output;
use super::{Came, Counted, Counters, Phases};
use crate::engine::{DraftCounts, StepPlan};
use crate::serve::answer::End;
use crate::serve::relay::seconds;
use crate::units::{SimDuration, SimTime};

/// Tokens of a whole answer between its outputs (`SGLANG_FORCE_STREAM_INTERVAL`).
const WHOLE_ANSWER_TOKENS: u32 = 50;

/// Tokens come out. A stream's are sent on as they come, those of a whole answer now and then: a step that passes a
/// multiple of the interval without ending there sends none.
pub(super) fn came(counters: &mut Counters, last: &mut Option<Output>, came: &Came) {
    let is_output = match came.end {
        Some(end) => end.is_answer() || end == End::Aborted,
        None => came.streams || came.tokens.is_multiple_of(WHOLE_ANSWER_TOKENS),
    };
    if !is_output {
        return;
    }
    let Some(before) = *last else {
        if came.end != Some(End::Aborted) && came.tokens > 0 {
            *last = Some(Output::of(came));
            let after = came.first.saturating_since(came.arrival);
            counters.answers.of(came.streams).first_token_s.add(seconds(after));
        }
        return;
    };
    let new = came.tokens.saturating_sub(before.tokens);
    if new > 0 {
        *last = Some(Output::of(came));
        // Each token has its share.
        let gap = seconds(came.at.saturating_since(before.at));
        counters.gap_s.add_many(gap / f64::from(new), u64::from(new));
    }
}

/// A request is computed for the first time, after so long in the queue of its replica
/// (`observability/req_time_stats.py`, `set_forward_entry_time`).
pub(super) fn left_queue(counters: &mut Counters, waited: SimDuration) {
    counters.queue_s.add(seconds(waited));
}

/// A step that only decodes has ended. What decodes beside prompts is not counted (`report_decode_stats`).
pub(super) fn stepped(
    counters: &mut Counters,
    at: SimTime,
    plan: &StepPlan,
    (tokens, drafts): (u32, &DraftCounts),
) {
    if plan.shape.decode_seqs > 0 && plan.shape.prefill_tokens == 0 {
        counters.processed.decoded += u64::from(tokens);
        counters.pace.stepped(at, tokens, drafts);
    }
}

/// A request is over. One that was ended before it was computed is not counted.
pub(super) fn over(counters: &mut Counters, end: End, phases: &Phases, counted: &Counted<'_>) {
    let life = counted.life;
    if !end.is_answer() && (end != End::Aborted || life.first_scheduled.is_none()) {
        return;
    }
    let answers = counters.answers.of(counted.streams);
    answers.requests += 1;
    answers.prompt_tokens += u64::from(life.prompt_tokens);
    answers.generation_tokens += u64::from(life.generated);
    answers.request_s.add(seconds(phases.all));
    let gaps = life.generated.saturating_sub(1);
    if let Some(decode) = phases.decode.filter(|it| end.is_answer() && *it > SimDuration::ZERO)
        && gaps > 0
        && !counted.is_prompt
    {
        answers.time_per_output_token_s.add(seconds(decode) / f64::from(gaps));
    }
    counters.cached_tokens += u64::from(counted.cached_tokens);
    counters.sizes(counted);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{counters, tokens};
    use super::*;
    use crate::serve::app::Dialect;

    /// Observations of gaps of an answer whose tokens come one by one, and how often a first token is told.
    fn observed(count: u32, streams: bool, end: End) -> (u64, u64) {
        let mut counters = counters(Dialect::Sglang);
        let mut last = None;
        for token in 1..=count {
            let end = (token == count).then_some(end);
            counters.came(&mut last, &Came { streams, end, ..tokens(token, token, token - 1) });
        }
        let told = counters.answers.of(streams).first_token_s.counts.iter().sum();
        (counters.gap_s.counts.iter().sum(), told)
    }

    #[test]
    fn whole_answers_are_told_of_every_fifty_tokens_and_at_the_end() {
        let whole = |count| observed(count, false, End::Length);
        assert_eq!([1, 20, 50].map(whole), [(0, 1); 3], "in one output");
        assert_eq!([60, 100, 120].map(whole), [(10, 1), (50, 1), (70, 1)]);
        assert_eq!([1, 20, 60].map(|count| observed(count, true, End::Stop).0), [0, 19, 59]);
        assert_eq!(observed(20, false, End::Aborted), (0, 0), "the end is its first output");
        assert_eq!(observed(60, false, End::Aborted), (10, 1));
        assert_eq!(observed(60, false, End::Failed), (0, 1), "nobody tells of the end");
    }

    #[test]
    fn each_token_of_an_output_has_its_share_of_the_gap() {
        let mut counters = counters(Dialect::Sglang);
        let mut last = None;
        for (ms, all, before) in [(100, 1, 0), (1300, 4, 1), (9000, 4, 4)] {
            counters.came(&mut last, &Came { streams: true, ..tokens(ms, all, before) });
        }
        // 1.2 s for three tokens.
        assert_eq!(counters.gap_s.counts, [3, 0, 0]);
        assert!((counters.gap_s.sum - 1.2).abs() < 1e-12, "{}", counters.gap_s.sum);
    }

    #[test]
    fn a_step_over_a_multiple_of_fifty_is_no_output_of_a_whole_answer() {
        let mut counters = counters(Dialect::Sglang);
        let mut last = None;
        counters.came(&mut last, &tokens(100, 49, 0));
        counters.came(&mut last, &tokens(200, 51, 49));
        assert!(last.is_none());
        counters.came(&mut last, &tokens(300, 100, 51));
        assert_eq!(last.map(|output| output.tokens), Some(100));
    }
}
