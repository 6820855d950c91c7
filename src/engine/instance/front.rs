//! The way of requests to the scheduler through the server's other processes, and of outputs back.

use super::Instance;
use crate::engine::Finish;
use crate::frontend::{FrontEnd, Output};
use crate::ids::RequestId;
use crate::units::SimTime;

impl Instance {
    /// The same replica, behind the processes of its server.
    #[must_use]
    pub fn behind(mut self, front: Option<FrontEnd>) -> Self {
        self.front = front.map(Box::new);
        self
    }

    /// Whether the server's other processes take time.
    pub fn has_front_end(&self) -> bool {
        self.front.is_some()
    }

    /// The server's other processes, where they take time, as they are at `now`: the outcomes of steps
    /// that ended before are on their way.
    pub fn front_end(&mut self, now: SimTime) -> Option<&mut FrontEnd> {
        let front = self.front.as_deref_mut()?;
        let ended = self.run.iter().map(|step| step.boundary).take_while(|at| *at < now);
        front.stream(ended, self.run_shape.decode_seqs);
        Some(front)
    }

    /// When the client has the tokens of a request that came out in the last step, the moment that it ended
    /// where no processes stand between.
    pub fn delivered(&self, id: RequestId) -> SimTime {
        let front = self.front.as_deref().and_then(|front| front.delivered(id));
        front.map_or(self.last_completion, |at| at.max(self.last_completion))
    }

    /// The outputs of a step go to the clients: its outcome has the times at which they come there.
    #[inline]
    pub(super) fn send_outputs(&mut self, now: SimTime, decodes: u32) {
        let Some(front) = self.front.as_deref_mut() else { return };
        let result = &mut self.result;
        let mut outputs = std::mem::take(&mut self.outputs);
        outputs.clear();
        let first = |request| Output { request, is_last: false, at: now };
        outputs.extend(result.first_tokens.iter().copied().map(first));
        // Their first tokens have come with their KV.
        let landed = result.landed.iter().filter(|id| !result.first_tokens.contains(id));
        outputs.extend(landed.copied().map(first));
        let rows = decodes + outputs.len() as u32;
        let done = result.finished.iter().filter(|(_, finish)| *finish == Finish::Done);
        for (life, _) in done {
            match outputs.iter_mut().find(|output| output.request == life.id) {
                Some(only) => only.is_last = true,
                None => outputs.push(Output { is_last: true, ..first(life.id) }),
            }
        }
        front.answer(now, rows, &mut outputs);
        for (life, finish) in &mut result.finished {
            let first = front.close(life.id);
            let last = outputs.iter().find(|output| output.is_last && output.request == life.id);
            if let (Finish::Done, Some(last), Some(first)) = (*finish, last, first) {
                (life.first_token, life.last_token) = (Some(first), last.at);
            }
        }
        self.outputs = outputs;
    }

    /// Requests have left without an output.
    pub(super) fn forget_streams(&mut self) {
        let Some(front) = self.front.as_deref_mut() else { return };
        for (life, _) in &self.result.finished {
            front.close(life.id);
        }
    }
}
