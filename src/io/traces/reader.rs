//! Opening a trace, and the stream of its rows.

use std::io::BufRead;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::io::text::Input;
use crate::rng::Seed;
pub use crate::scenario::TraceOrigin as Origin;
use crate::units::SimTime;
use crate::workload::TraceRow;
use crate::workload::TraceRows;
use crate::workload::WorkloadError;

use super::csv_rows::CsvRows;
use super::error::TraceError;
use super::format::TimeUnit;
use super::format::TraceFormat;
use super::json_rows::JsonRows;
use super::layout::ColumnMap;
use super::layout::Zero;
use super::servegen::LengthPairing;
use super::servegen::ServeGenRows;

/// How a trace is to be read, beyond its format.
#[derive(Debug, Clone, Default)]
pub struct TraceOptions {
    /// Column names that differ from the format's.
    pub columns: ColumnMap,
    /// The clock's unit, where the format does not say or says otherwise.
    pub time_unit: Option<TimeUnit>,
    /// Tokens per block of `hash_ids`, where the format does not say or says otherwise.
    pub hash_block_tokens: Option<u32>,
    /// Which row is time zero.
    pub origin: Origin,
    /// The seed of the requests drawn from `ServeGen` clients.
    pub seed: Seed,
    /// How `ServeGen`'s two length histograms are drawn from.
    pub pairing: LengthPairing,
}

/// Rows that were passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Skipped {
    /// Rows with no prompt tokens.
    pub zero_prompt: u64,
    /// Rows with no output tokens: requests that failed, in production logs.
    pub zero_output: u64,
}

impl Skipped {
    /// All of them.
    pub const fn total(self) -> u64 {
        self.zero_prompt + self.zero_output
    }
}

/// A row as a file has it, its stamp in nanoseconds of the file's own clock.
#[derive(Debug, Default)]
pub(super) struct RawRow {
    pub(super) line: u64,
    pub(super) stamp: Option<i64>,
    pub(super) prompt_tokens: u32,
    pub(super) output_tokens: u32,
    pub(super) hash_ids: Vec<u64>,
    pub(super) block_tokens: u32,
    pub(super) session: Option<u64>,
    pub(super) class: Option<Arc<str>>,
    pub(super) adapter: Option<Arc<str>>,
}

/// Where rows come from: one of the engines.
pub(super) trait Source: Send {
    /// The next row; `Ok(None)` at the end.
    fn next_row(&mut self) -> Result<Option<RawRow>, TraceError>;
    /// The clock's unit, if rows have a time, and what zero tokens mean.
    fn terms(&self) -> (Option<TimeUnit>, Zero);
}

/// The rows of a trace in file order, the first (or the earliest) at time zero.
pub struct TraceReader {
    path: PathBuf,
    format: TraceFormat,
    source: Box<dyn Source>,
    time_unit: Option<TimeUnit>,
    zero: Zero,
    origin: Option<i64>,
    skipped: Skipped,
    rows: u64,
    ended: bool,
}

/// Opens a trace; without a `format`, its first line tells.
///
/// # Errors
/// [`TraceError`] when the path is unreadable or of the wrong kind, a column is missing, the
/// clock's unit is open, or there is no row.
pub fn open(
    path: &Path,
    format: Option<TraceFormat>,
    options: &TraceOptions,
) -> Result<TraceReader, TraceError> {
    let mut reader = open_at_origin(path, format, options, None)?;
    if options.origin == Origin::EarliestRow {
        let mut earliest: Option<i64> = None;
        while let Some(row) = reader.next_raw()? {
            earliest = [earliest, row.stamp].into_iter().flatten().min();
        }
        reader = open_at_origin(path, format, options, earliest)?;
    }
    Ok(reader)
}

/// Opens a trace in which this stamp is time zero; without one, the first row's.
pub(super) fn open_at_origin(
    path: &Path,
    format: Option<TraceFormat>,
    options: &TraceOptions,
    origin: Option<i64>,
) -> Result<TraceReader, TraceError> {
    let (format, source) = source(path, format, options)?;
    let (time_unit, zero) = source.terms();
    Ok(TraceReader {
        path: path.to_owned(),
        format,
        source,
        time_unit,
        zero,
        origin,
        skipped: Skipped::default(),
        rows: 0,
        ended: false,
    })
}

