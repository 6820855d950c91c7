//! What a router guesses to be cached from what it sent (NVIDIA Dynamo 1.6.1, `use_kv_events=false`, and
//! `router_predicted_ttl_secs`).
//!
//! A booking enters all complete blocks of its prompt for its rank until a time to live is over, rounded up to a grid
//! of 100 ms, and renews what is there of them. There is no bound but the time to live.

use std::collections::VecDeque;

use super::paths::Paths;
use super::{Prompt, Rank};
use crate::units::{SimDuration, SimTime};

/// Expiries are on a grid of this width, from the start of the index on.
const GRID: SimDuration = SimDuration::from_millis(100);

/// Blocks of prompts that were sent, until they expire.
#[derive(Debug, Clone)]
pub struct Sent {
    ttl: SimDuration,
    grid: SimDuration,
    until: Paths<SimTime>,
    /// Bookings in the order of their expiry, which is that of their coming.
    expiries: VecDeque<(SimTime, Rank, Prompt)>,
}

impl Sent {
    /// Nothing was sent.
    pub fn new(ttl: SimDuration) -> Self {
        Self::on_grid(ttl, GRID)
    }

    /// The same with another grid.
    pub fn on_grid(ttl: SimDuration, grid: SimDuration) -> Self {
        Self { ttl, grid, until: Paths::default(), expiries: VecDeque::new() }
    }

    /// A prompt is sent.
    pub fn book(&mut self, now: SimTime, rank: Rank, prompt: &Prompt) {
        self.forget(now);
        if prompt.named.is_empty() {
            return;
        }
        let (expiry, grid) = ((now + self.ttl).as_nanos(), self.grid.as_nanos());
        let expiry = SimTime::from_nanos(expiry.div_ceil(grid) * grid);
        self.until.hold(&prompt.named, rank, expiry, |until| *until = expiry);
        self.expiries.push_back((expiry, rank, prompt.clone()));
    }

    /// Tells for each rank that has the beginning of a prompt how many of its blocks it has.
    pub fn runs(
        &self,
        now: SimTime,
        prompt: &Prompt,
        inside: &mut Vec<Rank>,
        tell: impl FnMut(Rank, u32),
    ) {
        self.until.runs(&prompt.named, |&until| until > now, inside, tell);
    }

    /// A rank is gone.
    pub fn clear(&mut self, rank: Rank) {
        for (_, _, prompt) in self.expiries.iter().filter(|(_, one, _)| *one == rank) {
            self.until.let_go(&prompt.named, rank, |_| true, |_| {});
        }
        self.expiries.retain(|(_, one, _)| *one != rank);
    }

    fn forget(&mut self, now: SimTime) {
        while self.expiries.front().is_some_and(|(expiry, ..)| *expiry <= now) {
            let Some((_, rank, prompt)) = self.expiries.pop_front() else { return };
            self.until.let_go(&prompt.named, rank, |until| *until <= now, |_| {});
        }
    }

    /// Blocks that are kept.
    pub fn kept(&self) -> usize {
        self.until.len()
    }
}
