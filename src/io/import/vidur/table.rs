//! Tables of Vidur: columns by name, rows of one tensor parallel size and of the model's shape.

use std::path::Path;

use crate::io::columns::{self, Table};
use crate::io::import::error::LayerImportError;
use crate::io::import::llmservingsim::LONGEST_US;
use crate::model::{Mixer, ModelSpec};

/// A table and the place of each column that is asked for.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    path: &'a Path,
    table: Table,
}

/// One row, with its line in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    of: &'a Rows<'a>,
    cells: &'a [String],
    line: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn read(path: &'a Path) -> Result<Self, LayerImportError> {
        let table =
            columns::read(path).map_err(|error| LayerImportError::content(path, error.problem))?;
        let rows = Self { path, table };
        if rows.table.rows.is_empty() {
            return Err(rows.fail("holds no rows"));
        }
        Ok(rows)
    }

    pub(super) fn fail(&self, problem: impl Into<String>) -> LayerImportError {
        LayerImportError::content(self.path, problem)
    }

    pub(super) fn has(&self, column: &str) -> bool {
        self.table.columns.iter().any(|name| name == column)
    }

    /// The rows whose column has this number.
    pub(super) fn with(
        &'a self,
        column: &str,
        asked: u32,
    ) -> Result<Vec<Row<'a>>, LayerImportError> {
        let (mut found, mut others) = (Vec::new(), Vec::new());
        for (index, cells) in self.table.rows.iter().enumerate() {
            let row = Row { of: self, cells, line: index + 2 };
            match row.count(column)? {
                number if number == u64::from(asked) => found.push(row),
                number => others.push(number),
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
        others.sort_unstable();
        others.dedup();
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        let others = others.join(", ");
        Err(self.fail(format!("has no row with {column} {asked}; it has {others}")))
    }
}

impl Row<'_> {
    fn cell(&self, column: &str) -> Result<&str, LayerImportError> {
        let place = self.of.table.columns.iter().position(|name| name == column);
        let place = place.ok_or_else(|| self.of.fail(format!("has no column `{column}`")))?;
        Ok(self.cells.get(place).map_or("", |cell| cell.trim()))
    }

    fn broken(&self, column: &str, rule: &str, found: &str) -> LayerImportError {
        self.of.fail(format!("line {}: {column} must be {rule}, got `{found}`", self.line))
    }

    pub(super) fn word(&self, column: &str) -> Result<&str, LayerImportError> {
        self.cell(column)
    }

    pub(super) fn count(&self, column: &str) -> Result<u64, LayerImportError> {
        let cell = self.cell(column)?;
        // Tables that went through floats write 8.0.
        let whole = cell.strip_suffix(".0").unwrap_or(cell);
        let count = whole.parse::<u32>().map(u64::from);
        count.map_err(|_| self.broken(column, "a whole number below 2^32", cell))
    }

    pub(super) fn is(&self, column: &str) -> Result<bool, LayerImportError> {
        match self.cell(column)? {
            "True" | "true" => Ok(true),
            "False" | "false" => Ok(false),
            other => Err(self.broken(column, "True or False", other)),
        }
    }

    /// A median in µs.
    pub(super) fn micros(&self, operator: &str) -> Result<f64, LayerImportError> {
        let column = median(operator);
        let cell = self.cell(&column)?;
        let ms = cell.parse().ok().filter(|ms: &f64| (0.0..=LONGEST_US / 1e3).contains(ms));
        ms.map(|ms| ms * 1e3).ok_or_else(|| self.broken(&column, "a time in ms", cell))
    }

    /// A median in µs; 0 where the table has no such column.
    pub(super) fn maybe_micros(&self, operator: &str) -> Result<f64, LayerImportError> {
        if self.of.has(&median(operator)) { self.micros(operator) } else { Ok(0.0) }
    }

    /// Whether the row is of the model: refuses another.
    pub(super) fn check_shape(
        &self,
        model: &ModelSpec,
        heads_column: &str,
    ) -> Result<(), LayerImportError> {
        let mut mixers = model.each_mixer();
        let Some(Mixer::Grouped(attention)) = mixers.next() else {
            let name = &model.name;
            return Err(self.of.fail(format!("{name} has other attention than Vidur times")));
        };
        for (column, expected) in [
            ("n_embd", model.hidden),
            (heads_column, attention.heads),
            ("n_kv_head", attention.kv_heads),
        ] {
            let found = self.count(column)?;
            if found != u64::from(expected) {
                let (line, name) = (self.line, &model.name);
                let problem = format!("line {line}: {column}: {name} has {expected}, got {found}");
                return Err(self.of.fail(problem));
            }
        }
        Ok(())
    }
}

fn median(operator: &str) -> String {
    format!("time_stats.{operator}.median")
}
