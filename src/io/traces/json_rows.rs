//! Rows of JSON-lines files: one line buffer, and a visitor that keeps the named keys of an object
//! and passes over the others without building them.

use std::fmt;
use std::io::BufRead;
use std::path::Path;
use std::path::PathBuf;

use serde::Deserialize;
use serde::Deserializer;
use serde::de;
use serde::de::DeserializeSeed;
use serde::de::IgnoredAny;
use serde::de::MapAccess;
use serde::de::SeqAccess;
use serde::de::Visitor;

use crate::io::text::Input;

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

/// The rows of one JSON-lines file.
pub(super) struct JsonRows {
    path: PathBuf,
    input: Input,
    columns: Columns,
    text: Vec<u8>,
    line: u64,
    /// `text` holds a line that is not given out yet.
    ready: bool,
}

impl JsonRows {
    /// Opens the file; the first line says which keys there are.
    pub(super) fn open(
        path: &Path,
        mut input: Input,
        format: TraceFormat,
        options: &TraceOptions,
    ) -> Result<Self, TraceError> {
        let (mut text, mut line) = (Vec::new(), 0);
        let ready = next_line(path, &mut input, &mut text, &mut line)?;
        if !ready {
            return Err(TraceError::unusable(path, "the trace is empty; it must have a row"));
        }
        let names = serde_json::from_slice::<Keys>(&text)
            .map_err(|error| TraceError::row(path, line, syntax(&error)))?;
        let mut columns = Columns::resolve(path, line, format, options, &names.0)?;
        columns.expect_optional(format);
        let mut rows = Self { path: path.to_owned(), input, columns, text, line, ready };
        if rows.columns.unit.is_none() {
            let cells = rows.cells()?;
            let stamp = cells[Role::Arrival as usize].as_ref().map(Cell::to_string);
            let settled = rows.columns.settle_unit(stamp.as_ref().map(String::as_bytes));
            settled.map_err(|problem| TraceError::row(path, line, problem))?;
        }
        Ok(rows)
    }

    fn cells(&self) -> Result<Cells, TraceError> {
        let mut json = serde_json::Deserializer::from_slice(&self.text);
        let cells = Named(&self.columns).deserialize(&mut json);
        cells
            .and_then(|cells| json.end().map(|()| cells))
            .map_err(|error| TraceError::row(&self.path, self.line, syntax(&error)))
    }

    fn row(&self, mut cells: Cells) -> Result<RawRow, String> {
        let name = |role| self.columns.name(role).unwrap_or_default();
        let mut take = |role: Role| cells[role as usize].take();
        let missing = |role| format!("the row must have `{}` as the first row does", name(role));
        let stamp = match (self.columns.index(Role::Arrival), self.columns.unit) {
            (Some(_), Some(unit)) => {
                let cell = take(Role::Arrival).ok_or_else(|| missing(Role::Arrival))?;
                Some(cell.stamp(unit, name(Role::Arrival))?)
            }
            _ => None,
        };
        let mut tokens = |role| take(role).ok_or_else(|| missing(role))?.tokens(name(role));
        let (prompt_tokens, output_tokens) = (tokens(Role::Prompt)?, tokens(Role::Output)?);
        let block_tokens = match take(Role::BlockTokens) {
            Some(cell) => cell.tokens(name(Role::BlockTokens))?,
            None => self.columns.block_tokens,
        };
        let hash_ids = match take(Role::HashIds) {
            Some(cell) => cell.ids(name(Role::HashIds))?,
            None => Vec::new(),
        };
        if let Some(problem) = field::hash_ids_problem(hash_ids.len(), block_tokens, prompt_tokens)
        {
            return Err(problem);
        }
        let mut word = |role| take(role).map(|cell| cell.to_string().into());
        let (class, adapter) = (word(Role::Class), word(Role::Adapter));
        let session = take(Role::Session).and_then(|cell| cell.session());
        Ok(RawRow {
            line: self.line,
            stamp,
            prompt_tokens,
            output_tokens,
            hash_ids,
            block_tokens,
            session,
            class,
            adapter,
        })
    }
}

impl Source for JsonRows {
    fn next_row(&mut self) -> Result<Option<RawRow>, TraceError> {
        let ready = std::mem::take(&mut self.ready);
        if !ready && !next_line(&self.path, &mut self.input, &mut self.text, &mut self.line)? {
            return Ok(None);
        }
        let cells = self.cells()?;
        let row = self.row(cells);
        row.map(Some).map_err(|problem| TraceError::row(&self.path, self.line, problem))
    }

