//! Requests that lost their memory and have not caught up yet.
//!
//! A preemption lasts from the decision that takes a request's memory to its next token out of a
//! step decided after it was admitted again: it waits, and then computes what it had computed
//! before. A token that was on its way when the memory was lost does not end it, a further loss
//! does not begin it anew.

use rustc_hash::FxHashMap;

use crate::engine::Batch;
use crate::ids::{InstanceId, RequestId};
use crate::units::{SimDuration, SimTime};

/// A request that has not caught up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// When it lost its memory.
    pub since: SimTime,
    /// The time for which decodes of its instance had been stalled by then.
    pub stalled: SimDuration,
    /// The step that admitted it again, and whose that is: a request that moved may still be in a step of the
    /// instance that it left.
    resumed_in: Option<(InstanceId, u64)>,
}

/// The requests of a run that have not caught up. Costs nothing while there are none.
#[derive(Debug, Clone, Default)]
pub struct Preemptions {
    lost: FxHashMap<RequestId, Lost>,
    resumed: usize,
}

impl Preemptions {
    /// Requests lose their memory, where decodes have been stalled for `stalled` so far.
    #[inline]
    pub fn lose(&mut self, at: SimTime, ids: &[RequestId], stalled: SimDuration) {
        for id in ids {
            let lost = Lost { since: at, stalled, resumed_in: None };
            let entry = self.lost.entry(*id).or_insert(lost);
            self.resumed -= usize::from(entry.resumed_in.take().is_some());
        }
    }

    /// A step of an instance is decided: requests lose their memory, others are admitted again.
    #[inline]
    pub fn plan(&mut self, at: SimTime, instance: InstanceId, batch: &Batch, stalled: SimDuration) {
        self.lose(at, &batch.plan.preempted, stalled);
        if self.lost.len() > self.resumed {
            for (id, _) in &batch.plan.hits {
                if let Some(lost) = self.lost.get_mut(id) {
                    self.resumed +=
                        usize::from(lost.resumed_in.replace((instance, batch.step)).is_none());
                }
            }
        }
    }

    /// A step of an instance ends; those whose tokens came out have caught up.
    pub fn complete(
        &mut self,
        instance: InstanceId,
        batch: &Batch,
        mut caught_up: impl FnMut(RequestId, Lost),
    ) {
        if self.resumed == 0 {
            return;
        }
        for entry in batch.plan.entries.iter().filter(|entry| entry.samples) {
            if self.is_resumed(entry.request, instance, batch.step)
                && let Some(lost) = self.take(entry.request)
            {
                caught_up(entry.request, lost);
            }
        }
    }

    /// A request that has not caught up.
    pub fn get(&self, id: RequestId) -> Option<&Lost> {
        self.lost.get(&id)
    }

    /// Whether such a request is in memory of an instance again since this step or an earlier one.
    pub fn is_resumed(&self, id: RequestId, instance: InstanceId, step: u64) -> bool {
        let resumed = self.get(id).and_then(|lost| lost.resumed_in);
        resumed.is_some_and(|(of, since)| of == instance && since <= step)
    }

    /// Forgets a request, because it leaves.
    #[inline]
    pub fn take(&mut self, id: RequestId) -> Option<Lost> {
        if self.lost.is_empty() {
            return None;
        }
        let lost = self.lost.remove(&id)?;
        self.resumed -= usize::from(lost.resumed_in.is_some());
        Some(lost)
    }

    /// A loss is counted in two parts: the part up to now is returned, the rest begins.
    #[inline]
    pub fn split(&mut self, id: RequestId, at: SimTime, stalled: SimDuration) -> Option<Lost> {
        let lost = self.lost.get_mut(&id)?;
        let before = *lost;
        (lost.since, lost.stalled) = (at, stalled);
        Some(before)
    }
}
