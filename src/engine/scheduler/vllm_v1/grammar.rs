//! Requests whose grammar is still being compiled (vLLM 0.33.0, `scheduler.py`,
//! `WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR`): they wait in their place and are passed over without blocking
//! those behind them.

use super::VllmV1;
use super::sequence::Status;
use crate::units::SimTime;

impl VllmV1 {
    /// Whether the grammar of a request is not ready yet.
    pub(super) fn awaits_grammar(&self, slot: u32) -> bool {
        let inputs = &self.sequences[slot as usize].inputs;
        inputs.as_ref().is_some_and(|inputs| inputs.grammar_ready > self.clock)
    }

    /// When the next grammar is ready that a waiting request lacks.
    pub(super) fn next_grammar(&self) -> Option<SimTime> {
        if self.grammars_until <= self.clock {
            return None;
        }
        let lacking = self.sequences.iter().filter(|s| s.status == Status::Waiting);
        let ready = lacking.filter_map(|s| Some(s.inputs.as_ref()?.grammar_ready));
        ready.filter(|ready| *ready > self.clock).min()
    }
}
