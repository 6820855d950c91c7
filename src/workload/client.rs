//! The client side of a run: how many requests it keeps in flight, and how long it thinks.

use std::collections::VecDeque;

use crate::units::SimDuration;

/// What becomes of a request that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It is sent now.
    Send,
    /// It waits at the client until another one is answered.
    Hold,
}

/// A client with a limit on the requests in flight, as the benchmark tools' `--max-concurrency`:
/// requests keep their arrival times, sending waits in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct Client {
    limit: Option<u32>,
    think_time: SimDuration,
    in_flight: u32,
    held: VecDeque<u32>,
}

impl Client {
    /// A client with at most `limit` requests in flight, that waits `think_time` after an answer
    /// before it sends a request that was held back.
    pub fn new(limit: Option<u32>, think_time: SimDuration) -> Self {
        Self { limit, think_time, in_flight: 0, held: VecDeque::new() }
    }

    /// A request is due; `handle` is how the caller knows it.
    pub fn offer(&mut self, handle: u32) -> Offer {
        if self.limit.is_some_and(|limit| self.in_flight >= limit) {
            self.held.push_back(handle);
            return Offer::Hold;
        }
        self.in_flight += 1;
        Offer::Send
    }

    /// A request was answered: the one to send next, if any, and after what time.
    pub fn finished(&mut self) -> Option<(u32, SimDuration)> {
        let next = self.held.pop_front();
        if next.is_none() {
            self.in_flight -= 1;
        }
        next.map(|next| (next, self.think_time))
    }
}
