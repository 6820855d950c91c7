//! Tables of requests: columns by name, quantities by unit.

use super::RequestsConfig;
use crate::io::columns::Table;

/// What a row says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Its number in the tables, of those left out too, from 0.
    pub(super) place: usize,
    pub(super) arrival_s: f64,
    /// When the client sent it, where it says so.
    pub(super) sent_s: Option<f64>,
    pub(super) prompt_tokens: u32,
    pub(super) output_tokens: Option<u32>,
    pub(super) ttft_s: Option<f64>,
    pub(super) e2e_s: f64,
    /// Equal for equal prompts.
    pub(super) prompt: Option<String>,
    /// Ids of the blocks of the prompt: any text is one.
    pub(super) hash_ids: Vec<String>,
    pub(super) adapter: Option<String>,
}

/// A column: its table, its place in it, its unit in seconds.
#[derive(Debug, Clone, Copy)]
struct Place {
    table: usize,
    column: usize,
    seconds: f64,
}

const UNITS: [(&str, f64); 4] = [("_s", 1.0), ("_ms", 1e-3), ("_us", 1e-6), ("_ns", 1e-9)];
const TIMES: [&str; 6] = ["arrival", "ttft", "e2e", "first_token", "finish", "sent"];
const OTHERS: [&str; 5] = ["prompt_tokens", "output_tokens", "prompt", "hash_ids", "adapter"];

