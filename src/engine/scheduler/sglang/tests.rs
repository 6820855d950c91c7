//! SGLang's rules, each in a case small enough to work by hand, and laws on random workloads.

mod hybrid;
mod inbox;
mod random;
mod shortage;

use super::*;
use crate::engine::Entry;
use crate::request::{Content, Segment};
use crate::rng::mix;
use crate::scenario::{SglangPolicy, SpeculativeAlgorithm};
use crate::units::SimDuration;

/// A scheduler with a clock of one second a step.
struct Bench {
    scheduler: Sglang,
    now: SimTime,
    arrived: u32,
    flying: VecDeque<StepPlan>,
    finished: Vec<(RequestId, Finish, u32)>,
}

fn settings(tokens: u32) -> SglangSettings {
    SglangSettings {
        max_total_tokens: tokens,
        max_running_requests: 64,
        context_length: 131_072,
        refuse_beyond_context: false,
        chunked_prefill_size: None,
        max_prefill_tokens: 16384,
        prefill_max_requests: None,
        page_size: 1,
        schedule_policy: SglangPolicy::Fcfs,
        schedule_conservativeness: 1.0,
        disable_radix_cache: false,
        enable_mixed_chunk: false,
        disable_overlap_schedule: true,
        scheduler_recv_interval: 1,
        enable_priority_scheduling: false,
        priority_scheduling_preemption_threshold: 10,
        max_loras_per_batch: None,
        speculative_num_steps: 0,
        speculative_algorithm: SpeculativeAlgorithm::Eagle,
        hybrid: None,
    }
}

fn request(prompt: u32, output: u32) -> Request {
    Request::new(SimTime::ZERO, prompt, output)
}

/// A request that may stop before its limit, and does after `output` tokens.
fn stopping(prompt: u32, output: u32, limit: u32) -> Request {
    Request { max_tokens: limit, ignore_eos: false, ..request(prompt, output) }
}

fn with_prompt(request: &Request, runs: &[(u64, u32)]) -> Request {
    let segments = runs.iter().map(|&(stream, len)| Segment { stream, start: 0, len });
    let content = Content { salt: 0, segments: Some(segments.collect()) };
    let prompt_tokens = runs.iter().map(|run| run.1).sum();
    Request { prompt_tokens, content, ..request.clone() }
}

impl Bench {
    fn new(settings: SglangSettings) -> Self {
        Self {
            scheduler: Sglang::new(settings).recording_entries(),
            now: SimTime::ZERO,
            arrived: 0,
            flying: VecDeque::new(),
            finished: Vec::new(),
        }
    }

    fn arrive(&mut self, request: &Request) -> Result<(), Finish> {
        self.arrived += 1;
        self.scheduler.enqueue(RequestId(self.arrived - 1), request, Handoff::None)
    }

    fn plan(&mut self) -> StepPlan {
        self.now += SimDuration::from_millis(1000);
        let mut plan = StepPlan::default();
        self.scheduler.schedule(self.now, &mut plan);
        assert!(self.scheduler.is_balanced());
        self.finished.extend(plan.ended.iter().map(|&(life, f)| (life.id, f, life.generated)));
        if !plan.is_empty() {
            self.flying.push_back(plan.clone());
        }
        plan
    }

    fn complete(&mut self) -> StepResult {
        let plan = self.flying.pop_front().expect("a step is in flight");
        let mut result = StepResult::default();
        self.scheduler.complete(self.now, &plan, &mut result);
        assert!(self.scheduler.is_balanced());
        self.finished.extend(result.finished.iter().map(|&(life, f)| (life.id, f, life.generated)));
        result
    }

    /// Plans a step and takes in its outcome; request, tokens and tokens before of each share.
    fn step(&mut self) -> Vec<(u32, u32, u32)> {
        let plan = self.plan();
        if !plan.is_empty() {
            self.complete();
        }
        shares(&plan)
    }

