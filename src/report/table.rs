//! Tables of a page, and numbers as they stand in a column: all with as many decimals as the largest needs.

use super::html::Html;
use crate::plain::separate;

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    /// Words, to the left.
    Text(String),
    /// A number as it is written, to the right.
    Number(String),
    /// The same, of which is known whether it is good.
    Judged(String, Judgement),
    /// Nothing.
    Empty,
}

/// Whether a difference is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It is.
    Better,
    /// It is not.
    Worse,
}

impl Cell {
    fn is_number(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Judged(..))
    }

    fn html(&self) -> Html {
        match self {
            Self::Text(text) => Html::words("td", text),
            Self::Number(text) => Html::class("td", "number", [Html::text(text)]),
            Self::Judged(text, judgement) => {
                let class = match judgement {
                    Judgement::Better => "number better",
                    Judgement::Worse => "number worse",
                };
                Html::class("td", class, [Html::text(text)])
            }
            Self::Empty => Html::class("td", "number", [Html::text("–")]),
        }
    }
}

/// A table with a line of titles, if there are any; the first cell of each row is what the row is about.
pub(super) fn table(titles: &[String], rows: &[Vec<Cell>]) -> Html {
    let is_number =
        |column: usize| rows.iter().any(|row| row.get(column).is_some_and(Cell::is_number));
    let title = |(column, text): (usize, &String)| {
        let class = if is_number(column) { "number" } else { "words" };
        Html::with("th", &[("scope", "col"), ("class", class)], [Html::text(text)])
    };
    let is_told = titles.iter().any(|title| !title.is_empty());
    let head = is_told.then(|| Html::element("tr", titles.iter().enumerate().map(title)));
    let head = head.map_or_else(Html::default, |head| Html::element("thead", [head]));
    let row = |cells: &Vec<Cell>| {
        let cells = cells.iter().enumerate().map(|(column, cell)| match cell {
            Cell::Text(text) if column == 0 => {
                Html::with("th", &[("scope", "row")], [Html::text(text)])
            }
            cell => cell.html(),
        });
        Html::element("tr", cells)
    };
    let body = Html::element("tbody", rows.iter().map(row));
    let table = Html::element("table", [head, body]);
    // Reachable without a mouse, as what scrolls must be.
    Html::with("div", &[("class", "wide"), ("tabindex", "0")], [table])
}

/// A table by its columns, each with its title.
pub(super) fn table_of(columns: Vec<(String, Vec<Cell>)>) -> Html {
    let (titles, columns): (Vec<String>, Vec<Vec<Cell>>) = columns.into_iter().unzip();
    let rows = columns.first().map_or(0, Vec::len);
    let row = |row: usize| columns.iter().map(|column| column[row].clone()).collect();
    table(&titles, &(0..rows).map(row).collect::<Vec<_>>())
}

/// Numbers of one column.
pub(super) fn column(values: &[Option<f64>]) -> Vec<Cell> {
    let decimals = decimals(values.iter().copied().flatten());
    values.iter().map(|value| value.map_or(Cell::Empty, |value| number(value, decimals))).collect()
}

fn number(value: f64, decimals: usize) -> Cell {
    Cell::Number(written(value, decimals))
}

/// A number by itself.
pub(super) fn alone(value: f64) -> String {
    written(value, decimals([value].into_iter()))
}

/// Three significant digits of the largest; none of whole numbers.
pub(super) fn decimals(values: impl Iterator<Item = f64> + Clone) -> usize {
    if values.clone().all(|value| value.fract() == 0.0) {
        return 0;
    }
    match values.map(f64::abs).fold(0.0, f64::max) {
        large if large >= 1000.0 => 0,
        large if large >= 100.0 => 1,
        some if some >= 1.0 => 2,
        small => (2 + (-small.log10()).ceil() as usize).min(9),
    }
}

/// A number with thousands apart.
pub(super) fn written(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let text = separate(whole);
    let sign =
        if value < 0.0 && plain.contains(|c: char| ('1'..='9').contains(&c)) { "−" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{text}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_column_have_the_same_decimals() {
        let cells = column(&[Some(1.5), Some(12.345), None, Some(0.004)]);
        let texts = ["1.50", "12.35", "", "0.00"].map(|text| match text {
            "" => Cell::Empty,
            text => Cell::Number(text.to_owned()),
        });
        // 12.345 in binary is a little more.
        assert_eq!(cells, texts);
    }

    #[test]
    fn numbers_alone_keep_three_digits_and_whole_ones_all() {
        let all = [1_234_567.0, 4151.44, 259.81, 31.4, 0.0284, -0.52, 0.0];
        let texts = ["1,234,567", "4,151", "259.8", "31.40", "0.0284", "−0.520", "0"];
        assert_eq!(all.map(alone), texts);
    }
}
