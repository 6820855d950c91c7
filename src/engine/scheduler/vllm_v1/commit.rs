//! A step that was decided becomes state.

use super::VllmV1;
use crate::cost::StepShape;
use crate::engine::{Entry, StepPlan};
use crate::units::SimTime;

impl VllmV1 {
    /// Turns the shares of the step into state: from here on its tokens count as computed.
    pub(super) fn commit(&mut self, now: SimTime, plan: &mut StepPlan) {
        if plan.is_empty() {
            return;
        }
        self.executed_steps += 1;
        let groups = self.can_group(plan);
        let eligible = self.stagger.next(self.settings.async_scheduling);
        for entry in &mut plan.entries {
            let sequence = &mut self.sequences[entry.slot as usize];
            sequence.computed += entry.tokens;
            sequence.in_flight += entry.tokens;
            sequence.is_prefill_chunk = sequence.computed < sequence.tokens + sequence.placeholders;
            entry.samples = !sequence.is_prefill_chunk;
            sequence.holds_promise &= sequence.is_prefill_chunk;
            if entry.samples && self.settings.async_scheduling {
                sequence.placeholders += 1 + entry.drafts;
                sequence.drafts = self.drafts;
                sequence.eligible = eligible;
            }
            sequence.life.first_scheduled.get_or_insert(now);
            add_to_shape(&mut plan.shape, entry, sequence.life.prompt_tokens);
        }
        if self.adapters.distinct() > 0 {
            self.adapters.add_decodes(&mut plan.shape);
            for entry in &plan.entries {
                if let Some(adapter) = self.sequences[entry.slot as usize].adapter {
                    self.adapters.add_tokens(adapter, entry.tokens, &mut plan.shape);
                }
            }
        }
        if self.windows.is_some() {
            for entry in &plan.entries {
                self.pass_window(entry.slot);
            }
        }
        if groups {
            for entry in &plan.entries {
                self.join_group(entry);
            }
        }
    }
}

/// A share counts as a decode when it computes one token of an answer, besides drafts.
#[inline]
fn add_to_shape(shape: &mut StepShape, entry: &Entry, prompt_tokens: u32) {
    if entry.computed >= prompt_tokens && entry.tokens - entry.drafts == 1 {
        shape.add_decode(entry.computed, entry.drafts);
    } else {
        shape.add_prefill(entry.tokens, entry.computed, entry.samples);
    }
}
