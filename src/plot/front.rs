//! Points of which some are better than all others in one way or the other: a Pareto front.

use super::axis::{Axis, limits, significant_signed};
use super::canvas::{Align, Canvas, Ink, REACH, TOP, Type};
use super::frame::{Panel, readable_alone};

/// A panel of points.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontPanel {
    /// What it shows.
    pub heading: String,
    /// What is to the right, with its unit.
    pub x: String,
    /// What is up, with its unit.
    pub y: String,
    /// All points, those of the front in its order.
    pub points: Vec<FrontPoint>,
}

/// A point of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontPoint {
    /// Where it is.
    pub at: (f64, f64),
    /// What it is called.
    pub name: String,
    /// Whether it is on the front.
    pub is_best: bool,
    /// Whether it meets the SLOs; one that does not is drawn hollow.
    pub keeps: bool,
}

const KEYS: usize = 8;
const PANEL_TOP: f64 = TOP + 48.0;
const PANEL_HEIGHT: f64 = 330.0;
const KEY_HEIGHT: f64 = 18.0;
/// Letters of a name in a row, of the width of a panel.
const KEY_LETTERS: usize = 56;
const KEY_INDENT: f64 = 18.0;
const PANEL_SIDES: [(f64, f64); 2] = [(88.0, 464.0), (560.0, 936.0)];
const LABELS: f64 = 7.5;

/// The height of the sheet.
pub(super) fn height(panels: &[FrontPanel]) -> f64 {
    let rows = panels.iter().map(|panel| keys(panel).len()).max();
    PANEL_TOP + PANEL_HEIGHT + 66.0 + KEY_HEIGHT * rows.unwrap_or_default() as f64 + 12.0
}

pub(super) fn draw(canvas: &mut Canvas<'_>, panels: &[FrontPanel]) {
    for (panel, sides) in panels.iter().zip(PANEL_SIDES) {
        readable_alone(canvas, sides, (TOP, height(panels)));
        draw_panel(canvas, panel, sides);
    }
}

/// The points of the front.
fn front(panel: &FrontPanel) -> impl Iterator<Item = (&FrontPoint, &str)> {
    panel.points.iter().filter(|point| point.is_best).map(|point| (point, point.name.as_str()))
}

/// The rows that name the points of the front, and where they begin.
fn keys(panel: &FrontPanel) -> Vec<(f64, String)> {
    let mut rows = Vec::new();
    for (number, (_, name)) in front(panel).enumerate().take(KEYS) {
        let mut row = (0.0, format!("{}:", number + 1));
        for word in name.split(' ') {
            if row.1.chars().count() + word.chars().count() >= KEY_LETTERS {
                rows.push(std::mem::replace(&mut row, (KEY_INDENT, String::new())));
            }
            if !row.1.is_empty() {
                row.1.push(' ');
            }
            row.1.push_str(word);
        }
        rows.push(row);
    }
    let count = front(panel).count();
    if count > KEYS {
        rows.push((KEY_INDENT, format!("and {} more", count - KEYS)));
    }
    rows
}

fn draw_panel(canvas: &mut Canvas<'_>, shown: &FrontPanel, (left, right): (f64, f64)) {
    let between = |of: fn(&FrontPoint) -> f64| {
        let (low, high) = limits(shown.points.iter().map(of));
        if low.is_finite() { (low, high) } else { (0.0, 1.0) }
    };
    let ((x_min, x_max), (y_min, y_max)) = (between(|p| p.at.0), between(|p| p.at.1));
    let bottom = PANEL_TOP + PANEL_HEIGHT;
    let panel = Panel {
        left,
        right,
        top: PANEL_TOP,
        bottom,
        x: Axis::for_spread(x_min, x_max, LABELS),
        y: Axis::for_spread(y_min, y_max, LABELS),
    };
    panel.draw(canvas, &format!("{}{}", shown.y, panel.y.scale_note()));
    panel.draw_foot(canvas, &format!("{}{}", shown.x, panel.x.scale_note()));
    canvas.text((left, PANEL_TOP - 30.0), Align::Start, Type::HEADING, &shown.heading);
    for point in shown.points.iter().filter(|point| !point.is_best) {
        canvas.dot(panel.at(point.at.0, point.at.1), Ink::FRAME, 3.0);
    }
    let on_it: Vec<(f64, f64)> =
        front(shown).map(|(point, _)| panel.at(point.at.0, point.at.1)).collect();
    canvas.line(&on_it, Ink::BLUE, 1.6);
    for (number, (point, _)) in front(shown).enumerate() {
        let at = panel.at(point.at.0, point.at.1);
        canvas.dot(at, Ink::BLUE, 4.5);
        if !point.keeps {
            canvas.dot(at, Ink::PAPER, 2.5);
        }
        if number < KEYS {
            let label = (number + 1).to_string();
            // At the frame there is no room beside a point.
            let (place, align) = if at.0 + 24.0 < right {
                ((at.0 + 8.0, at.1 - 10.0), Align::Start)
            } else {
                ((at.0, at.1 - 14.0), Align::Middle)
            };
            canvas.text(place, align, Type::NOTE, &label);
        }
    }
    for point in &shown.points {
        let value = |title: &str, value| format!("{title}: {}", significant_signed(value));
        let lines = [point.name.clone(), value(&shown.x, point.at.0), value(&shown.y, point.at.1)];
        canvas.tell(panel.at(point.at.0, point.at.1), REACH, &lines);
    }
    for (row, (indent, key)) in keys(shown).iter().enumerate() {
        let down = bottom + 62.0 + KEY_HEIGHT * row as f64;
        canvas.text((left + indent, down), Align::Start, Type::NOTE, key);
    }
}
