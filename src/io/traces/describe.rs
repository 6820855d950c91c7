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
use crate::workload::TraceRows;

use super::clock::Clock;
use super::clock::TimeSummary;
use super::error::TraceError;
use super::format::TimeUnit;
use super::format::TraceFormat;
use super::reader::Origin;
use super::reader::RawRow;
use super::reader::Skipped;
use super::reader::TraceOptions;
use super::reader::TraceReader;
use super::reader::open_at_origin;
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
/// [`TraceError`] as from [`open`](super::open), and for the first row that cannot be used.
pub fn describe(
    path: &Path,
    format: Option<TraceFormat>,
    options: &TraceOptions,
) -> Result<TraceSummary, TraceError> {
    let mut reuse = ReuseCounter::new();
    let scanned = scan(path, format, options, |row| reuse.add(&row))?;
    Ok(TraceSummary { prefix: reuse.finish(), ..scanned.summary })
}

/// Rows that are kept from the scan to the replay, and hash ids in them; larger traces are read
/// again.
const KEPT_ROWS_MAX: usize = 1 << 18;
const KEPT_IDS_MAX: usize = 1 << 22;

/// Summarises a trace, but for what prompts share, and opens it: a short one is read only once.
///
/// # Errors
/// As [`describe`].
pub fn describe_and_open(
    path: &Path,
    format: Option<TraceFormat>,
    options: &TraceOptions,
) -> Result<(TraceSummary, TraceRows), TraceError> {
    let (mut kept, mut ids) = (Vec::new(), 0);
    let scanned = scan(path, format, options, |row| {
        ids += row.hash_ids.len();
        if kept.len() <= KEPT_ROWS_MAX && ids <= KEPT_IDS_MAX {
            kept.push(row);
        }
    })?;
    let origin = scanned.earliest.filter(|_| options.origin == Origin::EarliestRow);
    let rows = if kept.len() as u64 == scanned.summary.rows {
        scanned.reader.replay(kept, origin)
    } else {
        drop(kept);
        open_at_origin(path, format, options, origin)?.into_rows()
    };
    Ok((scanned.summary, rows))
}

/// A trace that was read to its end.
struct Scanned {
    summary: TraceSummary,
    earliest: Option<i64>,
    reader: TraceReader,
}

fn scan(
    path: &Path,
    format: Option<TraceFormat>,
    options: &TraceOptions,
    mut keep: impl FnMut(RawRow),
) -> Result<Scanned, TraceError> {
    let mut reader = open_at_origin(path, format, options, None)?;
    let mut rows = 0;
    let mut clock: Option<Clock> = None;
    let (mut prompts, mut outputs) = (Lengths::default(), Lengths::default());
    while let Some(row) = reader.next_raw()? {
        rows += 1;
        tell(&mut clock, &row);
        prompts.add(row.prompt_tokens);
        outputs.add(row.output_tokens);
        keep(row);
    }
    let earliest = clock.as_ref().map(Clock::earliest);
    let summary = TraceSummary {
        file: path.display().to_string(),
        format: reader.format(),
        time_unit: reader.time_unit(),
        rows,
        skipped: reader.skipped(),
        time: clock.map(|clock| clock.finish(rows)),
        prompt_tokens: prompts.finish(),
        output_tokens: outputs.finish(),
        prefix: None,
    };
    Ok(Scanned { summary, earliest, reader })
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
            let count = time.rows_out_of_order;
            let (rows, are) = if count == 1 { ("row", "is") } else { ("rows", "are") };
            notices.push(format!(
                "{count} {rows} {are} earlier than the row before: the file is not in order of time"
            ));
        }
        if let Some(gaps) = time.gaps.as_ref().filter(|gaps| gaps.is_quantised()) {
            let step = gaps.step_median_s.map_or_else(String::new, |s| format!(", {s} s apart"));
            notices.push(format!(
                "{:.0}% of requests arrive with the one before: {} stamps{step}; latency tails \
                 of a replay come from that unless workload.arrivals.jitter_s spreads them",
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
