//! Tables as Parquet.

use std::fs::File;
use std::path::Path;

use polars::prelude::{Column, DataFrame, IntoColumn, NamedFrom, ParquetWriter, Series};

use super::results::{Cells, NamedCells};

/// Why a table cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file cannot be made.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The table cannot be written.
    #[error("{path}: {problem}")]
    Table {
        /// The file.
        path: String,
        /// Why.
        problem: String,
    },
}

/// Writes columns of equally many rows.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, columns: &[NamedCells]) -> Result<(), TableError> {
    let rows = columns.first().map_or(0, |(_, cells)| cells.rows());
    let columns = columns.iter().map(|(name, cells)| match cells {
        Cells::Integers(cells) => column(name, cells),
        Cells::Counts(cells) => column(name, cells),
        Cells::Numbers(cells) => column(name, cells),
        Cells::Booleans(cells) => column(name, cells),
        Cells::Texts(cells) => column(name, cells),
        Cells::AllCounts(cells) => column(name, cells),
        Cells::AllLongs(cells) => column(name, cells),
        Cells::AllNumbers(cells) => column(name, cells),
        Cells::AllBooleans(cells) => column(name, cells),
        Cells::Words { words, cells } => {
            let texts = cells.iter().map(|place| words[*place as usize].as_str());
            column(name, texts.collect::<Vec<&str>>())
        }
    });
    let name = || path.display().to_string();
    let file = File::create(path).map_err(|source| TableError::Io { path: name(), source })?;
    let written = DataFrame::new(rows, columns.collect())
        .and_then(|mut table| ParquetWriter::new(file).set_parallel(false).finish(&mut table));
    written
        .map(|_| ())
        .map_err(|error| TableError::Table { path: name(), problem: error.to_string() })
}

fn column<T: AsRef<[U]>, U>(name: &str, values: T) -> Column
where
    Series: NamedFrom<T, [U]>,
{
    Series::new(name.into(), values).into_column()
}
