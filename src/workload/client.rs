//! The client in front of the system: a bound on requests in flight, and users who think.
//!
//! A benchmark's `--max-concurrency` is a semaphore at the client: requests arrive on their own
//! clock, and those beyond the bound wait here, first come, first sent (SGLang 0.5.23, vLLM
//! 0.33.0). With a think time, a seat stays taken for that long after an answer. The client has no
//! clock and no queue of events: it is told the time and says what to send when.
//!
//! A client that opens a connection for every request has as many local ports as its system gives it:
//! whoever finds none fails at once. A port rests for a while after its connection was closed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;

use crate::ids::RequestId;
use crate::scenario::ClientConfig;
use crate::units::SimDuration;
use crate::units::SimTime;

/// What becomes of a request that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It is sent now.
    Sent,
    /// It is sent at that time, when the user whose turn it is has thought.
    SendAt(SimTime),
    /// It waits until [`Client::finished`] names it.
    Held,
    /// It finds no free port and is never sent.
    Failed,
}

/// The requests in flight and those that wait for a seat.
#[derive(Debug)]
pub struct Client {
    /// Seats nobody has used yet; `None` without a bound.
    fresh_seats: Option<u32>,
    /// When seats that were used may be used again.
    resting: BinaryHeap<Reverse<SimTime>>,
    held: VecDeque<RequestId>,
    think_time: SimDuration,
    /// Seats are ports: whoever finds none fails.
    fails: bool,
}

impl Client {
    /// A client with all its seats free.
    ///
    /// # Panics
    /// When the think time is negative or not finite, which validation refuses.
    pub fn new(config: &ClientConfig) -> Self {
        let (seats, rest_s) = match config.ports {
            Some(ports) => (Some(ports.count), ports.time_wait_s),
            None => (config.max_concurrency, config.think_time_s),
        };
        Self {
            fresh_seats: seats,
            resting: BinaryHeap::new(),
            held: VecDeque::new(),
            think_time: SimDuration::from_secs_f64(rest_s),
            fails: config.ports.is_some(),
        }
    }

    /// A request arrives at `now`.
    pub fn offer(&mut self, request: RequestId, now: SimTime) -> Offer {
        match &mut self.fresh_seats {
            None => return Offer::Sent,
            Some(0) => {}
            Some(seats) => {
                *seats -= 1;
                return Offer::Sent;
            }
        }
        if self.fails && self.resting.peek().is_none_or(|Reverse(free_at)| *free_at > now) {
            return Offer::Failed;
        }
        match self.resting.pop() {
            Some(Reverse(free_at)) if free_at <= now => Offer::Sent,
            Some(Reverse(free_at)) => Offer::SendAt(free_at),
            None => {
                self.held.push_back(request);
                Offer::Held
            }
        }
    }

    /// A request in flight is answered, refused, or given up at `now`: the request that takes its
    /// seat, and when it is sent.
    pub fn finished(&mut self, now: SimTime) -> Option<(RequestId, SimTime)> {
        self.fresh_seats?;
        let free_at = now + self.think_time;
        let next = self.held.pop_front();
        if next.is_none() {
            self.resting.push(Reverse(free_at));
        }
        next.map(|request| (request, free_at))
    }

    /// Whether every request is sent as it arrives.
    pub fn is_open(&self) -> bool {
        self.fresh_seats.is_none()
    }

    /// How many requests wait for a seat.
    pub fn held(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::PortsConfig;

    fn client(max_concurrency: Option<u32>, think_time_s: f64) -> Client {
        Client::new(&ClientConfig { max_concurrency, think_time_s, ..ClientConfig::default() })
    }

    fn at(secs: u64) -> SimTime {
        SimTime::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn without_a_bound_everything_is_sent_at_once() {
        let mut client = client(None, 0.0);
        for id in 0..100 {
            assert_eq!(client.offer(RequestId(id), at(0)), Offer::Sent);
        }
        assert_eq!(client.finished(at(1)), None);
    }

    #[test]
    fn requests_beyond_the_bound_are_sent_first_come_first() {
        let mut client = client(Some(2), 0.0);
        let offers: Vec<Offer> = (0..4).map(|id| client.offer(RequestId(id), at(0))).collect();
        assert_eq!(offers, [Offer::Sent, Offer::Sent, Offer::Held, Offer::Held]);
        assert_eq!(client.finished(at(5)), Some((RequestId(2), at(5))));
        assert_eq!(client.finished(at(6)), Some((RequestId(3), at(6))));
        assert_eq!(client.finished(at(7)), None);
        // One seat of two is free again.
        assert_eq!(client.offer(RequestId(4), at(8)), Offer::Sent);
        assert_eq!(client.offer(RequestId(5), at(8)), Offer::Held);
    }

    #[test]
    fn a_user_who_thinks_keeps_the_seat() {
        let mut client = client(Some(1), 10.0);
        assert_eq!(client.offer(RequestId(0), at(0)), Offer::Sent);
        assert_eq!(client.offer(RequestId(1), at(0)), Offer::Held);
        // Answered at 3 s, so the same user speaks again at 13 s.
        assert_eq!(client.finished(at(3)), Some((RequestId(1), at(13))));
        assert_eq!(client.finished(at(20)), None);
        // The next request comes at 25 s, while the user thinks until 30 s.
        assert_eq!(client.offer(RequestId(2), at(25)), Offer::SendAt(at(30)));
        assert_eq!(client.finished(at(40)), None);
        assert_eq!(client.offer(RequestId(3), at(50)), Offer::Sent);
    }

    #[test]
    fn a_request_without_a_port_fails_and_a_port_rests_before_it_is_used_again() {
        let ports = Some(PortsConfig { count: 1, time_wait_s: 10.0 });
        let mut client = Client::new(&ClientConfig { ports, ..ClientConfig::default() });
        assert_eq!(client.offer(RequestId(0), at(0)), Offer::Sent);
        assert_eq!(client.offer(RequestId(1), at(0)), Offer::Failed);
        assert_eq!(client.finished(at(3)), None);
        assert_eq!(client.offer(RequestId(2), at(12)), Offer::Failed);
        assert_eq!(client.offer(RequestId(3), at(13)), Offer::Sent);
        assert_eq!(client.offer(RequestId(4), at(13)), Offer::Failed);
    }

    #[test]
    fn never_are_more_in_flight_than_seats() {
        let mut client = client(Some(3), 0.0);
        let mut in_flight = 0;
        for id in 0..50 {
            in_flight += u32::from(client.offer(RequestId(id), at(0)) == Offer::Sent);
            if id % 2 == 1 {
                in_flight -= 1;
                in_flight += u32::from(client.finished(at(0)).is_some());
            }
            assert!(in_flight <= 3);
        }
    }
}
