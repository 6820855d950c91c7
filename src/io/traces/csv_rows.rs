//! Rows of CSV files with a header: one record buffer, fields as bytes, nothing allocated per row
//! unless it has hash ids.

use std::io::{self, BufRead};
use std::path::Path;
use std::path::PathBuf;

use csv::ByteRecord;

use crate::io::text::Input;

use super::doubt::{self, Doubts};
use super::error::TraceError;
use super::field;
use super::format::TimeUnit;
use super::format::TraceFormat;
use super::layout::Columns;
use super::layout::Role;
use super::layout::Zero;
use super::reader::RawRow;
use super::reader::Source;
use super::reader::TraceOptions;

/// What is said of a row that others were read into.
const UNCLOSED: &str = "a quote is opened that is not closed on its line, and the rows after it are read as one text; close it, \
                        or take it out";

/// The rows of one CSV file.
pub(super) struct CsvRows {
    path: PathBuf,
    reader: csv::Reader<Input>,
    columns: Columns,
    record: ByteRecord,
    delimiter: u8,
    doubts: Doubts,
    /// Lines by which positions are behind: with the line ends of Windows a row begins before the second half of one.
    behind: u64,
    /// `record` holds a row that is not given out yet.
    ready: bool,
}

impl CsvRows {
    pub(super) fn open(
        path: &Path,
        mut input: Input,
        format: TraceFormat,
        options: &TraceOptions,
    ) -> Result<Self, TraceError> {
        let first = input.fill_buf().map_err(|error| TraceError::unreadable(path, error))?;
        let delimiter = separator(first);
        let behind = u64::from(
            first.split(|&c| c == b'\n').next().is_some_and(|line| line.ends_with(b"\r")),
        );
        let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(input);
        let header = reader.byte_headers().map_err(|error| problem(path, error))?.clone();
        if header.is_empty() {
            return Err(TraceError::unusable(path, "the trace is empty; it must have a header"));
        }
        let line = header.position().map_or(1, csv::Position::line);
        let names: Vec<String> = header
            .iter()
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned())
            .collect();
        let columns = Columns::resolve(path, line, format, options, &names)?;
        let record = ByteRecord::new();
        let doubts = Doubts::new(delimiter == b';', columns.arrival_may_be_duration);
        let path = path.to_owned();
        let mut rows =
            Self { path, reader, columns, record, delimiter, doubts, behind, ready: false };
        rows.ready = rows.advance()?;
        if rows.ready {
            let stamp = rows.columns.index(Role::Arrival).and_then(|at| rows.record.get(at));
            let settled = rows.columns.settle_unit(stamp);
            settled.map_err(|problem| TraceError::row(&rows.path, rows.line(), problem))?;
        }
        Ok(rows)
    }

    /// Reads the next record; `false` at the end.
    fn advance(&mut self) -> Result<bool, TraceError> {
        self.reader.get_mut().begin_row();
        let more = self.reader.read_byte_record(&mut self.record);
        let more = more.map_err(|error| match self.opened(&error) {
            Some(line) => TraceError::row(&self.path, line, UNCLOSED),
            None => problem(&self.path, error),
        })?;
        let began = self.record.position().map_or(0, csv::Position::line);
        let spans_lines = more && self.reader.position().line() > began + 1;
        if spans_lines {
            let roles = [Role::Prompt, Role::Output];
            let numbers: Vec<usize> =
                roles.into_iter().filter_map(|role| self.columns.index(role)).collect();
            if let Some(line) = doubt::swallowed(&self.record, self.delimiter, &numbers) {
                return Err(TraceError::row(&self.path, line + self.behind, UNCLOSED));
            }
        }
        Ok(more)
    }

    /// The line on which a quote was opened that made rows of several lines one with too few fields.
    fn opened(&self, error: &csv::Error) -> Option<u64> {
        let csv::ErrorKind::UnequalLengths { pos: Some(pos), expected_len, len } = error.kind()
        else {
            return None;
        };
        // Without a quote no text has a line end, and one that was closed takes no fields away.
        let spans_lines = self.record.iter().any(|field| field.contains(&b'\n'));
        (len < expected_len && spans_lines).then(|| pos.line() + self.behind)
    }

    fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line) + self.behind
    }

    /// A role's column in the current record: its name and its text.
    fn cell(&self, role: Role) -> Option<(&str, &[u8])> {
        let text = self.record.get(self.columns.index(role)?)?;
        Some((self.columns.name(role)?, text))
    }

    fn row(&self) -> Result<RawRow, String> {
        let tokens = |role| match self.cell(role) {
            Some((name, text)) => {
                self.doubts.tokens(name, text)?;
                field::tokens(name, text)
            }
            None => Ok(0),
        };
        let stamp = match (self.cell(Role::Arrival), self.columns.unit) {
            (Some((name, text)), Some(unit)) => Some(field::stamp(unit, name, text)?),
            _ => None,
        };
        let prompt_tokens = tokens(Role::Prompt)?;
        let hash_ids = match self.cell(Role::HashIds) {
            Some((name, text)) => ids(name, text)?,
            None => Vec::new(),
        };
        let block_tokens = match self.cell(Role::BlockTokens) {
            Some((name, text)) if !text.is_empty() => field::tokens(name, text)?,
            _ => self.columns.block_tokens,
        };
        if let Some(problem) = field::hash_ids_problem(hash_ids.len(), block_tokens, prompt_tokens)
        {
            return Err(problem);
        }
        let name = |role| {
            let cell = self.cell(role);
            cell.map(|(_, text)| String::from_utf8_lossy(text.trim_ascii()).into())
        };
        Ok(RawRow {
            line: self.line(),
            stamp,
            prompt_tokens,
            output_tokens: tokens(Role::Output)?,
            hash_ids,
            block_tokens,
            session: self.cell(Role::Session).and_then(|(_, text)| field::session(text)),
            class: name(Role::Class),
            adapter: name(Role::Adapter),
        })
    }
}

