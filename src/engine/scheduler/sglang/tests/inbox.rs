//! When requests that have come are read.

use super::*;

fn every(steps: u32) -> SglangSettings {
    SglangSettings { scheduler_recv_interval: steps, ..settings(1000) }
}

#[test]
fn a_newcomer_waits_until_enough_steps_have_decoded() {
    let mut bench = Bench::new(every(3));
    bench.arrive(&request(10, 20)).unwrap();
    // An idle engine looks at once, and again after a prefill.
    assert_eq!(bench.step(), [(0, 10, 0)]);
    assert_eq!(bench.step(), [(0, 1, 10)]);
    bench.arrive(&request(20, 20)).unwrap();
    assert_eq!(bench.step(), [(0, 1, 11)]);
    assert_eq!(bench.step(), [(0, 1, 12)]);
    assert_eq!(bench.step(), [(1, 20, 0)]);
    // Its prefill is followed by a look, too early for one that comes then.
    assert_eq!(bench.step(), [(0, 1, 13), (1, 1, 20)]);
    bench.arrive(&request(30, 20)).unwrap();
    let decoded = (0..10).take_while(|_| bench.step() != [(2, 30, 0)]).count();
    assert_eq!(decoded, 2);
}

#[test]
fn what_came_while_the_last_answer_ended_is_read_at_once() {
    let mut bench = Bench::new(every(1000));
    bench.arrive(&request(10, 3)).unwrap();
    (0..2).for_each(|_| drop(bench.step()));
    bench.arrive(&request(20, 3)).unwrap();
    assert_eq!(bench.step(), [(0, 1, 11)]);
    assert_eq!(bench.finished, [(RequestId(0), Finish::Done, 3)]);
    assert_eq!(bench.step(), [(1, 20, 0)]);
}

#[test]
fn a_request_that_was_not_read_can_leave() {
    let mut bench = Bench::new(every(1000));
    bench.arrive(&request(10, 5)).unwrap();
    bench.step();
    bench.step();
    bench.arrive(&request(20, 5)).unwrap();
    bench.step();
    let mut result = StepResult::default();
    bench.scheduler.abort(RequestId(1), &mut result);
    assert_eq!(result.finished.len(), 1);
    (0..5).for_each(|_| drop(bench.step()));
    assert_eq!(bench.finished, [(RequestId(0), Finish::Done, 5)]);
    assert_eq!(bench.scheduler.reclaimable(), 1000);
}