    fn waiting(&self) -> Vec<u32> {
        self.scheduler.waiting_requests().map(|id| id.0).collect()
    }
}

fn shares(plan: &StepPlan) -> Vec<(u32, u32, u32)> {
    let all = plan.decode_entries.iter().chain(&plan.entries);
    all.map(|e: &Entry| (e.request.0, e.tokens, e.computed)).collect()
}

#[test]
fn a_newcomer_is_prefilled_before_others_decode() {
    let mut bench = Bench::new(settings(1000));
    bench.arrive(&request(10, 5)).unwrap();
    assert_eq!(bench.step(), [(0, 10, 0)]);
    assert_eq!(bench.step(), [(0, 1, 10)]);
    bench.arrive(&request(20, 5)).unwrap();
    assert_eq!(bench.step(), [(1, 20, 0)]);
    assert_eq!(bench.step(), [(0, 1, 11), (1, 1, 20)]);
}

#[test]
fn memory_is_kept_for_the_whole_answer_of_the_newly_admitted() {
    let mut bench = Bench::new(settings(100));
    // 20 + 50 + 1 = 71 < 100; what is left is 29, less than 10 + 20 + 1 = 31
    bench.arrive(&request(20, 50)).unwrap();
    bench.arrive(&request(10, 20)).unwrap();
    assert_eq!(bench.step(), [(0, 20, 0)]);
    assert!(bench.scheduler.is_batch_full());
    // the batch is a new one: tried again, 80 − 49 = 31 is still not more than 31
    assert_eq!(bench.step(), [(0, 1, 20)]);
    assert!(bench.scheduler.is_batch_full());
    // nobody is tried until somebody leaves
    bench.arrive(&request(1, 1)).unwrap();
    bench.scheduler.waiting.rotate_right(1);
    assert_eq!(bench.waiting(), [2, 1]);
    assert_eq!(bench.step(), [(0, 1, 21)]);
}

#[test]
fn answers_that_may_stop_keep_less_memory_once_running() {
    let mut bench = Bench::new(settings(100));
    bench.arrive(&stopping(20, 50, 50)).unwrap();
    bench.step();
    // 80 tokens are left, 49 · 0.7 = 34.3 are kept: 45.7 > 26 + 18 + 1
    bench.arrive(&stopping(26, 18, 18)).unwrap();
    assert_eq!(bench.step(), [(1, 26, 0)]);
    let mut bench = Bench::new(settings(100));
    bench.arrive(&request(20, 50)).unwrap();
    bench.step();
    // 80 − 49 = 31
    bench.arrive(&stopping(26, 18, 18)).unwrap();
    assert_eq!(bench.step(), [(0, 1, 20)]);
}

#[test]
fn the_prompt_that_exceeds_the_chunk_is_cut_and_goes_on_first() {
    let chunks = SglangSettings { chunked_prefill_size: Some(100), ..settings(1000) };
    let mut bench = Bench::new(chunks);
    bench.arrive(&request(60, 2)).unwrap();
    bench.arrive(&request(150, 2)).unwrap();
    bench.arrive(&request(5, 2)).unwrap();
    assert_eq!(bench.step(), [(0, 60, 0), (1, 40, 0)]);
    assert_eq!(bench.scheduler.chunked_request(), Some(RequestId(1)));
    assert_eq!(bench.step(), [(1, 100, 40)]);
    assert_eq!(bench.step(), [(1, 10, 140), (2, 5, 0)]);
    assert_eq!(bench.scheduler.chunked_request(), None);
    assert_eq!(bench.step(), [(0, 1, 60), (1, 1, 150), (2, 1, 5)]);
}

#[test]
fn without_chunks_only_the_first_may_exceed_the_batch() {
    let mut bench = Bench::new(SglangSettings { max_prefill_tokens: 50, ..settings(1000) });
    bench.arrive(&request(80, 2)).unwrap();
    bench.arrive(&request(30, 2)).unwrap();
    bench.arrive(&request(20, 2)).unwrap();
    assert_eq!(bench.step(), [(0, 80, 0)]);
    // 50 − 30 = 20 are left, and 20 is not less
    assert_eq!(bench.step(), [(1, 30, 0)]);
    assert_eq!(bench.step(), [(2, 20, 0)]);
}

