//! Schedulers of the library's user.
//!
//! A [`SchedulingPolicy`] says who computes how many tokens in the next step, and keeps count of KV memory. What
//! every engine does in the same way is done for it: tokens come out, answers end, requests are counted, the
//! shape of a step is that of its shares. It sees of a request what a real engine sees, a [`RequestView`]; that an
//! answer has ended it is told. Who only wants requests admitted in another order writes an
//! [`Admit`](super::Admit) and leaves the rest to an engine of the project ([`Doorkeeper`](super::Doorkeeper)).
//!
//! Left out: KV hand-overs and memory below the GPU, adapters, drafts, caches that are seen or lost from outside,
//! steps that are run in one go.

mod step;

use std::fmt;

use rustc_hash::FxHashMap;

use super::abilities::no_abilities;
use super::{Backlog, Handoff, Load, Schedule};
use crate::engine::{Finish, Life, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::request::{Request, RequestView};
use crate::units::SimTime;

pub use step::NextStep;

/// KV memory that a policy keeps count of, in blocks of any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KvBlocks {
    /// Blocks that requests can hold; 0 where memory is not counted.
    pub total: u32,
    /// Blocks that no request holds.
    pub free: u32,
}

/// A scheduler of the library's user: who computes how many tokens in the next step.
///
/// ```
/// use std::collections::VecDeque;
///
/// use servecast::engine::Finish;
/// use servecast::engine::scheduler::{KvBlocks, NextStep, Scheduler, SchedulingPolicy};
/// use servecast::ids::RequestId;
/// use servecast::request::RequestView;
/// use servecast::units::SimTime;
///
/// /// Eight requests at a time, in order of arrival; each computes all it can.
/// #[derive(Debug, Clone, Default)]
/// struct Eight {
///     requests: VecDeque<RequestId>,
/// }
///
/// impl SchedulingPolicy for Eight {
///     fn enqueue(&mut self, request: RequestView<'_>) -> Result<(), Finish> {
///         self.requests.push_back(request.id);
///         Ok(())
///     }
///
///     fn left(&mut self, id: RequestId) {
///         self.requests.retain(|&other| other != id);
///     }
///
///     fn schedule(&mut self, _now: SimTime, step: &mut NextStep<'_>) {
///         for &id in self.requests.iter().take(8) {
///             step.compute(id, step.uncomputed(id));
///         }
///     }
///
///     fn kv_blocks(&self) -> KvBlocks {
///         KvBlocks::default()
///     }
/// }
///
/// let scheduler = Scheduler::custom(Eight::default());
/// assert_eq!(scheduler.steps_in_flight_max(), 1);
/// ```
pub trait SchedulingPolicy: fmt::Debug + Clone + Send + 'static {
    /// A request arrives.
    ///
    /// # Errors
    /// [`Finish::Rejected`] to refuse it.
    fn enqueue(&mut self, request: RequestView<'_>) -> Result<(), Finish>;

    /// A request has left: its last token is out, or its client has gone away.
    fn left(&mut self, id: RequestId);

    /// Decides the next step. Nothing is computed until something comes from outside, or until
    /// [`waits_until`](Self::waits_until), where it gives nobody a share.
    fn schedule(&mut self, now: SimTime, step: &mut NextStep<'_>);

    /// KV memory; all of it is free when no request is there and no step in flight.
    fn kv_blocks(&self) -> KvBlocks;

    /// The most tokens that a step computes, for routers that ask; no bound.
    fn token_budget(&self) -> u32 {
        u32::MAX
    }

    /// Steps that may be in flight at once; 1, so that each is decided when the outcome of the one before is known.
    fn steps_in_flight_max(&self) -> usize {
        1
    }

    /// When it wants to decide again although nothing came from outside; never.
    fn waits_until(&self) -> Option<SimTime> {
        None
    }

    /// The clock goes back to zero, with no requests: what it knows of times is of another run.
    fn rewind_clock(&mut self) {}
}

/// A request of a policy.
#[derive(Debug, Clone)]
struct Inside {
    life: Life,
    /// Tokens whose KV is computed, found in a cache, or scheduled to be computed.
    computed: u32,
    /// Tokens that steps in flight will bring.
    awaited: u32,
    is_admitted: bool,
    is_decoding: bool,
    /// The last decision in which it had a share.
    decision: u64,
}

impl Inside {
    /// The prompt, the tokens that came out, and those that steps in flight will bring.
    fn known(&self) -> u32 {
        self.life.prompt_tokens + self.life.generated + self.awaited
    }

    fn uncomputed(&self) -> u32 {
        self.known() - self.computed
    }
}

/// Who is there, found by the ids that a policy knows.
#[derive(Debug, Clone, Default)]
struct Requests {
    inside: FxHashMap<RequestId, Inside>,
    admitted: u32,
    decisions: u64,
}

impl Requests {
    fn remove(&mut self, id: RequestId) -> Option<Life> {
        let request = self.inside.remove(&id)?;
        self.admitted -= u32::from(request.is_admitted);
        Some(request.life)
    }
}

/// Does for a policy what is the same for all, and holds what none may know: when an answer ends.
#[derive(Debug, Clone)]
pub(super) struct Custom<P> {
    policy: P,
    requests: Requests,
    in_flight: u32,
}

impl<P> Custom<P> {
    pub(super) fn new(policy: P) -> Self {
        Self { policy, requests: Requests::default(), in_flight: 0 }
    }
}

impl<P: SchedulingPolicy> Schedule for Custom<P> {
    fn now(&mut self, _: SimTime) {}

    fn enqueue(
        &mut self,
        id: RequestId,
        request: &Request,
        handoff: Handoff,
    ) -> Result<(), Finish> {
        assert!(handoff == Handoff::None, "request {id}: this scheduler hands over no KV");
        assert!(request.adapter.is_none(), "request {id}: this scheduler holds no adapters");
        self.policy.enqueue(request.view(id))?;
        let inside = Inside {
            life: Life::new(id, request),
            computed: 0,
            awaited: 0,
            is_admitted: false,
            is_decoding: false,
            decision: 0,
        };
        self.requests.inside.insert(id, inside);
        Ok(())
    }

    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        if let Some(life) = self.requests.remove(id) {
            result.finished.push((life, Finish::Aborted));
            self.policy.left(id);
        }
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        plan.clear();
        self.requests.decisions += 1;
        self.policy.schedule(now, &mut NextStep::new(now, plan, &mut self.requests));
        self.in_flight += u32::from(!plan.is_empty());
    }

    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        self.in_flight -= 1;
        for entry in plan.entries.iter().filter(|entry| entry.samples) {
            let id = entry.request;
            let Some(request) = self.requests.inside.get_mut(&id) else { continue };
            request.awaited -= 1;
            let gap = request.life.emit(now);
            result.count_token(id, gap);
            if request.life.is_done()
                && let Some(life) = self.requests.remove(id)
            {
                result.finished.push((life, Finish::Done));
                self.policy.left(id);
            }
        }
    }

    fn reads_outcomes_first(&self) -> bool {
        false
    }

    fn waits_until(&self) -> Option<SimTime> {
        self.policy.waits_until()
    }

    fn rewind_clock(&mut self) {
        self.policy.rewind_clock();
    }

    fn load(&self) -> Load {
        let KvBlocks { total, free } = self.policy.kv_blocks();
        let running = self.requests.admitted;
        Load {
            waiting: self.requests.inside.len() as u32 - running,
            running,
            kv_blocks: total,
            kv_blocks_free: free,
            ..Load::default()
        }
    }

    fn backlog(&self) -> Option<Backlog> {
        None
    }

    fn token_budget(&self) -> u32 {
        self.policy.token_budget()
    }

    fn life(&self, id: RequestId) -> Option<Life> {
        self.requests.inside.get(&id).map(|request| request.life)
    }

    fn answers(&self, tell: &mut dyn FnMut(RequestId, u32)) {
        let lives = self.requests.inside.values().map(|request| request.life);
        let mut begun: Vec<Life> = lives.filter(|life| life.generated > 0).collect();
        begun.sort_unstable_by_key(|life| life.id);
        for life in begun {
            tell(life.id, life.generated);
        }
    }

    // In which order it admits, only the policy knows.
    fn head(&self) -> Option<RequestId> {
        None
    }

    fn displaces_in_vain(&self) -> bool {
        false
    }

    fn steps_in_flight_max(&self) -> usize {
        self.policy.steps_in_flight_max()
    }

    fn is_balanced(&self) -> bool {
        let KvBlocks { total, free } = self.policy.kv_blocks();
        let is_at_rest = self.requests.inside.is_empty() && self.in_flight == 0;
        free == total || free < total && !is_at_rest
    }

    no_abilities!();
}

/// A scheduler that is cloned with its replica; implemented for all that can be.
pub trait CustomSchedule: Schedule {
    /// A copy of it.
    fn boxed_clone(&self) -> Box<dyn CustomSchedule>;
}

impl<S: Schedule + Clone + 'static> CustomSchedule for S {
    fn boxed_clone(&self) -> Box<dyn CustomSchedule> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn CustomSchedule> {
    fn clone(&self) -> Self {
        // Not of the box, which is a `CustomSchedule` itself as soon as it can be cloned.
        self.as_ref().boxed_clone()
    }
}

#[cfg(test)]
mod tests;
