//! What SGLang's scheduler can do beside scheduling.

use super::Sglang;
use crate::engine::scheduler::{
    CachesPrefixes, HoldsAdapters, Quiet, QuietSteps, RunsQuiet, TransfersKv,
};
use crate::engine::{Adapters, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::kv::{CacheContent, CacheEvent};
use crate::request::{RequestView, Segment};
use crate::units::SimTime;

impl TransfersKv for Sglang {
    fn transferred(&mut self, id: RequestId, _result: &mut StepResult) {
        self.end_transfer(id);
    }

    fn sends(&self, id: RequestId) -> bool {
        self.handed.get(id).is_some_and(|slot| self.sequences[slot as usize].is_sending)
    }

    #[inline]
    fn has_landed(&self) -> bool {
        self.handoffs.has_landed()
    }

    fn land(&mut self, now: SimTime, result: &mut StepResult) {
        self.seat_landed(now, result);
    }

    fn lost_transfer(&mut self, id: RequestId) {
        unreachable!("request {id}: with memory set aside first, a lost transfer ends the attempt");
    }

    fn is_fetching(&self) -> bool {
        false
    }

    fn fetches(&self, _: RequestId) -> bool {
        false
    }

    fn reads_transfers_last(&self) -> bool {
        false
    }
}

impl RunsQuiet for Sglang {
    fn quiet(&mut self) -> Option<Quiet> {
        self.quiet_steps()
    }

    fn quiet_claims(&mut self, steps: usize, claims: &mut Vec<u32>) {
        self.group.claims_ahead(steps, claims);
    }

    fn run_quiet(&mut self, run: QuietSteps) {
        self.run_quiet_steps(run);
    }

    fn is_foreseen(&mut self, _: &StepPlan) -> bool {
        false
    }
}

impl HoldsAdapters for Sglang {
    fn held(&self) -> &Adapters {
        &self.loras
    }

    fn longest_waiting(&self) -> u32 {
        let tokens = |slot: &u32| {
            let life = &self.sequences[*slot as usize].life;
            life.prompt_tokens + life.generated
        };
        self.waiting.iter().map(tokens).max().unwrap_or(0)
    }
}

impl CachesPrefixes for Sglang {
    fn cached_tokens(&self, request: RequestView<'_>) -> u32 {
        if self.has_tree() { self.cache.cached_tokens(request) } else { 0 }
    }

    fn content(&self) -> CacheContent {
        if self.has_tree() { self.cache.content() } else { CacheContent::Nothing }
    }

    fn takes_without_loss(&self) -> u32 {
        0
    }

    fn lose(&mut self) {
        self.evict_until(self.pool);
    }

    fn tell_events(&mut self) -> bool {
        self.has_tree() && self.cache.tell_events()
    }

    fn tell_events_shown(&mut self) -> bool {
        self.tell_events()
    }

    fn take_events(&mut self) -> Vec<CacheEvent> {
        self.cache.take_events()
    }

    // What its tree gives up for a step depends on the pages that are free.
    fn foretell(&mut self, _: u32) -> bool {
        false
    }

    // An answer joins the tree when it is whole.
    fn show(&mut self, _: Option<&[Segment]>) {}
}
