//! Tables of the results of many runs: columns with names, as CSV, or as Parquet with the feature
//! `tables`.

use crate::plain::inert;
use std::io::Write;

/// A column and its name.
pub type NamedCells = (String, Cells);

/// The cells of a column; what a run has not is empty.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Whole numbers.
    Integers(Vec<Option<i64>>),
    /// Numbers, to the last digit.
    Numbers(Vec<Option<f64>>),
    /// Yes or no.
    Booleans(Vec<Option<bool>>),
    /// Texts.
    Texts(Vec<Option<String>>),
}

impl Cells {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        match self {
            Self::Integers(cells) => cells.len(),
            Self::Numbers(cells) => cells.len(),
            Self::Booleans(cells) => cells.len(),
            Self::Texts(cells) => cells.len(),
        }
    }

    fn text(&self, row: usize) -> String {
        fn of<T: ToString>(cell: Option<&T>) -> String {
            cell.map(T::to_string).unwrap_or_default()
        }
        match self {
            Self::Integers(cells) => of(cells[row].as_ref()),
            Self::Numbers(cells) => of(cells[row].as_ref()),
            Self::Booleans(cells) => of(cells[row].as_ref()),
            Self::Texts(cells) => cells[row].as_deref().map(inert).unwrap_or_default(),
        }
    }
}

/// Writes columns of equally many rows as CSV with a header.
///
/// # Errors
/// When the sink fails.
pub fn write_csv(sink: impl Write, columns: &[NamedCells]) -> Result<(), csv::Error> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(columns.iter().map(|(name, _)| inert(name)))?;
    let rows = columns.first().map_or(0, |(_, cells)| cells.rows());
    for row in 0..rows {
        writer.write_record(columns.iter().map(|(_, cells)| cells.text(row)))?;
    }
    Ok(writer.flush()?)
}
