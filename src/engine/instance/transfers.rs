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
    #[inline]
    pub(super) fn end_transfers(&mut self, tell: &mut impl FnMut(&Self, EngineEvent<'_>)) {
        if self.transfers.is_empty() {
            return;
        }
        self.result.clear();
        let kv =
            self.scheduler.kv_transfers().expect("KV is transferred for who takes part in that");
        // vLLM reads those that came before those that were fetched, and keeps either in a set: there
        // the order of ids is as good as any.
        if self.transfers.len() > 1 {
            self.transfers.sort_by_cached_key(|&id| (kv.sends(id), id));
        }
        for id in self.transfers.drain(..) {
            kv.transferred(id, &mut self.result);
        }
        if !self.result.finished.is_empty() {
            self.forget_streams();
            tell(self, EngineEvent::Left(&self.result));
        }
    }

    /// KV memory below that of its GPUs, if it has some.
    pub fn tiers(&mut self) -> Option<&mut Tiers> {
        self.scheduler.tiers()
    }

    /// Whether its steps wait for the KV of a request that is being fetched.
    pub fn fetches(&mut self, id: RequestId) -> bool {
        self.scheduler.kv_transfers().is_some_and(|kv| kv.fetches(id))
    }

    /// Whether transfers have ended that are learned of with the outcome of a step in flight.
    pub(super) fn holds_transfers_back(&mut self) -> bool {
        !self.transfers.is_empty()
            && self.scheduler.kv_transfers().is_some_and(|kv| kv.reads_transfers_last())
    }

    /// Whether the KV of requests has come that do not decode yet.
    pub(super) fn has_landed(&mut self) -> bool {
        self.scheduler.kv_transfers().is_some_and(|kv| kv.has_landed())
    }

    /// Has requests decode whose KV has come.
    pub(super) fn land(&mut self, now: SimTime, tell: &mut impl FnMut(&Self, EngineEvent<'_>)) {
        self.result.clear();
        if let Some(kv) = self.scheduler.kv_transfers() {
            kv.land(now, &mut self.result);
        }
        if !self.result.landed.is_empty() {
            self.send_outputs(now, 0);
            tell(self, EngineEvent::Landed(&self.result));
        }
    }
}
