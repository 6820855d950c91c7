//! Where the requests of a run come from.

use crate::ids::RequestId;
use crate::request::Request;
use crate::units::SimTime;
use crate::workload::{Workload, WorkloadError};

/// Where requests come from: a stream sorted by arrival, and turns that follow an answer.
pub trait Source: Iterator<Item = Result<Request, WorkloadError>> {
    /// The next turn of the conversation of `answered`, whose answer is complete at `now`. It
    /// arrives at `now` or later.
    fn follow_up(&mut self, id: RequestId, answered: &Request, now: SimTime) -> Option<Request>;

    /// Whether there may be any such turn.
    fn has_follow_ups(&self) -> bool {
        true
    }
}

impl Source for Workload {
    fn has_follow_ups(&self) -> bool {
        Workload::has_follow_ups(self)
    }

    fn follow_up(&mut self, id: RequestId, answered: &Request, now: SimTime) -> Option<Request> {
        Workload::follow_up(self, id, answered, now)
    }
}

impl<W: Source> Source for &mut W {
    fn follow_up(&mut self, id: RequestId, answered: &Request, now: SimTime) -> Option<Request> {
        (**self).follow_up(id, answered, now)
    }

    fn has_follow_ups(&self) -> bool {
        (**self).has_follow_ups()
    }
}

/// Requests without follow-ups, from any sorted iterator.
#[derive(Debug, Clone)]
pub struct Requests<I>(pub I);

impl<I: Iterator<Item = Request>> Iterator for Requests<I> {
    type Item = Result<Request, WorkloadError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl<I: Iterator<Item = Request>> Source for Requests<I> {
    fn follow_up(&mut self, _: RequestId, _: &Request, _: SimTime) -> Option<Request> {
        None
    }

    fn has_follow_ups(&self) -> bool {
        false
    }
}
