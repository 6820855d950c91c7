//! What becomes of requests for which memory does not suffice.

use super::*;

#[test]
fn a_limit_cut_to_nothing_leaves_the_token_of_the_prefill() {
    let paged = SglangSettings { page_size: 16, ..settings(160) };
    let mut bench = Bench::new(paged.clone());
    // 160 − 144 − 16 − 1 < 0
    assert_eq!(bench.scheduler.answer_limit(130, 50), Some(0));
    bench.arrive(&request(130, 50)).unwrap();
    assert_eq!(bench.step(), [(0, 130, 0)]);
    assert_eq!(bench.finished, [(RequestId(0), Finish::Done, 1)]);
    // 144 + 0 + 16 is not less than 160: it waits for ever, and everybody behind it
    let mut bench = Bench::new(paged);
    bench.arrive(&request(144, 50)).unwrap();
    bench.arrive(&request(1, 1)).unwrap();
    assert_eq!(bench.step(), []);
    assert_eq!(bench.waiting(), [0, 1]);
}

#[test]
fn a_chunk_for_which_no_memory_is_left_ends_its_request() {
    let mixed = SglangSettings {
        chunked_prefill_size: Some(50),
        enable_mixed_chunk: true,
        schedule_conservativeness: 0.01,
        ..settings(420)
    };
    let mut bench = Bench::new(mixed);
    for _ in 0..20 {
        bench.arrive(&stopping(5, 40, 60)).unwrap();
    }
    // All of them decode by now; 207 tokens are left. Four steps with a chunk and a token for each
    // leave 8, too few for the fifth chunk.
    (0..8).for_each(|_| drop(bench.step()));
    bench.arrive(&request(150, 1)).unwrap();
    (0..600).for_each(|_| drop(bench.step()));
    let failed = bench.finished.iter().find(|left| left.0 == RequestId(20));
    assert_eq!(failed, Some(&(RequestId(20), Finish::Failed, 0)));
    let done = bench.finished.iter().filter(|left| left.1 == Finish::Done && left.2 == 40);
    assert_eq!(done.count(), 20);
    assert_eq!(bench.scheduler.reclaimable(), 420);
}

#[test]
fn a_request_that_decodes_alone_ends_when_others_hold_the_memory() {
    let mut bench = Bench::new(SglangSettings { max_running_requests: 1, ..settings(20_000) });
    let mut result = StepResult::default();
    for (prompt, output) in [(1000, 10_000), (7000, 2), (7000, 2)] {
        let id = RequestId(bench.arrived);
        let asked = request(prompt, output);
        bench.scheduler.enqueue(id, &asked, Handoff::PrefilledElsewhere).unwrap();
        bench.arrived += 1;
        let plan = bench.plan();
        assert_eq!(plan.loads, [(id, prompt)]);
        if !plan.is_empty() {
            bench.complete();
        }
        bench.scheduler.transferred(id, &mut result);
        bench.scheduler.land(bench.now, &mut result);
    }
    while bench.finished.is_empty() {
        bench.step();
    }
    // 20 000 − 15 000 tokens, and the one whose KV is not there yet
    assert_eq!(bench.finished, [(RequestId(0), Finish::Failed, 5001)]);
    for _ in 0..6 {
        bench.scheduler.land(bench.now, &mut result);
        bench.step();
    }
    assert_eq!(bench.finished[1..], [1, 2].map(|id| (RequestId(id), Finish::Done, 2)));
    assert_eq!(bench.scheduler.reclaimable(), 20_000);
}
