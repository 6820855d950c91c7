//! A quantity over time, in bounded memory: bins that double in width when there are too many.

use crate::units::{SimDuration, SimTime};

const BINS_MAX: usize = 2048;

/// What a series sums up in each bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// A level that holds until it changes: bins hold its mean over time.
    Level,
    /// Amounts that happen at instants: bins hold their rate per second.
    Flow,
}

/// A bin of time from `start` up to `end`, in nanoseconds. Kept from one instant to the next, most
/// often in the same, it saves a division.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bin {
    pub(super) index: usize,
    start: u64,
    end: u64,
}

impl Bin {
    /// The bin that an instant is in, of those of this width.
    pub(super) fn of(nanos: u64, width: u64) -> Self {
        let index = nanos / width;
        Self { index: index as usize, start: index * width, end: (index + 1) * width }
    }

    /// The bin that an instant is in, of those as wide as this one: the next one, most often.
    fn onward(self, nanos: u64, width: u64) -> Self {
        let end = self.end.saturating_add(width);
        let next = Self { index: self.index + 1, start: self.end, end };
        if self.end > 0 && next.contains(nanos) { next } else { Self::of(nanos, width) }
    }

    /// Whether an instant is in it.
    #[inline]
    pub(super) fn contains(self, nanos: u64) -> bool {
        self.start <= nanos && nanos < self.end
    }
}

/// A quantity over the time of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    quantity: Quantity,
    bins_max: usize,
    bin: SimDuration,
    /// Level: value × nanoseconds. Flow: amount. Whole, so that the order of what is added does not
    /// matter.
    sums: Vec<u128>,
    /// The bin reached last.
    current: Bin,
    level: u64,
    since: SimTime,
}

impl Series {
    /// An empty series.
    pub fn new(quantity: Quantity) -> Self {
        Self::with_bins(quantity, BINS_MAX)
    }

    /// An empty series with at most so many bins.
    pub fn with_bins(quantity: Quantity, bins_max: usize) -> Self {
        Self {
            quantity,
            bins_max,
            bin: SimDuration::from_millis(10),
            sums: Vec::new(),
            current: Bin::default(),
            level: 0,
            since: SimTime::ZERO,
        }
    }

    /// The level changes to `value` at `now`.
    pub fn set(&mut self, now: SimTime, value: u64) {
        debug_assert_eq!(self.quantity, Quantity::Level);
        self.hold_until(now);
        self.level = value;
    }

    /// An `amount` happens at `now`.
    #[inline]
    pub fn add(&mut self, now: SimTime, amount: u64) {
        debug_assert_eq!(self.quantity, Quantity::Flow);
        // Nothing leaves no trace, so that a series does not tell how often it was told of nothing.
        if amount > 0 {
            let index = self.reach(now);
            self.sums[index] += u128::from(amount);
        }
    }

    /// An `amount` happens at each of these instants, in ascending order.
    pub(super) fn add_each(
        &mut self,
        times: impl DoubleEndedIterator<Item = SimTime> + ExactSizeIterator + Clone,
        amount: u64,
    ) {
        debug_assert_eq!(self.quantity, Quantity::Flow);
        let is_here =
            |at: Option<SimTime>| at.is_some_and(|at| self.current.contains(at.as_nanos()));
        if is_here(times.clone().next()) && is_here(times.clone().next_back()) {
            self.sums[self.current.index] += u128::from(amount) * times.len() as u128;
            return;
        }
        let (mut index, mut sum) = (self.current.index, 0);
        for at in times {
            if !self.current.contains(at.as_nanos()) {
                if sum > 0 {
                    self.sums[index] += u128::from(sum);
                }
                (index, sum) = (self.reach_anew(at), 0);
            }
            sum += amount;
        }
        if sum > 0 {
            self.sums[index] += u128::from(sum);
        }
    }

