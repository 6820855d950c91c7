//! Requests that decode in lock step.
//!
//! Between two changes of the running batch every request in it does the same in every decode
//! step: one token, and a page whenever its context fills one. The group keeps what such a step
//! needs as sums, so that a step costs O(1), whatever the number of requests. A member is only told
//! what it has become when it leaves or when the group is dissolved; until then its counters stand
//! where they stood when it joined, but for the outcome of a step that was in flight then.
//!
//! A step of the group is a *tick*. Tick `t` computes the token at context `key + t` of a member.

use std::collections::VecDeque;

use crate::des::Ascending;
use crate::engine::scheduler::repeat;
use crate::units::SimTime;

/// Where a member stands: constant while it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    /// Its number in the order of the running batch.
    pub(super) place: u64,
    /// Ticks of the group when it joined: its first tick is the next.
    pub(super) joined: u64,
    /// Its context before tick `t` is `key + t`.
    pub(super) key: i64,
    /// The last tick that computes it; later ones do not, if that is known before its outcome.
    pub(super) last_tick: u64,
    /// The tick whose outcome is its last token.
    pub(super) done_tick: u64,
    /// The tick whose outcome reaches its limit, if memory is kept for all tokens up to there.
    pub(super) limit_tick: Option<u64>,
}

impl Member {
    /// Its ticks among the first `ticks` of the group.
    #[inline]
    pub(super) fn ticks_until(&self, ticks: u64) -> u32 {
        ticks.min(self.last_tick).saturating_sub(self.joined) as u32
    }

    /// Whether tick `tick` computes it, if nothing else happens to it.
    pub(super) fn is_in(&self, tick: u64) -> bool {
        self.joined < tick && tick <= self.last_tick
    }

    fn phase(&self, page_size: u32) -> usize {
        self.key.rem_euclid(i64::from(page_size)) as usize
    }
}

/// A member by its place in the batch and in the arena.
pub(super) type Place = (u64, u32);

/// Members by a tick, the earliest first; those that left are skipped.
type Agenda = Ascending<Listed>;

/// A member by a number, in one comparable value: 48 bits of the number, 48 of its place in the
/// batch, 32 of its place in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Listed(u128);

impl Listed {
    const NUMBERS: u64 = 1 << 48;
    const MIDDLE: i64 = 1 << 47;

    fn new(number: u64, place: u64, slot: u32) -> Self {
        assert!(number < Self::NUMBERS && place < Self::NUMBERS, "{number}, {place}");
        Self(u128::from(number) << 80 | u128::from(place) << 32 | u128::from(slot))
    }

    /// By context: the longest one comes first.
    fn by_key(key: i64, place: u64, slot: u32) -> Self {
        Self::new((Self::MIDDLE - key).cast_unsigned(), place, slot)
    }

    fn number(self) -> u64 {
        (self.0 >> 80) as u64
    }

    fn key(self) -> i64 {
        Self::MIDDLE - self.number().cast_signed()
    }

    fn place(self) -> u64 {
        (self.0 >> 32) as u64 % Self::NUMBERS
    }

    fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// What a tick computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tick {
    pub(super) rows: u32,
    pub(super) context: u64,
    pub(super) longest: u32,
}

/// Requests that decode in lock step.
#[derive(Debug, Clone)]
pub(super) struct Group {
    page_size: u32,
    /// Ticks scheduled, and those whose outcome is in.
    ticks: u64,
    completed: u64,
    /// When the last outcome of a tick came in.
    completed_at: SimTime,
    /// Members that the next tick computes, and the sum of their keys.
    count: u32,
    keys: i64,
    /// The sum of the limit ticks of members, and how many have none.
    limit_ticks: u64,
    unlimited: u32,
    /// Keys of members, longest context first; those that left are skipped.
    by_key: Ascending<Listed>,
    /// How many members are in each phase in which they need a page.
    phases: Vec<u32>,
    by_last_tick: Agenda,
    by_done_tick: Agenda,
    /// Members whose first outcome is awaited, with that tick.
    fresh: VecDeque<(u64, Place)>,
    /// Members out of the batch because their last tick is in flight.
    aside: Vec<Place>,
    /// Rows of the tick in flight whose members have left.
    ghosts: u32,
    joins: u64,
}

