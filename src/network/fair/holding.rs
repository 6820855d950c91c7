//! Who holds which flow, and whom a change of level reaches.

use crate::network::fair::{Member, Reach, Shares};
use crate::network::quantity::Rate;

impl Shares {
    /// Lets a link hold a flow that is on it.
    pub(super) fn hold(&mut self, slot: u32, link: u32) {
        let at = self.place_on(slot, link);
        let held = self.links[link as usize].held;
        self.links[link as usize].held += 1;
        self.flows[slot as usize].held_by = link;
        self.swap_members(link, at, held);
        for place in self.places_of(slot) {
            let other = self.places[place].link;
            if other != link && self.links[other as usize].is_awake {
                self.reach(link, other);
            }
        }
        self.mark_changed(link);
    }

    /// Lets a link hold a flow no more that stays on it.
    pub(super) fn release(&mut self, slot: u32, link: u32) {
        let at = self.place_on(slot, link);
        self.links[link as usize].held -= 1;
        self.swap_members(link, at, self.links[link as usize].held);
        for place in self.places_of(slot) {
            let other = self.places[place].link;
            if other != link && self.links[other as usize].is_awake {
                self.reach_no_more(link, other);
            }
        }
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
            let Member { slot, .. } = self.members[link as usize][index];
            let rate: Rate = self.rate(slot);
            room -= i128::from(rate);
            fastest = rate.max(fastest);
            self.reach(self.holder(slot), link);
        }
        let woken = &mut self.links[link as usize];
        (woken.room, woken.fastest, woken.is_awake) = (room, fastest, true);
    }

    /// Lets changes no longer reach a link that holds nothing.
    pub(super) fn sleep(&mut self, link: u32) {
        for index in 0..self.members[link as usize].len() {
            let Member { slot, .. } = self.members[link as usize][index];
            self.reach_no_more(self.holder(slot), link);
        }
        self.links[link as usize].is_awake = false;
    }

    /// One flow more that `holder` holds is on `link`.
    fn reach(&mut self, holder: u32, link: u32) {
        let reaches = &mut self.reaches[holder as usize];
        match reaches.iter_mut().find(|reach| reach.link == link) {
            Some(reach) => reach.flows += 1,
            None => reaches.push(Reach { link, flows: 1 }),
        }
    }

    /// One flow less that `holder` holds is on `link`.
    fn reach_no_more(&mut self, holder: u32, link: u32) {
        let reaches = &mut self.reaches[holder as usize];
        let at = reaches.iter().position(|reach| reach.link == link).expect("a flow is on it");
        reaches[at].flows -= 1;
        if reaches[at].flows == 0 {
            reaches.swap_remove(at);
        }
    }
}
