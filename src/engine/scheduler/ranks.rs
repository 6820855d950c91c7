//! Data-parallel ranks of one engine: a scheduler and a KV memory each, in lock step.
//!
//! All ranks decide their part of a step at the same moments, and a step ends for all at once; a rank that
//! has nothing to compute goes along (vLLM 0.33.0, `vllm/v1/engine/core.py`, `DPEngineCoreProc`: steps of
//! ranks are tied together by collectives, and idle ranks execute dummy batches). The front end
//! gives every request to one rank, where it stays ([`Dispatch`]). Left out: empty steps in which ranks
//! go on, 31 at most, after the last request of all has left.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::{
    Backlog, CachesPrefixes, Dispatch, Handoff, HoldsAdapters, Load, Migrates, RunsQuiet, Schedule,
    Scheduler, TransfersKv,
};
use crate::cost::{RankStep, StepShape};
use crate::engine::{Finish, Life, StepPlan, StepResult, Tiers};
use crate::ids::RequestId;
use crate::kv::{CacheContent, CacheEvent};
use crate::request::{Request, RequestView, Segment};
use crate::units::SimTime;

/// The ranks of an engine.
#[derive(Debug, Clone)]
pub struct Ranks {
    schedulers: Vec<Scheduler>,
    dispatch: Dispatch,
    /// Where the requests are that have not left.
    homes: FxHashMap<RequestId, u32>,
    /// What each rank does in the steps in flight, oldest first.
    in_flight: VecDeque<Vec<StepPlan>>,
    /// Plans of steps that ended, to be used again.
    spare: Vec<Vec<StepPlan>>,
}

