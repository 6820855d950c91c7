//! What vLLM's scheduler has to do.

use super::VllmV1;
use super::sequence::Status;
use crate::engine::scheduler::{Backlog, Handoff};

impl VllmV1 {
    pub(super) fn backlog_of_all(&self) -> Backlog {
        let mut backlog = Backlog::default();
        for sequence in &self.sequences {
            let life = &sequence.life;
            let comes_prefilled = sequence.handoff == Handoff::PrefilledElsewhere;
            match sequence.status {
                Status::Waiting | Status::Preempted | Status::Loading => {
                    backlog.add_waiting(life.prompt_tokens, life.generated, comes_prefilled);
                }
                Status::Running if sequence.computed >= life.prompt_tokens => {
                    let ticks = sequence.member.map_or(0, |member| self.ticks_done(&member));
                    backlog.add_decode(sequence.tokens + ticks);
                }
                Status::Running | Status::Sending | Status::Draining | Status::Gone => {}
            }
        }
        backlog
    }
}
