//! KV transfers that end, and requests whose KV has come.

use super::{EngineEvent, Instance};
use crate::engine::Tiers;
use crate::ids::RequestId;
use crate::units::SimTime;

impl Instance {
    /// A KV transfer of a request has ended. During a step this waits for the step's end.
    pub fn transferred(&mut self, id: RequestId) {
        self.transfers.push(id);
    }

    /// Takes in the transfers that have ended.
    pub(super) fn end_transfers(&mut self, tell: &mut impl FnMut(&Self, EngineEvent<'_>)) {
        if self.transfers.is_empty() {
            return;
        }
        self.result.clear();
        // vLLM reads those that came before those that were fetched, and keeps either in a set: there
        // the order of ids is as good as any.
        if self.transfers.len() > 1 {
            let scheduler = &self.scheduler;
            self.transfers.sort_by_cached_key(|&id| (scheduler.sends(id), id));
        }
        for id in self.transfers.drain(..) {
            self.scheduler.transferred(id, &mut self.result);
        }
        if !self.result.finished.is_empty() {
            tell(self, EngineEvent::Left(&self.result));
        }
    }

    /// KV memory below that of its GPUs, if it has some.
    pub fn tiers(&mut self) -> Option<&mut Tiers> {
        self.scheduler.tiers()
    }

    /// Has requests decode whose KV has come.
    pub(super) fn land(&mut self, now: SimTime, tell: &mut impl FnMut(&Self, EngineEvent<'_>)) {
        self.result.clear();
        self.scheduler.land(now, &mut self.result);
        if !self.result.landed.is_empty() {
            tell(self, EngineEvent::Landed(&self.result));
        }
    }
}
