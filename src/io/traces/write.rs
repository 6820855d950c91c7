//! Writing traces: into a file that appears whole or not at all, or into any sink.
//!
//! What a format can hold, and to what resolution arrivals are rounded down:
//!
//! | format | arrival | sessions | hash ids |
//! |---|---|---|---|
//! | `azure` | 100 ns, as wall-clock time from an epoch | lost | lost |
//! | `mooncake` | 1 ms | kept (`session_id`) | blocks of 512 tokens, others refused |
//! | `burstgpt` | 1 s | lost | lost |
//! | `csv` | 1 ns | kept | lost |
//! | `jsonl` | 1 ns | kept | kept, with the size of blocks |
//! | `sharegpt-lengths` | lost | lost | lost |
//!
//! What is lost is counted in [`Written`]; the other formats are read only.

use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use jiff::tz::Offset;
use serde::Serialize;

use crate::io::output::{self, OutputFile};
use crate::units::SimTime;
use crate::workload::TraceRow;

use super::error::TraceError;
use super::format::TraceFormat;

/// What to do with a file of the target's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Leave it and fail.
    #[default]
    Keep,
    /// Put the new one in its place once that is complete.
    Replace,
}

/// How a trace is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// What to do with a file of the target's name.
    pub existing: Existing,
    /// Time zero as nanoseconds since the Unix epoch, for formats with wall-clock time.
    pub epoch_nanos: i64,
}

/// What was written, and what the format has no place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Rows whose arrival was rounded down to the format's resolution, or lost with it.
    pub arrivals_rounded: u64,
    /// Rows whose hash ids were lost.
    pub hash_ids_lost: u64,
    /// Rows whose session was lost.
    pub sessions_lost: u64,
}

/// Writes `rows` as a file of `format`, compressed when the name ends in `.gz`. The file appears
/// under its name only when it is complete: until then it has another name in the same folder,
/// and is removed on failure. Devices and pipes are written to as they are.
///
/// # Errors
/// [`TraceError`] when the target exists and is to be kept, cannot be written, when the format is
/// read only or cannot hold a row, and the first error of `rows`.
pub fn write<I, E>(
    path: &Path,
    format: TraceFormat,
    rows: I,
    options: &WriteOptions,
) -> Result<Written, TraceError>
where
    I: IntoIterator<Item = Result<TraceRow, E>>,
    E: Into<TraceError>,
{
    let exists = || TraceError::Exists { file: path.display().to_string() };
    let kept = || options.existing == Existing::Keep && output::occupied(path).is_some();
    if kept() {
        return Err(exists());
    }
    let unwritable = |error| TraceError::unwritable(path, error);
    let file = OutputFile::create(path)?;
    let (file, written) = if path.extension().is_some_and(|end| end == "gz") {
        let mut sink = BufWriter::new(GzEncoder::new(file, Compression::default()));
        let written = write_to(&mut sink, path, format, rows, options)?;
        let encoder = sink.into_inner().map_err(|error| unwritable(error.into_error()))?;
        (encoder.finish().map_err(unwritable)?, written)
    } else {
        let mut sink = BufWriter::new(file);
        let written = write_to(&mut sink, path, format, rows, options)?;
        (sink.into_inner().map_err(|error| unwritable(error.into_error()))?, written)
    };
    if kept() {
        return Err(exists());
    }
    file.commit().map_err(unwritable)?;
    Ok(written)
}