    fn terms(&self) -> (Option<TimeUnit>, Zero) {
        let timed = self.columns.index(Role::Arrival).is_some();
        (self.columns.unit.filter(|_| timed), self.columns.zero)
    }
}

/// Reads the next line that is not blank; `false` at the end.
fn next_line(
    path: &Path,
    input: &mut Input,
    text: &mut Vec<u8>,
    line: &mut u64,
) -> Result<bool, TraceError> {
    loop {
        text.clear();
        input.begin_row();
        let read = input.read_until(b'\n', text);
        if read.map_err(|error| TraceError::unreadable(path, error))? == 0 {
            return Ok(false);
        }
        *line += 1;
        if !text.trim_ascii().is_empty() {
            return Ok(true);
        }
    }
}

fn syntax(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "a line must hold one whole JSON object, this one ends inside it (is the file cut \
                off?)"
            .to_owned();
    }
    // The line that serde counts is that within the row.
    let said = error.to_string();
    let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(said, _)| said);
    format!("a line must hold one JSON object: {said} at column {}", error.column())
}

/// The keys of an object.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Keys;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(KeyVisitor)
    }
}

/// The values of the named keys, by role.
type Cells = [Option<Cell>; Role::ALL.len()];

/// Reads the keys that have a role.
struct Named<'a>(&'a Columns);

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = Cells;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cells, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Named<'_> {
    type Value = Cells;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cells, A::Error> {
        let mut cells = Cells::default();
        let mut seen = [false; Role::ALL.len()];
        while let Some(role) = map.next_key_seed(RoleOfKey(self.0))? {
            match role {
                Some(role) if std::mem::replace(&mut seen[role as usize], true) => {
                    let key = self.0.name(role).unwrap_or_default();
                    return Err(de::Error::custom(format!("the key `{key}` comes twice")));
                }
                Some(role) => {
                    let cell: Cell = map.next_value()?;
                    cells[role as usize] = (!matches!(cell, Cell::Null)).then_some(cell);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(cells)
    }
}

/// The role of a key, if it has one.
struct RoleOfKey<'a>(&'a Columns);

impl<'de> DeserializeSeed<'de> for RoleOfKey<'_> {
    type Value = Option<Role>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Role>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for RoleOfKey<'_> {
    type Value = Option<Role>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E>(self, key: &str) -> Result<Option<Role>, E> {
        Ok(Role::ALL.into_iter().find(|role| self.0.name(*role) == Some(key)))
    }
}

/// One JSON value, as far as traces have it.
enum Cell {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    Ids(Vec<u64>),
    Null,
}

impl Cell {
    fn stamp(&self, unit: TimeUnit, column: &str) -> Result<i64, String> {
        match self {
            Self::Float(value) if unit != TimeUnit::WallClock => {
                field::stamp_from_f64(unit, column, *value)
            }
            other => field::stamp(unit, column, other.to_string().as_bytes()),
        }
    }

    fn tokens(&self, column: &str) -> Result<u32, String> {
        let whole = match self {
            Self::Unsigned(count) => u32::try_from(*count).ok(),
            Self::Float(count)
                if count.fract() == 0.0 && (0.0..4_294_967_296.0).contains(count) =>
            {
                Some(*count as u32)
            }
            _ => None,
        };
        let said = match self {
            Self::Text(text) => format!("\"{text}\""),
            other => other.to_string(),
        };
        whole.ok_or_else(|| field::token_problem(column, &said))
    }

    fn ids(self, column: &str) -> Result<Vec<u64>, String> {
        match self {
            Self::Ids(ids) => Ok(ids),
            other => Err(format!("`{column}` must be a list of whole numbers, got `{other}`")),
        }
    }

    fn session(&self) -> Option<u64> {
        field::session(self.to_string().as_bytes())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(value) => value.fmt(f),
            Self::Signed(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Ids(ids) => write!(f, "a list of {}", ids.len()),
            Self::Null => f.write_str("null"),
        }
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl<'de> Visitor<'de> for CellVisitor {
    type Value = Cell;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a text, or a list of whole numbers")
    }
    fn visit_u64<E>(self, value: u64) -> Result<Cell, E> {
        Ok(Cell::Unsigned(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Cell, E> {
        Ok(Cell::Signed(value))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Cell, E> {
        Ok(Cell::Float(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Cell, E> {
        Ok(Cell::Text(value.to_owned()))
    }
    fn visit_unit<E>(self) -> Result<Cell, E> {
        Ok(Cell::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Cell, A::Error> {
        let mut ids = Vec::with_capacity(seq.size_hint().unwrap_or(0));
        while let Some(id) = seq.next_element()? {
            ids.push(id);
        }
        Ok(Cell::Ids(ids))
    }
}
