//! Requests of two servers, of which one prefills and the other decodes.

use super::{Driver, Heard, Submission};
use crate::cluster::Role;
use crate::ids::RequestId;
use crate::request::Request;
use crate::serve::answer::End;
use crate::serve::handover::Waits;
use crate::serve::lengths::Drawn;
use crate::units::SimTime;

impl Driver {
    /// A request comes to one of its two servers: it waits for the other, or goes to both.
    pub(super) fn meet(&mut self, at: SimTime, room: u64, submission: Box<Submission>) {
        let Some(other) = self.waiting.take(room) else {
            return self.waiting.put(room, submission, at);
        };
        let decodes = |it: &Submission| {
            it.replica.is_some_and(|replica| self.live.role(replica) == Role::Decode)
        };
        let (prefill, decode) = match (decodes(&other), decodes(&submission)) {
            (false, true) => (other, submission),
            (true, false) => (submission, other),
            // Two rooms of one name: the servers of a pair are one of each kind.
            _ => {
                other.answer.end(End::Rejected);
                return submission.answer.end(End::Rejected);
            }
        };
        let both = [prefill.replica, decode.replica];
        if prefill.prompt != decode.prompt || both.iter().flatten().any(|id| !self.live.is_up(*id))
        {
            prefill.answer.end(End::Failed);
            return decode.answer.end(End::Failed);
        }
        both.into_iter().flatten().for_each(|replica| self.chosen.set(replica));
        self.send(at, *decode, Some(prefill.answer));
    }

    /// A request whose prompt is computed goes on to the server that was asked to decode it.
    pub(super) fn go_on(&mut self, at: SimTime, id: RequestId, submission: Submission) {
        let is_its = self.relay.prompt_of(id).is_some_and(|prompt| *prompt == submission.prompt);
        if !is_its || !self.live.is_between(id) {
            return submission.answer.end(End::Failed);
        }
        let drawn = self.lengths.draw(submission.wanted());
        let Submission { answer, ignore_eos, .. } = submission;
        self.relay.go_on(id, answer, drawn, at);
        let mut heard: Heard<'_> = (&mut self.relay, (&mut self.recorder, &mut self.caution));
        let change = |request: &mut Request| {
            let Drawn { output_tokens, max_tokens, .. } = drawn;
            (request.max_tokens, request.output_tokens) = (max_tokens, output_tokens);
            request.ignore_eos = ignore_eos;
        };
        self.live.go_on(at, id, change, &mut heard);
        self.after_event();
    }

    /// Ends what has waited too long for another connection.
    pub(super) fn end_waits(&mut self) {
        while let Some(waits) = self.waiting.over(self.live.now()) {
            match waits {
                Waits::InRoom(room) => {
                    if let Some(submission) = self.waiting.take(room) {
                        submission.answer.end(End::Failed);
                    }
                }
                Waits::WithKv(id) if self.live.is_between(id) => {
                    let now = self.present();
                    self.abort(now, id);
                }
                Waits::WithKv(_) => {}
            }
        }
    }
}
