//! Tables of texts with named columns: CSV with a header, and JSONL with one object a line; either
//! may be compressed (`.gz`).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::{Map, Value};

use crate::validate::Table;

/// Why a table cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ColumnsError {
    /// The file.
    pub path: String,
    /// What is wrong, with the line where there is one.
    pub problem: String,
}

/// Reads a table by the ending of its name: `.csv`, `.jsonl`, with or without `.gz`.
///
/// # Errors
/// When the file cannot be read or a line of it is no row.
pub fn read(path: &Path) -> Result<Table, ColumnsError> {
    let name = path.display().to_string();
    let fail = |problem: String| ColumnsError { path: name.clone(), problem };
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    let (stem, input): (&str, Box<dyn Read>) = match name.strip_suffix(".gz") {
        Some(stem) => (stem, Box::new(GzDecoder::new(file))),
        None => (&name, Box::new(file)),
    };
    let extension = stem.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let mut table = match extension.as_str() {
        "csv" => csv_table(input),
        "jsonl" => jsonl_table(BufReader::new(input)),
        _ => Err("is no table: use .csv or .jsonl, also with .gz".to_owned()),
    }
    .map_err(fail)?;
    table.name = name;
    Ok(table)
}

fn csv_table(input: impl Read) -> Result<Table, String> {
    let mut reader = csv::Reader::from_reader(input);
    let header = reader.headers().map_err(|error| error.to_string())?;
    let columns = header.iter().map(|name| name.trim().to_owned()).collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        rows.push(record.iter().map(str::to_owned).collect());
    }
    Ok(Table { name: String::new(), columns, rows })
}

fn jsonl_table(input: impl BufRead) -> Result<Table, String> {
    let mut columns: Vec<String> = Vec::new();
    let mut objects: Vec<Map<String, Value>> = Vec::new();
    for (index, line) in input.lines().enumerate() {
        let line = line.map_err(|error| error.to_string())?;
        if line.trim().is_empty() {
            continue;
        }
        let object: Map<String, Value> =
            serde_json::from_str(&line).map_err(|error| format!("line {}: {error}", index + 1))?;
        for key in object.keys() {
            if !columns.contains(key) {
                columns.push(key.clone());
            }
        }
        objects.push(object);
    }
    let cell = |object: &Map<String, Value>, column: &String| match object.get(column) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let row = |object: &Map<String, Value>| columns.iter().map(|c| cell(object, c)).collect();
    let rows = objects.iter().map(row).collect();
    Ok(Table { name: String::new(), columns, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_and_jsonl_of_one_content_are_one_table() {
        let csv = csv_table("in,ids\n5,\"[1,2]\"\n6,\n".as_bytes()).unwrap();
        let text = "{\"in\": 5, \"ids\": [1, 2]}\n\n{\"in\": 6}\n";
        let mut jsonl = jsonl_table(text.as_bytes()).unwrap();
        let place = jsonl.columns.iter().position(|column| column == "in").unwrap();
        if place == 1 {
            jsonl.columns.swap(0, 1);
            jsonl.rows.iter_mut().for_each(|row| row.swap(0, 1));
        }
        assert_eq!(csv, jsonl);
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = jsonl_table("{}\n{".as_bytes()).unwrap_err();
        assert!(error.starts_with("line 2: "), "{error}");
    }
}
