//! Requests wait in front of an engine, in an order of one's own.
//!
//! Arrivals are held, and before each step an [`Admit`] policy says which of them the engine is given; what it is
//! given it queues, batches and preempts as it always does. A policy that gives it all changes nothing, but
//! for data-parallel ranks, among which an engine chooses when a request comes to it: a moment later here.
//! Requests that come with KV from elsewhere, or leave theirs to others, are not held: other replicas
//! wait for them.
//!
//! Left out: taking back what the engine was given.

use super::{
    Backlog, CachesPrefixes, Handoff, HoldsAdapters, Load, Migrates, Quiet, QuietSteps, RunsQuiet,
    Schedule, Scheduler, TransfersKv,
};
use crate::engine::{Adapters, Finish, Life, StepPlan, StepResult, Tiers};
use crate::ids::RequestId;
use crate::request::{Request, RequestView};
use crate::units::SimTime;

/// A request that waits in front of an engine.
#[derive(Debug, Clone)]
pub struct Held {
    id: RequestId,
    request: Request,
}

impl Held {
    /// What may be known of it.
    pub fn view(&self) -> RequestView<'_> {
        self.request.view(self.id)
    }
}

/// Says who goes in next.
pub trait Admit: std::fmt::Debug + Clone + Send {
    /// The place, among those that wait (in order of arrival), of the one that the engine is given now; asked again
    /// before the same step until it is `None`. `engine` is what the engine itself has. Where that is
    /// nothing, the first in line goes in if nobody is named.
    fn next(&mut self, waiting: &[Held], engine: &Load, now: SimTime) -> Option<usize>;
}

/// An engine with a policy in front of it.
#[derive(Debug, Clone)]
pub struct Doorkeeper<A> {
    policy: A,
    engine: Scheduler,
    held: Vec<Held>,
}

impl<A: Admit> Doorkeeper<A> {
    /// In front of an engine without requests.
    pub fn new(policy: A, engine: Scheduler) -> Self {
        Self { policy, engine, held: Vec::new() }
    }

    /// Lets in who may; those that the engine refuses.
    fn open(&mut self, now: SimTime) -> Vec<(Life, Finish)> {
        let mut refused = Vec::new();
        while !self.held.is_empty() {
            let load = self.engine.load();
            let is_empty = load.waiting + load.running == 0;
            let named = self.policy.next(&self.held, &load, now);
            let Some(place) = named.or(is_empty.then_some(0)) else { break };
            let Held { id, request } = self.held.remove(place);
            if let Err(finish) = self.engine.enqueue(id, &request, Handoff::None) {
                refused.push((Life::new(id, &request), finish));
            }
        }
        refused
    }
}

impl<A: Admit + 'static> From<Doorkeeper<A>> for Scheduler {
    fn from(doorkeeper: Doorkeeper<A>) -> Self {
        Self::Custom(Box::new(doorkeeper))
    }
}

impl<A: Admit + 'static> Schedule for Doorkeeper<A> {
    fn now(&mut self, now: SimTime) {
        self.engine.now(now);
    }

    fn enqueue(
        &mut self,
        id: RequestId,
        request: &Request,
        handoff: Handoff,
    ) -> Result<(), Finish> {
        if handoff != Handoff::None {
            return self.engine.enqueue(id, request, handoff);
        }
        self.held.push(Held { id, request: request.clone() });
        Ok(())
    }

    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        match self.held.iter().position(|held| held.id == id) {
            Some(place) => {
                let held = self.held.remove(place);
                result.finished.push((Life::new(id, &held.request), Finish::Aborted));
            }
            None => self.engine.abort(id, result),
        }
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        let refused = self.open(now);
        self.engine.schedule(now, plan);
        plan.ended.extend(refused);
    }

    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        self.engine.complete(now, plan, result);
    }

    fn reads_outcomes_first(&self) -> bool {
        self.engine.reads_outcomes_first()
    }

    fn waits_until(&self) -> Option<SimTime> {
        self.engine.waits_until()
    }

    fn rewind_clock(&mut self) {
        self.engine.rewind_clock();
    }

    fn load(&self) -> Load {
        let load = self.engine.load();
        Load { waiting: load.waiting + self.held.len() as u32, ..load }
    }

    fn backlog(&self) -> Option<Backlog> {
        let mut backlog = self.engine.backlog()?;
        self.held.iter().for_each(|held| backlog.add_waiting(held.request.prompt_tokens, 0, false));
        Some(backlog)
    }

    fn token_budget(&self) -> u32 {
        self.engine.token_budget()
    }

    fn life(&self, id: RequestId) -> Option<Life> {
        let held = self.held.iter().find(|held| held.id == id);
        held.map(|held| Life::new(id, &held.request)).or_else(|| self.engine.life(id))
    }

    fn answers(&self, tell: &mut dyn FnMut(RequestId, u32)) {
        self.engine.answers(tell);
    }

    fn head(&self) -> Option<RequestId> {
        self.engine.head()
    }

    fn displaces_in_vain(&self) -> bool {
        self.engine.displaces_in_vain()
    }

    fn steps_in_flight_max(&self) -> usize {
        self.engine.steps_in_flight_max()
    }

    fn is_balanced(&self) -> bool {
        self.engine.is_balanced()
    }

    fn kv_transfers(&mut self) -> Option<&mut dyn TransfersKv> {
        self.engine.kv_transfers()
    }

    fn quiet_runs(&mut self) -> Option<&mut dyn RunsQuiet> {
        if self.engine.quiet_runs().is_some() { Some(self) } else { None }
    }

    fn adapters(&self) -> Option<&dyn HoldsAdapters> {
        if self.engine.adapters().is_some() { Some(self) } else { None }
    }

    // Another engine had let them in.
    fn migration(&mut self) -> Option<&mut dyn Migrates> {
        self.engine.migration()
    }

    fn prefix_cache(&self) -> Option<&dyn CachesPrefixes> {
        self.engine.prefix_cache()
    }

    fn prefix_cache_mut(&mut self) -> Option<&mut dyn CachesPrefixes> {
        self.engine.prefix_cache_mut()
    }

    fn tiers(&mut self) -> Option<&mut Tiers> {
        self.engine.tiers()
    }
}

impl<A> Doorkeeper<A> {
    fn runs(&mut self) -> &mut dyn RunsQuiet {
        self.engine.quiet_runs().expect("the engine tells quiet steps")
    }

    fn slots(&self) -> &dyn HoldsAdapters {
        self.engine.adapters().expect("the engine has adapters")
    }
}

impl<A> RunsQuiet for Doorkeeper<A> {
    fn quiet(&mut self) -> Option<Quiet> {
        // Somebody may be let in before any step.
        if self.held.is_empty() { self.runs().quiet() } else { None }
    }

    fn quiet_claims(&mut self, steps: usize, claims: &mut Vec<u32>) {
        self.runs().quiet_claims(steps, claims);
    }

    fn is_foreseen(&mut self, plan: &StepPlan) -> bool {
        self.held.is_empty() && self.runs().is_foreseen(plan)
    }

    fn run_quiet(&mut self, run: QuietSteps) {
        self.runs().run_quiet(run);
    }
}

impl<A> HoldsAdapters for Doorkeeper<A> {
    fn held(&self) -> &Adapters {
        self.slots().held()
    }

    fn longest_waiting(&self) -> u32 {
        let held = self.held.iter().map(|held| held.request.prompt_tokens).max();
        self.slots().longest_waiting().max(held.unwrap_or(0))
    }
}