/// Writes `rows` in `format` into `sink`; `name` stands for it in errors.
///
/// # Errors
/// [`TraceError`] when the sink fails, the format is read only or cannot hold a row, and the first
/// error of `rows`. The rows before it are written then.
pub fn write_to<I, E>(
    sink: &mut dyn Write,
    name: &Path,
    format: TraceFormat,
    rows: I,
    options: &WriteOptions,
) -> Result<Written, TraceError>
where
    I: IntoIterator<Item = Result<TraceRow, E>>,
    E: Into<TraceError>,
{
    let shape = Shape::of(format).ok_or_else(|| {
        let problem = format!(
            "a trace is written as azure, mooncake, burstgpt, csv, jsonl, or sharegpt-lengths, \
             got {format}"
        );
        TraceError::unusable(name, problem)
    })?;
    let unwritable = |error| TraceError::unwritable(name, error);
    sink.write_all(shape.header.as_bytes()).map_err(unwritable)?;
    let mut written = Written::default();
    for (number, row) in (1..).zip(rows) {
        let row = row.map_err(Into::into)?;
        let refused =
            |problem: String| TraceError::unusable(name, format!("row {number}: {problem}"));
        shape.check(format, &row).map_err(refused)?;
        let put = (shape.put)(sink, &row, options);
        put.map_err(unwritable)?.map_or(Ok(()), |problem| Err(refused(problem)))?;
        shape.count(&row, &mut written);
    }
    sink.flush().map_err(unwritable)?;
    Ok(written)
}

/// A row put into a sink; or what the format cannot say of it.
type Put = fn(&mut dyn Write, &TraceRow, &WriteOptions) -> io::Result<Option<String>>;

/// How a format is written.
struct Shape {
    header: &'static str,
    /// Nanoseconds to which arrivals are rounded down; `None` where they are lost.
    resolution_nanos: Option<u64>,
    /// Whether sessions and hash ids are lost.
    loses: [bool; 2],
    /// The only size of blocks that the format's readers assume.
    block_tokens: Option<u32>,
    put: Put,
}

impl Shape {
    fn of(format: TraceFormat) -> Option<Self> {
        let base = Self {
            header: "",
            resolution_nanos: Some(1),
            loses: [false, false],
            block_tokens: None,
            put: put_jsonl,
        };
        match format {
            TraceFormat::Azure => Some(Self {
                header: "TIMESTAMP,ContextTokens,GeneratedTokens\n",
                resolution_nanos: Some(100),
                loses: [true, true],
                put: put_azure,
                ..base
            }),
            TraceFormat::Mooncake => Some(Self {
                resolution_nanos: Some(1_000_000),
                block_tokens: Some(512),
                put: put_mooncake,
                ..base
            }),
            TraceFormat::BurstGpt => Some(Self {
                header: "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
                resolution_nanos: Some(1_000_000_000),
                loses: [true, true],
                put: put_burstgpt,
                ..base
            }),
            TraceFormat::Csv => Some(Self {
                header: "arrival_s,prompt_tokens,output_tokens,session\n",
                loses: [false, true],
                put: put_csv,
                ..base
            }),
            TraceFormat::Jsonl => Some(base),
            TraceFormat::ShareGptLengths => Some(Self {
                header: "prompt_len,output_len\n",
                resolution_nanos: None,
                loses: [true, true],
                put: put_lengths,
                ..base
            }),
            TraceFormat::Bailian
            | TraceFormat::ServeGen
            | TraceFormat::Vidur
            | TraceFormat::LlmServingSim => None,
        }
    }

    fn check(&self, format: TraceFormat, row: &TraceRow) -> Result<(), String> {
        if row.arrival.is_none() && self.resolution_nanos.is_some() {
            return Err(format!(
                "a row of a {format} trace must have an arrival, this one has lengths only; \
                 write sharegpt-lengths"
            ));
        }
        let blocks = self.block_tokens.filter(|_| !row.hash_ids.is_empty());
        match blocks.filter(|blocks| *blocks != row.hash_block_tokens) {
            Some(blocks) => Err(format!(
                "hash ids of a {format} trace must stand for {blocks} tokens, these for {}; \
                 write jsonl",
                row.hash_block_tokens
            )),
            None => Ok(()),
        }
    }

    fn count(&self, row: &TraceRow, written: &mut Written) {
        let rounded = row.arrival.is_some_and(|arrival| {
            self.resolution_nanos.is_none_or(|unit| arrival.as_nanos() % unit > 0)
        });
        written.rows += 1;
        written.arrivals_rounded += u64::from(rounded);
        written.sessions_lost += u64::from(self.loses[0] && row.session.is_some());
        written.hash_ids_lost += u64::from(self.loses[1] && !row.hash_ids.is_empty());
    }
}

