//! A trace in figures: rate, burstiness, lengths, prefix reuse, in one pass.
//!
//! Percentiles are numpy-linear, the variation of gaps that of the population, minutes are whole
//! ones counted from the first row. Figures on gaps need rows in order of time and are left out
//! otherwise. Memory grows with distinct lengths, minutes and prefix blocks, not with rows.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::stats::Sample;
use crate::stats::Weighted;

use super::error::TraceError;
use super::format::TimeUnit;
use super::format::TraceFormat;
use super::reader::RawRow;
use super::reader::Skipped;
use super::reader::TraceOptions;
use super::reader::open;
use super::reuse::PrefixReuse;
use super::reuse::ReuseCounter;

/// A trace in figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// The file or folder.
    pub file: String,
    /// Its format, as stated or as found.
    pub format: TraceFormat,
    /// The unit of its clock; none without times.
    pub time_unit: Option<TimeUnit>,
    /// Rows that are requests.
    pub rows: u64,
    /// Rows that are not.
    pub skipped: Skipped,
    /// When requests arrive; none without times.
    pub time: Option<TimeSummary>,
    /// Prompt lengths in tokens.
    pub prompt_tokens: LengthSummary,
    /// Answer lengths in tokens.
    pub output_tokens: LengthSummary,
    /// What prompts share; none without hash ids.
    pub prefix: Option<PrefixReuse>,
}

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

/// Lengths in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LengthSummary {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// Reads a trace to its end and summarises it. Rows need not be in order of time.
///
/// # Errors
/// [`TraceError`] as from [`open`], and for the first row that cannot be used.
pub fn describe(
    path: &Path,
    format: Option<TraceFormat>,
    options: &TraceOptions,
) -> Result<TraceSummary, TraceError> {
    let mut reader = open(path, format, options)?;
    let mut rows = 0;
    let mut clock: Option<Clock> = None;
    let (mut prompts, mut outputs) = (Lengths::default(), Lengths::default());
    let mut reuse = ReuseCounter::new();
    while let Some(row) = reader.next_raw()? {
        rows += 1;
        tell(&mut clock, &row);
        prompts.add(row.prompt_tokens);
        outputs.add(row.output_tokens);
        reuse.add(&row);
    }
    Ok(TraceSummary {
        file: path.display().to_string(),
        format: reader.format(),
        time_unit: reader.time_unit(),
        rows,
        skipped: reader.skipped(),
        time: clock.map(|clock| clock.finish(rows)),
        prompt_tokens: prompts.finish(),
        output_tokens: outputs.finish(),
        prefix: reuse.finish(),
    })
}

fn tell(clock: &mut Option<Clock>, row: &RawRow) {
    match (clock, row.stamp) {
        (_, None) => {}
        (Some(clock), Some(stamp)) => clock.tick(stamp),
        (clock @ None, Some(stamp)) => *clock = Some(Clock::start(stamp)),
    }
}

/// Counts of each length: short ones in a table, the few very long ones in a map.
#[derive(Default)]
struct Lengths {
    short: Vec<u64>,
    long: BTreeMap<u32, u64>,
}

impl Lengths {
    const SHORT: usize = 1 << 17;

    fn add(&mut self, tokens: u32) {
        let at = tokens as usize;
        if at < self.short.len() {
            self.short[at] += 1;
        } else if at < Self::SHORT {
            self.short.resize((at + 1).next_power_of_two(), 0);
            self.short[at] += 1;
        } else {
            *self.long.entry(tokens).or_default() += 1;
        }
    }

    fn finish(self) -> LengthSummary {
        let short = (0_u32..).zip(self.short).filter(|(_, count)| *count > 0);
        let counts = short.chain(self.long).map(|(tokens, count)| (f64::from(tokens), count));
        let sample = Weighted::new(counts.collect());
        LengthSummary {
            mean: sample.mean(),
            p50: sample.percentile(50.0),
            p90: sample.percentile(90.0),
            p99: sample.percentile(99.0),
            max: sample.max(),
        }
    }
}

const MINUTE_NANOS: u64 = 60_000_000_000;
/// Above this many different gaps their median is no longer kept.
const DISTINCT_GAPS_MAX: usize = 4096;

