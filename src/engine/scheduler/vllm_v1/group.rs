//! Requests that decode in lock step.
//!
//! Between two changes of the batch every decoding request does the same in every step: one token,
//! and a block whenever its context fills one. The group keeps what such a step needs as sums, so
//! that a step costs O(1) and the block claims it makes, whatever the number of requests. A member
//! is only told what it has become when it finishes or when the group is dissolved; until then its
//! counters stand where they stood when it joined.
//!
//! A step of the group is a *tick*. Tick `t` computes the token at context `key + t` of a member.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::des::Ascending;
use crate::engine::scheduler::repeat;

/// Where a member stands: constant while it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    /// Ticks of the group when it joined: its first tick is the next.
    pub(super) joined: u64,
    /// Tokens computed when it joined.
    pub(super) base: u32,
    /// Its number in order of admission.
    pub(super) admission: u64,
    /// The last tick that may compute it.
    pub(super) last_tick: u64,
    /// The tick whose outcome is its last token.
    pub(super) done_tick: u64,
}

impl Member {
    /// Its context before tick `t` is `key + t`.
    fn key(&self) -> i64 {
        i64::from(self.base) - self.joined.cast_signed() - 1
    }

    /// Tokens computed before tick `t`.
    pub(super) fn context_before(&self, tick: u64) -> u32 {
        (self.key() + tick.cast_signed()) as u32
    }

    fn phase(&self, block_size: u32) -> usize {
        self.key().rem_euclid(i64::from(block_size)) as usize
    }
}

/// A member by its place in the batch and in the arena.
pub(super) type Place = (u64, u32);

/// Members by a tick, in order of admission. Requests that come one after the other and get answers of one length come in order.
type Agenda = Ascending<(u64, u64, u32)>;

/// Requests that decode in lock step.
#[derive(Debug, Clone)]
pub(super) struct Group {
    block_size: u32,
    /// Ticks scheduled, and those whose outcome is in.
    ticks: u64,
    completed: u64,
    /// Members that the next tick computes, and the sum of their keys.
    count: u32,
    keys: i64,
    /// Keys of members, longest context first; those that left are skipped.
    by_key: Ascending<(Reverse<i64>, u64, u32)>,
    /// Members by the phase in which they need a block, in order of admission.
    phases: Vec<Vec<Place>>,
    /// The phase that claims blocks in the next tick.
    claiming: usize,
    /// Members by the last tick that may compute them.
    by_last_tick: Agenda,
    /// Members that finish before that tick, by the tick of their last token.
    by_done_tick: Agenda,
    /// Members whose last tick is in flight, after that tick.
    endings: VecDeque<(u64, Place)>,
    /// Rows of the tick in flight whose members have left.
    ghosts: u32,
    /// The last admission among members since the group was last empty.
    last_admission: u64,
}

/// What a tick computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tick {
    pub(super) rows: u32,
    pub(super) context: u64,
    pub(super) longest: u32,
}

impl Group {
    pub(super) fn new(block_size: u32) -> Self {
        Self {
            block_size,
            ticks: 0,
            completed: 0,
            count: 0,
            keys: 0,
            by_key: Ascending::default(),
            phases: vec![Vec::new(); block_size as usize],
            claiming: claiming_phase(block_size, 1),
            by_last_tick: Ascending::default(),
            by_done_tick: Ascending::default(),
            endings: VecDeque::new(),
            ghosts: 0,
            last_admission: 0,
        }
    }