fn source(
    path: &Path,
    format: Option<TraceFormat>,
    options: &TraceOptions,
) -> Result<(TraceFormat, Box<dyn Source>), TraceError> {
    let folder = path.metadata().map_err(|error| TraceError::unreadable(path, error))?.is_dir();
    if folder {
        return match format {
            None | Some(TraceFormat::ServeGen) => {
                Ok((TraceFormat::ServeGen, Box::new(ServeGenRows::open(path, options)?)))
            }
            Some(format) => Err(TraceError::unusable(
                path,
                format!("a {format} trace must be a file, got a folder"),
            )),
        };
    }
    if format == Some(TraceFormat::ServeGen) {
        return Err(TraceError::unusable(
            path,
            "a servegen trace must be a folder of chunk-*-trace.csv and chunk-*-dataset.json, \
             got a file",
        ));
    }
    let mut input = Input::open(path).map_err(|error| TraceError::unreadable(path, error))?;
    let format = if let Some(format) = format {
        format
    } else {
        let first = input.fill_buf().map_err(|error| TraceError::unreadable(path, error))?;
        let line = first.split(|&c| c == b'\n').find(|line| !line.trim_ascii().is_empty());
        TraceFormat::detect(path, line.unwrap_or_default())?
    };
    let rows: Box<dyn Source> = match format {
        TraceFormat::Mooncake
        | TraceFormat::Bailian
        | TraceFormat::LlmServingSim
        | TraceFormat::Jsonl => Box::new(JsonRows::open(path, input, format, options)?),
        _ => Box::new(CsvRows::open(path, input, format, options)?),
    };
    Ok((format, rows))
}

impl TraceReader {
    /// The format the file is read as.
    pub fn format(&self) -> TraceFormat {
        self.format
    }

    /// The unit of the file's clock; `None` when rows have no times.
    pub fn time_unit(&self) -> Option<TimeUnit> {
        self.time_unit
    }

    /// Rows passed over so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// The stamp that became time zero, in nanoseconds of the file's clock (the Unix epoch for
    /// wall-clock stamps); `None` before the first row and for rows without times.
    pub fn origin_nanos(&self) -> Option<i64> {
        self.origin
    }

    /// The rows as a workload takes them.
    pub fn into_rows(self) -> TraceRows {
        Box::new(self.map(|row| row.map_err(WorkloadError::from)))
    }

    /// Rows that were read before, as a workload takes them.
    pub(super) fn replay(mut self, rows: Vec<RawRow>, origin: Option<i64>) -> TraceRows {
        self.origin = origin;
        Box::new(rows.into_iter().map(move |row| self.place(row).map_err(WorkloadError::from)))
    }

    /// The next row that holds a request.
    pub(super) fn next_raw(&mut self) -> Result<Option<RawRow>, TraceError> {
        while let Some(row) = self.source.next_row()? {
            let zero = match (row.prompt_tokens, row.output_tokens) {
                (0, _) => "prompt",
                (_, 0) => "output",
                _ => {
                    self.rows += 1;
                    return Ok(Some(row));
                }
            };
            if self.zero == Zero::Refused {
                let problem = format!("a request must have at least 1 {zero} token, got 0");
                return Err(TraceError::row(&self.path, row.line, problem));
            }
            match zero {
                "prompt" => self.skipped.zero_prompt += 1,
                _ => self.skipped.zero_output += 1,
            }
        }
        if self.rows == 0 {
            let problem = match self.skipped.total() {
                0 => "the trace is empty; it must have a row".to_owned(),
                skipped => format!("none of the {skipped} rows has both prompt and output tokens"),
            };
            return Err(TraceError::unusable(&self.path, problem));
        }
        Ok(None)
    }

    fn place(&mut self, row: RawRow) -> Result<TraceRow, TraceError> {
        let arrival = match row.stamp {
            None => None,
            Some(stamp) => {
                let origin = *self.origin.get_or_insert(stamp);
                let since = i128::from(stamp) - i128::from(origin);
                Some(u64::try_from(since).map(SimTime::from_nanos).map_err(|_| {
                    let problem = format!(
                        "the first row must be the earliest, this one is {:.6} s before it; sort \
                         the file, or let the earliest row be time zero (origin earliest_row)",
                        -since as f64 / 1e9
                    );
                    TraceError::row(&self.path, row.line, problem)
                })?)
            }
        };
        Ok(TraceRow {
            arrival,
            prompt_tokens: row.prompt_tokens,
            output_tokens: row.output_tokens,
            hash_block_tokens: if row.hash_ids.is_empty() { 0 } else { row.block_tokens },
            hash_ids: row.hash_ids,
            session: row.session,
            class: row.class,
            adapter: row.adapter,
        })
    }
}

impl Iterator for TraceReader {
    type Item = Result<TraceRow, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = self.next_raw().and_then(|row| row.map(|row| self.place(row)).transpose());
        self.ended = !matches!(row, Ok(Some(_)));
        row.transpose()
    }
}