impl CsvRows {
    /// The row, unless its time may mean something else.
    fn without_doubt(&mut self, row: RawRow) -> Result<RawRow, String> {
        // A date is no duration, and its points are no marks of thousands.
        if self.columns.unit == Some(TimeUnit::WallClock) {
            return Ok(row);
        }
        let at = self.columns.index(Role::Arrival).and_then(|at| self.record.get(at));
        if let (Some(text), Some(name), Some(stamp)) =
            (at, self.columns.name(Role::Arrival), row.stamp)
        {
            self.doubts.stamp(name, text, stamp, row.line)?;
        }
        Ok(row)
    }
}

impl Source for CsvRows {
    fn next_row(&mut self) -> Result<Option<RawRow>, TraceError> {
        if !self.ready && !self.advance()? {
            let unsettled =
                self.columns.name(Role::Arrival).and_then(|name| self.doubts.unsettled(name));
            return match unsettled {
                Some((line, problem)) => Err(TraceError::row(&self.path, line, problem)),
                None => Ok(None),
            };
        }
        self.ready = false;
        let row = self.row().and_then(|row| self.without_doubt(row));
        row.map(Some).map_err(|problem| TraceError::row(&self.path, self.line(), problem))
    }

    fn terms(&self) -> (Option<TimeUnit>, Zero) {
        let timed = self.columns.index(Role::Arrival).is_some();
        (self.columns.unit.filter(|_| timed), self.columns.zero)
    }
}

/// What stands between the names of a header: a comma, unless there are more semicolons or tabs.
fn separator(text: &[u8]) -> u8 {
    let mut lines = text.split(|&c| c == b'\n');
    let header = lines.find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let count = |mark: u8| header.split(|&c| c == mark).count();
    // Of equals the last one is taken.
    [b'\t', b';', b','].into_iter().max_by_key(|mark| count(*mark)).unwrap_or(b',')
}

/// Ids with blanks or semicolons between them, brackets around them or not.
fn ids(column: &str, text: &[u8]) -> Result<Vec<u64>, String> {
    text.split(|c| matches!(c, b' ' | b';' | b',' | b'[' | b']'))
        .filter(|id| !id.is_empty())
        .map(|id| {
            let id = String::from_utf8_lossy(id);
            id.parse().map_err(|_| {
                format!("`{column}` must be whole numbers with blanks between, got `{id}`")
            })
        })
        .collect()
}

/// What the CSV reader refuses.
pub(super) fn problem(path: &Path, error: csv::Error) -> TraceError {
    let line = error.position().map_or(0, csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(source) => TraceError::unreadable(path, source),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let why = if len < expected_len {
                "is the file cut off?"
            } else {
                "are there commas inside numbers or texts?"
            };
            TraceError::row(
                path,
                line,
                format!(
                    "a row must have as many fields as the header, {expected_len}, got {len} ({why})"
                ),
            )
        }
        other => TraceError::unreadable(path, io::Error::other(format!("{other:?}"))),
    }
}
