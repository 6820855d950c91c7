//! Models with windows, states and drafts: rules worked by hand, and laws on random engines.

use super::random::random_case;
use super::*;
use crate::engine::scheduler::Acceptance;

fn windows(window: u32, tokens: u32) -> SglangHybrid {
    SglangHybrid::Window(SglangWindowPool { window, tokens, eviction_interval: 128 })
}

fn states(slots: u32, strategy: StateStrategy) -> SglangHybrid {
    SglangHybrid::State(SglangStatePool { slots, strategy })
}

const EXTRA_BUFFER: StateStrategy = StateStrategy::ExtraBuffer { chunk: 64, track_interval: 256 };

impl Bench {
    /// Each verification accepts as many drafts as its number says, from none on, again and again.
    fn accepting(mut self, drafts: u32) -> Self {
        let counts: Vec<u32> = (0..=drafts).collect();
        self.scheduler = self.scheduler.accepting(Acceptance::Recorded(vec![counts; 1000].into()));
        self
    }
}

#[test]
fn slots_for_two_steps_of_accepted_drafts_are_taken_ahead() {
    let drafting = SglangSettings { speculative_num_steps: 3, ..settings(1000) };
    let mut bench = Bench::new(drafting).accepting(3);
    bench.arrive(&request(100, 9)).unwrap();
    assert_eq!(bench.step(), [(0, 100, 0)]);
    // 100 + 2 · 4 slots; the pairs of 100 tokens are 99 of the tree
    assert_eq!(bench.step(), [(0, 4, 100)]);
    assert_eq!(bench.scheduler.available_tokens(), 892);
    // none, one, two drafts were accepted, and a token each
    assert_eq!(bench.step(), [(0, 4, 101)]);
    assert_eq!(bench.step(), [(0, 4, 103)]);
    assert_eq!(bench.step(), [(0, 4, 106)]);
    // 1 + 1 + 2 + 3 tokens were out; of the 4 that come now, the first 2 are asked for
    assert_eq!(bench.finished, [(RequestId(0), Finish::Done, 9)]);
    // 110 tokens are computed and 109 are its own: 108 pairs
    bench.plan();
    assert_eq!(bench.scheduler.evictable_tokens(), 108);
}

#[test]
fn a_decoding_request_gives_back_what_its_window_has_passed() {
    let small = SglangWindowPool { window: 10, tokens: 200, eviction_interval: 4 };
    let hybrid = Some(SglangHybrid::Window(small));
    let mut bench = Bench::new(SglangSettings { hybrid, ..settings(1000) });
    bench.arrive(&request(50, 40)).unwrap();
    bench.step();
    let free = |bench: &Bench| bench.scheduler.window_tokens().map(|(free, _)| free);
    // its prompt joined the tree when it was computed, without what the window has passed:
    // 49 − 10 tokens
    assert_eq!(free(&bench), Some(189));
    bench.step();
    // one more each step; before the one at 54 known tokens 53 − 10 ≥ 39 + 4: the last window is the tree's
    let taken: Vec<_> = (0..4).map(|_| free_after_step(&mut bench)).collect();
    assert_eq!(taken, [187, 186, 185, 184]);
}

fn free_after_step(bench: &mut Bench) -> u32 {
    bench.step();
    bench.scheduler.window_tokens().map_or(0, |(free, _)| free)
}

#[test]
fn a_third_user_of_a_prefix_goes_on_from_its_state() {
    let hybrid = Some(states(100, EXTRA_BUFFER));
    let one = SglangSettings { hybrid, max_running_requests: 10, ..settings(5000) };
    let mut bench = Bench::new(one);
    let mut hits = Vec::new();
    for user in 0..3 {
        let asked = with_prompt(&request(0, 1), &[(1, 200), (10 + user, 100)]);
        bench.arrive(&asked).unwrap();
        let plan = bench.plan();
        hits.extend(plan.hits.iter().map(|hit| hit.1));
        bench.complete();
        bench.plan();
    }
    // the first leaves its state behind 256 tokens, the second behind 192, where 200 were cached
    assert_eq!(hits, [0, 0, 192]);
}

#[test]
fn what_does_not_go_together_is_named() {
    let check = |settings: SglangSettings| {
        settings.conflict().map_or_else(String::new, |(flag, rule)| format!("{flag}: {rule}"))
    };
    let overlap = SglangSettings { disable_overlap_schedule: false, ..settings(1000) };
    let no_buffer =
        SglangSettings { hybrid: Some(states(999, StateStrategy::NoBuffer)), ..overlap };
    assert!(check(no_buffer.clone()).contains("disable_overlap_schedule"));
    let without_tree = SglangSettings { disable_radix_cache: true, ..no_buffer };
    assert_eq!(check(without_tree), "");
    // 64 requests with 1 + 1 slots, each on a state, and one to copy
    let few = SglangSettings { hybrid: Some(states(192, EXTRA_BUFFER)), ..settings(1000) };
    assert!(check(few.clone()).contains("at least 193 for 64 running requests, got 192"));
    let enough = SglangSettings { hybrid: Some(states(193, EXTRA_BUFFER)), ..few };
    assert_eq!(check(enough.clone()), "");
    assert!(check(SglangSettings { page_size: 96, ..enough.clone() }).contains("track_interval"));
    assert!(check(SglangSettings { enable_mixed_chunk: true, ..enough }).contains("mixed"));
    let none = SglangSettings { hybrid: Some(windows(0, 100)), ..settings(1000) };
    assert!(check(none).contains("window"));
}

