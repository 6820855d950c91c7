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

use crate::network::fair::{Link, Member, Move, Place, Shares, rounded_up};
use crate::network::quantity::Rate;

impl Link {
    /// The rate that a new flow may find here.
    pub(super) fn offer(&self) -> Rate {
        if self.held > 0 {
            return self.level;
        }
        Rate::try_from(i128::from(self.capacity) - self.reserved).unwrap_or_default()
    }

    /// The level at which it is full: below any rate when it is too full without a flow to slow
    /// down, above when it holds nothing and has room.
    fn full_at(&self) -> i128 {
        match (self.held, self.room) {
            (0, ..0) => i128::MIN,
            (0, _) => i128::MAX,
            (held, room) => {
                let rise = match i64::try_from(room) {
                    Ok(room) => room.div_euclid(i64::from(held)).into(),
                    Err(_) => room.div_euclid(held.into()),
                };
                i128::from(self.level) + rise
            }
        }
    }

    /// Whether it can be left alone, whatever its flows do within the rounding.
    fn can_sleep(&self) -> bool {
        self.held == 0 && self.reserved <= (self.capacity - self.capacity / 16).into()
    }
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
            if seen.reserved <= seen.capacity.into() {
                return;
            }
            self.wake(link);
        }
        let seen = &self.links[link as usize];
        if i128::from(seen.fastest) > seen.full_at() {
            self.take_over(link);
        }
        let seen = &self.links[link as usize];
        if seen.held > 0 {
            let level = Rate::try_from(seen.full_at()).expect("what others hold is less than all");
            self.set_level(link, level);
        } else if seen.can_sleep() {
            self.sleep(link);
        }
    }

    /// Takes over the flows that are too fast for a link, the fastest first.
    fn take_over(&mut self, link: u32) {
        let seen = &self.links[link as usize];
        let full_at = seen.full_at();
        let (mut too_fast, mut fastest) = (std::mem::take(&mut self.too_fast), 0);
        for member in &self.members[link as usize][seen.held as usize..] {
            let rate = self.rate(member.slot);
            if i128::from(rate) > full_at {
                too_fast.push((rate, member.slot));
            } else {
                fastest = rate.max(fastest);
            }
        }
        too_fast.sort_unstable();
        while let Some((rate, slot)) = too_fast.pop() {
            let seen = &mut self.links[link as usize];
            if i128::from(rate) <= seen.full_at() {
                fastest = rate.max(fastest);
                break;
            }
            if seen.held == 0 {
                seen.level = rate;
            }
            let (level, from) = (seen.level, self.flows[slot as usize].held_by);
            self.release(slot, from);
            self.hold(slot, link);
            self.change_rate(slot, Some(rate), Some(level));
            self.enqueue(from);
            self.moved.push(Move { slot, from, to: link });
        }
        too_fast.clear();
        self.too_fast = too_fast;
        self.links[link as usize].fastest = fastest;
    }

    fn set_level(&mut self, link: u32, level: Rate) {
        let seen = &mut self.links[link as usize];
        let (before, held) = (seen.level, seen.held as usize);
        if level == before {
            return;
        }
        let rise = i128::from(level) - i128::from(before);
        seen.level = level;
        seen.room -= rise * held as i128;
        for member in &self.members[link as usize][..held] {
            let first = member.slot as usize * self.hops_max;
            let awake = self.flows[member.slot as usize].awake as usize;
            for place in &self.places[first..first + awake] {
                if place.link != link {
                    let other = &mut self.links[place.link as usize];
                    other.room -= rise;
                    other.fastest = other.fastest.max(level);
                    if !other.is_queued && (other.held > 0 || other.room < 0) {
                        other.is_queued = true;
                        self.queue.put(place.link, other.level);
                    }
                }
            }
        }
        let (reserved, before) = (rounded_up(level), rounded_up(before));
        if reserved != before {
            let more = i128::from(reserved) - i128::from(before);
            for index in 0..held {
                self.reserve(self.members[link as usize][index].slot, more);
            }
        }
        self.mark_changed(link);
    }

    /// Counts a flow at another rate on its links; `None` is not on them.
    pub(super) fn change_rate(&mut self, slot: u32, before: Option<Rate>, after: Option<Rate>) {
        let rise = i128::from(after.unwrap_or(0)) - i128::from(before.unwrap_or(0));
        let first = self.places_of(slot).start;
        for place in first..first + self.flows[slot as usize].awake as usize {
            let link = self.places[place].link;
            let other = &mut self.links[link as usize];
            other.room -= rise;
            other.fastest = other.fastest.max(after.unwrap_or(0));
            if other.held > 0 || other.room < 0 {
                self.enqueue(link);
            }
        }
        let reserved = |rate: Option<Rate>| rate.map_or(0, |rate| rounded_up(rate).into());
        self.reserve(slot, reserved(after) - reserved(before));
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
                other.reserved > other.capacity.into()
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

    /// Lets a link hold a flow that is on it.
    pub(super) fn hold(&mut self, slot: u32, link: u32) {
        let at = self.place_on(slot, link);
        let held = self.links[link as usize].held;
        self.links[link as usize].held += 1;
        self.flows[slot as usize].held_by = link;
        self.swap_members(link, at, held);
        self.mark_changed(link);
    }

    /// Lets a link hold a flow no more that stays on it.
    pub(super) fn release(&mut self, slot: u32, link: u32) {
        let at = self.place_on(slot, link);
        self.links[link as usize].held -= 1;
        self.swap_members(link, at, self.links[link as usize].held);
        self.mark_changed(link);
    }

    /// A flow's place in the list of one of its links.
    fn place_on(&self, slot: u32, link: u32) -> u32 {
        let mut places = self.places[self.places_of(slot)].iter();
        places.find(|place| place.link == link).expect("it is on the link").at
    }

    fn swap_members(&mut self, link: u32, one: u32, other: u32) {
        let members = &mut self.members[link as usize];
        members.swap(one as usize, other as usize);
        for at in [one, other] {
            self.places[members[at as usize].place as usize].at = at;
        }
    }

    /// Works out what a link has left, and has all changes reach it.
    pub(super) fn wake(&mut self, link: u32) {
        let (mut room, mut fastest) = (i128::from(self.links[link as usize].capacity), 0);
        for index in 0..self.members[link as usize].len() {
            let Member { slot, place } = self.members[link as usize][index];
            let rate = self.rate(slot);
            room -= i128::from(rate);
            fastest = rate.max(fastest);
            let first_asleep = self.places_of(slot).start as u32 + self.flows[slot as usize].awake;
            self.flows[slot as usize].awake += 1;
            self.swap_places(place, first_asleep);
        }
        let woken = &mut self.links[link as usize];
        (woken.room, woken.fastest, woken.is_awake) = (room, fastest, true);
    }

    fn sleep(&mut self, link: u32) {
        for index in 0..self.members[link as usize].len() {
            let Member { slot, place } = self.members[link as usize][index];
            self.flows[slot as usize].awake -= 1;
            let last_awake = self.places_of(slot).start as u32 + self.flows[slot as usize].awake;
            self.swap_places(place, last_awake);
        }
        self.links[link as usize].is_awake = false;
    }

    fn swap_places(&mut self, one: u32, other: u32) {
        self.places.swap(one as usize, other as usize);
        for place in [one, other] {
            let Place { link, at } = self.places[place as usize];
            self.members[link as usize][at as usize].place = place;
        }
    }
}
