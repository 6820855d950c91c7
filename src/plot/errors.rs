//! Measured figures beside simulated ones: the relative errors as bars.

use super::axis::{Axis, fixed, significant};
use super::canvas::{Align, Canvas, Ink, TOP, Type};
use super::frame::Panel;

/// A figure that was measured and simulated.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredFigure {
    /// What it is, with its unit.
    pub name: String,
    /// By the server.
    pub measured: f64,
    /// By the simulation.
    pub simulated: f64,
    /// Of the simulated one, in percent of the measured one.
    pub error_pct: f64,
}

const ROW: f64 = 24.0;
const LEFT: f64 = 270.0;
const RIGHT: f64 = 660.0;
/// In percent. A longer bar ends at the frame; its number stands beside it.
const FARTHEST: f64 = 200.0;
/// Errors up to here are those of a good fit; the least that an axis shows.
const NEAREST: f64 = 5.0;
/// In percent: what is beyond has the ink of a warning.
const LARGE: f64 = 10.0;

/// The height of the sheet.
pub(super) fn height(figures: &[MeasuredFigure]) -> f64 {
    TOP + 20.0 + ROW * figures.len().max(2) as f64 + 66.0
}

pub(super) fn draw(canvas: &mut Canvas<'_>, figures: &[MeasuredFigure]) {
    let top = TOP + 20.0;
    let bottom = height(figures) - 62.0;
    let reach = figures.iter().map(|one| one.error_pct.abs()).fold(0.0, f64::max);
    let reach = (reach * 1.05).clamp(NEAREST, FARTHEST);
    let x = Axis::linear(-reach, reach, 8.0);
    let y = Axis::linear(0.0, 1.0, 1.0).without_ticks();
    let panel = Panel { left: LEFT, right: RIGHT, top, bottom, x, y };
    panel.draw(canvas, "");
    panel.draw_foot(canvas, "error of the simulation (%)");
    let columns =
        [(RIGHT + 90.0, "measured"), (RIGHT + 180.0, "simulated"), (RIGHT + 270.0, "error")];
    for (x, title) in columns {
        canvas.text((x, top - 13.0), Align::End, Type::NOTE, title);
    }
    let (zero, _) = panel.at(0.0, 0.0);
    for (row, one) in figures.iter().enumerate() {
        let y = top + ROW * (row as f64 + 0.5);
        let (end, _) = panel.at(one.error_pct, 0.0);
        let bar = [(zero, y - 6.0), (end, y - 6.0), (end, y + 6.0), (zero, y + 6.0)];
        let ink = if one.error_pct.abs() > LARGE { Ink::VERMILION } else { Ink::BLUE };
        canvas.shade(&bar, ink, 0.85);
        canvas.text((LEFT - 12.0, y), Align::End, Type::LABEL, &one.name);
        let sign = match one.error_pct {
            nothing if nothing.abs() < 0.05 => "",
            less if less < 0.0 => "−",
            _ => "+",
        };
        let error = format!("{sign}{} %", fixed(one.error_pct.abs(), 1));
        let texts = [significant(one.measured), significant(one.simulated), error];
        for ((x, _), text) in columns.iter().zip(&texts) {
            canvas.text((*x, y), Align::End, Type::LABEL, text);
        }
    }
    canvas.line(&[(zero, top), (zero, bottom)], Ink::FRAME, 2.0);
}
