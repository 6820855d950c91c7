//! Filling again after a change, in the order of levels.
//!
//! * A *settled* flow is taken to rise to its rate of before and to stop there.
//! * Links of flows that came, left or rise anew are *touched* and wait in a heap for the level at
//!   which they matter next: where they would be full, or where they were full before.
//! * When the water stands there, a link that is full as before stops what rises on it. One that
//!   fills earlier or later lets the settled flows it holds rise anew from that level, which
//!   touches the other links of these.
//!
//! Everything below the water is final, as in a filling from nothing: a flow is raised and stopped
//! once at most.

use crate::network::fair::{Fill, NEVER, NO_LINK, Shares, Stage};
use crate::network::quantity::Rate;

impl Fill {
    /// What the flows that do not rise leave.
    fn room(&self) -> Rate {
        self.capacity - self.taken
    }

    /// The level at which this link is full, or has to be full to hold what it holds.
    fn turn(&self) -> Rate {
        if self.rising == 0 {
            let is_quiet = self.held == 0 || self.is_full_as_before();
            return if is_quiet { NEVER } else { self.level };
        }
        let full = self.room() / Rate::from(self.rising);
        if self.held > 0 { full.min(self.level) } else { full }
    }

    /// Whether the turn is sooner than the one the link waits for.
    fn is_sooner(&self) -> bool {
        if self.queued == NEVER || self.rising == 0 {
            return self.turn() < self.queued;
        }
        // What a comparison of quotients says, without a division.
        let is_full_sooner =
            u128::from(self.room()) < u128::from(self.queued) * u128::from(self.rising);
        is_full_sooner || self.held > 0 && self.level < self.queued
    }

    /// Whether the level of the held flows is what they and the rising ones get, rounded down.
    fn is_full_as_before(&self) -> bool {
        let (rising, held) = (Rate::from(self.rising), Rate::from(self.held));
        self.room().checked_sub(self.level * rising).is_some_and(|rest| rest < rising + held)
    }
}

impl Shares {
    /// Brings all rates up to date; calls `changed` with every flow whose rate is another now.
    pub(in crate::network) fn fill(&mut self, mut changed: impl FnMut(u32, Rate)) {
        self.queue_touched();
        loop {
            if self.rising == 0 {
                self.drop_quiet_turns();
            }
            let Some((level, id)) = self.turns.first() else { break };
            match id.checked_sub(self.links.len() as u32) {
                Some(slot) => self.take_turn_of_flow(slot, level),
                None => self.take_turn_of_link(id, level),
            }
        }
        while let Some((slot, before)) = self.unsettled.pop() {
            let share = &mut self.flows[slot as usize];
            // A flow may have come and left, or left and come, since the last filling.
            if share.stage == Stage::Stopped {
                share.stage = Stage::Settled;
                if share.rate != before {
                    changed(slot, share.rate);
                }
            }
        }
    }

    /// Lets a settled flow rise from the level of the water.
    pub(super) fn raise(&mut self, slot: u32) {
        let share = &mut self.flows[slot as usize];
        debug_assert!(share.stage == Stage::Settled, "flow {slot} is raised once");
        let (rate, cap, held_by) = (share.rate, share.cap, share.held_by);
        share.stage = Stage::Rising;
        share.held_by = NO_LINK;
        self.unsettled.push((slot, rate));
        if held_by != NO_LINK {
            self.links[held_by as usize].held -= 1;
        }
        for place in self.places_of(slot) {
            let link = self.places[place].link;
            let fill = &mut self.links[link as usize];
            fill.taken -= rate;
            fill.rising += 1;
            self.touch(link);
        }
        self.rising += 1;
        if cap != NEVER {
            self.turns.put(cap, self.links.len() as u32 + slot);
        }
    }

    fn stop(&mut self, slot: u32, level: Rate, held_by: u32) {
        let share = &mut self.flows[slot as usize];
        share.rate = level;
        share.held_by = held_by;
        share.stage = Stage::Stopped;
        self.rising -= 1;
        if share.cap != NEVER {
            self.turns.remove(self.links.len() as u32 + slot);
        }
        for place in self.places_of(slot) {
            let fill = &mut self.links[self.places[place].link as usize];
            fill.taken += level;
            fill.rising -= 1;
        }
    }

    /// Queues the touched links whose turn is sooner than known.
    fn queue_touched(&mut self) {
        while let Some(link) = self.touched.pop() {
            self.links[link as usize].is_touched = false;
            self.queue(link);
        }
    }

    fn queue(&mut self, link: u32) {
        let fill = &mut self.links[link as usize];
        if fill.is_sooner() {
            fill.queued = fill.turn();
            self.turns.put(fill.queued, link);
        }
    }

    /// Where nothing rises only links wait that are not full as before.
    fn drop_quiet_turns(&mut self) {
        let links = &mut self.links;
        self.turns.retain(|id| {
            let fill = &mut links[id as usize];
            let is_kept = fill.turn() != NEVER;
            if !is_kept {
                fill.queued = NEVER;
            }
            is_kept
        });
    }

    fn take_turn_of_flow(&mut self, slot: u32, level: Rate) {
        debug_assert!(self.flows[slot as usize].stage == Stage::Rising, "flow {slot} waits");
        self.stop(slot, level, NO_LINK);
    }

    fn take_turn_of_link(&mut self, link: u32, level: Rate) {
        let fill = &mut self.links[link as usize];
        let turn = fill.turn();
        if turn != level && turn != NEVER {
            // Flows stopped elsewhere since: it fills later.
            fill.queued = turn;
            return self.turns.put(turn, link);
        }
        fill.queued = NEVER;
        self.turns.remove(link);
        if turn == NEVER {
            return;
        }
        let fill = &self.links[link as usize];
        let is_holding = fill.held > 0;
        if is_holding && fill.level == level && fill.is_full_as_before() {
            self.close(link, level);
        } else if is_holding {
            let is_any = self.raise_on(link, |_, is_held| is_held);
            debug_assert!(is_any, "link {link} holds what has stopped at another level");
        } else if !self.raise_on(link, |rate, _| rate > level) {
            self.close(link, level);
        }
        self.queue_touched();
    }

    /// Raises the settled flows of a link that `chosen` picks by rate and by whether this link
    /// holds them; `false` when there are none.
    fn raise_on(&mut self, link: u32, chosen: impl Fn(Rate, bool) -> bool) -> bool {
        let mut is_any = false;
        for index in 0..self.members[link as usize].len() {
            let slot = self.members[link as usize][index].slot;
            let share = &self.flows[slot as usize];
            if share.stage == Stage::Settled && chosen(share.rate, share.held_by == link) {
                self.raise(slot);
                is_any = true;
            }
        }
        is_any
    }

    /// Stops the flows that rise on a full link.
    fn close(&mut self, link: u32, level: Rate) {
        let fill = &mut self.links[link as usize];
        fill.level = level;
        fill.held += fill.rising;
        if fill.rising == 0 {
            return;
        }
        for index in 0..self.members[link as usize].len() {
            let slot = self.members[link as usize][index].slot;
            if self.flows[slot as usize].stage == Stage::Rising {
                self.stop(slot, level, link);
            }
        }
    }
}
