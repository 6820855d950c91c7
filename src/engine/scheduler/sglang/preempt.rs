//! Running requests that make way for one of higher priority
//! (SGLang 0.5.23, `sglang/srt/managers/schedule_policy.py`, `preempt_to_schedule`).

use std::cmp::Reverse;

use super::Sglang;
use super::budget::{Budget, MAX_NEW_TOKENS_CLIP};
use crate::engine::StepPlan;
use crate::engine::scheduler::Handoff;

impl Sglang {
    /// Takes the memory of running requests so that a waiting one can have it; `false` if their
    /// priority is too high or their memory not enough, and nothing changes.
    ///
    /// What is missing is judged by the request's last lookup, which for a new one is none.
    pub(super) fn preempt_for(
        &mut self,
        slot: u32,
        budget: &mut Budget,
        plan: &mut StepPlan,
    ) -> bool {
        let s = &self.sequences[slot as usize];
        let share = f64::from(s.considered) - f64::from(s.prefix);
        let answer = f64::from(s.life.max_tokens.min(MAX_NEW_TOKENS_CLIP));
        let mut missing = share + answer - budget.left(self.reclaimable());
        let priority = s.priority;
        let mut candidates = std::mem::take(&mut self.scratch);
        candidates.clone_from(&self.running);
        candidates.sort_by_key(|&slot| {
            let s = &self.sequences[slot as usize];
            (s.priority, Reverse(s.queued))
        });
        let mut taken = 0;
        for &candidate in &candidates {
            let difference = priority.saturating_sub(self.sequences[candidate as usize].priority);
            if difference <= self.settings.priority_scheduling_preemption_threshold {
                break;
            }
            taken += 1;
            missing -= self.answer_reserve(candidate);
            if missing <= 0.0 {
                break;
            }
        }
        candidates.truncate(taken);
        let is_enough = taken > 0 && missing <= 0.0;
        if is_enough {
            self.preempt(&candidates, budget, plan);
        }
        self.scratch = candidates;
        is_enough
    }

    fn preempt(&mut self, victims: &[u32], budget: &mut Budget, plan: &mut StepPlan) {
        self.dissolve_group();
        let mut left = self.running.len() as u32;
        let running = std::mem::take(&mut self.running);
        for &slot in running.iter().filter(|slot| victims.contains(slot)) {
            budget.give_back(self.answer_reserve(slot));
            left -= 1;
            self.retract(slot, left, plan);
            self.preempted.push(slot);
        }
        self.running = running;
        self.running.retain(|slot| !victims.contains(slot));
        self.retractions_from = plan.preempted.len();
    }

    /// Requests that made way wait again, behind all others.
    pub(super) fn requeue_preempted(&mut self) {
        for index in 0..self.preempted.len() {
            let slot = self.preempted[index];
            if self.sequences[slot as usize].handoff == Handoff::PrefilledElsewhere {
                self.displace(slot);
            } else {
                self.push_waiting(slot);
            }
        }
        self.preempted.clear();
    }
}
