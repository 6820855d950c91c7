//! One figure of many runs over what they differ in: a curve for each rule that is compared, and
//! where two of them cross.

use super::axis::{Axis, fixed, limits};
use super::canvas::{Align, Canvas, Ink, TOP, Type};
use super::frame::Panel;

/// What was compared.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossingChart {
    /// What runs differ in, below the panel.
    pub across: String,
    /// The figure that is compared, on its side.
    pub upwards: String,
    /// One for each rule, the one that matters most last: it lies above the others.
    pub curves: Vec<CrossingCurve>,
    /// Where a curve crosses another.
    pub crossings: Vec<(f64, f64)>,
}

/// The figure of one rule over what runs differ in.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossingCurve {
    /// The rule.
    pub name: String,
    /// In order.
    pub points: Vec<(f64, f64)>,
}

impl CrossingCurve {
    /// Where this curve and another cross, both drawn straight between the same places.
    pub fn crossings(&self, other: &Self) -> Vec<(f64, f64)> {
        let (own, others) = (self.points.windows(2), other.points.windows(2));
        let crossings = own.zip(others).filter_map(|(own, other)| {
            let ([(x, from), (next, to)], [(_, other_from), (_, other_to)]) = (own, other) else {
                return None;
            };
            let (before, after) = (from - other_from, to - other_to);
            let share = (before * after < 0.0).then(|| before / (before - after))?;
            Some((x + share * (next - x), from + share * (to - from)))
        });
        crossings.collect()
    }
}

pub(super) const HEIGHT: f64 = 540.0;
const PANEL_TOP: f64 = TOP + 90.0;
const PANEL_BOTTOM: f64 = HEIGHT - 66.0;
const SIDES: (f64, f64) = (88.0, 936.0);
const INKS: [Ink; 4] = [Ink::GREEN, Ink::BLUE, Ink::PURPLE, Ink::VERMILION];
const LABELS: f64 = 7.5;
/// The keys stand in two columns.
const COLUMN: f64 = 420.0;

pub(super) fn draw(canvas: &mut Canvas<'_>, compared: &CrossingChart) {
    let (left, right) = SIDES;
    let points = || compared.curves.iter().flat_map(|curve| &curve.points);
    let ((x_min, x_max), (y_min, y_max)) =
        (limits(points().map(|point| point.0)), limits(points().map(|point| point.1)));
    if x_min >= x_max {
        let message = "there is nothing to compare";
        let corners = ((left, PANEL_TOP), (right, PANEL_BOTTOM));
        return Panel::draw_empty(canvas, corners.0, corners.1, "", message);
    }
    let y = if y_max < 5.0 * y_min {
        Axis::from_zero(y_max, LABELS)
    } else {
        Axis::log(y_min / 1.1, y_max * 1.1, LABELS)
    };
    let x = Axis::linear(x_min, x_max, LABELS);
    let panel = Panel { left, right, top: PANEL_TOP, bottom: PANEL_BOTTOM, x, y };
    panel.draw(canvas, &format!("{}{}", compared.upwards, panel.y.scale_note()));
    panel.draw_foot(canvas, &compared.across);
    for (index, curve) in compared.curves.iter().enumerate() {
        let ink = INKS[index % INKS.len()];
        let along: Vec<(f64, f64)> = curve.points.iter().map(|(x, y)| panel.at(*x, *y)).collect();
        canvas.line(&along, ink, 2.4);
        for at in along {
            canvas.dot(at, ink, 3.0);
        }
        let key_x = left + COLUMN * (index % 2) as f64;
        let key_y = PANEL_TOP - 66.0 + 18.0 * (index / 2) as f64;
        canvas.line(&[(key_x, key_y), (key_x + 22.0, key_y)], ink, 3.0);
        canvas.text((key_x + 30.0, key_y), Align::Start, Type::LABEL, &curve.name);
    }
    for (x, y) in &compared.crossings {
        let (across, down) = panel.at(*x, *y);
        canvas.line(&[(across, PANEL_TOP), (across, PANEL_BOTTOM)], Ink::TEXT, 1.0);
        canvas.dot((across, down), Ink::TEXT, 4.5);
        let note = format!("cross at {}", fixed(*x, 1));
        canvas.text((across, PANEL_TOP - 12.0), Align::Middle, Type::NOTE, &note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(values: &[f64]) -> CrossingCurve {
        let points = values.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
        CrossingCurve { name: "one".to_owned(), points }
    }

    #[test]
    fn curves_cross_between_their_points() {
        // 4 and 2 at 1, 1 and 3 at 2: half way at 1.5, both 2.5.
        let (falling, rising) = (curve(&[5.0, 4.0, 1.0]), curve(&[1.0, 2.0, 3.0]));
        assert_eq!(falling.crossings(&rising), [(1.5, 2.5)]);
        assert_eq!(rising.crossings(&falling), [(1.5, 2.5)]);
        assert!(falling.crossings(&falling).is_empty());
    }
}
