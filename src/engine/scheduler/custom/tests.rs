//! Policies of users, written against what a user sees.

use std::collections::VecDeque;

use super::*;
use crate::engine::EntryKind;
use crate::engine::scheduler::baseline::tests::{shapes, steps};
use crate::engine::scheduler::{Memory, Orca, OrcaSettings, Scheduler};
use crate::scenario::Reservation;

/// What Orca does with a block for each token: a request is admitted if all that it may become fits.
#[derive(Debug, Clone)]
struct AsOrca {
    batch_max: usize,
    total: u32,
    free: u32,
    waiting: VecDeque<(RequestId, u32)>,
    running: Vec<(RequestId, u32)>,
}

impl AsOrca {
    fn new(batch_max: usize, total: u32) -> Self {
        let (waiting, running) = (VecDeque::new(), Vec::new());
        Self { batch_max, total, free: total, waiting, running }
    }
}

impl SchedulingPolicy for AsOrca {
    fn enqueue(&mut self, request: RequestView<'_>) -> Result<(), Finish> {
        let most = request.prompt_tokens + request.max_tokens;
        if most > self.total {
            return Err(Finish::Rejected);
        }
        self.waiting.push_back((request.id, most));
        Ok(())
    }

    fn left(&mut self, id: RequestId) {
        self.waiting.retain(|(other, _)| *other != id);
        if let Some(place) = self.running.iter().position(|(other, _)| *other == id) {
            self.free += self.running.remove(place).1;
        }
    }

    fn schedule(&mut self, _now: SimTime, step: &mut NextStep<'_>) {
        while self.running.len() < self.batch_max
            && let Some(&(id, most)) = self.waiting.front()
            && most <= self.free
        {
            self.waiting.pop_front();
            self.free -= most;
            self.running.push((id, most));
        }
        for &(id, _) in &self.running {
            step.compute(id, step.uncomputed(id));
        }
    }

    fn kv_blocks(&self) -> KvBlocks {
        KvBlocks { total: self.total, free: self.free }
    }
}

#[test]
fn a_policy_that_batches_as_orca_does_plans_its_steps() {
    let arrivals =
        [(0, 5, 3), (0, 7, 1), (1, 20, 4), (1, 3, 6), (2, 9, 2), (30, 4, 4), (30, 40, 20)];
    let mut orca = Orca::new(OrcaSettings {
        memory: Memory::unpaged(64, 64),
        max_batch_size: 3,
        max_loras: None,
        reservation: Reservation::Request,
    });
    let custom = || Custom::new(AsOrca::new(3, 64));
    assert_eq!(steps(&mut custom(), &arrivals), steps(&mut orca.clone(), &arrivals));
    assert_eq!(shapes(&mut custom(), &arrivals), shapes(&mut orca, &arrivals));
}

/// Gives one request chunks of two tokens, reuses, preempts or fails it as it is told before each step.
#[derive(Debug, Clone, Default)]
struct ByHand {
    id: Option<RequestId>,
    acts: VecDeque<Act>,
    left: u32,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Compute(u32),
    Reuse(u32),
    Preempt,
    Fail,
}

impl SchedulingPolicy for ByHand {
    fn enqueue(&mut self, request: RequestView<'_>) -> Result<(), Finish> {
        self.id = Some(request.id);
        Ok(())
    }

    fn left(&mut self, _: RequestId) {
        self.left += 1;
    }

    fn schedule(&mut self, _now: SimTime, step: &mut NextStep<'_>) {
        let id = self.id.expect("a request is there");
        while let Some(act) = self.acts.pop_front() {
            match act {
                Act::Compute(tokens) => return step.compute(id, tokens),
                Act::Reuse(tokens) => step.reuse(id, tokens),
                Act::Preempt => step.preempt(id),
                Act::Fail => return step.fail(id),
            }
        }
    }

    fn kv_blocks(&self) -> KvBlocks {
        KvBlocks::default()
    }
}

