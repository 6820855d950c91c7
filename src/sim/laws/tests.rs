//! Broken laws are noticed.

use super::blocks::check;
use super::*;
use crate::engine::scheduler::Load;
use crate::request::Request;

const HERE: InstanceId = InstanceId(0);
const LOAD: Load =
    Load { waiting: 1, running: 0, kv_blocks: 8, kv_blocks_free: 8, kv_blocks_lingering: 0 };

fn at(nanos: u64) -> SimTime {
    SimTime::from_nanos(nanos)
}

/// A watch that has seen request 0 arrive and enter the queue.
fn watching() -> (Watch, Life) {
    let request = Request::new(at(3), 10, 2);
    let mut watch = Watch::default();
    watch.on(at(3), Occurrence::Arrived(RequestId(0), &request));
    watch.on(at(4), Occurrence::Sent(RequestId(0), HERE));
    watch.on(at(6), Occurrence::Queued(HERE, RequestId(0), LOAD));
    (watch, Life::new(RequestId(0), &request))
}

#[test]
fn a_request_that_leaves_unserved_breaks_no_law() {
    let (mut watch, life) = watching();
    watch.on(at(9), Occurrence::Left(HERE, &life, Finish::Aborted));
    watch.close(&Counts { arrived: 1, aborted: 1, ..Counts::default() });
}

#[test]
#[should_panic(expected = "L1: counts as seen")]
fn a_request_counted_twice_is_noticed() {
    let (mut watch, life) = watching();
    watch.on(at(9), Occurrence::Left(HERE, &life, Finish::Aborted));
    watch.close(&Counts { arrived: 1, aborted: 2, ..Counts::default() });
}

#[test]
#[should_panic(expected = "L1: request 0 is not where it leaves from")]
fn a_request_that_leaves_twice_is_noticed() {
    let (mut watch, life) = watching();
    watch.on(at(9), Occurrence::Left(HERE, &life, Finish::Aborted));
    watch.on(at(9), Occurrence::Left(HERE, &life, Finish::Aborted));
}

#[test]
#[should_panic(expected = "L2: time never decreases")]
fn a_clock_that_goes_back_is_noticed() {
    let (mut watch, life) = watching();
    watch.on(at(5), Occurrence::Left(HERE, &life, Finish::Aborted));
}

#[test]
#[should_panic(expected = "L3: nobody is inside")]
fn a_block_held_by_nobody_is_noticed() {
    check(HERE, Load { waiting: 0, kv_blocks_free: 7, ..LOAD });
}

#[test]
fn blocks_may_wait_for_a_transfer_or_a_step_to_end() {
    check(HERE, Load { waiting: 0, kv_blocks_free: 5, kv_blocks_lingering: 3, ..LOAD });
}

#[test]
#[should_panic(expected = "L3: nobody is inside")]
fn a_block_held_by_nobody_beside_those_that_wait_is_noticed() {
    check(HERE, Load { waiting: 0, kv_blocks_free: 4, kv_blocks_lingering: 3, ..LOAD });
}

#[test]
#[should_panic(expected = "L4: request 0 goes its way out of order")]
fn a_token_before_the_first_step_is_noticed() {
    let (mut watch, mut life) = watching();
    life.first_scheduled = Some(at(8));
    life.emit(at(7));
    watch.on(at(9), Occurrence::Left(HERE, &life, Finish::Done));
}

#[test]
#[should_panic(expected = "L10: tokens out are those of requests")]
fn a_token_from_no_step_is_noticed() {
    let (mut watch, mut life) = watching();
    life.first_scheduled = Some(at(7));
    life.emit(at(9));
    watch.on(at(9), Occurrence::Left(HERE, &life, Finish::Done));
    watch.close(&Counts { arrived: 1, finished: 1, ..Counts::default() });
}

fn gave_up(tries_again: bool) -> Occurrence<'static> {
    let (request, finish) = (RequestId(0), Finish::TimedOut);
    Occurrence::GaveUp { request, life: None, finish, tries_again }
}

#[test]
#[should_panic(expected = "L1: request 0 is given up twice")]
fn a_request_that_is_given_up_twice_is_noticed() {
    let (mut watch, _) = watching();
    watch.on(at(9), gave_up(false));
    watch.on(at(9), gave_up(false));
}

#[test]
#[should_panic(expected = "L1: request 0 is not where it leaves from")]
fn an_answer_to_a_request_that_was_given_up_is_noticed() {
    let (mut watch, life) = watching();
    watch.on(at(9), gave_up(false));
    watch.on(at(9), Occurrence::Left(HERE, &life, Finish::Done));
}

#[test]
#[should_panic(expected = "L1: request 0 is sent again as 1")]
fn a_retry_of_a_request_that_was_not_given_up_is_noticed() {
    let (mut watch, _) = watching();
    watch.on(at(9), Occurrence::Arrived(RequestId(1), &Request::new(at(9), 10, 2)));
    watch.on(at(9), Occurrence::Retried { retry: RequestId(1), of: RequestId(0) });
}

#[test]
fn a_retry_is_the_same_request() {
    let (mut watch, life) = watching();
    watch.on(at(9), gave_up(true));
    watch.on(at(10), Occurrence::Dropped(HERE, &life, Load { waiting: 0, ..LOAD }));
    watch.on(at(12), Occurrence::Arrived(RequestId(1), &Request::new(at(12), 10, 2)));
    watch.on(at(12), Occurrence::Retried { retry: RequestId(1), of: RequestId(0) });
    watch.on(at(12), Occurrence::Sent(RequestId(1), HERE));
    watch.on(at(13), Occurrence::Refused(HERE, RequestId(1)));
    watch.close(&Counts { arrived: 1, rejected: 1, retried: 1, ..Counts::default() });
}
