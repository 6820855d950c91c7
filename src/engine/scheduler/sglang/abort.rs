//! Requests whose clients have gone away.

use super::Sglang;
use super::sequence::{Client, Status};
use crate::engine::{Finish, StepResult};
use crate::ids::RequestId;

impl Sglang {
    /// A request that waits leaves at once, one whose prefill goes on before its next chunk, any other
    /// with its next token.
    pub(super) fn abort_request(&mut self, id: RequestId, result: &mut StepResult) {
        let Some(slot) = self.slot_of(id) else { return };
        if self.sequences[slot as usize].member.is_some() {
            self.dissolve_group();
        }
        let status = self.sequences[slot as usize].status;
        if status.is_received() {
            self.abort_receiving(slot, result);
        } else if status == Status::Waiting {
            self.waiting.retain(|&other| other != slot);
            self.inbox.withdraw(slot);
            result.finished.push((self.sequences[slot as usize].life, Finish::Aborted));
            self.vacate(slot);
        } else if self.chunked == Some(slot) {
            self.chunked_is_left = true;
        } else {
            self.sequences[slot as usize].client = Client::Left;
        }
    }
}
