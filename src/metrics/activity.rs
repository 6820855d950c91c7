//! What a device does over time, in bounded memory: the time it spends on each kind of step, in bins
//! that double in width when there are too many.

use super::replica::ReplicaLog;
use crate::cost::StepShape;
use crate::units::{SimDuration, SimTime};

/// A figure shows half as many columns.
const BINS_MAX: usize = ReplicaLog::BINS_MAX;
const FIRST_WIDTH: u64 = 10_000_000;

/// What a step computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Prompts only.
    Prefill,
    /// Prompts beside sequences that decode.
    Mixed,
    /// One further token, or a few with drafts, of each sequence.
    Decode,
}

impl StepKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Prefill, Self::Mixed, Self::Decode];

    /// The kind of a step of this shape.
    #[inline]
    pub fn of(shape: &StepShape) -> Self {
        match (shape.prefill_seqs, shape.decode_seqs) {
            (0, _) => Self::Decode,
            (_, 0) => Self::Prefill,
            _ => Self::Mixed,
        }
    }

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Mixed => "mixed",
            Self::Decode => "decode",
        }
    }
}

/// When a step is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlannedStep {
    pub(super) kind: StepKind,
    pub(super) from: SimTime,
    pub(super) until: SimTime,
}

impl PlannedStep {
    /// Before any step.
    pub(super) const NONE: Self =
        Self { kind: StepKind::Decode, from: SimTime::ZERO, until: SimTime::ZERO };
}

/// Nanoseconds by kind of step.
type Spent = [u64; StepKind::ALL.len()];

/// The steps of a device, which follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    width: u64,
    bins: Vec<Spent>,
    /// When the last bin ends.
    until: u64,
    /// When the last step ends.
    end: SimTime,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            width: FIRST_WIDTH,
            bins: vec![Spent::default()],
            until: FIRST_WIDTH,
            end: SimTime::ZERO,
        }
    }
}

impl Activity {
    /// The device works from one moment to another.
    #[inline]
    pub(super) fn step(&mut self, kind: StepKind, from: SimTime, until: SimTime) {
        self.end = until;
        // Steps follow each other: none begins before the last bin.
        if until.as_nanos() <= self.until
            && let Some(bin) = self.bins.last_mut()
        {
            bin[kind as usize] += (until - from).as_nanos();
        } else {
            self.step_across(kind, from.as_nanos(), until.as_nanos());
        }
    }

    /// Steps of one kind, each from a moment to another, of which the last ends at `until`.
    #[inline]
    pub(super) fn steps(
        &mut self,
        kind: StepKind,
        until: SimTime,
        steps: impl Iterator<Item = (SimTime, SimDuration)>,
    ) {
        if until.as_nanos() <= self.until
            && let Some(bin) = self.bins.last_mut()
        {
            bin[kind as usize] += steps.map(|(_, duration)| duration.as_nanos()).sum::<u64>();
            self.end = until;
        } else {
            for (from, duration) in steps {
                self.step(kind, from, from + duration);
            }
        }
    }

    #[cold]
    fn step_across(&mut self, kind: StepKind, mut from: u64, until: u64) {
        while until.div_ceil(self.width) > BINS_MAX as u64 {
            self.widen();
        }
        self.bins.resize(until.div_ceil(self.width) as usize, Spent::default());
        self.until = self.bins.len() as u64 * self.width;
        while from < until {
            let index = from / self.width;
            let end = until.min((index + 1) * self.width);
            self.bins[index as usize][kind as usize] += end - from;
            from = end;
        }
    }

    /// The device stops at a moment: what was counted of these steps after it does not happen.
    pub(super) fn stop(&mut self, at: SimTime, steps: &[PlannedStep]) {
        for step in steps.iter().filter(|step| step.until > at) {
            let mut from = step.from.max(at).as_nanos();
            while from < step.until.as_nanos() {
                let index = from / self.width;
                let end = step.until.as_nanos().min((index + 1) * self.width);
                self.bins[index as usize][step.kind as usize] -= end - from;
                from = end;
            }
        }
        if self.end > at {
            self.end = at;
            self.bins.truncate(at.as_nanos().div_ceil(self.width).max(1) as usize);
            self.until = self.bins.len() as u64 * self.width;
        }
    }

