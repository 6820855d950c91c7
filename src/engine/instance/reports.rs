//! What a replica reports of itself at a moment between the last call and the next that it asked for.

use super::Instance;
use crate::engine::scheduler::{Backlog, Load};
use crate::units::SimTime;

impl Instance {
    /// Queues and memory at `now`, a moment between the last call and the next that it asked for.
    /// Of a run of steps, those that began before have taken their memory.
    pub fn load_at(&self, now: SimTime) -> Load {
        let mut load = self.scheduler.load();
        let begun = self.run.iter().take_while(|step| step.boundary < now);
        load.kv_blocks_free -= begun.map(|step| step.claims).sum::<u32>();
        load
    }

    /// What it has to do at such a moment, if its scheduler tells. Of a run of steps, those that began before have each
    /// given every sequence a token.
    pub fn backlog_at(&self, now: SimTime) -> Option<Backlog> {
        let mut backlog = self.scheduler.backlog()?;
        let begun = self.run.iter().take_while(|step| step.boundary < now).count() as u64;
        backlog.decode_tokens += begun * u64::from(backlog.decode_seqs);
        Some(backlog)
    }

    /// The prompts that the oldest step in flight computes at such a moment, and their tokens in it.
    pub fn prefilling_at(&self, now: SimTime) -> (u32, u32) {
        let decodes_only = self.run.first().is_some_and(|step| step.boundary < now);
        let step = self.in_flight.front().filter(|_| !decodes_only);
        step.map_or((0, 0), |batch| {
            (batch.plan.shape.prefill_seqs, batch.plan.shape.prefill_tokens)
        })
    }
}
