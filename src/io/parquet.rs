//! Tables as Parquet.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use polars::prelude::{
    Column, DataFrame, IntoColumn, NamedFrom, ParquetWriter, PolarsError, PolarsResult, Series,
};

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

/// Rows that are written at a time: a row group, as large as polars makes them.
const ROWS: usize = 512 * 512;

/// Writes columns of equally many rows.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, columns: &[NamedCells]) -> Result<(), TableError> {
    write_all(path, std::iter::once(table(columns)))
}

/// Writes so many rows, a part of them at a time, so that no more than a part is in memory. All parts have the same
/// columns, those of no rows too.
///
/// # Errors
/// When the file cannot be written.
pub fn write_parts(
    path: &Path,
    rows: usize,
    part: impl Fn(Range<usize>) -> Vec<NamedCells>,
) -> Result<(), TableError> {
    let ranges = (0..rows.max(1)).step_by(ROWS).map(|first| first..rows.min(first + ROWS));
    write_all(path, ranges.map(|range| table(&part(range))))
}

fn write_all(
    path: &Path,
    parts: impl Iterator<Item = PolarsResult<DataFrame>>,
) -> Result<(), TableError> {
    let name = || path.display().to_string();
    let failed =
        |error: PolarsError| TableError::Table { path: name(), problem: error.to_string() };
    let mut parts = parts.map(|part| part.map_err(failed));
    let Some(first) = parts.next().transpose()? else { return Ok(()) };
    let file = File::create(path).map_err(|source| TableError::Io { path: name(), source })?;
    let parquet = ParquetWriter::new(file).set_parallel(false);
    let mut writer = parquet.batched(first.schema()).map_err(failed)?;
    writer.write_batch(&first).map_err(failed)?;
    drop(first);
    for part in parts {
        writer.write_batch(&part?).map_err(failed)?;
    }
    writer.finish().map(|_| ()).map_err(failed)
}

/// Columns as polars holds them.
fn table(columns: &[NamedCells]) -> PolarsResult<DataFrame> {
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
    DataFrame::new(rows, columns.collect())
}

fn column<T: AsRef<[U]>, U>(name: &str, values: T) -> Column
where
    Series: NamedFrom<T, [U]>,
{
    Series::new(name.into(), values).into_column()
}

#[cfg(test)]
mod tests {
    use polars::prelude::{ParquetReader, SerReader};

    use super::*;

    #[test]
    fn parts_make_the_table_that_is_written_at_once() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let part = |places: Range<usize>| {
            let of = |place: usize| (!place.is_multiple_of(3)).then_some(place as f64 / 7.0);
            let words = places.clone().map(|place| (place % 2) as u32);
            vec![
                ("id".into(), Cells::AllLongs(places.clone().map(|place| place as u64).collect())),
                ("value".into(), Cells::Numbers(places.map(of).collect())),
                ("word".into(), Cells::words(["even", "odd"], words)),
            ]
        };
        let read = |path: &Path| {
            let file = File::open(path).expect("it was written");
            ParquetReader::new(file).finish().expect("it is a table")
        };
        let [whole, parts] =
            ["whole.parquet", "parts.parquet"].map(|name| folder.path().join(name));
        for rows in [0, 1, ROWS, 2 * ROWS + 5] {
            write(&whole, &part(0..rows)).expect("it is written");
            write_parts(&parts, rows, part).expect("it is written");
            let (whole, parts) = (read(&whole), read(&parts));
            assert_eq!((parts.height(), parts.schema()), (rows, whole.schema()));
            assert!(whole.equals_missing(&parts), "{rows} rows");
        }
    }
}
