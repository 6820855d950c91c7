//! `servecast trace`: describe, convert and generate traces; arrivals of adapters from calls of functions.

mod adapter_counts;
mod args;
mod generate;

use std::path::Path;

pub(super) use args::{ColumnArguments, TraceArguments};

use super::failure::Failure;
use super::replace;
use super::terminal::{print, say};
use crate::io::output;
use crate::io::traces::{self, TimeUnit, TraceFormat, TraceReader, WriteOptions, Written};
use args::{ConvertArguments, DescribeArguments, TargetArguments, TraceCommand};

pub(super) fn trace(arguments: &TraceArguments) -> Result<(), Failure> {
    match &arguments.command {
        TraceCommand::Describe(arguments) => describe(arguments),
        TraceCommand::Convert(arguments) => convert(arguments),
        TraceCommand::Generate(arguments) => generate::generate(arguments),
        TraceCommand::AdapterCounts(arguments) => adapter_counts::adapter_counts(arguments),
    }
}

fn input(error: traces::TraceError) -> Failure {
    Failure::Input(error.into())
}

fn describe(arguments: &DescribeArguments) -> Result<(), Failure> {
    let source = &arguments.source;
    let summary = traces::describe(&source.path, source.format, &source.options());
    let summary = summary.map_err(input)?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&summary).expect("a summary is JSON");
        return print(&format!("{json}\n"));
    }
    print(&summary.to_string())
}

fn convert(arguments: &ConvertArguments) -> Result<(), Failure> {
    let (source, target) = (&arguments.source, &arguments.target);
    replace::check(&target.output)?;
    let options = source.options();
    let mut rows = traces::open(&source.path, source.format, &options).map_err(input)?;
    let first = rows.next();
    let write = WriteOptions {
        existing: target.existing(),
        epoch_nanos: arguments.epoch.unwrap_or_else(|| own_epoch(&rows)),
    };
    let written =
        traces::write(&target.output, target.to, first.into_iter().chain(&mut rows), &write);
    let written = written.map_err(target_error)?;
    if rows.skipped().total() > 0 {
        let skipped = rows.skipped();
        say(&format!(
            "notice: {} rows skipped: {} without prompt, {} without output tokens",
            skipped.total(),
            skipped.zero_prompt,
            skipped.zero_output
        ));
    }
    state(target, &written)
}

/// Time zero of a trace with wall-clock times, as nanoseconds since the Unix epoch; else that
/// epoch.
fn own_epoch(rows: &TraceReader) -> i64 {
    match rows.time_unit() {
        Some(TimeUnit::WallClock) => rows.origin_nanos().unwrap_or(0),
        _ => 0,
    }
}

/// A full disk is no mistake of the input.
fn target_error(error: traces::TraceError) -> Failure {
    match error {
        traces::TraceError::Unwritable { .. } => Failure::Run(error.into()),
        error => Failure::Input(error.into()),
    }
}

/// Says what was written, and what the format has no place for.
fn state(target: &TargetArguments, written: &Written) -> Result<(), Failure> {
    let (place, format) = (target.output.display(), target.to);
    let lost = [
        (written.arrivals_rounded, "arrivals rounded down to the format's resolution"),
        (written.hash_ids_lost, "rows lost their hash ids, which the format has no place for"),
        (written.sessions_lost, "rows lost their session, which the format has no place for"),
    ];
    for (count, what) in lost.iter().filter(|(count, _)| *count > 0) {
        say(&format!("notice: {format}: {count} {what}"));
    }
    let text = format!("{place}: {} rows in {format}", written.rows);
    if output::is_stream(&target.output) {
        // The rows may stand on stdout, and nothing between them.
        say(&text);
        return Ok(());
    }
    print(&format!("{text}\n"))
}

/// A format that traces can be written in.
fn writable(name: &str) -> Result<TraceFormat, String> {
    name.parse()
}

/// The name of a file for messages.
fn name_of(path: Option<&Path>) -> String {
    path.map_or_else(|| "built-in scenario".to_owned(), |path| path.display().to_string())
}
