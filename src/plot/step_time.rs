//! Step times: decode steps over the sequences in them, prefill over the length of a prompt.

use super::axis::{Axis, limits};
use super::canvas::{Align, Canvas, Ink, TOP, Type};
use super::frame::Panel;

/// One curve from measured operators beside that of the roofline: (x, ms).
#[derive(Debug, Clone, PartialEq)]
pub struct StepCurve {
    /// What it is of.
    pub name: String,
    /// From measurements.
    pub measured: Vec<(f64, f64)>,
    /// From the roofline.
    pub roofline: Vec<(f64, f64)>,
}

pub(super) const HEIGHT: f64 = 520.0;
const PANEL_TOP: f64 = TOP + 84.0;
const PANEL_BOTTOM: f64 = HEIGHT - 66.0;
const PANEL_SIDES: [(f64, f64); 2] = [(88.0, 464.0), (560.0, 936.0)];
const INKS: [Ink; 3] = [Ink::BLUE, Ink::GREEN, Ink::VERMILION];
const LABELS: f64 = 7.5;

pub(super) fn draw(canvas: &mut Canvas<'_>, decodes: &[StepCurve], prefill: &StepCurve) {
    let decode = "Decode step";
    panel(canvas, 0, decode, "sequences in the step", decodes);
    panel(canvas, 1, "Prefill step", "prompt tokens", std::slice::from_ref(prefill));
}

fn panel(canvas: &mut Canvas<'_>, place: usize, heading: &str, foot: &str, curves: &[StepCurve]) {
    let (left, right) = PANEL_SIDES[place];
    let points = || curves.iter().flat_map(|curve| curve.measured.iter().chain(&curve.roofline));
    let ((x_min, x_max), (y_min, y_max)) =
        (limits(points().map(|point| point.0)), limits(points().map(|point| point.1)));
    let panel = Panel {
        left,
        right,
        top: PANEL_TOP,
        bottom: PANEL_BOTTOM,
        x: Axis::for_spread(x_min, x_max, LABELS),
        y: Axis::for_spread(y_min, y_max, LABELS),
    };
    panel.draw(canvas, &format!("ms{}", panel.y.scale_note()));
    panel.draw_foot(canvas, &format!("{foot}{}", panel.x.scale_note()));
    canvas.text((left, PANEL_TOP - 68.0), Align::Start, Type::HEADING, heading);
    for (index, curve) in curves.iter().enumerate() {
        let ink = INKS[index % INKS.len()];
        let at = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            points.iter().map(|(x, y)| panel.at(*x, *y)).collect()
        };
        canvas.line(&at(&curve.roofline), ink, 0.8);
        canvas.line(&at(&curve.measured), ink, 2.4);
        let key = PANEL_TOP - 48.0 + 17.0 * index as f64;
        canvas.line(&[(left, key), (left + 22.0, key)], ink, 2.4);
        let note = format!("{} (thin: roofline)", curve.name);
        canvas.text((left + 30.0, key), Align::Start, Type::NOTE, &note);
    }
}
