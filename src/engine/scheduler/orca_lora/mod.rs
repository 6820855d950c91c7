//! Orca with LoRA adapters: each step, a rule says whose requests are computed together, and whether
//! their adapter is merged into the weights.
//!
//! Batches change at every step, as in dLoRA's engine (dLoRA-artifact 72ba0ba,
//! `vllm/core/scheduler.py`, a fork of an early vLLM): the rule chooses among all that are there, in order
//! of arrival, and whole prompts are computed in the same step in which others decode. A request that is
//! admitted and not chosen keeps its KV memory and waits. Memory for the longest that a request may
//! become is reserved when it is admitted; the first chosen one that does not fit holds back those
//! behind it that are not admitted yet. Where none of the chosen fits, those that wait with memory lose
//! theirs, last admitted first, and compute it anew.
//!
//! An adapter that a step needs and that lies in no slot takes that of the adapter with the fewest
//! requests. To go from one merged adapter to another is to take one out and to merge the other.
//!
//! Left out of dLoRA: its paged memory, which swaps to the host where it runs short; its budget of
//! tokens for a step; slots that are given up in order of number when an adapter is merged.

mod dlora;
mod merged_only;
mod present;
mod slora;
mod unmerged;

use dlora::DloraCredit;
use present::{Present, Room};

use super::baseline::{Queues, schedule_by_queues};
use super::{Handoff, Load, OrcaSettings, Schedule};
use crate::engine::{Adapters, Execution, Finish, Life, StepPlan, StepResult};
use crate::ids::{AdapterId, RequestId};
use crate::request::Request;
use crate::scenario::{AdapterBatchingConfig, Reservation, SloraClustersConfig};
use crate::units::SimTime;

/// What a rule takes steps of a full batch to last, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepSeconds {
    /// With one adapter, merged.
    pub merged: f64,
    /// With many, apart from the weights.
    pub unmerged: f64,
}

/// The rules of the project.
#[derive(Debug, Clone)]
enum Batching {
    Unmerged,
    MergedOnly,
    DloraCredit(Box<DloraCredit>),
    SloraClusters(SloraClustersConfig),
}

/// Orca's scheduler with adapters.
#[derive(Debug, Clone)]
pub struct OrcaLora {
    queues: Queues,
    reservation: Reservation,
    room: Room,
    present: Present,
    batching: Batching,
    adapters: Adapters,
    /// What is in the weights.
    merged: Option<AdapterId>,
    /// Who the rule chose for the step.
    chosen: Vec<u32>,
}

impl OrcaLora {
    /// An engine without requests, with so many adapters.
    ///
    /// # Panics
    /// When memory does not hold the longest sequence.
    pub fn new(
        settings: OrcaSettings,
        batching: &AdapterBatchingConfig,
        (adapters, count): (Adapters, usize),
        steps: StepSeconds,
    ) -> Self {
        let queues = Queues::new(settings.memory);
        assert!(queues.holds_longest(0), "the longest sequence fits");
        let requests = settings.max_batch_size as usize;
        let slots = settings.max_loras.map_or(usize::MAX, |slots| slots as usize);
        Self {
            queues,
            reservation: settings.reservation,
            room: Room { requests, adapters: slots },
            present: Present::new(count),
            batching: match batching {
                AdapterBatchingConfig::Unmerged {} => Batching::Unmerged,
                AdapterBatchingConfig::MergedOnly(_) => Batching::MergedOnly,
                AdapterBatchingConfig::DloraCredit(dlora) => Batching::DloraCredit(Box::new(
                    DloraCredit::new(dlora, (count, requests), steps),
                )),
                AdapterBatchingConfig::SloraClusters(config) => Batching::SloraClusters(*config),
            },
            adapters,
            merged: None,
            chosen: Vec::new(),
        }
    }

    fn choose(&mut self) -> Execution {
        self.chosen.clear();
        let (present, room, chosen) = (&self.present, self.room, &mut self.chosen);
        match &mut self.batching {
            Batching::Unmerged => unmerged::choose(present, room, chosen),
            Batching::MergedOnly => merged_only::choose(present, room, chosen),
            Batching::DloraCredit(dlora) => dlora.choose(present, room, chosen),
            Batching::SloraClusters(config) => {
                let queues = &self.queues;
                let runs = |slot| !queues.get(slot).is_waiting();
                slora::choose(present, room, *config, runs, chosen)
            }
        }
    }

    /// Computes all that is left of those chosen, as memory lasts.
    fn serve(&mut self, now: SimTime, plan: &mut StepPlan) {
        let mut is_held_back = false;
        for &slot in &self.chosen {
            if self.queues.get(slot).is_waiting() {
                let tokens = self.queues.reserved(slot, self.reservation);
                is_held_back = is_held_back || !self.queues.admit_early(slot, tokens);
                if is_held_back {
                    continue;
                }
            }
            let tokens = self.queues.get(slot).uncomputed();
            self.queues.serve(slot, tokens, now, plan);
        }
    }

    /// Brings the adapters of the step to where it needs them.
    fn execute(&mut self, execution: Execution, plan: &mut StepPlan) {
        let (present, adapters) = (&self.present, &mut self.adapters);
        let merged = execution.merged();
        let before = std::mem::replace(&mut self.merged, merged);
        plan.execution = execution;
        if before != merged {
            plan.merges = u32::from(before.is_some()) + u32::from(merged.is_some());
        }
        let mut needed: Vec<AdapterId> = merged.into_iter().collect();
        if execution == Execution::Unmerged {
            let share = |entry: &crate::engine::Entry| (present.adapter(entry.slot), entry.tokens);
            adapters.add_batch(plan.entries.iter().map(share), &mut plan.shape);
            needed.extend(plan.entries.iter().filter_map(|entry| present.adapter(entry.slot)));
            needed.sort_unstable();
            needed.dedup();
        }
        let requests = |adapter| present.requests_of(adapter);
        adapters.bring(&needed, requests, &mut plan.adapter_loads);
    }
}

impl Schedule for OrcaLora {
    fn enqueue(
        &mut self,
        id: RequestId,
        request: &Request,
        handoff: Handoff,
    ) -> Result<(), Finish> {
        assert!(handoff == Handoff::None, "request {id}: this scheduler hands over no KV");
        self.queues.enqueue(id, request, handoff)?;
        let slot = self.queues.last().expect("the request waits");
        self.present.insert(slot, request.adapter);
        Ok(())
    }

    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        if let Some(slot) = self.queues.slot_of(id) {
            self.present.remove(slot);
        }
        self.queues.abort(id, result);
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        plan.clear();
        if self.present.is_empty() {
            return;
        }
        let execution = self.choose();
        self.serve(now, plan);
        while plan.is_empty() {
            // All memory is held by others that wait for their turn.
            self.queues.displace_last(plan);
            self.serve(now, plan);
        }
        self.queues.put_back();
        self.execute(execution, plan);
    }

    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        self.queues.complete(now, plan, result);
        for (life, _) in &result.finished {
            let entry = plan.entries.iter().find(|entry| entry.request == life.id);
            self.present.remove(entry.expect("who ends was in the step").slot);
        }
    }

    fn head(&self) -> Option<RequestId> {
        None
    }

    fn token_budget(&self) -> u32 {
        u32::MAX
    }

    schedule_by_queues!(but enqueue, head);
}

#[cfg(test)]
mod tests;
