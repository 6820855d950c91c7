//! What vLLM's scheduler can do beside scheduling.

use super::{Sequence, Status, VllmV1};
use crate::engine::scheduler::{
    CachesPrefixes, Handoff, HoldsAdapters, Migrates, Quiet, QuietSteps, RunsQuiet, TransfersKv,
};
use crate::engine::{Adapters, Life, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::kv::{CacheContent, CacheEvent, Lookahead};
use crate::request::{Request, RequestView, Segment};
use crate::scenario::Policy;
use crate::units::SimTime;

impl TransfersKv for VllmV1 {
    fn transferred(&mut self, id: RequestId, _result: &mut StepResult) {
        let Some(slot) = self.handed_over(id) else { return };
        self.livelock.end();
        let s = &mut self.sequences[slot as usize];
        match s.status {
            Status::Loading if !s.has_landed => {
                s.has_landed = true;
                self.unlanded -= 1;
            }
            Status::Sending => self.give_back(slot),
            _ => {}
        }
    }

    fn lost_transfer(&mut self, id: RequestId) {
        let Some(slot) = self.handed_over(id) else { return };
        self.livelock.end();
        self.load_nothing(slot);
    }

    fn sends(&self, id: RequestId) -> bool {
        self.handed_over(id)
            .is_some_and(|slot| self.sequences[slot as usize].handoff == Handoff::DecodedElsewhere)
    }

    fn reads_transfers_last(&self) -> bool {
        self.connector.is_there()
    }

    // Steps go on while KV is fetched; who has it is admitted by one of them.
    fn is_fetching(&self) -> bool {
        false
    }

    fn fetches(&self, _: RequestId) -> bool {
        false
    }

    fn has_landed(&self) -> bool {
        false
    }

    fn land(&mut self, _: SimTime, _: &mut StepResult) {}
}

impl RunsQuiet for VllmV1 {
    fn quiet(&mut self) -> Option<Quiet> {
        self.quiet_steps()
    }

    fn quiet_claims(&mut self, steps: usize, claims: &mut Vec<u32>) {
        self.group.claims_ahead(steps, claims);
    }

    fn is_foreseen(&mut self, plan: &StepPlan) -> bool {
        self.brings_first_tokens(plan)
    }

    fn run_quiet(&mut self, run: QuietSteps) {
        self.run_quiet_steps(run);
        self.livelock.end();
    }
}

impl HoldsAdapters for VllmV1 {
    fn held(&self) -> &Adapters {
        &self.adapters
    }

    fn longest_waiting(&self) -> u32 {
        let waits = |it: &&Sequence| matches!(it.status, Status::Waiting | Status::Preempted);
        self.sequences.iter().filter(waits).map(|it| it.tokens).max().unwrap_or(0)
    }
}

impl Migrates for VllmV1 {
    fn adopt(&mut self, life: Life, request: &Request) {
        let (block_size, naming) = (self.settings.block_size, self.naming);
        let mut sequence = Sequence::new(life.id, request, Handoff::None, block_size, naming);
        sequence.life = life;
        sequence.tokens = life.prompt_tokens + life.generated;
        if life.generated > 0 {
            sequence.status = Status::Preempted;
        }
        let key = sequence.key();
        let slot = self.insert(sequence);
        self.name_chunks(slot, request);
        self.livelock.end();
        self.lacks_memory &= self.settings.policy == Policy::Fcfs;
        self.waiting.push_back(slot, key);
    }
}

impl CachesPrefixes for VllmV1 {
    fn cached_tokens(&self, request: RequestView<'_>) -> u32 {
        if !self.settings.enable_prefix_caching {
            return 0;
        }
        self.pool.cached_tokens(self.settings.block_size, self.naming, request)
    }

    fn content(&self) -> CacheContent {
        if !self.settings.enable_prefix_caching {
            return CacheContent::Nothing;
        }
        let (block_size, naming) = (self.settings.block_size, self.naming);
        CacheContent::Blocks { pool: Box::new(self.pool.clone()), block_size, naming }
    }

    fn show(&mut self, quoted: Option<&[Segment]>) {
        self.show_members(quoted);
    }

    fn takes_without_loss(&self) -> u32 {
        self.pool.takes_without_loss()
    }

    fn lose(&mut self) {
        self.livelock.end();
        self.lacks_memory = false;
        self.pool.forget_cached();
    }

    // What requests that decode in lock step leave in the cache is named when they leave: it would be told too late.
    fn tell_events(&mut self) -> bool {
        let can = self.group.is_empty() && self.tell_events_shown();
        self.groups &= !can;
        can
    }

    fn tell_events_shown(&mut self) -> bool {
        self.settings.enable_prefix_caching
            && self.naming == Lookahead::None
            && self.pool.tell_events(self.settings.block_size)
    }

    fn take_events(&mut self) -> Vec<CacheEvent> {
        self.pool.take_events()
    }

    fn foretell(&mut self, blocks: u32) -> bool {
        self.pool.foretell(blocks);
        true
    }
}
