//! What SGLang's scheduler has to do.

use super::Sglang;
use super::sequence::Status;
use crate::engine::scheduler::{Backlog, Handoff};

impl Sglang {
    pub(super) fn backlog_of_all(&self) -> Backlog {
        let mut backlog = Backlog::default();
        for (slot, sequence) in (0..).zip(&self.sequences) {
            let (prompt, generated) = (sequence.life.prompt_tokens, self.generated(slot));
            match sequence.status {
                Status::Waiting => {
                    let is_apart = sequence.handoff == Handoff::PrefilledElsewhere;
                    backlog.add_waiting(prompt, generated, is_apart);
                }
                status if status.is_received() => backlog.add_waiting(prompt, generated, true),
                Status::Admitted | Status::LastInFlight if generated > 0 => {
                    backlog.add_decode(prompt + generated);
                }
                _ => {}
            }
        }
        backlog
    }
}