/// A random hybrid engine with little memory, and a workload.
fn random_hybrid(seed: u64) -> (SglangSettings, Vec<Request>) {
    let (engine, requests) = random_case(seed);
    let mut state = mix(seed ^ 0x5eed);
    let mut draw = |below: u64| {
        state = mix(state);
        (state % below) as u32
    };
    let mut engine = SglangSettings {
        enable_mixed_chunk: false,
        speculative_num_steps: [0, 0, 3][draw(3) as usize],
        ..engine
    };
    match draw(4) {
        0 => engine.speculative_num_steps = 1 + draw(4),
        1 | 2 if draw(2) == 0 => {
            let window = 1 + draw(80);
            // Chunks of half of the pool at most, or one may be parked for ever.
            engine.chunked_prefill_size = engine.chunked_prefill_size.filter(|size| *size <= 64);
            let eviction_interval = 1 + draw(40);
            let pool = SglangWindowPool { window, tokens: 280 + draw(200), eviction_interval };
            engine.hybrid = Some(SglangHybrid::Window(pool));
        }
        kind => {
            let strategy = if kind == 3 {
                engine.page_size = 1;
                engine.disable_overlap_schedule = true;
                StateStrategy::NoBuffer
            } else {
                let chunk = [4, 16, 64][draw(3) as usize];
                StateStrategy::ExtraBuffer { chunk, track_interval: 16 }
            };
            let slots = engine.max_running_requests * 4 + 1 + draw(10);
            engine.hybrid = Some(states(slots, strategy));
        }
    }
    (engine, requests)
}

#[test]
fn no_request_is_lost_and_every_pool_adds_up_whatever_the_model() {
    let (mut preemptions, mut hits) = (0, 0);
    for seed in 0..600 {
        let (engine, requests) = random_hybrid(seed);
        let depth = if engine.disable_overlap_schedule { 1 } else { 2 };
        let drafts = engine.speculative_num_steps;
        let mut bench = Bench::new(engine.clone()).accepting(drafts);
        let (mut rejected, mut result) = (0, StepResult::default());
        let mut rest = requests.iter();
        for round in 0..20_000_u64 {
            if round % 3 == 0
                && let Some(request) = rest.next()
            {
                rejected += usize::from(bench.arrive(request).is_err());
            }
            if seed % 4 == 3 && round % 17 == 5 {
                let id = RequestId((mix(round) % u64::from(bench.arrived)) as u32);
                bench.scheduler.abort(id, &mut result);
            }
            while bench.flying.len() < depth {
                let plan = bench.plan();
                preemptions += plan.preempted.len();
                hits += plan.hits.iter().filter(|hit| hit.1 > 0).count();
                if plan.is_empty() {
                    break;
                }
            }
            if !bench.flying.is_empty() {
                bench.complete();
            } else if rest.len() == 0 {
                break;
            }
        }
        let left = bench.finished.len() + result.finished.len();
        assert_eq!(left + rejected, requests.len(), "seed {seed}: {engine:?}");
        // Nobody holds anything: what is not free can be evicted.
        let sglang = &bench.scheduler;
        assert_eq!(sglang.reclaimable(), sglang.pool, "seed {seed}");
        assert_eq!(sglang.rows_free, engine.max_running_requests, "seed {seed}");
        match engine.hybrid {
            Some(SglangHybrid::Window(pool)) => {
                let size = pool.tokens - pool.tokens % engine.page_size;
                let all = sglang.window_tokens().map(|(free, evictable)| free + evictable);
                assert_eq!(all, Some(size), "seed {seed}");
            }
            Some(SglangHybrid::State(pool)) => {
                let all = sglang.states().map(|(free, evictable)| free + evictable);
                assert_eq!(all, Some(pool.slots), "seed {seed}");
            }
            None => {}
        }
    }
    assert!(preemptions > 100, "{preemptions} preemptions");
    assert!(hits > 1000, "{hits} hits");
}

#[test]
fn with_windows_longer_than_every_sequence_an_engine_decides_as_with_full_attention() {
    let mut admitted = 0;
    for seed in 0..300 {
        let (engine, requests) = random_case(seed);
        let full = SglangSettings {
            enable_mixed_chunk: false,
            enable_priority_scheduling: false,
            speculative_num_steps: [0, 2][(seed % 2) as usize],
            // So much that neither pool decides who is admitted.
            max_total_tokens: 100_000,
            ..engine
        };
        let depth = if full.disable_overlap_schedule { 1 } else { 2 };
        let hybrid = SglangSettings { hybrid: Some(windows(10_000, 100_000)), ..full.clone() };
        let drafts = full.speculative_num_steps;
        let mut full = Bench::new(full).accepting(drafts);
        let mut hybrid = Bench::new(hybrid).accepting(drafts);
        let mut rest = requests.iter();
        for round in 0..600_u64 {
            if round % 3 == 0
                && let Some(request) = rest.next()
            {
                assert_eq!(full.arrive(request), hybrid.arrive(request), "seed {seed}");
            }
            while full.flying.len() < depth {
                let (a, b) = (full.plan(), hybrid.plan());
                let place = format!("seed {seed}, round {round}");
                assert_eq!((shares(&a), a.shape), (shares(&b), b.shape), "{place}");
                assert_eq!(a.hits, b.hits, "{place}");
                let memory = |s: &Sglang| (s.available, s.evictable_tokens());
                assert_eq!(memory(&full.scheduler), memory(&hybrid.scheduler), "{place}");
                admitted += a.hits.len();
                if a.is_empty() {
                    break;
                }
            }
            if !full.flying.is_empty() {
                full.complete();
                hybrid.complete();
            }
        }
        assert_eq!(full.finished, hybrid.finished, "seed {seed}");
    }
    assert!(admitted > 10_000, "{admitted} admitted");
}