/// A request with a prompt of six tokens, whose answer has two, through these decisions: the plans, and
/// who left.
fn through(acts: &[Act]) -> (Vec<StepPlan>, Vec<(Life, Finish)>, u32) {
    let policy = ByHand { acts: acts.iter().copied().collect(), ..ByHand::default() };
    let mut custom = Custom::new(policy);
    let request =
        Request { max_tokens: 100, ignore_eos: false, ..Request::new(SimTime::ZERO, 6, 2) };
    custom.enqueue(RequestId(4), &request, Handoff::None).expect("it is taken");
    let (mut plans, mut left) = (Vec::new(), Vec::new());
    while !custom.requests.inside.is_empty() {
        let mut plan = StepPlan::default();
        custom.schedule(SimTime::ZERO, &mut plan);
        left.append(&mut plan.ended);
        if !plan.is_empty() {
            let mut result = StepResult::default();
            custom.complete(SimTime::ZERO, &plan, &mut result);
            left.append(&mut result.finished);
        }
        plans.push(plan);
    }
    assert!(custom.is_balanced() && custom.load() == Load::default());
    (plans, left, custom.policy.left)
}

#[test]
fn an_answer_ends_though_the_policy_does_not_know_when() {
    use Act::{Compute, Preempt, Reuse};
    // 4 of 6 tokens are found, the other two bring the first; it is lost, and all 7 are computed for the second.
    let (plans, left, told) = through(&[Reuse(4), Compute(2), Preempt, Compute(7), Compute(1)]);
    let kinds: Vec<_> = plans.iter().map(|plan| (plan.entries[0].kind, plan.hits[0].1)).collect();
    assert_eq!(kinds, [(EntryKind::New, 4), (EntryKind::Resumed, 0)]);
    assert_eq!(plans[1].preempted, [RequestId(4)]);
    assert_eq!(plans.iter().map(|plan| plan.shape.prefill_tokens).collect::<Vec<_>>(), [2, 7]);
    let [(life, Finish::Done)] = left.as_slice() else { panic!("{left:?}") };
    assert_eq!((life.generated, life.cached_tokens, life.preemptions), (2, 4, 1));
    assert_eq!(told, 1);
}

#[test]
fn a_chunk_brings_no_token_and_who_fails_leaves_without_a_word() {
    let (plans, left, told) = through(&[Act::Compute(5), Act::Fail]);
    assert!(!plans[0].entries[0].samples && plans[0].shape.logit_rows == 0);
    let [(life, Finish::Failed)] = left.as_slice() else { panic!("{left:?}") };
    assert_eq!((life.generated, told), (0, 0), "the policy itself has let it go");
}

#[test]
#[should_panic(expected = "request 4: 7 of 6 tokens")]
fn more_than_there_is_cannot_be_computed() {
    through(&[Act::Compute(7)]);
}

#[test]
fn steps_that_overlap_count_on_the_token_of_the_one_before() {
    let mut custom = Custom::new(AsOrca::new(1, 64));
    custom.enqueue(RequestId(0), &Request::new(SimTime::ZERO, 5, 2), Handoff::None).expect("taken");
    let (mut first, mut second, mut third) = Default::default();
    custom.schedule(SimTime::ZERO, &mut first);
    custom.schedule(SimTime::ZERO, &mut second);
    assert_eq!(second.entries[0].computed, 5);
    let mut result = StepResult::default();
    custom.complete(SimTime::ZERO, &first, &mut result);
    custom.schedule(SimTime::ZERO, &mut third);
    assert_eq!(third.entries.len(), 1, "nobody knows yet that the answer has two tokens");
    custom.complete(SimTime::ZERO, &second, &mut result);
    assert_eq!((result.tokens, result.finished.len()), (2, 1));
    custom.complete(SimTime::ZERO, &third, &mut result);
    assert_eq!((result.tokens, custom.is_balanced()), (2, true));
}

#[test]
fn a_policy_is_cloned_with_its_replica() {
    let scheduler = Scheduler::custom(AsOrca::new(1, 64));
    assert_eq!(scheduler.clone().load(), scheduler.load());
}