#[test]
fn decoding_that_rides_along_comes_after_the_prefill() {
    let mixed = SglangSettings {
        chunked_prefill_size: Some(100),
        enable_mixed_chunk: true,
        ..settings(1000)
    };
    let mut bench = Bench::new(mixed);
    bench.arrive(&request(10, 9)).unwrap();
    bench.step();
    bench.arrive(&request(150, 9)).unwrap();
    // one token of the chunk goes to the riding request
    assert_eq!(bench.step(), [(1, 99, 0), (0, 1, 10)]);
    assert_eq!(bench.step(), [(1, 51, 99), (0, 1, 11)]);
    assert_eq!(bench.step(), [(1, 1, 150), (0, 1, 12)]);
}

#[test]
fn a_prefix_is_shared_with_later_batches_but_not_within_one() {
    let mut bench = Bench::new(settings(1000));
    let prompt = |stream| with_prompt(&request(0, 2), &[(1, 40), (stream, 10)]);
    bench.arrive(&prompt(2)).unwrap();
    bench.arrive(&prompt(3)).unwrap();
    assert_eq!(bench.step(), [(0, 50, 0), (1, 50, 0)]);
    // the second copy of the 40 tokens was freed
    assert_eq!(bench.scheduler.available_tokens(), 1000 - 60);
    bench.arrive(&prompt(4)).unwrap();
    assert_eq!(bench.step(), [(2, 10, 40)]);
    // of the very same prompt the last token is computed again
    bench.arrive(&prompt(2)).unwrap();
    assert_eq!(bench.step(), [(3, 1, 49)]);
}

#[test]
fn a_finished_answer_is_found_but_for_its_last_token() {
    let mut bench = Bench::new(settings(1000));
    bench.arrive(&with_prompt(&request(0, 4), &[(1, 10)])).unwrap();
    (0..4).for_each(|_| drop(bench.step()));
    // 10 + 4 − 1: the last token was never put in
    assert_eq!(bench.scheduler.evictable_tokens(), 13);
    let answer = Segment::answer_stream(RequestId(0));
    bench.arrive(&with_prompt(&request(0, 4), &[(1, 10), (answer, 4), (7, 6)])).unwrap();
    assert_eq!(bench.step(), [(1, 7, 13)]);
}

#[test]
fn who_generated_least_loses_its_memory_and_waits_last() {
    // the estimate 0.7 · 0.01 lets everybody in whose own answer fits
    let hopeful = SglangSettings { schedule_conservativeness: 0.01, ..settings(100) };
    let mut bench = Bench::new(hopeful);
    bench.arrive(&stopping(20, 60, 60)).unwrap();
    bench.step();
    bench.arrive(&stopping(21, 40, 40)).unwrap();
    assert_eq!(bench.step(), [(1, 21, 0)]);
    // 59 tokens are free, two are taken a step: 29 steps fit, then one is left and two are needed
    for step in 0..29 {
        assert_eq!(bench.step(), [(0, 1, 20 + step), (1, 1, 21 + step)]);
    }
    let plan = bench.plan();
    let (displaced, retracted) = bench.scheduler.split_preempted(&plan);
    assert_eq!((displaced, retracted), (&[][..], &[RequestId(1)][..]));
    assert_eq!(shares(&plan), [(0, 1, 49)]);
    assert_eq!(bench.waiting(), [1]);
    // both had 30 tokens, the longer prompt goes; (30 + 20) / (60 + 1)
    assert!((bench.scheduler.new_token_ratio() - 50.0 / 61.0).abs() < 1e-12);
    bench.complete();
    // its 30 tokens are kept and computed again later; the tree still has its prompt
    let again = (0..60).find_map(|_| bench.step().into_iter().find(|share| share.0 == 1));
    assert_eq!(again, Some((1, 30, 21)));
}

