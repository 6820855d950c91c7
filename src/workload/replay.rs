//! The times of a recorded trace: windowed, jittered, copied, scaled, and put in order.
//!
//! Rows pass through a queue. One leaves it when the queue holds more than [`WINDOW_ROWS`] and no
//! later row can come before it as long as rows are at most that many places out of order, so
//! memory does not grow with the trace. A target rate, or `sort = "whole_trace"`, reads everything
//! first.

use std::cmp::Ordering;

use rand::RngExt;

use crate::des::Ascending;
use crate::rng::Seed;
use crate::rng::Stream;
use crate::scenario::RowSort;
use crate::scenario::TraceArrivalConfig;
use crate::units::SimDuration;
use crate::units::SimTime;
use crate::workload::draft::Draft;
use crate::workload::rows::{self, Rows};
use crate::workload::trace::TraceRow;
use crate::workload::trace::WorkloadError;

/// How many rows may wait to be put in order.
const WINDOW_ROWS: usize = 4096;

/// Drafts with arrivals, in order.
#[derive(Debug)]
pub(super) struct Replay {
    pub rows: Rows,
    config: TraceArrivalConfig,
    window: std::ops::Range<SimTime>,
    jitter: Stream,
    waiting: Ascending<Waiting>,
    /// The latest time of the trace read so far, from the window's start.
    read_until: SimTime,
    played_until: SimTime,
    exhausted: bool,
    entered: u64,
    /// How many times as fast the trace is played, once known.
    scale: Option<f64>,
    pub out_of_order: u64,
    pub outside_window: u64,
    /// The first and the last time of rows outside the window.
    outside: Option<(SimTime, SimTime)>,
}

/// A draft on its way through the queue, by time of the trace and then by place in the file.
#[derive(Debug)]
struct Waiting {
    at: SimTime,
    place: u64,
    draft: Draft,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.place).cmp(&(other.at, other.place))
    }
}

impl Replay {
    pub(super) fn new(rows: Rows, config: &TraceArrivalConfig, seed: Seed) -> Self {
        let start = SimTime::from_secs_f64(config.window_start_s.unwrap_or(0.0));
        let end = config.window_end_s.map_or(SimTime::MAX, SimTime::from_secs_f64);
        Self {
            rows,
            config: config.clone(),
            window: start..end,
            jitter: seed.stream("jitter", 0),
            waiting: Ascending::default(),
            read_until: SimTime::ZERO,
            played_until: SimTime::ZERO,
            exhausted: false,
            entered: 0,
            scale: config.rate_per_s.is_none().then_some(config.rate_scale),
            out_of_order: 0,
            outside_window: 0,
            outside: None,
        }
    }

    /// What to say where no row was played.
    pub(super) fn nothing(&self) -> String {
        let Some((first, last)) = self.outside else { return rows::NOTHING.to_owned() };
        format!(
            "none of its rows lies in the window {}: they come from {} s to {} s; move \
             workload.arrivals.window_start_s or window_end_s",
            self.window_in_words(),
            first.as_secs_f64(),
            last.as_secs_f64(),
        )
    }

    /// Which rows it plays, where some outside the window were left out.
    pub(super) fn played(&self) -> String {
        let window = self.outside.map(|_| format!(" in the window {}", self.window_in_words()));
        window.unwrap_or_default()
    }

    fn window_in_words(&self) -> String {
        let start = self.window.start.as_secs_f64();
        match self.config.window_end_s {
            None => format!("from {start} s on"),
            Some(end) => format!("from {start} s to {end} s"),
        }
    }

    /// The next draft of the trace.
    pub(super) fn next(&mut self) -> Option<Result<Draft, WorkloadError>> {
        while !self.exhausted && !self.first_is_settled() {
            match self.rows.next_row() {
                None => self.exhausted = true,
                Some(row) => {
                    if let Err(error) = row.and_then(|row| self.enter(&row)) {
                        return Some(Err(error));
                    }
                }
            }
        }
        let scale = match self.scale {
            Some(scale) => scale,
            None if self.waiting.is_empty() => return None,
            None => match self.scale_to_rate() {
                Ok(scale) => *self.scale.insert(scale),
                Err(error) => return Some(Err(error)),
            },
        };
        let Waiting { at, mut draft, .. } = self.waiting.pop()?;
        self.played_until = at;
        draft.arrival = scaled(at, scale);
        Some(Ok(draft))
    }

    /// Whether no row still to be read can come before the first that waits.
    fn first_is_settled(&self) -> bool {
        let whole = self.config.sort == RowSort::WholeTrace || self.scale.is_none();
        let settled = |first: &Waiting| first.at <= self.read_until;
        !whole && self.waiting.len() > WINDOW_ROWS && self.waiting.peek().is_some_and(settled)
    }

    /// Takes a row in, with all its copies.
    fn enter(&mut self, row: &TraceRow) -> Result<(), WorkloadError> {
        let Some(recorded) = row.arrival else {
            return Err(WorkloadError::trace(
                "has lengths only, no times; choose another type of workload.arrivals",
            ));
        };
        if !self.window.contains(&recorded) {
            self.outside_window += 1;
            let (first, last) = self.outside.get_or_insert((recorded, recorded));
            (*first, *last) = ((*first).min(recorded), (*last).max(recorded));
            return Ok(());
        }
        let at = SimTime::ZERO + recorded.since(self.window.start);
        self.out_of_order += u64::from(at < self.read_until);
        self.read_until = self.read_until.max(at);
        for copy in 0..self.config.copies {
            let draft = self.rows.draft(row, copy, self.config.copy_content)?;
            let at = at + self.jitter_span();
            if at < self.played_until {
                return Err(WorkloadError::trace(format!(
                    "a row at {recorded} comes more than {WINDOW_ROWS} rows too late; set \
                     workload.arrivals.sort to whole_trace"
                )));
            }
            self.waiting.push(Waiting { at, place: self.entered, draft });
            self.entered += 1;
        }
        Ok(())
    }

    fn jitter_span(&mut self) -> SimDuration {
        if self.config.jitter_s > 0.0 {
            let share: f64 = self.jitter.random();
            return SimDuration::from_secs_f64(share * self.config.jitter_s);
        }
        SimDuration::ZERO
    }

    /// The scale that gives the whole trace its target rate: gaps / span.
    fn scale_to_rate(&self) -> Result<f64, WorkloadError> {
        let target = self.config.rate_per_s.unwrap_or(1.0);
        let times = || self.waiting.iter().map(|waiting| waiting.at);
        let first = times().min().unwrap_or_default();
        let span = times().max().unwrap_or_default().since(first).as_secs_f64();
        if span <= 0.0 {
            return Err(WorkloadError::trace(
                "has no two rows with different times to play at another rate; leave \
                 workload.arrivals.rate_per_s out",
            ));
        }
        let recorded = (self.waiting.len() - 1) as f64 / span;
        Ok(target / recorded)
    }
}

/// A time of the trace as played `scale` times as fast, to the nearest nanosecond.
#[expect(clippy::float_cmp, reason = "a trace at its own speed keeps its times exactly")]
fn scaled(at: SimTime, scale: f64) -> SimTime {
    if scale == 1.0 {
        return at;
    }
    SimTime::from_nanos((at.as_nanos() as f64 / scale).round() as u64)
}