    /// An `amount` happens evenly from one instant to another. In any order.
    pub(super) fn spread(&mut self, from: SimTime, to: SimTime, amount: u64) {
        debug_assert_eq!(self.quantity, Quantity::Flow);
        let last = self.reach(to);
        let (whole, width) = (u128::from((to - from).as_nanos()), self.bin.as_nanos());
        let (mut from, mut rest) = (from.as_nanos(), u128::from(amount));
        for index in (from / width) as usize..last {
            let until = (index as u64 + 1) * width;
            let part = u128::from(amount) * u128::from(until - from) / whole;
            self.sums[index] += part;
            rest -= part;
            from = until;
        }
        self.sums[last] += rest;
    }

    /// The middle of each bin in seconds, and the mean level or rate in it, up to `end`.
    pub fn points(&self, end: SimTime) -> Vec<(f64, f64)> {
        let mut whole = self.clone();
        match whole.quantity {
            Quantity::Level => {
                let end = end.max(whole.since);
                whole.hold_until(end);
                whole.reach(end);
            }
            Quantity::Flow => _ = whole.reach(end),
        }
        let width = whole.bin.as_secs_f64();
        let scale = match whole.quantity {
            Quantity::Level => whole.bin.as_nanos() as f64,
            Quantity::Flow => width,
        };
        let middle = |index: usize| (index as f64 + 0.5) * width;
        whole.sums.iter().enumerate().map(|(i, sum)| (middle(i), *sum as f64 / scale)).collect()
    }

    /// A `level` holds from one instant to another, on top of what is there. In any order.
    #[inline]
    pub fn hold(&mut self, from: SimTime, to: SimTime, level: u64) {
        debug_assert_eq!(self.quantity, Quantity::Level);
        let Bin { index, start, end } = self.current;
        if start <= from.as_nanos() && to.as_nanos() < end {
            let nanos = to.as_nanos().saturating_sub(from.as_nanos());
            self.sums[index] += u128::from(level) * u128::from(nanos);
        } else if to > from && level > 0 {
            self.hold_across(from, to, level);
        }
    }

    fn hold_across(&mut self, from: SimTime, to: SimTime, level: u64) {
        let (before, width) = (self.current, self.bin);
        let last = self.reach(to);
        let (mut from, to) = (from.as_nanos(), to.as_nanos());
        let bin = self.bin.as_nanos();
        let is_from_there = before.contains(from) && self.bin == width;
        let mut index = if is_from_there { before.index } else { (from / bin) as usize };
        while index < last {
            let until = (index as u64 + 1) * bin;
            self.sums[index] += u128::from(level) * u128::from(until - from);
            from = until;
            index += 1;
        }
        self.sums[last] += u128::from(level) * u128::from(to - from);
    }

    fn hold_until(&mut self, now: SimTime) {
        if now > self.since {
            self.hold(self.since, now, self.level);
            self.since = now;
        }
    }

    /// Makes sure that there is a bin for `now`.
    #[inline]
    fn reach(&mut self, now: SimTime) -> usize {
        if self.current.contains(now.as_nanos()) {
            return self.current.index;
        }
        self.reach_anew(now)
    }

    #[cold]
    #[inline]
    fn reach_anew(&mut self, now: SimTime) -> usize {
        loop {
            let bin = self.current.onward(now.as_nanos(), self.bin.as_nanos());
            if bin.index < self.bins_max {
                // The next one, most often: growing by one is inlined.
                if bin.index > self.sums.len() {
                    self.sums.resize(bin.index, 0);
                }
                if bin.index == self.sums.len() {
                    self.sums.push(0);
                }
                self.current = bin;
                return bin.index;
            }
            self.widen();
        }
    }

    /// Level × nanoseconds, or the amount, of all that was told and has ended.
    pub(super) fn total(&self) -> u128 {
        self.sums.iter().sum()
    }

    fn widen(&mut self) {
        self.sums = self.sums.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.bin += self.bin;
        self.current = Bin::default();
    }

    /// Adds what another series of the same quantity holds, both of them told only what ends.
    pub(super) fn join(&mut self, mut other: Self) {
        debug_assert_eq!((self.quantity, self.level), (other.quantity, other.level));
        while self.bin < other.bin {
            self.widen();
        }
        while other.bin < self.bin {
            other.widen();
        }
        if self.sums.len() < other.sums.len() {
            self.sums.resize(other.sums.len(), 0);
        }
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_millis(millis)
    }