#[test]
fn higher_priority_takes_the_place_of_running_requests() {
    let by_priority = SglangSettings {
        enable_priority_scheduling: true,
        max_running_requests: 2,
        ..settings(1000)
    };
    let mut bench = Bench::new(by_priority);
    let with_priority = |priority| Request { priority, ..request(10, 20) };
    bench.arrive(&with_priority(5)).unwrap();
    bench.arrive(&with_priority(1)).unwrap();
    bench.step();
    // 11 − 1 = 10 is not more than the threshold, 12 − 1 is; and of two the lower one goes
    bench.arrive(&with_priority(11)).unwrap();
    assert_eq!(bench.step(), [(0, 1, 10), (1, 1, 10)]);
    bench.arrive(&with_priority(12)).unwrap();
    let plan = bench.plan();
    assert_eq!(shares(&plan), [(3, 10, 0)]);
    assert_eq!(bench.scheduler.split_preempted(&plan).0, [RequestId(1)]);
    bench.complete();
    assert_eq!(bench.waiting(), [2, 1]);
}

#[test]
fn no_adapter_counts_as_an_adapter() {
    let two = SglangSettings { max_loras_per_batch: Some(2), ..settings(1000) };
    let mut bench = Bench::new(two);
    for adapter in [None, Some(AdapterId(0)), Some(AdapterId(1)), Some(AdapterId(0))] {
        bench.arrive(&Request { adapter, ..request(10, 5) }).unwrap();
    }
    // the third is passed over, those behind it are not
    assert_eq!(bench.step(), [(0, 10, 0), (1, 10, 0), (3, 10, 0)]);
    assert_eq!(bench.waiting(), [2]);
}

#[test]
fn slots_of_pinned_adapters_are_kept_free_for_them() {
    let three = SglangSettings { max_loras_per_batch: Some(3), ..settings(1000) };
    let mut bench = Bench::new(three);
    let adapters = Adapters::new([8; 5].into(), 3, 5).pinning(vec![AdapterId(4)]);
    bench.scheduler.loras = adapters;
    for adapter in [None, Some(0), Some(1), Some(4), Some(0), Some(2)] {
        let adapter = adapter.map(AdapterId);
        bench.arrive(&Request { adapter, ..request(10, 5) }).unwrap();
    }
    // One of three slots is pinned: "none" and adapter 0 take the others, 4 its own.
    assert_eq!(bench.step(), [(0, 10, 0), (1, 10, 0), (3, 10, 0), (4, 10, 0)]);
    assert_eq!(bench.waiting(), [2, 5]);
}

#[test]
fn the_longest_cached_prefix_goes_first_and_a_shared_new_one_once() {
    let lpm = SglangSettings { schedule_policy: SglangPolicy::Lpm, ..settings(2000) };
    let mut bench = Bench::new(lpm);
    bench.arrive(&with_prompt(&request(0, 1), &[(1, 50)])).unwrap();
    bench.step();
    let prompts: [&[(u64, u32)]; 4] =
        [&[(2, 40), (3, 5)], &[(2, 40), (4, 5)], &[(5, 9)], &[(1, 50), (6, 5)]];
    for prompt in prompts {
        bench.arrive(&with_prompt(&request(0, 1), prompt)).unwrap();
    }
    // 4 has 50 tokens cached; 2 shares 40 new ones with 1 and goes last
    assert_eq!(bench.step(), [(4, 5, 50), (1, 45, 0), (3, 9, 0), (2, 45, 0)]);
}

