//! Reads published result tables in markdown: one run a row.

use crate::metrics::bench::keys::MetricKey;
use crate::metrics::bench::keys::Tool;

use super::Measured;
use super::Origin;
use super::parse_number;

/// How many columns must name figures for a table to be one of results.
const FIGURE_COLUMNS_MIN: usize = 3;

/// Label columns that tell the configured rate, in requests per second.
const RATE_HEADINGS: [&str; 5] = ["qps", "rps", "request rate", "rate", "request rate (req/s)"];

/// A column: a figure, or a label of the run.
enum Column {
    Figure(MetricKey),
    Label(String),
}

pub(super) fn read(text: &str) -> Vec<Measured> {
    let lines: Vec<&str> = text.lines().collect();
    let mut rows = Vec::new();
    for (index, pair) in lines.windows(2).enumerate() {
        let Some(columns) = columns_of(pair[0], pair[1]) else { continue };
        // the first row follows the two lines of the head
        for (offset, line) in lines[index + 2..].iter().enumerate() {
            let Some(cells) = cells_of(line) else { break };
            rows.extend(row_of(&columns, &cells, index + 3 + offset));
        }
    }
    rows
}

fn cells_of(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?;
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    Some(inner.split('|').map(str::trim).collect())
}

/// The columns when these two lines are the head of a result table.
fn columns_of(head: &str, rule: &str) -> Option<Vec<Column>> {
    let rule_cells = cells_of(rule)?;
    let is_rule = |cell: &&str| cell.contains('-') && cell.chars().all(|c| "-: ".contains(c));
    if !rule_cells.iter().all(is_rule) {
        return None;
    }
    let column = |cell: &str| {
        MetricKey::of_label(cell).map_or_else(|| Column::Label(cell.to_owned()), Column::Figure)
    };
    let columns: Vec<Column> = cells_of(head)?.into_iter().map(column).collect();
    let figures = columns.iter().filter(|column| matches!(column, Column::Figure(_))).count();
    (figures >= FIGURE_COLUMNS_MIN).then_some(columns)
}

fn row_of(columns: &[Column], cells: &[&str], line: usize) -> Option<Measured> {
    let mut measured = Measured::new(Origin::TableRow, line);
    for (column, cell) in columns.iter().zip(cells) {
        match column {
            Column::Label(name) => {
                measured.labels.push((name.clone(), (*cell).to_owned()));
                if RATE_HEADINGS.contains(&name.to_lowercase().as_str()) {
                    measured.set_rate(cell);
                }
            }
            Column::Figure(key) => match parse_number(&cell.replace(',', "")) {
                Some(value) => measured.metrics.push((*key, value)),
                // an empty or dashed cell is no measurement; anything else is kept as written
                None if cell.is_empty() || *cell == "-" || *cell == "—" => {}
                None => measured.facts.push((key.name(Tool::Vllm), (*cell).to_owned())),
            },
        }
    }
    (!measured.metrics.is_empty()).then_some(measured)
}
