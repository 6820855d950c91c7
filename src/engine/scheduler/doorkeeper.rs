//! Requests wait in front of an engine, in an order of one's own.
//!
//! Arrivals are held, and before each step an [`Admit`] policy says which of them the engine is given; what it is
//! given it queues, batches and preempts as it always does. A policy that gives it all changes nothing, but
//! for data-parallel ranks, among which an engine chooses when a request comes to it: a moment later here.
//! Requests that come with KV from elsewhere, or leave theirs to others, are not held: other replicas
//! wait for them.
//!
//! Left out: taking back what the engine was given.

use super::{Handoff, Load, Quiet, QuietSteps, Schedule, Scheduler};
use crate::engine::{Adapters, Finish, Life, StepPlan, StepResult, Tiers};
use crate::ids::RequestId;
use crate::kv::CacheContent;
use crate::request::{Request, RequestView, Segment};
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

// Whatever an engine can, it can behind a door too: what is added to the trait is to be passed on here.
#[deny(clippy::missing_trait_methods)]
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

    fn adopt(&mut self, life: Life, request: &Request) {
        // Another engine had let it in.
        self.engine.adopt(life, request);
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

    fn reads_outcomes_first(&self) -> bool {
        self.engine.reads_outcomes_first()
    }

    fn transferred(&mut self, id: RequestId, result: &mut StepResult) {
        self.engine.transferred(id, result);
    }

    fn sends(&self, id: RequestId) -> bool {
        self.engine.sends(id)
    }

    fn is_fetching(&self) -> bool {
        self.engine.is_fetching()
    }

    fn fetches(&self, id: RequestId) -> bool {
        self.engine.fetches(id)
    }

    fn reads_transfers_last(&self) -> bool {
        self.engine.reads_transfers_last()
    }

    fn lost_transfer(&mut self, id: RequestId) {
        self.engine.lost_transfer(id);
    }

    fn lose_cache(&mut self) {
        self.engine.lose_cache();
    }

    fn rewind_clock(&mut self) {
        self.engine.rewind_clock();
    }

    fn has_landed(&self) -> bool {
        self.engine.has_landed()
    }

    fn land(&mut self, now: SimTime, result: &mut StepResult) {
        self.engine.land(now, result);
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        let refused = self.open(now);
        self.engine.schedule(now, plan);
        plan.ended.extend(refused);
    }

    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        self.engine.complete(now, plan, result);
    }

    fn quiet(&mut self) -> Option<Quiet> {
        // Somebody may be let in before any step.
        if self.held.is_empty() { self.engine.quiet() } else { None }
    }

    fn quiet_claims(&self, steps: usize, claims: &mut Vec<u32>) {
        self.engine.quiet_claims(steps, claims);
    }

    fn is_foreseen(&self, plan: &StepPlan) -> bool {
        self.held.is_empty() && self.engine.is_foreseen(plan)
    }

    fn run_quiet(&mut self, run: QuietSteps) {
        self.engine.run_quiet(run);
    }

    fn waits_until(&self) -> Option<SimTime> {
        self.engine.waits_until()
    }

    fn tiers(&mut self) -> Option<&mut Tiers> {
        self.engine.tiers()
    }

    fn load(&self) -> Load {
        let load = self.engine.load();
        Load { waiting: load.waiting + self.held.len() as u32, ..load }
    }

    fn adapters(&self) -> Option<&Adapters> {
        self.engine.adapters()
    }

    fn longest_waiting(&self) -> u32 {
        let held = self.held.iter().map(|held| held.request.prompt_tokens).max();
        self.engine.longest_waiting().max(held.unwrap_or(0))
    }

    fn token_budget(&self) -> u32 {
        self.engine.token_budget()
    }

    fn show_cache(&mut self, quoted: Option<&[Segment]>) {
        self.engine.show_cache(quoted);
    }

    fn cached_tokens(&self, request: RequestView<'_>) -> u32 {
        self.engine.cached_tokens(request)
    }

    fn cache(&self) -> CacheContent {
        self.engine.cache()
    }

    fn life(&self, id: RequestId) -> Option<Life> {
        let held = self.held.iter().find(|held| held.id == id);
        held.map(|held| Life::new(id, &held.request)).or_else(|| self.engine.life(id))
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
}
