//! Random engines and workloads: nothing is lost, and the group decides like its requests.

use super::*;

/// A random engine and workload from a seed.
pub(super) fn random_case(seed: u64) -> (SglangSettings, Vec<Request>) {
    let mut state = seed;
    let mut draw = |below: u64| {
        state = mix(state);
        (state % below) as u32
    };
    let flags = draw(64);
    let has = |bit: u32| flags & bit != 0;
    let by_priority = has(1) && !has(2);
    let page_size = [1, 1, 4, 16][draw(4) as usize];
    let engine = SglangSettings {
        page_size,
        schedule_policy: if has(2) { SglangPolicy::Lpm } else { SglangPolicy::Fcfs },
        enable_priority_scheduling: by_priority,
        enable_mixed_chunk: has(4),
        disable_overlap_schedule: has(8),
        disable_radix_cache: has(48),
        chunked_prefill_size: [None, Some(32), Some(64), Some(256)][draw(4) as usize],
        max_prefill_tokens: [40, 200, 16_384][draw(3) as usize],
        max_running_requests: 2 + draw(20),
        max_loras_per_batch: [None, Some(2)][draw(2) as usize],
        scheduler_recv_interval: [1, 1, 1, 5][draw(4) as usize],
        schedule_conservativeness: [0.05, 0.3, 1.0][draw(3) as usize],
        ..settings(320 + draw(400))
    };
    let requests = (0..60).map(|_| {
        let limit = 1 + draw(60);
        let base = stopping(0, 1 + draw(u64::from(limit)), limit);
        let base = with_prompt(&base, &[(u64::from(draw(4)), 1 + draw(90)), (9, 1 + draw(30))]);
        let ignore_eos = draw(2) == 0;
        let output_tokens = if ignore_eos { limit } else { base.output_tokens };
        let adapter = [None, Some(AdapterId(draw(3)))][draw(2) as usize];
        let priority = draw(40).cast_signed();
        Request { output_tokens, ignore_eos, priority, adapter, ..base }
    });
    (engine, requests.collect())
}

#[test]
fn no_request_is_lost_and_memory_adds_up_whatever_the_settings() {
    let (mut preemptions, mut aborted) = (0, 0);
    for seed in 0..400 {
        let (engine, requests) = random_case(seed);
        let depth = if engine.disable_overlap_schedule { 1 } else { 2 };
        let pool = engine.max_total_tokens;
        let pool = pool - pool % engine.page_size;
        let mut bench = Bench::new(engine);
        let (mut rejected, mut idle) = (0, 0);
        let mut result = StepResult::default();
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
            let mut is_stuck = true;
            while bench.flying.len() < depth {
                let plan = bench.plan();
                preemptions += plan.preempted.len();
                if plan.is_empty() {
                    break;
                }
                is_stuck = false;
            }
            if bench.flying.is_empty() {
                assert!(bench.waiting().is_empty(), "seed {seed}: {:?} wait", bench.waiting());
                idle += 1;
                if rest.len() == 0 {
                    break;
                }
            } else {
                is_stuck = false;
                bench.complete();
            }
            assert!(!is_stuck || bench.flying.is_empty());
        }
        let left = bench.finished.len() + result.finished.len();
        aborted += result.finished.len();
        assert_eq!(left + rejected, requests.len(), "seed {seed}");
        assert!(idle > 0, "seed {seed}");
        for &(id, finish, generated) in &bench.finished {
            let asked = &requests[id.index()];
            let is_whole = generated == asked.output_tokens || generated < asked.max_tokens;
            assert!(finish == Finish::Aborted || is_whole, "seed {seed}, request {id}");
        }
        assert_eq!(bench.scheduler.reclaimable(), pool, "seed {seed}");
        assert_eq!(
            bench.scheduler.rows_free, bench.scheduler.settings.max_running_requests,
            "seed {seed}"
        );
    }
    assert!(preemptions > 100, "{preemptions} preemptions");
    assert!(aborted > 10, "{aborted} aborts");
}

#[test]
fn a_group_decides_like_its_requests_whoever_leaves() {
    for seed in 0..400 {
        let (engine, requests) = random_case(seed);
        let depth = if engine.disable_overlap_schedule { 1 } else { 2 };
        let mut group = Bench::new(engine.clone());
        let mut plain = Bench::new(engine);
        plain.scheduler = plain.scheduler.request_by_request();
        let mut rest = requests.iter();
        let (mut left, mut plain_left) = (StepResult::default(), StepResult::default());
        for round in 0..600_u64 {
            if round % 5 == 0
                && let Some(request) = rest.next()
            {
                assert_eq!(group.arrive(request), plain.arrive(request), "seed {seed}");
            }
            if seed % 2 == 0 && round % 17 == 5 {
                let id = RequestId((mix(round ^ seed) % u64::from(group.arrived)) as u32);
                group.scheduler.abort(id, &mut left);
                plain.scheduler.abort(id, &mut plain_left);
            }
            while group.flying.len() < depth {
                let (a, b) = (group.plan(), plain.plan());
                let place = format!("seed {seed}, round {round}");
                assert_eq!((shares(&a), a.shape), (shares(&b), b.shape), "{place}");
                assert_eq!((&a.preempted, &a.hits), (&b.preempted, &b.hits), "{place}");
                let state = |s: &Sglang| {
                    (
                        s.load(),
                        s.available,
                        s.is_full,
                        s.ratio.current.to_bits(),
                        s.chunked_request(),
                    )
                };
                assert_eq!(state(&group.scheduler), state(&plain.scheduler), "{place}");
                if a.is_empty() {
                    break;
                }
            }
            if !group.flying.is_empty() {
                let (a, b) = (group.complete(), plain.complete());
                assert_eq!((a.tokens, a.first_tokens), (b.tokens, b.first_tokens));
            }
        }
        assert_eq!(group.finished, plain.finished, "seed {seed}");
        assert_eq!(left.finished.len(), plain_left.finished.len(), "seed {seed}");
    }
}
