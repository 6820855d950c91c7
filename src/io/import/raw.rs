//! Raw tables: rows of named columns, from CSV text or Parquet.

use std::path::{Path, PathBuf};

use crate::io::text;

/// Why measurements cannot be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A file or folder cannot be read.
    #[error("{path}: {problem}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        problem: String,
    },
    /// What is asked for is not in the folder.
    #[error("{0}")]
    Missing(String),
}

impl ImportError {
    pub(super) fn read(path: &Path, problem: impl Into<String>) -> Self {
        Self::Read { path: path.display().to_string(), problem: problem.into() }
    }
}

/// The columns of a table that were asked for: whole numbers, words, and times in ms.
#[derive(Debug, Default)]
pub(super) struct RawTable {
    pub(super) rows: Vec<RawRow>,
}

/// A row: its whole numbers and its words in the order asked for, and its time in µs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RawRow {
    pub(super) numbers: Vec<u64>,
    pub(super) words: Vec<String>,
    pub(super) micros: f64,
}

/// The columns to read. A number whose column is absent is 0, a word's is empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns<'a> {
    pub(super) numbers: &'a [&'a str],
    pub(super) words: &'a [&'a str],
}

/// The table `stem` of a folder: `stem.parquet`, or `stem.txt` or `stem.csv` with a header line.
/// `None` where the folder has no such file.
pub(super) fn read(
    folder: &Path,
    stem: &str,
    columns: Columns<'_>,
) -> Result<Option<RawTable>, ImportError> {
    let file = |end: &str| -> Option<PathBuf> {
        let path = folder.join(format!("{stem}.{end}"));
        path.is_file().then_some(path)
    };
    if let Some(path) = file("txt").or_else(|| file("csv")) {
        return read_csv(&path, columns).map(Some);
    }
    match file("parquet") {
        Some(path) => read_parquet(&path, columns).map(Some),
        None => Ok(None),
    }
}

fn read_csv(path: &Path, columns: Columns<'_>) -> Result<RawTable, ImportError> {
    let fail = |problem: String| ImportError::read(path, problem);
    let text = text::whole(path, text::RESULTS_MIB_MAX).map_err(|error| fail(error.to_string()))?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| fail(error.to_string()))?.clone();
    let place = |name: &str| headers.iter().position(|header| header == name);
    let numbers: Vec<_> = columns.numbers.iter().map(|name| place(name)).collect();
    let words: Vec<_> = columns.words.iter().map(|name| place(name)).collect();
    let latency = place("latency").ok_or_else(|| fail("has no column `latency`".to_owned()))?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| fail(error.to_string()))?;
        let number = |place: &Option<usize>| match place {
            None => Ok(0),
            Some(place) => record[*place].parse().map_err(|_| {
                let line = record.position().map_or(0, csv::Position::line);
                let (name, value) = (&headers[*place], &record[*place]);
                fail(format!("line {line}: {name} must be a whole number, got `{value}`"))
            }),
        };
        let time: Option<f64> = record[latency].parse().ok();
        let Some(micros) = time.filter(|time| *time > 0.0).map(|ms| 1e3 * ms) else {
            continue;
        };
        rows.push(RawRow {
            numbers: numbers.iter().map(number).collect::<Result<_, _>>()?,
            words: words.iter().map(|w| w.map_or(String::new(), |w| record[w].into())).collect(),
            micros,
        });
    }
    Ok(RawTable { rows })
}

#[cfg(not(feature = "tables"))]
fn read_parquet(path: &Path, _: Columns<'_>) -> Result<RawTable, ImportError> {
    Err(ImportError::read(
        path,
        "this servecast reads no Parquet: build it with the feature `tables`, or write the table \
         as .csv beside it",
    ))
}

#[cfg(feature = "tables")]
fn read_parquet(path: &Path, columns: Columns<'_>) -> Result<RawTable, ImportError> {
    use polars::prelude::{DataType, ParquetReader, SerReader};

    let fail = |problem: String| ImportError::read(path, problem);
    let file = std::fs::File::open(path).map_err(|error| fail(error.to_string()))?;
    let table = ParquetReader::new(file).finish().map_err(|error| fail(error.to_string()))?;
    let has = |name: &str| table.get_column_names().iter().any(|other| other.as_str() == name);
    let column = |name: &str, dtype: &DataType| {
        if !has(name) {
            return Ok(None);
        }
        let column = table.column(name).and_then(|column| column.cast(dtype));
        column.map(Some).map_err(|error| fail(error.to_string()))
    };
    let mut numbers = Vec::new();
    for name in columns.numbers {
        numbers.push(column(name, &DataType::Int64)?);
    }
    let mut words = Vec::new();
    for name in columns.words {
        words.push(column(name, &DataType::String)?);
    }
    let latency = column("latency", &DataType::Float64)?
        .ok_or_else(|| fail("has no column `latency`".to_owned()))?;
    let latency = latency.f64().map_err(|error| fail(error.to_string()))?;
    let mut rows = Vec::new();
    for (index, time) in latency.iter().enumerate() {
        let Some(ms) = time.filter(|time| *time > 0.0) else { continue };
        let mut row = RawRow { numbers: Vec::new(), words: Vec::new(), micros: 1e3 * ms };
        for column in &numbers {
            let value = match column {
                None => None,
                Some(column) => column.i64().map_err(|error| fail(error.to_string()))?.get(index),
            };
            row.numbers.push(value.and_then(|value| u64::try_from(value).ok()).unwrap_or(0));
        }
        for column in &words {
            let value = match column {
                None => None,
                Some(column) => column.str().map_err(|error| fail(error.to_string()))?.get(index),
            };
            row.words.push(value.unwrap_or_default().to_owned());
        }
        rows.push(row);
    }
    Ok(RawTable { rows })
}
