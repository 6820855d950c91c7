//! Tables of texts with named columns: CSV with a header, and JSON objects, one a line or in a list; either
//! may be compressed (`.gz`).

use std::path::Path;

use serde_json::{Map, Value};

use crate::io::text;

/// Why a table cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ColumnsError {
    /// The file.
    pub path: String,
    /// What is wrong, with the line where there is one.
    pub problem: String,
}

/// A table of texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Where it comes from, for messages.
    pub name: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows, as long as `columns`.
    pub rows: Vec<Vec<String>>,
    /// The line of the file that each row begins on; none where rows are no lines.
    pub lines: Vec<u64>,
}

impl Table {
    /// Where a row is, for messages.
    pub(crate) fn place(&self, index: usize) -> String {
        match self.lines.get(index) {
            Some(line) => format!("{}: line {line}", self.name),
            None => format!("{}: row {}", self.name, index + 1),
        }
    }
}

/// Reads a table by the ending of its name: `.csv`, `.tsv`, `.txt`, `.jsonl`, `.json` (a list of objects),
/// with or without `.gz`. Cells are divided by what the header, the first line that is not blank, has most of
/// outside quotes: tabs, commas or semicolons; those of `.csv` by commas if it has any.
///
/// # Errors
/// When the file cannot be read, a line of it is no row, or two columns have one name.
pub fn read(path: &Path) -> Result<Table, ColumnsError> {
    let name = path.display().to_string();
    let fail = |problem: String| ColumnsError { path: name.clone(), problem };
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let extension = stem.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let text = text::whole(path, text::RESULTS_MIB_MAX).map_err(|error| fail(error.to_string()))?;
    let mut table = match extension.as_str() {
        "csv" | "tsv" | "txt" => csv_table(&text, extension == "csv"),
        "jsonl" => jsonl_table(&text),
        "json" => json_table(&text),
        _ => Err("is not a table; use .csv, .tsv, .txt, .jsonl or .json, also with .gz".to_owned()),
    }
    .map_err(fail)?;
    table.name = name;
    Ok(table)
}

/// What divides the cells of a header.
fn delimiter(text: &str, prefers_commas: bool) -> u8 {
    let header = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let outside = |byte: u8| {
        let parts = header.split('"').step_by(2);
        parts.flat_map(str::bytes).filter(|other| *other == byte).count()
    };
    if prefers_commas && outside(b',') > 0 {
        return b',';
    }
    // Of equally many the last one is taken.
    b";\t,".iter().copied().max_by_key(|byte| outside(*byte)).unwrap_or(b',')
}

fn csv_table(text: &str, prefers_commas: bool) -> Result<Table, String> {
    let delimiter = delimiter(text, prefers_commas);
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| error.to_string())?;
    let columns: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
    let is_double = |at: &usize| !columns[*at].is_empty() && columns[..*at].contains(&columns[*at]);
    if let Some(at) = (0..columns.len()).find(is_double) {
        return Err(format!("line 1: two columns are called `{}`", columns[at]));
    }
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for record in reader.records() {
        let record = record.map_err(|error| broken_row(&error))?;
        lines.push(record.position().map_or(0, csv::Position::line));
        rows.push(record.iter().map(str::to_owned).collect());
    }
    Ok(Table { name: String::new(), columns, rows, lines })
}

/// What is wrong with a row of CSV.
fn broken_row(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos: Some(at), expected_len, len } => format!(
            "line {}: a row must have as many fields as the header, {expected_len}, got {len}",
            at.line()
        ),
        _ => error.to_string(),
    }
}

fn jsonl_table(text: &str) -> Result<Table, String> {
    let lines = (1_u64..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let object = |(number, line): (u64, &str)| {
        let object = crate::json::parse(line).map_err(|error| format!("line {number}: {error}"))?;
        match object {
            Value::Object(object) => Ok((number, object)),
            _ => Err(format!("line {number}: must be an object")),
        }
    };
    let (lines, objects): (Vec<u64>, Vec<_>) =
        lines.map(object).collect::<Result<Vec<_>, String>>()?.into_iter().unzip();
    Ok(Table { lines, ..table_of(&objects) })
}

fn json_table(text: &str) -> Result<Table, String> {
    let fail = |problem: &str| format!("is not a list of objects: {problem}");
    let Value::Array(values) = crate::json::parse(text).map_err(|e| fail(&e.to_string()))? else {
        return Err(fail("must be a list"));
    };
    let object = |value| match value {
        Value::Object(object) => Ok(object),
        other => Err(fail(&format!("{other} is none"))),
    };
    let objects: Vec<_> = values.into_iter().map(object).collect::<Result<_, _>>()?;
    Ok(table_of(&objects))
}

fn table_of(objects: &[Map<String, Value>]) -> Table {
    let mut columns: Vec<String> = Vec::new();
    for key in objects.iter().flat_map(Map::keys) {
        if !columns.contains(key) {
            columns.push(key.clone());
        }
    }
    let cell = |object: &Map<String, Value>, column: &String| match object.get(column) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let row = |object: &Map<String, Value>| columns.iter().map(|c| cell(object, c)).collect();
    let rows = objects.iter().map(row).collect();
    Table { name: String::new(), columns, rows, lines: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns and rows, in the order of the names of columns.
    fn sorted(table: &Table) -> Vec<(String, Vec<String>)> {
        let cells = |at: usize| table.rows.iter().map(|row| row[at].clone()).collect();
        let mut columns: Vec<_> =
            table.columns.iter().enumerate().map(|(at, name)| (name.clone(), cells(at))).collect();
        columns.sort();
        columns
    }

    #[test]
    fn one_content_is_one_table_in_every_form() {
        let csv = csv_table("in,ids\n5,\"[1,2]\"\n6,\n", true).unwrap();
        assert_eq!(csv.lines, [2, 3]);
        let jsonl = jsonl_table("{\"in\": 5, \"ids\": [1, 2]}\n\n{\"in\": 6}\n").unwrap();
        assert_eq!(jsonl.lines, [1, 3]);
        let json = json_table("[{\"in\": 5, \"ids\": [1, 2]}, {\"in\": 6}]").unwrap();
        for other in [jsonl, json] {
            assert_eq!(sorted(&other), sorted(&csv));
        }
        for text in ["in\tids\n5\t[1,2]\n6\t\n", "in;ids\n5;[1,2]\n6;\n"] {
            assert_eq!(csv_table(text, false).unwrap(), csv);
        }
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = jsonl_table("{}\n{").unwrap_err();
        assert!(error.starts_with("line 2: "), "{error}");
        let error = csv_table("in,out\n1,2\n3\n", true).unwrap_err();
        assert_eq!(error, "line 3: a row must have as many fields as the header, 2, got 1");
    }

    #[test]
    fn cells_are_divided_by_what_stands_between_names() {
        for (text, prefers_commas) in [
            ("\n\nin,out; limit\n1,2\n", true),
            ("\"a; b; in\",out\n1,2\n", false),
            ("in;out, in tokens;;\n1;2;;\n", false),
        ] {
            let table = csv_table(text, prefers_commas).unwrap();
            assert_eq!(table.rows[0][..2], ["1", "2"], "{text}");
        }
    }

    #[test]
    fn columns_without_a_name_may_be_many() {
        let table = csv_table("in,,\n1,2,3\n", true).unwrap();
        assert_eq!(table.columns, ["in", "", ""]);
    }

    #[test]
    fn two_columns_of_one_name_are_refused() {
        let error = csv_table("at,in,at\n1,2,3\n", true).unwrap_err();
        assert_eq!(error, "line 1: two columns are called `at`");
    }
}