impl Group {
    pub(super) fn new(page_size: u32) -> Self {
        Self {
            page_size,
            ticks: 0,
            completed: 0,
            completed_at: SimTime::ZERO,
            count: 0,
            keys: 0,
            limit_ticks: 0,
            unlimited: 0,
            by_key: Ascending::default(),
            phases: vec![0; page_size as usize],
            by_last_tick: Agenda::default(),
            by_done_tick: Agenda::default(),
            fresh: VecDeque::new(),
            aside: Vec::new(),
            ghosts: 0,
            joins: 0,
        }
    }

    pub(super) fn ticks(&self) -> u64 {
        self.ticks
    }

    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    pub(super) fn completed_at(&self) -> SimTime {
        self.completed_at
    }

    /// The clock goes back to zero, without members.
    pub(super) fn rewind_clock(&mut self) {
        self.completed_at = SimTime::ZERO;
    }

    /// Members out of the batch because their last tick is in flight.
    pub(super) fn aside(&self) -> &[Place] {
        &self.aside
    }

    /// The place of the next one to join.
    pub(super) fn next_place(&mut self) -> u64 {
        self.joins += 1;
        self.joins
    }

    /// A request joins; its first tick is the next.
    pub(super) fn join(&mut self, slot: u32, member: Member) {
        self.count += 1;
        self.keys += member.key;
        self.limit_ticks += member.limit_tick.unwrap_or(0);
        self.unlimited += u32::from(member.limit_tick.is_none());
        self.by_key.push(Listed::by_key(member.key, member.place, slot));
        self.phases[member.phase(self.page_size)] += 1;
        if member.last_tick < u64::MAX {
            self.by_last_tick.push(Listed::new(member.last_tick, member.place, slot));
        }
        // One whose last token comes from a step in flight leaves with that step.
        if member.joined < member.done_tick {
            self.by_done_tick.push(Listed::new(member.done_tick, member.place, slot));
        }
        self.fresh.push_back((member.joined + 1, (member.place, slot)));
    }

    /// Ticks whose outcome members still await up to their limits, all together; `None` if one has
    /// no limit tick. Those whose first outcome is awaited are counted as if it followed on.
    pub(super) fn ticks_to_limits(&self) -> Option<i64> {
        let completed = u64::from(self.count) * self.completed;
        let left = self.limit_ticks.cast_signed() - completed.cast_signed();
        (self.unlimited == 0).then_some(left)
    }

    /// Members whose first outcome is awaited; some may have left.
    pub(super) fn awaiting_first(&self) -> impl Iterator<Item = Place> {
        self.fresh.iter().map(|&(_, place)| place)
    }

    /// The first member whose last tick has been scheduled leaves the batch.
    #[inline]
    pub(super) fn set_aside(&mut self, member: impl Fn(u32) -> Option<Member>) -> Option<u32> {
        let (slot, current) = due(&mut self.by_last_tick, self.ticks, member)?;
        self.discount(&current);
        self.aside.push((current.place, slot));
        Some(slot)
    }

    /// Pages that the `ahead`-th tick from now takes, from 1.
    pub(super) fn claims_of_tick(&self, ahead: u64) -> u32 {
        self.phases[self.claiming_phase(self.ticks + ahead)]
    }

    /// The same for each of the next ticks, in `claims`.
    pub(super) fn claims_ahead(&self, ticks: usize, claims: &mut Vec<u32>) {
        claims.clear();
        let first = self.claiming_phase(self.ticks + 1);
        let (before, after) = self.phases.split_at(first + 1);
        claims.extend(before.iter().rev().chain(after.iter().rev()).take(ticks));
        repeat(claims, self.phases.len(), ticks);
    }

    fn claiming_phase(&self, tick: u64) -> usize {
        let page = u64::from(self.page_size);
        ((page - tick % page) % page) as usize
    }

    /// What the next tick computes.
    pub(super) fn next_tick(&mut self, member: impl Fn(u32) -> Option<Member>) -> Tick {
        let is_counted = |listed: &Listed| {
            let member = member(listed.slot()).filter(|m| m.place == listed.place());
            member.is_some_and(|m| m.last_tick > self.ticks)
        };
        while self.by_key.peek().is_some_and(|listed| !is_counted(listed)) {
            self.by_key.pop();
        }
        let tick = (self.ticks + 1).cast_signed();
        Tick {
            rows: self.count,
            context: (self.keys + i64::from(self.count) * tick) as u64,
            longest: self.by_key.peek().map_or(0, |longest| (longest.key() + tick) as u32),
        }
    }