    fn widen(&mut self) {
        self.width *= 2;
        let pairs = self.bins.chunks(2);
        let sum =
            |pair: &[Spent]| std::array::from_fn(|kind| pair.iter().map(|bin| bin[kind]).sum());
        self.bins = pairs.map(sum).collect();
    }

    /// When the last step ends.
    pub fn end(&self) -> SimTime {
        self.end
    }

    /// The time spent on one kind of step.
    pub fn spent(&self, kind: StepKind) -> SimDuration {
        SimDuration::from_nanos(self.bins.iter().map(|bin| bin[kind as usize]).sum())
    }

    /// The time spent on steps.
    pub fn busy(&self) -> SimDuration {
        StepKind::ALL.into_iter().fold(SimDuration::ZERO, |busy, kind| busy + self.spent(kind))
    }

    /// The middle of each bin in seconds, and the share of it that was spent on one kind of step.
    pub fn points(&self, kind: StepKind) -> Vec<(f64, f64)> {
        let width = SimDuration::from_nanos(self.width).as_secs_f64();
        let bins = self.bins.iter().enumerate();
        bins.map(|(index, bin)| {
            let share = bin[kind as usize] as f64 / self.width as f64;
            ((index as f64 + 0.5) * width, share)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix;

    fn at(micros: u64) -> SimTime {
        SimTime::from_nanos(micros * 1000)
    }

    #[test]
    fn the_time_of_every_step_is_kept_however_bins_widen() {
        let mut activity = Activity::default();
        let (mut now, mut spent) = (at(0), [0; 3]);
        for index in 0..5_000_u64 {
            let kind = StepKind::ALL[(mix(index) % 3) as usize];
            let from = now + SimDuration::from_micros(mix(index ^ 1) % 3_000);
            now = from + SimDuration::from_micros(1 + mix(index ^ 2) % 90_000);
            activity.step(kind, from, now);
            spent[kind as usize] += (now - from).as_nanos();
            assert!(activity.bins.len() <= BINS_MAX);
        }
        for kind in StepKind::ALL {
            assert_eq!(activity.spent(kind).as_nanos(), spent[kind as usize]);
            assert!(activity.points(kind).iter().all(|(_, share)| (0.0..=1.0).contains(share)));
        }
        assert_eq!(activity.end(), now);
    }

    #[test]
    fn a_device_that_stops_does_no_more() {
        let step = |from, until| PlannedStep { kind: StepKind::Prefill, from, until };
        let steps = [step(at(5_000), at(25_000)), step(at(25_000), at(90_000))];
        let mut activity = Activity::default();
        for planned in &steps {
            activity.step(planned.kind, planned.from, planned.until);
        }
        activity.stop(at(12_000), &steps);
        assert_eq!((activity.busy(), activity.end()), (SimDuration::from_millis(7), at(12_000)));
        // Later steps count where they are.
        activity.step(StepKind::Decode, at(14_000), at(16_000));
        let mut expected = Activity::default();
        expected.step(StepKind::Prefill, at(5_000), at(12_000));
        expected.step(StepKind::Decode, at(14_000), at(16_000));
        assert_eq!(activity, expected);
    }

    #[test]
    fn steps_told_together_are_kept_as_one_by_one() {
        let steps: Vec<_> =
            (0..900).map(|index| (at(7_000 * index), SimDuration::from_micros(6_500))).collect();
        let mut each = Activity::default();
        for (from, duration) in &steps {
            each.step(StepKind::Decode, *from, *from + *duration);
        }
        for pieces in [1, 13, 400] {
            let mut together = Activity::default();
            for piece in steps.chunks(pieces) {
                let (from, duration) = piece[piece.len() - 1];
                together.steps(StepKind::Decode, from + duration, piece.iter().copied());
            }
            assert_eq!(together, each);
        }
    }

    #[test]
    fn a_step_across_bins_counts_in_each_with_the_time_it_has_there() {
        let mut activity = Activity::default();
        // bins of 10 ms: 4 ms in the first, 10 ms in the second, 1 ms in the third
        activity.step(StepKind::Mixed, at(6_000), at(21_000));
        let shares: Vec<f64> = activity.points(StepKind::Mixed).iter().map(|(_, s)| *s).collect();
        assert_eq!(shares, [0.4, 1.0, 0.1]);
        assert_eq!(activity.busy(), SimDuration::from_millis(15));
    }
}
