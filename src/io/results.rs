//! Tables: columns with names, as CSV, or as Parquet with the feature `tables`.

use crate::plain::inert;
use std::io::Write;

/// A column and its name.
pub type NamedCells = (String, Cells);

/// The cells of a column; of the first kinds what is not there is empty.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Whole numbers.
    Integers(Vec<Option<i64>>),
    /// Whole numbers from 0, such as ids.
    Counts(Vec<Option<u32>>),
    /// Numbers, to the last digit.
    Numbers(Vec<Option<f64>>),
    /// Yes or no.
    Booleans(Vec<Option<bool>>),
    /// Texts.
    Texts(Vec<Option<String>>),
    /// Whole numbers from 0, of which none is absent.
    AllCounts(Vec<u32>),
    /// The same up to 2^64: instants and durations.
    AllLongs(Vec<u64>),
    /// Numbers, of which none is absent.
    AllNumbers(Vec<f64>),
    /// Yes or no, never absent.
    AllBooleans(Vec<bool>),
    /// One of a few words, never absent.
    Words {
        /// The words.
        words: Vec<String>,
        /// Of each row, the place of its word.
        cells: Vec<u32>,
    },
}

impl Cells {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        match self {
            Self::Integers(cells) => cells.len(),
            Self::Numbers(cells) => cells.len(),
            Self::Booleans(cells) => cells.len(),
            Self::Texts(cells) => cells.len(),
            Self::Counts(cells) => cells.len(),
            Self::AllCounts(cells) | Self::Words { cells, .. } => cells.len(),
            Self::AllLongs(cells) => cells.len(),
            Self::AllNumbers(cells) => cells.len(),
            Self::AllBooleans(cells) => cells.len(),
        }
    }

    /// The words of these rows, of those that any row may have.
    pub fn words(
        words: impl IntoIterator<Item: Into<String>>,
        cells: impl IntoIterator<Item = u32>,
    ) -> Self {
        let words = words.into_iter().map(Into::into).collect();
        Self::Words { words, cells: cells.into_iter().collect() }
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
            Self::Counts(cells) => of(cells[row].as_ref()),
            Self::AllCounts(cells) => cells[row].to_string(),
            Self::AllLongs(cells) => cells[row].to_string(),
            Self::AllNumbers(cells) => cells[row].to_string(),
            Self::AllBooleans(cells) => cells[row].to_string(),
            Self::Words { words, cells } => inert(&words[cells[row] as usize]),
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
