//! How far flows have come, and when they end: one clock a link for all flows that it holds.
//!
//! A link's clock shows how much a flow would have carried that it held all the time. A flow ends
//! when the clock shows what it showed when the flow came, plus what the flow had left: a change of
//! rate is a change of the clock, not of every flow. Readings are whole numbers and exact: a flow
//! may change clocks any number of times.

use crate::network::fair::{Move, Shares};
use crate::network::quantity::{self, Rate, Work};
use crate::network::wakes::Wakes;

#[derive(Debug, Clone, Default)]
struct Clock {
    /// As of `read_at`.
    reading: Work,
    read_at: u64,
    rate: Rate,
    /// The reading at which the first flow ends, of those it times; when it has left, one before.
    first: Work,
    is_first_stale: bool,
    /// Whether the time in [`Clocks::wakes`] is that of the first end, and not before it.
    is_exact: bool,
    /// Whether a flow has come that ends first.
    is_sooner: bool,
}

impl Clock {
    fn at(&self, now: u64) -> Work {
        self.reading + quantity::moved(self.rate, now - self.read_at)
    }

    /// When the first flow ends.
    fn first_end(&self) -> Option<u64> {
        if self.first == NEVER {
            return None;
        }
        let left = self.first.saturating_sub(self.reading);
        quantity::nanos_to_move(left, self.rate)?.checked_add(self.read_at)
    }
}

/// The clocks of all links, and the readings at which flows end, by slot.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    links: Vec<Clock>,
    ends: Vec<Work>,
    /// When the first flow of each link ends, or before: an end that has moved back is worked out
    /// when it would be the next.
    wakes: Wakes,
}

/// The reading of no end.
const NEVER: Work = Work::MAX;

impl Clocks {
    /// Makes room for one more link.
    pub(super) fn push_link(&mut self) {
        self.links.push(Clock { first: NEVER, ..Clock::default() });
        self.wakes.push();
    }

    /// Makes room for one more slot.
    pub(super) fn push_slot(&mut self) {
        self.ends.push(NEVER);
    }

    /// What a flow that this link holds has left.
    pub(super) fn left(&self, slot: u32, link: u32, now: u64) -> Work {
        self.ends[slot as usize].saturating_sub(self.links[link as usize].at(now))
    }

    /// A flow with so much left is held by this link from now on.
    pub(super) fn add(&mut self, slot: u32, link: u32, left: Work, now: u64) {
        let clock = &mut self.links[link as usize];
        let end = clock.at(now) + left;
        self.ends[slot as usize] = end;
        if end < clock.first {
            clock.first = end;
            clock.is_sooner = true;
        }
    }

    /// A flow is held by this link no more, or about to end at another reading; what it has left.
    pub(super) fn remove(&mut self, slot: u32, link: u32, now: u64) -> Work {
        let left = self.left(slot, link, now);
        let clock = &mut self.links[link as usize];
        clock.is_first_stale |= self.ends[slot as usize] == clock.first;
        left
    }

    /// Goes on at the levels that links have now.
    pub(super) fn refresh(&mut self, shares: &mut Shares, now: u64) {
        let moves = shares.moves();
        for Move { slot, from, to } in moves {
            let left = self.remove(slot, from, now);
            self.add(slot, to, left, now);
        }
        while let Some(link) = shares.pop_changed() {
            let clock = &mut self.links[link as usize];
            let before = std::mem::replace(&mut clock.rate, shares.level(link));
            clock.reading += quantity::moved(before, now - clock.read_at);
            clock.read_at = now;
            clock.is_exact = false;
            if std::mem::take(&mut clock.is_sooner) || clock.rate > before {
                self.set_wake(link as usize);
            }
        }
    }

    fn set_wake(&mut self, link: usize) {
        let clock = &mut self.links[link];
        clock.is_exact = !clock.is_first_stale;
        self.wakes.set(link, clock.first_end().unwrap_or(Wakes::NEVER));
    }

    /// When the first of all flows ends.
    pub(super) fn first_end(&mut self, shares: &Shares) -> Option<u64> {
        loop {
            let (at, link) = self.wakes.first_of_all()?;
            let clock = &mut self.links[link];
            if clock.is_exact {
                return Some(at);
            }
            if std::mem::take(&mut clock.is_first_stale) {
                let ends = shares.held(link as u32).map(|slot| self.ends[slot as usize]);
                clock.first = ends.min().unwrap_or(NEVER);
            }
            self.set_wake(link);
        }
    }

    /// Adds the flows that end at this instant to `due`.
    pub(super) fn ending(&self, shares: &Shares, now: u64, due: &mut Vec<u32>) {
        self.wakes.for_each_at(now, |link| {
            let reading = self.links[link].at(now);
            let held = shares.held(link as u32);
            due.extend(held.filter(|slot| self.ends[*slot as usize] <= reading));
        });
    }
}