    /// Schedules the next tick.
    pub(super) fn tick(&mut self) {
        self.ticks += 1;
    }

    /// Takes in the outcome of the oldest tick in flight, which has `rows`. Returns how many of
    /// them have had the outcome of the tick before; those that had another step before are
    /// appended to `fresh`, those that finish to `done`, in the order of the batch.
    pub(super) fn complete(
        &mut self,
        now: SimTime,
        rows: u32,
        member: impl Fn(u32) -> Option<Member>,
        fresh: &mut Vec<u32>,
        done: &mut Vec<Place>,
    ) -> u32 {
        self.completed += 1;
        self.completed_at = now;
        let is_here = |place, slot| member(slot).is_some_and(|m| m.place == place);
        while let Some(&(first, (place, slot))) = self.fresh.front() {
            if first > self.completed {
                break;
            }
            self.fresh.pop_front();
            if is_here(place, slot) {
                fresh.push(slot);
            }
        }
        while let Some((slot, current)) = due(&mut self.by_done_tick, self.completed, &member) {
            done.push((current.place, slot));
        }
        done.sort_unstable();
        rows - std::mem::take(&mut self.ghosts) - fresh.len() as u32
    }

    /// A member leaves.
    #[inline]
    pub(super) fn leave(&mut self, current: &Member) {
        if let Some(at) = self.aside.iter().position(|place| place.0 == current.place) {
            self.aside.swap_remove(at);
            return;
        }
        self.discount(current);
        if self.ticks > self.completed && self.ticks > current.joined {
            self.ghosts += 1;
        }
    }

    /// How many ticks can be scheduled, and as many outcomes taken in, before a member leaves the
    /// batch or finishes; 0 if somebody is about to or has just joined.
    pub(super) fn quiet_ticks(&mut self, member: impl Fn(u32) -> Option<Member>) -> u64 {
        let is_settled = self.fresh.is_empty() && self.aside.is_empty() && self.ghosts == 0;
        if self.count == 0 || !is_settled {
            return 0;
        }
        let leaves = first(&mut self.by_last_tick, &member);
        let finishes = first(&mut self.by_done_tick, &member);
        let leaves = leaves.map_or(u64::MAX, |(tick, ..)| tick.saturating_sub(self.ticks));
        let finishes =
            finishes.map_or(u64::MAX, |(tick, ..)| tick.saturating_sub(self.completed + 1));
        leaves.min(finishes)
    }

    /// So many further ticks were scheduled, and outcomes of as many came in.
    pub(super) fn quiet_ticks_done(&mut self, ticks: u64, now: SimTime) {
        self.ticks += ticks;
        self.completed += ticks;
        self.completed_at = now;
    }

    /// Everybody leaves.
    pub(super) fn clear(&mut self) {
        *self = Self {
            ticks: self.ticks,
            completed: self.ticks,
            joins: self.joins,
            ..Self::new(self.page_size)
        };
    }

    /// Takes a member out of what the next tick computes.
    #[inline]
    fn discount(&mut self, current: &Member) {
        self.count -= 1;
        self.keys -= current.key;
        self.limit_ticks -= current.limit_tick.unwrap_or(0);
        self.unlimited -= u32::from(current.limit_tick.is_none());
        self.phases[current.phase(self.page_size)] -= 1;
    }
}

/// The first entry whose member has not left.
fn first(
    agenda: &mut Agenda,
    member: impl Fn(u32) -> Option<Member>,
) -> Option<(u64, u32, Member)> {
    while let Some(&listed) = agenda.peek() {
        if let Some(current) = member(listed.slot()).filter(|m| m.place == listed.place()) {
            return Some((listed.number(), listed.slot(), current));
        }
        agenda.pop();
    }
    None
}

/// Takes the first entry, if its tick is not after `tick`.
fn due(
    agenda: &mut Agenda,
    tick: u64,
    member: impl Fn(u32) -> Option<Member>,
) -> Option<(u32, Member)> {
    let (at, slot, current) = first(agenda, member)?;
    (at <= tick).then(|| {
        agenda.pop();
        (slot, current)
    })
}