fn nanos(row: &TraceRow) -> u64 {
    row.arrival.map_or(0, SimTime::as_nanos)
}

fn put_azure(
    sink: &mut dyn Write,
    row: &TraceRow,
    options: &WriteOptions,
) -> io::Result<Option<String>> {
    let since_epoch = i128::from(options.epoch_nanos) + i128::from(nanos(row));
    // jiff's own range is wider; readers keep stamps as 64-bit nanoseconds.
    let stamp = i64::try_from(since_epoch).ok();
    let Some(stamp) = stamp.and_then(|at| Timestamp::from_nanosecond(at.into()).ok()) else {
        return Ok(Some("a wall-clock stamp must be before the year 2262".to_owned()));
    };
    let time = Offset::UTC.to_datetime(stamp);
    writeln!(
        sink,
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:07},{},{}",
        time.year(),
        time.month(),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.subsec_nanosecond() / 100,
        row.prompt_tokens,
        row.output_tokens
    )?;
    Ok(None)
}

fn put_mooncake(
    sink: &mut dyn Write,
    row: &TraceRow,
    _: &WriteOptions,
) -> io::Result<Option<String>> {
    #[derive(Serialize)]
    struct Row<'a> {
        timestamp: u64,
        input_length: u32,
        output_length: u32,
        hash_ids: &'a [u64],
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<u64>,
    }
    let row = Row {
        timestamp: nanos(row) / 1_000_000,
        input_length: row.prompt_tokens,
        output_length: row.output_tokens,
        hash_ids: &row.hash_ids,
        session_id: row.session,
    };
    put_json(sink, &row)
}

fn put_burstgpt(
    sink: &mut dyn Write,
    row: &TraceRow,
    _: &WriteOptions,
) -> io::Result<Option<String>> {
    let (second, prompt, output) =
        (nanos(row) / 1_000_000_000, row.prompt_tokens, row.output_tokens);
    let total = u64::from(prompt) + u64::from(output);
    writeln!(sink, "{second},unknown,{prompt},{output},{total},API log")?;
    Ok(None)
}

fn put_csv(sink: &mut dyn Write, row: &TraceRow, _: &WriteOptions) -> io::Result<Option<String>> {
    let (second, rest) = (nanos(row) / 1_000_000_000, nanos(row) % 1_000_000_000);
    write!(sink, "{second}.{rest:09},{},{},", row.prompt_tokens, row.output_tokens)?;
    match row.session {
        Some(session) => writeln!(sink, "{session}")?,
        None => writeln!(sink)?,
    }
    Ok(None)
}

fn put_jsonl(sink: &mut dyn Write, row: &TraceRow, _: &WriteOptions) -> io::Result<Option<String>> {
    #[derive(Serialize)]
    struct Row<'a> {
        arrival_ns: u64,
        prompt_tokens: u32,
        output_tokens: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        hash_block_tokens: Option<u32>,
        #[serde(skip_serializing_if = "<[u64]>::is_empty")]
        hash_ids: &'a [u64],
        #[serde(skip_serializing_if = "Option::is_none")]
        adapter: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        class: Option<&'a str>,
    }
    let row = Row {
        arrival_ns: nanos(row),
        prompt_tokens: row.prompt_tokens,
        output_tokens: row.output_tokens,
        session: row.session,
        hash_block_tokens: (!row.hash_ids.is_empty()).then_some(row.hash_block_tokens),
        hash_ids: &row.hash_ids,
        adapter: row.adapter.as_deref(),
        class: row.class.as_deref(),
    };
    put_json(sink, &row)
}

fn put_lengths(
    sink: &mut dyn Write,
    row: &TraceRow,
    _: &WriteOptions,
) -> io::Result<Option<String>> {
    writeln!(sink, "{},{}", row.prompt_tokens, row.output_tokens)?;
    Ok(None)
}

fn put_json(sink: &mut dyn Write, row: &impl Serialize) -> io::Result<Option<String>> {
    serde_json::to_writer(&mut *sink, row).map_err(io::Error::from)?;
    sink.write_all(b"\n")?;
    Ok(None)
}
