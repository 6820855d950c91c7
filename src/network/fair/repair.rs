//! Repairing levels after a change.
//!
//! A link that a change has left too full or with room is queued. Looked at, it gets the level at
//! which it is full; flows that another link holds at more than this level it takes over. Both
//! change what other links have left, which are queued in turn. When none is queued, every link
//! that holds flows is full and no flow on it is faster, and no other link is too full.
//!
//! It ends in every order: take the lowest rate that changes for ever. Flows come to it for ever
//! or leave it for ever; but a link at this level, once looked at while all below stands, is not
//! raised again, as what others hold on it can only be more, and nobody takes its flows at less.
//! Lowest level first does little twice: what a link holds depends on lower levels alone.

use crate::network::fair::{Link, Move, Reach, Shares};
use crate::network::quantity::Rate;

impl Link {
    /// The rate that a new flow may find here.
    pub(super) fn offer(&self) -> Rate {
        if self.held > 0 {
            return self.level;
        }
        Rate::try_from(i128::from(self.capacity) - self.reserved).unwrap_or_default()
    }

    /// The level at which it is full; where what others hold is too much, 0.
    fn full_at(&self) -> Rate {
        match (self.held, i64::try_from(self.room)) {
            (0, _) if self.room < 0 => 0,
            (0, _) => Rate::MAX,
            // What nearly always fits divides in one instruction.
            (held, Ok(room)) => self.level.saturating_add_signed(room.div_euclid(held.into())),
            (held, Err(_)) => {
                let level = i128::from(self.level) + self.room.div_euclid(held.into());
                Rate::try_from(level.max(0)).unwrap_or(Rate::MAX)
            }
        }
    }

    /// Whether it can be left alone, whatever its flows do below their ceilings; some way from where
    /// it has to wake, so that it does not change for every flow.
    fn can_sleep(&self) -> bool {
        self.held == 0 && self.reserved <= i128::from(self.capacity - self.capacity / 32)
    }
}

/// A ceiling for a level.
fn above(level: Rate) -> Rate {
    level.saturating_add(level / 16)
}

impl Shares {
    /// Brings all rates up to date.
    pub(in crate::network) fn repair(&mut self) {
        while let Some(link) = self.queue.pop() {
            self.look_at(link);
            self.links[link as usize].is_queued = false;
        }
    }

    fn look_at(&mut self, link: u32) {
        let seen = &self.links[link as usize];
        if !seen.is_awake {
            if seen.reserved <= i128::from(seen.capacity) {
                return;
            }
            self.wake(link);
        }
        let seen = &self.links[link as usize];
        let mut full_at = seen.full_at();
        if seen.fastest > full_at {
            full_at = self.take_over(link);
        }
        let seen = &self.links[link as usize];
        if seen.held > 0 {
            self.set_level(link, full_at);
        } else if seen.can_sleep() {
            self.sleep(link);
        }
    }

    /// Takes over the flows that are too fast for a link, the fastest first; the level at which the
    /// link is full then.
    fn take_over(&mut self, link: u32) -> Rate {
        let seen = &self.links[link as usize];
        let full_at = seen.full_at();
        let (mut too_fast, mut fastest) = (std::mem::take(&mut self.too_fast), 0);
        for member in &self.members[link as usize][seen.held as usize..] {
            let rate = self.rate(member.slot);
            if rate > full_at {
                too_fast.push((rate, member.slot));
            } else {
                fastest = rate.max(fastest);
            }
        }
        too_fast.sort_unstable();
        while let Some((rate, slot)) = too_fast.pop() {
            let seen = &mut self.links[link as usize];
            if rate <= seen.full_at() {
                fastest = rate.max(fastest);
                break;
            }
            if seen.held == 0 {
                (seen.level, seen.ceiling) = (rate, above(rate));
            }
            let from = self.flows[slot as usize].held_by;
            self.release(slot, from);
            self.hold(slot, link);
            self.count(slot, Some(from), Some(link));
            self.moved.push(Move { slot, from, to: link });
        }
        too_fast.clear();
        self.too_fast = too_fast;
        self.links[link as usize].fastest = fastest;
        self.links[link as usize].full_at()
    }

    fn set_level(&mut self, link: u32, level: Rate) {
        let seen = &mut self.links[link as usize];
        if level == seen.level {
            return;
        }
        let (rise, held) = (i128::from(level) - i128::from(seen.level), seen.held);
        seen.level = level;
        seen.room -= rise.wrapping_mul(held.into());
        let links = self.links.as_mut_slice();
        for Reach { link, flows } in &self.reaches[link as usize] {
            let other = &mut links[*link as usize];
            other.room -= rise.wrapping_mul((*flows).into());
            if level > other.fastest {
                other.fastest = level;
            }
            if !other.is_queued && (other.held > 0 || other.room < 0) {
                other.is_queued = true;
                self.queue.put(*link, other.level);
            }
        }
        let seen = &mut self.links[link as usize];
        if !(level..=above(above(level))).contains(&seen.ceiling) {
            let before = std::mem::replace(&mut seen.ceiling, above(level));
            let more = i128::from(above(level)) - i128::from(before);
            for index in 0..held as usize {
                self.reserve(self.members[link as usize][index].slot, more);
            }
        }
        self.mark_changed(link);
    }

    /// Counts a flow on its links at the level of another link; `None` is not on them.
    pub(super) fn count(&mut self, slot: u32, before: Option<u32>, after: Option<u32>) {
        let of = |link: Option<u32>| {
            let link = link.map(|link| &self.links[link as usize]);
            link.map_or((0, 0), |link| (link.level, link.ceiling))
        };
        let ((rate_before, ceiling_before), (rate, ceiling)) = (of(before), of(after));
        for place in self.places_of(slot) {
            let link = self.places[place].link;
            let other = &mut self.links[link as usize];
            if other.is_awake {
                other.room -= i128::from(rate) - i128::from(rate_before);
                other.fastest = other.fastest.max(rate);
                self.enqueue(link);
            }
        }
        self.reserve(slot, i128::from(ceiling) - i128::from(ceiling_before));
    }

    /// Reserves more for a flow on its links, and queues those that have to wake or may sleep.
    fn reserve(&mut self, slot: u32, more: i128) {
        for place in self.places_of(slot) {
            let link = self.places[place].link;
            let other = &mut self.links[link as usize];
            other.reserved += more;
            let is_turned = if other.is_awake {
                other.can_sleep()
            } else {
                other.reserved > i128::from(other.capacity)
            };
            if is_turned {
                self.enqueue(link);
            }
        }
    }

    pub(super) fn enqueue(&mut self, link: u32) {
        let queued = &mut self.links[link as usize];
        if !queued.is_queued {
            queued.is_queued = true;
            self.queue.put(link, queued.level);
        }
    }
}