    #[test]
    fn a_level_is_averaged_over_time() {
        let mut series = Series::new(Quantity::Level);
        series.set(at(0), 4);
        series.set(at(5), 8);
        // first bin of 10 ms: 5 ms at 4 and 5 ms at 8
        let points = series.points(at(20));
        assert!((points[0].1 - 6.0).abs() < 1e-9);
        assert!((points[1].1 - 8.0).abs() < 1e-9);
    }

    #[test]
    fn bins_double_and_nothing_is_lost() {
        let mut series = Series::new(Quantity::Flow);
        for second in 0..100 {
            series.add(at(second * 1000), 7);
        }
        let bin = series.bin.as_secs_f64();
        let total: f64 = series.points(at(0)).iter().map(|(_, rate)| rate * bin).sum();
        assert!(series.sums.len() <= BINS_MAX);
        assert!((total - 700.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_spread_lies_in_its_time_and_adds_up() {
        let mut series = Series::new(Quantity::Flow);
        // bins of 10 ms: a third of the time in each of two, a sixth in the ones beside them
        series.spread(at(5), at(35), 1_000);
        assert_eq!(series.sums, [166, 333, 333, 168]);
        series.spread(at(12), at(12), 7);
        series.spread(at(9), at(90_000), 12_345);
        assert_eq!(series.total(), 13_352);
    }

    #[test]
    fn nothing_that_happens_leaves_no_trace() {
        let mut flow = Series::new(Quantity::Flow);
        flow.add(at(90_000), 0);
        assert_eq!(flow, Series::new(Quantity::Flow));
        let mut level = Series::new(Quantity::Level);
        level.hold(at(5), at(90_000), 0);
        assert_eq!(level, Series::new(Quantity::Level));
        assert_eq!(level.points(at(25)).len(), 3);
    }

    #[test]
    fn series_joined_hold_what_one_would_hold() {
        let mut whole = Series::new(Quantity::Level);
        let mut parts = [Series::new(Quantity::Level), Series::new(Quantity::Level)];
        for (index, (from, to)) in
            [(0, 7), (3, 90_000), (40, 41), (50, 25_000)].into_iter().enumerate()
        {
            whole.hold(at(from), at(to), 3);
            parts[index % 2].hold(at(from), at(to), 3);
        }
        let [mut joined, other] = parts;
        assert_ne!(joined.bin, other.bin);
        joined.join(other);
        assert_eq!(joined.points(at(90_000)), whole.points(at(90_000)));
    }

    /// What each bin holds of this level, bin by bin.
    fn add_plainly(sums: &mut Vec<u128>, bin: u64, (from, to): (u64, u64), level: u64) {
        sums.resize(sums.len().max((to / bin) as usize + 1), 0);
        for (index, sum) in (0_u64..).zip(sums) {
            let (start, end) = (from.max(index * bin), to.min((index + 1) * bin));
            *sum += u128::from(level) * u128::from(end.saturating_sub(start));
        }
    }

    proptest! {
        /// Whether an instant lies in the bin reached last, in the next, before or far behind.
        #[test]
        fn bins_hold_what_is_in_them_however_they_are_reached(
            holds in proptest::collection::vec((0_u64..40_000, 0_u64..30_000, 0_u64..50), 1..60),
            in_order in any::<bool>(),
        ) {
            let mut series = Series::with_bins(Quantity::Level, 8);
            series.bin = SimDuration::from_micros(1);
            let mut now = 0;
            let mut told = Vec::new();
            for (gap, length, level) in holds {
                let from = if in_order { now } else { gap };
                let to = from + length * 1_000 / 2;
                (now, told) = (to, [told, vec![((from, to), level)]].concat());
                series.hold(SimTime::from_nanos(from), SimTime::from_nanos(to), level);
            }
            let mut plain = Vec::new();
            let seen = told.iter().filter(|((from, to), level)| to > from && *level > 0);
            for (span, level) in seen {
                add_plainly(&mut plain, series.bin.as_nanos(), *span, *level);
            }
            prop_assert_eq!(&series.sums, &plain);
        }
    }
}
