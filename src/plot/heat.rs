//! A figure of a study over two settings: a cell for each pair of levels, the stronger its colour the
//! larger: strong against the paper, which is dark on a dark page.

use super::axis::significant;
use super::canvas::{Align, Canvas, Ink, TOP, Type};
use super::frame::readable_alone;

/// A panel of cells.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatPanel {
    /// What the cells show, with its unit.
    pub heading: String,
    /// The setting to the right.
    pub x: String,
    /// The setting upwards.
    pub y: String,
    /// Levels to the right.
    pub columns: Vec<String>,
    /// Levels upwards.
    pub rows: Vec<String>,
    /// By row, then by column; nothing where every run failed.
    pub values: Vec<Vec<Option<f64>>>,
}

const SIDES: [(f64, f64); 2] = [(100.0, 464.0), (572.0, 936.0)];
const ROW_HEIGHT: f64 = 34.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 76.0;
/// Room of a number of five characters.
const NUMBER: f64 = 46.0;
const FAINTEST: f64 = 0.06;
const STRONGEST: f64 = 0.95;

/// The height of the sheet.
pub(super) fn height(panels: &[HeatPanel]) -> f64 {
    TOP + pitch(panels) * panels.len().div_ceil(2) as f64
}

fn pitch(panels: &[HeatPanel]) -> f64 {
    let rows = panels.iter().map(|panel| panel.rows.len()).max().unwrap_or_default();
    ABOVE + ROW_HEIGHT * rows as f64 + BELOW
}

pub(super) fn draw(canvas: &mut Canvas<'_>, panels: &[HeatPanel]) {
    for (place, panel) in panels.iter().enumerate() {
        let top = TOP + pitch(panels) * (place / 2) as f64 + ABOVE;
        let sides = SIDES[place % 2];
        readable_alone(canvas, sides, (top - ABOVE, top - ABOVE + pitch(panels)));
        draw_panel(canvas, panel, sides, top);
    }
}

fn draw_panel(canvas: &mut Canvas<'_>, shown: &HeatPanel, (left, right): (f64, f64), top: f64) {
    let width = (right - left) / shown.columns.len().max(1) as f64;
    let bottom = top + ROW_HEIGHT * shown.rows.len() as f64;
    let values = || shown.values.iter().flatten().flatten().copied();
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(f64::NEG_INFINITY, f64::max);
    canvas.text((left, top - 14.0), Align::Start, Type::HEADING, &shown.heading);
    for (row, (name, values)) in shown.rows.iter().zip(&shown.values).enumerate() {
        let below = bottom - ROW_HEIGHT * row as f64;
        let above = below - ROW_HEIGHT;
        let middle = f64::midpoint(above, below);
        canvas.text((left - 8.0, middle), Align::End, Type::LABEL, name);
        for (column, value) in values.iter().enumerate() {
            let (from, to) = (left + width * column as f64, left + width * (column + 1) as f64);
            let text = (f64::midpoint(from, to), middle);
            let Some(value) = value else {
                canvas.text(text, Align::Middle, Type::NOTE, "–");
                continue;
            };
            let share = if most > least { (value - least) / (most - least) } else { 0.0 };
            let corners = [(from, above), (to, above), (to, below), (from, below)];
            canvas.shade(&corners, Ink::BLUE, FAINTEST + share * (STRONGEST - FAINTEST));
            if width >= NUMBER {
                let looks = if share > 0.5 { Type::ON_INK } else { Type::LABEL };
                canvas.text(text, Align::Middle, looks, &significant(*value));
            }
            let (x, y) = (shown.columns.get(column).map_or("", String::as_str), name);
            let lines = [
                format!("{}: {x}", shown.x),
                format!("{}: {y}", shown.y),
                format!("{}: {}", shown.heading, significant(*value)),
            ];
            canvas.tell(text, width.min(ROW_HEIGHT) / 2.0, &lines);
        }
    }
    let stride = (NUMBER / width).ceil().max(1.0) as usize;
    for (column, name) in shown.columns.iter().enumerate().step_by(stride) {
        let x = left + width * (column as f64 + 0.5);
        canvas.text((x, bottom + 14.0), Align::Middle, Type::LABEL, name);
    }
    let middle = (f64::midpoint(left, right), bottom + 34.0);
    canvas.text(middle, Align::Middle, Type::LABEL, &shown.x);
    let side = (left - 66.0, f64::midpoint(top, bottom));
    canvas.text(side, Align::Upwards, Type::LABEL, &shown.y);
    if least.is_finite() {
        let note = format!("faintest {}, strongest {}", significant(least), significant(most));
        canvas.text((middle.0, bottom + 54.0), Align::Middle, Type::NOTE, &note);
    }
}
