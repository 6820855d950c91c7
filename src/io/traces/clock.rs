//! When requests arrive, told from their stamps one after the other: span, rate, gaps, minutes,
//! and how coarse the clock is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stats::Sample;
use crate::stats::Weighted;

/// When requests arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeSummary {
    /// From the earliest to the latest request, in seconds.
    pub span_s: f64,
    /// Requests per second of that span; none when the span is zero.
    pub rate_per_s: Option<f64>,
    /// Rows that are earlier than the row before.
    pub rows_out_of_order: u64,
    /// How requests follow one another; none when rows are out of order.
    pub gaps: Option<GapSummary>,
}

/// How requests follow one another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GapSummary {
    /// The deviation of gaps over their mean; none when all gaps are zero.
    pub cv: Option<f64>,
    /// The share of gaps that are zero.
    pub zero_share: f64,
    /// Different stamps.
    pub distinct_stamps: u64,
    /// The most requests with one stamp.
    pub same_stamp_max: u64,
    /// The largest unit that all stamps are a multiple of from the first on, in seconds.
    pub resolution_s: f64,
    /// The median of gaps above zero, in seconds, where gaps take few different values.
    pub step_median_s: Option<f64>,
    /// The fewest requests in a whole minute.
    pub per_minute_min: u64,
    /// The most requests in a whole minute.
    pub per_minute_max: u64,
}

impl GapSummary {
    /// Whether most requests share their stamp with the one before, so that the clock rather than
    /// the clients made the bursts.
    pub fn is_quantised(&self) -> bool {
        self.zero_share > 0.5
    }
}

const MINUTE_NANOS: u64 = 60_000_000_000;
/// Above this many different gaps their median is no longer kept.
const DISTINCT_GAPS_MAX: usize = 4096;

/// What stamps, one after the other, say.
pub(super) struct Clock {
    first: i64,
    last: i64,
    earliest: i64,
    latest: i64,
    out_of_order: u64,
    gaps: u64,
    zero_gaps: u64,
    /// Mean and summed squares of deviations of gaps in seconds (Welford 1962).
    mean: f64,
    squares: f64,
    same_stamp: u64,
    same_stamp_max: u64,
    resolution: u64,
    steps: Option<BTreeMap<u64, u64>>,
    minute: u64,
    minute_rows: u64,
    /// Fewest and most requests of the minutes that are over.
    over: Option<(u64, u64)>,
}

impl Clock {
    /// The first stamp.
    pub(super) fn start(stamp: i64) -> Self {
        Self {
            first: stamp,
            last: stamp,
            earliest: stamp,
            latest: stamp,
            out_of_order: 0,
            gaps: 0,
            zero_gaps: 0,
            mean: 0.0,
            squares: 0.0,
            same_stamp: 1,
            same_stamp_max: 1,
            resolution: 0,
            steps: Some(BTreeMap::new()),
            minute: 0,
            minute_rows: 1,
            over: None,
        }
    }

    /// The earliest stamp so far.
    pub(super) fn earliest(&self) -> i64 {
        self.earliest
    }

    /// The next stamp.
    pub(super) fn tick(&mut self, stamp: i64) {
        let last = std::mem::replace(&mut self.last, stamp);
        self.earliest = self.earliest.min(stamp);
        self.latest = self.latest.max(stamp);
        if stamp < last {
            self.out_of_order += 1;
        }
        if self.out_of_order > 0 {
            return;
        }
        let gap = stamp.abs_diff(last);
        self.gaps += 1;
        let seconds = gap as f64 / 1e9;
        let deviation = seconds - self.mean;
        self.mean += deviation / self.gaps as f64;
        self.squares += deviation * (seconds - self.mean);
        if gap == 0 {
            self.zero_gaps += 1;
            self.same_stamp += 1;
            self.same_stamp_max = self.same_stamp_max.max(self.same_stamp);
        } else {
            self.same_stamp = 1;
            self.step(gap);
        }
        self.turn_to(stamp.abs_diff(self.first) / MINUTE_NANOS);
        self.minute_rows += 1;
    }