impl Ranks {
    /// Idle ranks.
    ///
    /// # Panics
    /// When there are none.
    pub fn new(ranks: Vec<Scheduler>, dispatch: Dispatch) -> Self {
        assert!(!ranks.is_empty(), "an engine has a rank");
        Self {
            schedulers: ranks,
            dispatch,
            homes: FxHashMap::default(),
            in_flight: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// What its ranks have.
    pub fn loads(&self) -> impl Iterator<Item = Load> {
        self.schedulers.iter().map(|rank| rank.load())
    }

    fn first(&self) -> &Scheduler {
        &self.schedulers[0]
    }

    fn home(&self, id: RequestId) -> Option<&Scheduler> {
        self.homes.get(&id).map(|rank| &self.schedulers[*rank as usize])
    }

    fn forget(&mut self, left: &[(Life, Finish)]) {
        for (life, _) in left {
            if let Some(rank) = self.homes.remove(&life.id) {
                self.dispatch.left(rank as usize);
            }
        }
    }
}

/// Adds what a rank decided to the step of all.
fn join(plan: &mut StepPlan, of_rank: &mut StepPlan) {
    plan.entries.extend_from_slice(&of_rank.entries);
    plan.decodes += of_rank.decodes;
    plan.decode_entries.extend_from_slice(&of_rank.decode_entries);
    plan.shape.join(&of_rank.shape);
    plan.preempted.extend_from_slice(&of_rank.preempted);
    plan.hits.extend_from_slice(&of_rank.hits);
    plan.ended.append(&mut of_rank.ended);
    let new_requests = of_rank.hits.len() as u32;
    plan.ranks.push(RankStep { shape: of_rank.shape, new_requests, ..RankStep::default() });
}

impl Schedule for Ranks {
    fn now(&mut self, now: SimTime) {
        self.dispatch.look(now, self.schedulers.iter().map(|rank| rank.load()));
    }

    fn enqueue(
        &mut self,
        id: RequestId,
        request: &Request,
        handoff: Handoff,
    ) -> Result<(), Finish> {
        let rank = self.dispatch.choose();
        // An engine refuses before it gives a request to a rank.
        self.schedulers[rank].enqueue(id, request, handoff)?;
        self.dispatch.sent(rank, self.schedulers.len());
        self.homes.insert(id, rank as u32);
        Ok(())
    }

    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        let Some(&rank) = self.homes.get(&id) else { return };
        let left_before = result.finished.len();
        self.schedulers[rank as usize].abort(id, result);
        self.forget(&result.finished[left_before..]);
    }

    fn reads_outcomes_first(&self) -> bool {
        self.first().reads_outcomes_first()
    }

    fn rewind_clock(&mut self) {
        for rank in &mut self.schedulers {
            rank.rewind_clock();
        }
        self.dispatch.rewind_clock();
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        self.now(now);
        plan.clear();
        let mut parts = self.spare.pop().unwrap_or_default();
        parts.resize_with(self.schedulers.len(), StepPlan::default);
        for (rank, part) in self.schedulers.iter_mut().zip(&mut parts) {
            part.shape = StepShape::seeing(plan.shape.prefill_window);
            rank.schedule(now, part);
            join(plan, part);
        }
        self.forget(&plan.ended);
        if plan.is_empty() {
            self.spare.push(parts);
        } else {
            self.in_flight.push_back(parts);
        }
    }

    fn complete(&mut self, now: SimTime, _: &StepPlan, result: &mut StepResult) {
        self.now(now);
        let parts = self.in_flight.pop_front().expect("a step is in flight");
        let left_before = result.finished.len();
        for (rank, part) in self.schedulers.iter_mut().zip(&parts) {
            if !part.is_empty() {
                rank.complete(now, part, result);
            }
        }
        self.forget(&result.finished[left_before..]);
        self.spare.push(parts);
    }

    fn waits_until(&self) -> Option<SimTime> {
        self.schedulers.iter().filter_map(|rank| rank.waits_until()).min()
    }

    fn load(&self) -> Load {
        self.loads().fold(Load::default(), |sum, load| Load {
            waiting: sum.waiting + load.waiting,
            running: sum.running + load.running,
            kv_blocks: sum.kv_blocks + load.kv_blocks,
            kv_blocks_free: sum.kv_blocks_free + load.kv_blocks_free,
            kv_blocks_lingering: sum.kv_blocks_lingering + load.kv_blocks_lingering,
        })
    }

    fn backlog(&self) -> Option<Backlog> {
        let mut ranks = self.schedulers.iter().map(|rank| rank.backlog());
        ranks.try_fold(Backlog::default(), |sum, rank| Some(sum.with(rank?)))
    }

    fn token_budget(&self) -> u32 {
        self.first().token_budget().saturating_mul(self.schedulers.len() as u32)
    }

    fn life(&self, id: RequestId) -> Option<Life> {
        self.home(id)?.life(id)
    }

    fn answers(&self, tell: &mut dyn FnMut(RequestId, u32)) {
        self.schedulers.iter().for_each(|rank| rank.answers(tell));
    }

    fn head(&self) -> Option<RequestId> {
        None
    }

    fn displaces_in_vain(&self) -> bool {
        let is_stuck = |rank: &Scheduler| rank.displaces_in_vain();
        let is_empty = |rank: &Scheduler| rank.load().waiting + rank.load().running == 0;
        self.schedulers.iter().any(is_stuck)
            && self.schedulers.iter().all(|rank| is_stuck(rank) || is_empty(rank))
    }

    fn steps_in_flight_max(&self) -> usize {
        self.first().steps_in_flight_max()
    }

    fn is_balanced(&self) -> bool {
        self.schedulers.iter().all(|rank| rank.is_balanced())
    }

    fn kv_transfers(&mut self) -> Option<&mut dyn TransfersKv> {
        None
    }

    fn quiet_runs(&mut self) -> Option<&mut dyn RunsQuiet> {
        None
    }

    fn adapters(&self) -> Option<&dyn HoldsAdapters> {
        None
    }

    fn migration(&mut self) -> Option<&mut dyn Migrates> {
        None
    }

    fn prefix_cache(&self) -> Option<&dyn CachesPrefixes> {
        self.first().prefix_cache().is_some().then_some(self)
    }

    fn prefix_cache_mut(&mut self) -> Option<&mut dyn CachesPrefixes> {
        if self.prefix_cache().is_some() { Some(self) } else { None }
    }

    fn tiers(&mut self) -> Option<&mut Tiers> {
        None
    }
}

/// Each rank has a cache of its own. Which of them a request will find is not known before it is here, so that
/// nothing is told of any.
impl CachesPrefixes for Ranks {
    fn cached_tokens(&self, _: RequestView<'_>) -> u32 {
        0
    }

    fn content(&self) -> CacheContent {
        CacheContent::Nothing
    }

    fn show(&mut self, quoted: Option<&[Segment]>) {
        for cache in self.schedulers.iter_mut().filter_map(|rank| rank.prefix_cache_mut()) {
            cache.show(quoted);
        }
    }

    fn takes_without_loss(&self) -> u32 {
        0
    }

    fn lose(&mut self) {
        for cache in self.schedulers.iter_mut().filter_map(|rank| rank.prefix_cache_mut()) {
            cache.lose();
        }
    }

    fn tell_events(&mut self) -> bool {
        false
    }

    fn tell_events_shown(&mut self) -> bool {
        false
    }

    fn take_events(&mut self) -> Vec<CacheEvent> {
        Vec::new()
    }

    fn foretell(&mut self, _: u32) -> bool {
        false
    }
}