#[test]
fn without_a_cache_completion_is_played_through() {
    let exact = SglangSettings { disable_radix_cache: true, ..settings(100) };
    let mut bench = Bench::new(exact);
    bench.arrive(&request(30, 20)).unwrap();
    bench.arrive(&request(20, 10)).unwrap();
    bench.arrive(&request(20, 10)).unwrap();
    // second: after 31 (+20) taken, 100 − 31 − 20 … its own prefill 21: 48 left, 10 · 2 < 48,
    // then 20 come free: 48 + 20 − 20 > 1. Third: by whole answers no memory is left:
    // 100 − (31 + 20) − (21 + 10) = 18 < 21
    assert_eq!(bench.step(), [(0, 30, 0), (1, 20, 0)]);
    assert_eq!(bench.waiting(), [2]);
}

#[test]
fn with_overlap_the_last_token_by_length_is_not_waited_for() {
    let overlap = SglangSettings { disable_overlap_schedule: false, ..settings(1000) };
    let mut bench = Bench::new(overlap);
    bench.arrive(&request(10, 2)).unwrap();
    assert_eq!(shares(&bench.plan()), [(0, 10, 0)]);
    assert_eq!(shares(&bench.plan()), [(0, 1, 10)]);
    bench.complete();
    // its second and last token is on its way
    assert!(bench.plan().is_empty());
    bench.complete();
    assert_eq!(bench.finished, [(RequestId(0), Finish::Done, 2)]);
    assert_eq!(bench.scheduler.evictable_tokens(), 11);
}

#[test]
fn with_overlap_an_early_end_wastes_a_row_whose_token_is_cached() {
    let overlap = SglangSettings { disable_overlap_schedule: false, ..settings(1000) };
    let mut bench = Bench::new(overlap);
    bench.arrive(&stopping(10, 2, 9)).unwrap();
    bench.plan();
    bench.plan();
    bench.complete();
    assert_eq!(shares(&bench.plan()), [(0, 1, 11)]);
    bench.complete();
    assert_eq!(bench.finished, [(RequestId(0), Finish::Done, 2)]);
    // 10 + 2, the end included; the wasted row's outcome is dropped
    assert_eq!(bench.scheduler.evictable_tokens(), 12);
    assert_eq!(bench.complete().tokens, 0);
    assert!(bench.plan().is_empty());
}

#[test]
fn prompts_and_limits_are_cut_to_the_memory() {
    let short = SglangSettings { context_length: 600, ..settings(1500) };
    let mut bench = Bench::new(short.clone());
    // longest 599; prompts from 594 on are refused
    assert_eq!(bench.arrive(&request(594, 1)), Err(Finish::Rejected));
    assert_eq!(bench.arrive(&request(593, 1)), Ok(()));
    assert_eq!(bench.scheduler.answer_limit(590, 50), Some(8));
    assert_eq!(bench.scheduler.answer_limit(100, 600), Some(498));
    let paged = SglangSettings { page_size: 16, max_total_tokens: 160, ..short };
    // 160 − 112 − 16 − 1
    assert_eq!(Sglang::new(paged).answer_limit(100, 600), Some(31));
}

#[test]
fn an_idle_engine_forgets_its_estimate() {
    let mut bench = Bench::new(settings(1000));
    bench.arrive(&request(10, 5)).unwrap();
    (0..5).for_each(|_| drop(bench.step()));
    assert!(bench.scheduler.new_token_ratio() < 0.7);
    assert!(bench.step().is_empty());
    assert!((bench.scheduler.new_token_ratio() - 0.7).abs() < 1e-12);
}

#[test]
fn an_aborted_request_leaves_at_once_or_with_its_next_token() {
    let mut bench = Bench::new(settings(100));
    bench.arrive(&request(20, 50)).unwrap();
    bench.arrive(&request(20, 50)).unwrap();
    bench.step();
    let mut result = StepResult::default();
    bench.scheduler.abort(RequestId(1), &mut result);
    assert_eq!(result.finished.len(), 1);
    bench.scheduler.abort(RequestId(0), &mut result);
    assert_eq!(result.finished.len(), 1);
    bench.step();
    assert_eq!(bench.finished, [(RequestId(0), Finish::Aborted, 2)]);
    assert!(bench.step().is_empty());
    assert_eq!(bench.scheduler.reclaimable(), 100);
}