    /// Members that the next tick computes.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn ticks(&self) -> u64 {
        self.ticks
    }

    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    /// Whether nobody is in it, not even in a tick in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.endings.is_empty() && self.ticks == self.completed
    }

    /// Members, those in their last tick included.
    pub(super) fn size(&self) -> usize {
        self.count as usize + self.endings.len()
    }

    /// No member was admitted after this number.
    pub(super) fn last_admission(&self) -> u64 {
        self.last_admission
    }

    /// A request joins; its first tick is the next.
    pub(super) fn join(&mut self, slot: u32, member: Member) {
        self.count += 1;
        self.keys += member.key();
        self.by_key.push((Reverse(member.key()), member.admission, slot));
        self.last_admission = self.last_admission.max(member.admission);
        let places = &mut self.phases[member.phase(self.block_size)];
        if places.last().is_none_or(|last| last.0 < member.admission) {
            places.push((member.admission, slot));
        } else {
            let at = places.partition_point(|place| place.0 < member.admission);
            places.insert(at, (member.admission, slot));
        }
        let place = (member.admission, slot);
        self.by_last_tick.push((member.last_tick, place.0, place.1));
        // Whose last token comes from the step in which it joined leaves with that step.
        if member.joined < member.done_tick && member.done_tick < member.last_tick {
            self.by_done_tick.push((member.done_tick, place.0, place.1));
        }
    }

    /// The members that need a block in the next tick, in order of admission.
    pub(super) fn claims(&self) -> &[Place] {
        &self.phases[self.claiming]
    }

    /// What the next tick computes.
    #[inline]
    pub(super) fn next_tick(&mut self, member: impl Fn(u32) -> Option<Member>) -> Tick {
        let is_counted = |admission, slot| {
            member(slot).is_some_and(|m| m.admission == admission && m.last_tick > self.ticks)
        };
        while self.by_key.peek().is_some_and(|&(_, adm, slot)| !is_counted(adm, slot)) {
            self.by_key.pop();
        }
        let tick = (self.ticks + 1).cast_signed();
        Tick {
            rows: self.count,
            context: (self.keys + i64::from(self.count) * tick) as u64,
            longest: self.by_key.peek().map_or(0, |(key, ..)| (key.0 + tick) as u32),
        }
    }

    /// Schedules the next tick; members that it computes for the last time leave the count.
    pub(super) fn tick(&mut self, member: impl Fn(u32) -> Option<Member>) {
        self.ticks += 1;
        self.claiming = self.claiming.checked_sub(1).unwrap_or(self.phases.len() - 1);
        self.end_last_ticks(member);
    }

    /// Members that the tick scheduled last computes for the last time leave the count.
    fn end_last_ticks(&mut self, member: impl Fn(u32) -> Option<Member>) {
        while let Some(&(last_tick, admission, slot)) = self.by_last_tick.peek() {
            let current = member(slot).filter(|m| m.admission == admission);
            let Some(current) = current else {
                self.by_last_tick.pop();
                continue;
            };
            if last_tick > self.ticks {
                break;
            }
            self.by_last_tick.pop();
            self.discount(slot, &current);
            self.endings.push_back((self.ticks, (admission, slot)));
        }
    }

    /// How many ticks can be scheduled, and as many outcomes taken in, up to the last one of a member and
    /// before one finishes.
    pub(super) fn quiet_ticks(&self) -> u64 {
        if !self.endings.is_empty() || self.ghosts > 0 {
            return 0;
        }
        let first = |agenda: &Agenda| agenda.peek().map_or(u64::MAX, |(tick, ..)| *tick);
        let leaves = first(&self.by_last_tick).saturating_sub(self.ticks);
        let finishes = first(&self.by_done_tick).saturating_sub(self.completed + 1);
        leaves.min(finishes)
    }

    /// How many members need a block in each of the next ticks, in `claims`.
    pub(super) fn claims_ahead(&self, ticks: usize, claims: &mut Vec<u32>) {
        claims.clear();
        let (before, after) = self.phases.split_at(self.claiming + 1);
        let len = |places: &Vec<_>| places.len() as u32;
        let first = before.len().min(ticks);
        for places in before.iter().rev().take(first) {
            claims.push(len(places));
        }
        for places in after.iter().rev().take(ticks - first) {
            claims.push(len(places));
        }
        repeat(claims, self.phases.len(), ticks);
    }

    /// Schedules so many [`quiet_ticks`](Self::quiet_ticks), and takes in so many outcomes, no more than that.
    pub(super) fn quiet_ticks_done(
        &mut self,
        ticks: u64,
        outcomes: u64,
        member: impl Fn(u32) -> Option<Member>,
    ) {
        self.ticks += ticks;
        self.completed += outcomes;
        self.claiming = claiming_phase(self.block_size, self.ticks + 1);
        self.end_last_ticks(member);
    }

    /// Takes in the outcome of the oldest tick in flight. Returns the rows that yield a token; the
    /// members that finish are appended to `done`, in order of admission.
    #[inline]
    pub(super) fn complete(
        &mut self,
        rows: u32,
        member: impl Fn(u32) -> Option<Member>,
        done: &mut Vec<Place>,
    ) -> u32 {
        self.completed += 1;
        let alive = rows - std::mem::take(&mut self.ghosts);
        while let Some(&(tick, place)) = self.endings.front()
            && tick == self.completed
        {
            self.endings.pop_front();
            done.push(place);
        }
        while let Some(&(done_tick, admission, slot)) = self.by_done_tick.peek() {
            if done_tick > self.completed {
                break;
            }
            self.by_done_tick.pop();
            let Some(current) = member(slot).filter(|m| m.admission == admission) else { continue };
            self.leave_early(slot, &current);
            done.push((admission, slot));
        }
        done.sort_unstable();
        alive
    }

    /// Ticks in flight that compute a member.
    #[inline]
    pub(super) fn in_flight(&self, member: &Member) -> u32 {
        let last = self.ticks.min(member.last_tick);
        last.saturating_sub(self.completed.max(member.joined)) as u32
    }

    /// A member leaves before its last tick; a tick in flight computes a row for nobody.
    pub(super) fn leave_early(&mut self, slot: u32, current: &Member) {
        let ending = (current.last_tick, (current.admission, slot));
        match self.endings.iter().position(|other| *other == ending) {
            Some(at) => {
                self.endings.remove(at);
            }
            None => self.discount(slot, current),
        }
        if self.ticks > self.completed && self.ticks > current.joined {
            self.ghosts += 1;
        }
    }

    /// Everybody leaves. Returns the members of the count, and for each tick in flight its rows,
    /// all in order of admission. Rows of members that have left are in neither.
    pub(super) fn dissolve(
        &mut self,
        member: impl Fn(u32) -> Option<Member>,
    ) -> (Vec<Place>, Vec<Vec<Place>>) {
        let mut members: Vec<Place> = self.phases.iter_mut().flat_map(std::mem::take).collect();
        members.sort_unstable();
        let joined = |place: &Place| member(place.1).map_or(u64::MAX, |m| m.joined);
        let in_flight = (self.completed + 1..=self.ticks)
            .map(|tick| {
                let ending = self.endings.iter().filter(|(last, _)| *last >= tick);
                let rows = members
                    .iter()
                    .chain(ending.map(|(_, place)| place))
                    .filter(|place| joined(place) < tick);
                let mut rows: Vec<Place> = rows.copied().collect();
                rows.sort_unstable();
                rows
            })
            .collect();
        members.extend(self.endings.drain(..).map(|(_, place)| place));
        members.sort_unstable();
        let ticks = self.ticks;
        let claiming = self.claiming;
        *self = Self { ticks, completed: ticks, claiming, ..Self::new(self.block_size) };
        (members, in_flight)
    }

    /// Takes a member out of what the next tick computes.
    #[inline]
    fn discount(&mut self, slot: u32, current: &Member) {
        self.count -= 1;
        self.keys -= current.key();
        let places = &mut self.phases[current.phase(self.block_size)];
        let at = places.partition_point(|place| place.0 < current.admission);
        debug_assert_eq!(places.get(at), Some(&(current.admission, slot)), "a member has a phase");
        places.remove(at);
    }
}

/// The phase whose members need a block in this tick.
fn claiming_phase(block_size: u32, tick: u64) -> usize {
    let block_size = u64::from(block_size);
    ((block_size - tick % block_size) % block_size) as usize
}