/// What stamps, one after the other, say.
struct Clock {
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
    fn start(stamp: i64) -> Self {
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

    fn tick(&mut self, stamp: i64) {
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

    fn finish(self, rows: u64) -> TimeSummary {
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

impl GapSummary {
    /// Whether most requests share their stamp with the one before, so that the clock rather than
    /// the clients made the bursts.
    pub fn is_quantised(&self) -> bool {
        self.zero_share > 0.5
    }
}

impl TraceSummary {
    /// One line on what is about to be replayed: format, rows, unit of time, span, rate.
    pub fn statement(&self) -> String {
        let Self { file, format, rows, .. } = self;
        let skipped = match self.skipped.total() {
            0 => String::new(),
            skipped => format!(" ({skipped} skipped)"),
        };
        let times = match (&self.time, self.time_unit) {
            (Some(time), Some(unit)) => {
                let rate = time.rate_per_s.map(|rate| format!(", {rate:.2} requests/s"));
                format!("times in {unit}, span {:.1} s{}", time.span_s, rate.unwrap_or_default())
            }
            _ => "no times".to_owned(),
        };
        format!("{file}: {format} trace, {rows} requests{skipped}, {times}")
    }

    /// What a replay of this trace should mind.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        let Some(time) = &self.time else { return notices };
        if time.rows_out_of_order > 0 {
            notices.push(format!(
                "{} rows are earlier than the row before: the file is not in order of time",
                time.rows_out_of_order
            ));
        }
        if let Some(gaps) = time.gaps.as_ref().filter(|gaps| gaps.is_quantised()) {
            let step = gaps.step_median_s.map_or_else(String::new, |s| format!(", {s} s apart"));
            notices.push(format!(
                "{:.0}% of requests arrive with the one before: {} stamps{step}; latency tails \
                 of a raw replay come from that",
                gaps.zero_share * 100.0,
                gaps.distinct_stamps
            ));
        }
        notices
    }
}

impl fmt::Display for TraceSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.file)?;
        line(f, "format", format_args!("{}", self.format))?;
        line(f, "requests", format_args!("{}", self.rows))?;
        if self.skipped.total() > 0 {
            let Skipped { zero_prompt, zero_output } = self.skipped;
            let reasons = format!("{zero_prompt} without prompt, {zero_output} without output");
            line(f, "skipped", format_args!("{} ({reasons})", self.skipped.total()))?;
        }
        if let Some(time) = &self.time {
            time.fmt(f)?;
            line(f, "time unit", format_args!("{}", self.time_unit.unwrap_or(TimeUnit::Seconds)))?;
        }
        writeln!(f, "  {:<16}{:>9}{:>9}{:>9}{:>9}{:>9}", "", "mean", "p50", "p90", "p99", "max")?;
        self.prompt_tokens.fmt_line(f, "prompt tokens")?;
        self.output_tokens.fmt_line(f, "output tokens")?;
        if let Some(prefix) = &self.prefix {
            prefix.fmt(f)?;
        }
        for notice in self.notices() {
            writeln!(f, "  note: {notice}")?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, value: fmt::Arguments<'_>) -> fmt::Result {
    writeln!(f, "  {name:<16}{value}")
}

impl TimeSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, "span", format_args!("{:.1} s", self.span_s))?;
        if let Some(rate) = self.rate_per_s {
            line(f, "rate", format_args!("{rate:.2} requests/s"))?;
        }
        let Some(gaps) = &self.gaps else { return Ok(()) };
        let (fewest, most) = (gaps.per_minute_min, gaps.per_minute_max);
        line(f, "per minute", format_args!("{fewest} to {most} requests"))?;
        if let Some(cv) = gaps.cv {
            let zero = gaps.zero_share * 100.0;
            line(f, "gaps", format_args!("variation {cv:.2}, {zero:.1}% zero"))?;
        }
        let (stamps, most) = (gaps.distinct_stamps, gaps.same_stamp_max);
        let unit = gaps.resolution_s;
        line(
            f,
            "stamps",
            format_args!("{stamps} different, multiples of {unit} s, at most {most} equal"),
        )
    }
}

impl LengthSummary {
    fn fmt_line(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        let Self { mean, p50, p90, p99, max } = self;
        writeln!(f, "  {name:<16}{mean:>9.1}{p50:>9.0}{p90:>9.0}{p99:>9.0}{max:>9.0}")
    }
}

impl PrefixReuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [blocks, tokens, requests, once] = [
            self.hit_blocks_share,
            self.hit_tokens_share,
            self.hit_requests_share,
            self.used_once_share,
        ]
        .map(|share| share * 100.0);
        line(
            f,
            "prefix reuse",
            format_args!(
                "{blocks:.1}% of blocks, {tokens:.1}% of tokens, {requests:.1}% of requests; \
                 {once:.1}% of different blocks used once"
            ),
        )?;
        let sizes = self.lru.iter().map(|at| {
            format!("{}k {:.1}%", at.capacity_blocks / 1000, at.hit_blocks_share * 100.0)
        });
        line(f, "LRU hits", format_args!("{} of blocks", sizes.collect::<Vec<_>>().join(", ")))
    }
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
