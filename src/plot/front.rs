//! Points of which some are better than all others in one way or the other: a Pareto front.

use super::axis::{Axis, limits};
use super::canvas::{Align, Canvas, Ink, TOP, Type};
use super::frame::Panel;

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
    /// What it is called, if it is on the front.
    pub name: Option<String>,
}

const KEYS: usize = 8;
const PANEL_TOP: f64 = TOP + 48.0;
const PANEL_HEIGHT: f64 = 330.0;
const KEY_HEIGHT: f64 = 18.0;
const PANEL_SIDES: [(f64, f64); 2] = [(88.0, 464.0), (560.0, 936.0)];
const LABELS: f64 = 7.5;

/// The height of the sheet.
pub(super) fn height(panels: &[FrontPanel]) -> f64 {
    let keys = panels.iter().map(|panel| front(panel).count().min(KEYS + 1)).max();
    PANEL_TOP + PANEL_HEIGHT + 66.0 + KEY_HEIGHT * keys.unwrap_or_default() as f64 + 12.0
}

pub(super) fn draw(canvas: &mut Canvas<'_>, panels: &[FrontPanel]) {
    for (panel, sides) in panels.iter().zip(PANEL_SIDES) {
        draw_panel(canvas, panel, sides);
    }
}

/// The points of the front.
fn front(panel: &FrontPanel) -> impl Iterator<Item = (&FrontPoint, &str)> {
    panel.points.iter().filter_map(|point| Some((point, point.name.as_deref()?)))
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
    for point in shown.points.iter().filter(|point| point.name.is_none()) {
        canvas.dot(panel.at(point.at.0, point.at.1), Ink::FRAME, 3.0);
    }
    let on_it: Vec<(f64, f64)> =
        front(shown).map(|(point, _)| panel.at(point.at.0, point.at.1)).collect();
    canvas.line(&on_it, Ink::BLUE, 1.6);
    for (number, (point, name)) in front(shown).enumerate() {
        let at = panel.at(point.at.0, point.at.1);
        canvas.dot(at, Ink::BLUE, 4.5);
        if number > KEYS {
            continue;
        }
        let key = bottom + 62.0 + KEY_HEIGHT * number as f64;
        if number == KEYS {
            let more = format!("and {} more", front(shown).count() - KEYS);
            canvas.text((left + 18.0, key), Align::Start, Type::NOTE, &more);
            continue;
        }
        let label = (number + 1).to_string();
        canvas.text((at.0 + 8.0, at.1 - 10.0), Align::Start, Type::NOTE, &label);
        canvas.text((left, key), Align::Start, Type::NOTE, &format!("{label}: {name}"));
    }
}
