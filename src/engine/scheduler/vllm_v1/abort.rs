//! Requests whose clients have gone away.

use super::VllmV1;
use super::sequence::Status;
use crate::engine::{Finish, StepResult};
use crate::ids::RequestId;

impl VllmV1 {
    /// A request leaves wherever it is.
    pub(super) fn abort_request(&mut self, id: RequestId, result: &mut StepResult) {
        let Some(slot) = self.slot_of(id) else { return };
        self.livelock.end();
        self.lacks_memory = false;
        if self.sequences[slot as usize].member.is_some() {
            self.dissolve_group();
        }
        let sequence = &self.sequences[slot as usize];
        let (key, life) = (sequence.key(), sequence.life);
        match sequence.status {
            Status::Running => {
                self.running.retain(|&other| other != slot);
                self.leave_adapter(slot);
            }
            Status::Loading => {
                let is_loading = !sequence.has_landed;
                self.unlanded -= u32::from(is_loading);
                self.holding.remove(slot, key);
                if is_loading && self.connector.finishes_loads() {
                    self.part(slot);
                    self.linger(slot, Status::Sending);
                    result.finished.push((life, Finish::Aborted));
                    return;
                }
            }
            Status::Waiting | Status::Preempted => {
                self.waiting.remove(slot, key);
                self.holding.remove(slot, key);
            }
            Status::Sending | Status::Draining | Status::Gone => return,
        }
        result.finished.push((life, Finish::Aborted));
        self.part(slot);
        self.give_back(slot);
    }
}