    fn step(&mut self, gap: u64) {
        self.resolution = greatest_common_divisor(self.resolution, gap);
        if let Some(steps) = &mut self.steps {
            *steps.entry(gap).or_default() += 1;
            if steps.len() > DISTINCT_GAPS_MAX {
                self.steps = None;
            }
        }
    }

    /// Closes the minutes before `minute`.
    fn turn_to(&mut self, minute: u64) {
        if minute == self.minute {
            return;
        }
        let fewest = if minute > self.minute + 1 { 0 } else { self.minute_rows };
        let (min, max) = self.over.unwrap_or((fewest, 0));
        self.over = Some((min.min(fewest), max.max(self.minute_rows)));
        self.minute = minute;
        self.minute_rows = 0;
    }

    /// The summary of `rows` stamps.
    pub(super) fn finish(self, rows: u64) -> TimeSummary {
        let span_s = self.latest.abs_diff(self.earliest) as f64 / 1e9;
        TimeSummary {
            span_s,
            rate_per_s: (span_s > 0.0).then(|| rows as f64 / span_s),
            rows_out_of_order: self.out_of_order,
            gaps: (self.out_of_order == 0 && self.gaps > 0).then(|| self.gap_summary()),
        }
    }

    fn gap_summary(self) -> GapSummary {
        let deviation = (self.squares / self.gaps as f64).sqrt();
        let (per_minute_min, per_minute_max) =
            self.over.unwrap_or((self.minute_rows, self.minute_rows));
        GapSummary {
            cv: (self.mean > 0.0).then(|| deviation / self.mean),
            zero_share: self.zero_gaps as f64 / self.gaps as f64,
            distinct_stamps: self.gaps - self.zero_gaps + 1,
            same_stamp_max: self.same_stamp_max,
            resolution_s: self.resolution as f64 / 1e9,
            step_median_s: self.steps.filter(|steps| !steps.is_empty()).map(|steps| {
                let pairs = steps.into_iter().map(|(gap, count)| (gap as f64, count));
                Weighted::new(pairs.collect()).percentile(50.0) / 1e9
            }),
            per_minute_min,
            per_minute_max,
        }
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(seconds: &[f64]) -> TimeSummary {
        let mut stamps = seconds.iter().map(|s| (s * 1e9) as i64);
        let mut clock = Clock::start(stamps.next().unwrap());
        stamps.for_each(|stamp| clock.tick(stamp));
        clock.finish(seconds.len() as u64)
    }

    #[test]
    fn minutes_without_requests_count_as_zero() {
        let gaps = clock(&[0.0, 1.0, 2.0, 185.0, 186.0]).gaps.unwrap();
        // minute 0 has three, 1 and 2 none, 3 is not over
        assert_eq!((gaps.per_minute_min, gaps.per_minute_max), (0, 3));
        let gaps = clock(&[0.0, 59.0, 61.0, 119.0, 119.5, 121.0]).gaps.unwrap();
        assert_eq!((gaps.per_minute_min, gaps.per_minute_max), (2, 3));
    }

    #[test]
    fn a_coarse_clock_shows() {
        let gaps = clock(&[0.0, 0.0, 0.0, 3.0, 3.0, 9.0]).gaps.unwrap();
        // gaps 0 0 3 0 6: mean 1.8, squares 9 + 36 = 45 over 5 less 3.24 = 5.76 = 2.4²
        assert!((gaps.cv.unwrap() - 2.4 / 1.8).abs() < 1e-12);
        assert!((gaps.zero_share - 0.6).abs() < 1e-12);
        assert_eq!((gaps.distinct_stamps, gaps.same_stamp_max), (3, 3));
        assert!((gaps.resolution_s - 3.0).abs() < 1e-12);
        assert!((gaps.step_median_s.unwrap() - 4.5).abs() < 1e-12);
        assert!(gaps.is_quantised());
    }

    #[test]
    fn rows_out_of_order_have_a_span_but_no_gaps() {
        let time = clock(&[5.0, 1.0, 9.0]);
        assert_eq!(time.rows_out_of_order, 1);
        assert!((time.span_s - 8.0).abs() < 1e-12);
        assert_eq!(time.gaps, None);
    }
}
