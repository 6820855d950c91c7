//! Requests that displace each other without end.
//!
//! Under the priority policy the request that loses its memory is the first, in order of
//! admission, of those least urgent by priority and arrival (vLLM 0.33.0, `scheduler.py`,
//! `max(self.running, key=…)`). Where all running requests are equal in both, that is the one that
//! has got furthest: it starts over, gets the memory of the next, and none may ever reach its next
//! token. vLLM goes on like that for ever. Here the state at such a displacement is remembered;
//! once it has come back again and again without a token in between, the engine rests until
//! something comes from outside.

use super::VllmV1;
use crate::engine::StepPlan;
use crate::rng::mix;

/// A livelock is a state that came back so many times,
const RETURNS: u32 = 16;
/// over so many displacements.
const DISPLACEMENTS: u64 = 1024;

/// Displacements since the last token came out or something came from outside.
///
/// The state compared with is replaced after 1, 2, 4, … displacements (Brent, An improved Monte
/// Carlo factorization algorithm, 1980), so that a cycle is found within a few of its lengths.
#[derive(Debug, Clone, Default)]
pub(super) struct Livelock {
    state: Option<u64>,
    since: u64,
    window: u64,
    returns: u32,
    covered: u64,
}

impl Livelock {
    /// Something got on, or might now.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Whether nothing will change any more.
    pub(super) fn is_found(&self) -> bool {
        self.returns >= RETURNS && self.covered >= DISPLACEMENTS
    }

    fn displaced(&mut self, state: u64) {
        self.since += 1;
        if self.state == Some(state) {
            self.returns += 1;
            self.covered += self.since;
            self.since = 0;
        } else if self.since >= self.window {
            let window = (2 * self.window).max(1);
            *self = Self { state: Some(state), window, ..Self::default() };
        }
    }
}

impl VllmV1 {
    /// The running request at `index` is about to lose its memory.
    pub(super) fn note_displacement(&mut self, index: usize, budget: u32, plan: &StepPlan) {
        // A running request more urgent than the victim is no victim itself, and gets on.
        let is_alone = self.running.len() == 1;
        let may_be_in_vain = if self.is_by_priority() {
            let least = self.urgency(index);
            (0..self.running.len()).all(|other| self.urgency(other) >= least)
        } else {
            is_alone
        };
        if may_be_in_vain {
            let state = self.state(index, budget, plan);
            self.livelock.displaced(state);
        }
    }

    /// What decides what happens next, but for the content of the cache.
    fn state(&self, victim: usize, budget: u32, plan: &StepPlan) -> u64 {
        let interval = u64::from(self.settings.prefill_schedule_interval);
        let since_prefill = self
            .last_prefill_step
            .map_or(interval, |step| (self.executed_steps - step).min(interval));
        let whole = [
            victim as u64,
            u64::from(budget),
            plan.entries.len() as u64,
            since_prefill,
            u64::from(self.capacity_bound),
            u64::from(self.pool.free()),
            u64::from(self.waiting.len()),
            u64::from(self.holding.len()),
        ];
        let whole = whole.iter().fold(0, |hash, part| mix(hash ^ part));
        self.running.iter().fold(whole, |hash, &slot| {
            let s = &self.sequences[slot as usize];
            let parts = [slot, s.computed, s.tokens, s.in_flight, s.placeholders, s.drafts];
            let hash = parts.iter().fold(hash, |hash, &part| mix(hash ^ u64::from(part)));
            mix(hash ^ u64::from(s.verifications))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Displacements until a cycle of so many states is found, after as many that do not recur.
    fn found_after(before: u64, cycle: u64) -> u64 {
        let mut livelock = Livelock::default();
        for count in 1.. {
            let state = if count <= before { count } else { before + 1 + count % cycle };
            livelock.displaced(state);
            if livelock.is_found() {
                return count;
            }
            assert!(count < 1_000_000, "{before} then {cycle}");
        }
        unreachable!()
    }

    #[test]
    fn a_cycle_is_found_within_a_few_of_its_lengths() {
        for (before, cycle) in [(0, 1), (0, 2), (7, 3), (100, 1000), (5000, 7)] {
            let most = 4 * before + (4 + u64::from(RETURNS)) * cycle + 2 * DISPLACEMENTS;
            let count = found_after(before, cycle);
            assert!((DISPLACEMENTS..=most).contains(&count), "{before}, {cycle}: {count}");
        }
    }

    #[test]
    fn what_never_recurs_is_none() {
        let mut livelock = Livelock::default();
        for state in 0..100_000 {
            livelock.displaced(state);
            assert!(!livelock.is_found());
        }
    }
}