/// Reads the rows that are kept.
///
/// # Errors
/// The column or cell that is wrong.
pub(super) fn read(config: &RequestsConfig, tables: &[Table]) -> Result<Vec<Row>, String> {
    let columns = Columns::find(config, tables)?;
    let count = tables.first().map_or(0, |table| table.rows.len());
    if let Some(other) = tables.iter().find(|table| table.rows.len() != count) {
        return Err(format!(
            "{}: has {} rows, but {} has {count}; tables are read side by side",
            other.name,
            other.rows.len(),
            tables[0].name
        ));
    }
    let mut rows = Vec::with_capacity(count);
    for index in 0..count {
        if let Some(row) = columns.row(tables, index)? {
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Err("requests: no row is left".to_owned());
    }
    Ok(rows)
}

/// Where every quantity is.
struct Columns {
    times: [Option<Place>; 6],
    others: [Option<Place>; 5],
    keep: Vec<(Place, String)>,
}

impl Columns {
    fn find(config: &RequestsConfig, tables: &[Table]) -> Result<Self, String> {
        let place = |key: &str, name: &str, seconds: f64| {
            let found = tables.iter().enumerate().find_map(|(table, content)| {
                let column = content.columns.iter().position(|column| column == name)?;
                Some(Place { table, column, seconds })
            });
            found.ok_or_else(|| format!("requests.{key}: no table has a column `{name}`"))
        };
        let mut columns = Self { times: [None; 6], others: [None; 5], keep: Vec::new() };
        for (key, name) in &config.columns {
            let path = format!("columns.{key}");
            if let Some(index) = OTHERS.iter().position(|known| known == key) {
                columns.others[index] = Some(place(&path, name, 1.0)?);
                continue;
            }
            let unit = UNITS.iter().find_map(|(suffix, seconds)| {
                let quantity = key.strip_suffix(suffix)?;
                let index = TIMES.iter().position(|known| *known == quantity)?;
                Some((index, *seconds))
            });
            let (index, seconds) = unit.ok_or_else(|| unknown(key))?;
            if columns.times[index].is_some() {
                let quantity = TIMES[index];
                return Err(format!("requests.columns.{key}: {quantity} is given in another unit"));
            }
            columns.times[index] = Some(place(&path, name, seconds)?);
        }
        for (name, value) in &config.keep {
            columns.keep.push((place("keep", name, 1.0)?, value.clone()));
        }
        Ok(columns)
    }

    /// The row of this number, if it is kept.
    fn row(&self, tables: &[Table], index: usize) -> Result<Option<Row>, String> {
        let cell = |place: &Place| tables[place.table].rows[index][place.column].as_str();
        if self.keep.iter().any(|(place, value)| !is_same(cell(place), value)) {
            return Ok(None);
        }
        let wrong = |place: &Place| {
            let (table, text) = (&tables[place.table], cell(place));
            let column = &table.columns[place.column];
            format!("{}: {column}: `{text}` is not a number", table.place(index))
        };
        let seconds = |place: &Option<Place>| match place {
            None => Ok(None),
            Some(place) => {
                let number: Option<f64> = cell(place).trim().parse().ok();
                let number = number.filter(|number| number.is_finite());
                number.map(|number| Some(number * place.seconds)).ok_or_else(|| wrong(place))
            }
        };
        let tokens = |place: &Option<Place>| match place {
            None => Ok(None),
            // Tables with gaps hold whole numbers as `512.0`.
            Some(place) => {
                let number: Option<f64> = cell(place).trim().parse().ok();
                let is_whole =
                    |n: &f64| n.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(n);
                let number = number.filter(is_whole).map(|number| number as u32);
                number.map(Some).ok_or_else(|| wrong(place))
            }
        };
        let text = |place: &Option<Place>| {
            let text = place.as_ref().map(|place| cell(place).trim().to_owned());
            text.filter(|text| !text.is_empty())
        };
        let [arrival, ttft, e2e, first_token, finish, sent] = &self.times;
        let [prompt_tokens, output_tokens, prompt, hash_ids, adapter] = &self.others;
        let arrival_s = seconds(arrival)?.ok_or("requests.columns: `arrival_s` is missing")?;
        let sent_s = seconds(sent)?;
        if let Some(sent_s) = sent_s.filter(|sent_s| *sent_s < arrival_s) {
            let place = tables[0].place(index);
            return Err(format!(
                "{place}: is sent at {sent_s} s, before it arrives at {arrival_s} s"
            ));
        }
        // Latencies are of the client's request, not of its wait for a place in flight.
        let since = |stamp: Option<f64>| stamp.map(|stamp| stamp - sent_s.unwrap_or(arrival_s));
        let ttft_s = match seconds(ttft)? {
            None => since(seconds(first_token)?),
            told => told,
        };
        let e2e_s = match seconds(e2e)? {
            None => since(seconds(finish)?),
            told => told,
        };
        let e2e_s = e2e_s.ok_or("requests.columns: `e2e_s` or `finish_s` is missing")?;
        check(ttft_s, e2e_s).map_err(|problem| {
            let place = tables[0].place(index);
            format!("{place}: {problem}; leave rows out with requests.keep")
        })?;
        Ok(Some(Row {
            place: index,
            arrival_s,
            sent_s,
            prompt_tokens: tokens(prompt_tokens)?
                .ok_or("requests.columns: `prompt_tokens` is missing")?,
            output_tokens: tokens(output_tokens)?,
            ttft_s,
            e2e_s,
            prompt: text(prompt),
            hash_ids: ids(&text(hash_ids).unwrap_or_default()),
            adapter: text(adapter),
        }))
    }
}

fn unknown(key: &str) -> String {
    format!(
        "requests.columns.{key}: is not a quantity; known quantities are {} with a unit (_s, _ms, _us, _ns), and \
         {}",
        TIMES.join(", "),
        OTHERS.join(", ")
    )
}

/// Texts between brackets, commas and spaces, as in `[1, 2, 3]`, `['a1', 'b2']` and `1 2 3`.
fn ids(text: &str) -> Vec<String> {
    let is_between = |c: char| c.is_whitespace() || "[](){},;|'\"".contains(c);
    text.split(is_between).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// How much later a first token may be than the end, in seconds: stamps may be rounded.
const ROUNDING_S: f64 = 1e-3;

/// Whether the times are those of an answered request.
fn check(ttft_s: Option<f64>, e2e_s: f64) -> Result<(), String> {
    if e2e_s <= 0.0 {
        return Err(format!("the end is {e2e_s} s after the arrival: did the request fail?"));
    }
    match ttft_s {
        Some(ttft_s) if ttft_s <= 0.0 => {
            Err(format!("the first token is {ttft_s} s after the arrival: did the request fail?"))
        }
        Some(ttft_s) if ttft_s > e2e_s + ROUNDING_S => {
            Err(format!("the first token comes after {ttft_s} s, the last after {e2e_s} s"))
        }
        _ => Ok(()),
    }
}

/// Whether a cell has a value: as text, as a number, or as a switch in any case.
fn is_same(cell: &str, value: &str) -> bool {
    let cell = cell.trim();
    let number = |text: &str| text.parse::<f64>().ok();
    let is_switch = ["true", "false"].contains(&value);
    cell == value
        || (is_switch && cell.eq_ignore_ascii_case(value))
        || number(value).is_some_and(|value| number(cell) == Some(value))
}
