//! Figures of a study against a setting or against each other: one line for each series, with the intervals
//! over seeds.

use super::axis::{Axis, significant_signed};
use super::canvas::{Align, Canvas, Ink, REACH, TOP, Type};
use super::frame::{Panel, readable_alone};
use super::shortened;

/// A value, and half the width of its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    /// The value.
    pub mean: f64,
    /// 0 where it is known or has no interval.
    pub within: f64,
}

/// A panel of lines.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvePanel {
    /// What is to the right, with its unit.
    pub x: String,
    /// What is up, with its unit.
    pub y: String,
    /// Points of each series, in the order of the figure's series; those of a line in the order in which it
    /// goes through them.
    pub curves: Vec<Vec<(Measure, Measure)>>,
    /// Whether the points of a series are on a line.
    pub points: Points,
    /// What the axis upwards shows.
    pub range: Range,
}

/// What joins the points of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    /// A line.
    Joined,
    /// Nothing: other settings vary too.
    Apart,
}

/// What an axis upwards shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// What there is; logarithmic, if that is widely spread.
    Fitting,
    /// From 0 to 100 %, with a line at an SLO, and a mark at the last point of each series before the first
    /// that misses it.
    Percent {
        /// In percent.
        slo: f64,
    },
}

/// Series that have an ink of their own.
pub const SERIES_MAX: usize = INKS.len();

const INKS: [Ink; 6] = [Ink::BLUE, Ink::VERMILION, Ink::GREEN, Ink::PURPLE, Ink::TEXT, Ink::FRAME];
const SIDES: [(f64, f64); 2] = [(88.0, 464.0), (560.0, 936.0)];
const WHOLE: (f64, f64) = (88.0, 936.0);
const PANEL_HEIGHT: f64 = 270.0;
const PITCH: f64 = PANEL_HEIGHT + 80.0;
const KEY: f64 = 18.0;
const LABELS: f64 = 7.0;
/// Letters of a key.
const NAME_MAX: usize = 110;

/// The height of the sheet.
pub(super) fn height(series: &[String], panels: &[CurvePanel]) -> f64 {
    top(series) + PITCH * panels.len().div_ceil(2) as f64
}

fn top(series: &[String]) -> f64 {
    TOP + KEY * series.len().min(SERIES_MAX) as f64 + 14.0
}

pub(super) fn draw(canvas: &mut Canvas<'_>, series: &[String], panels: &[CurvePanel]) {
    let (left, _) = WHOLE;
    for (place, (name, ink)) in series.iter().zip(INKS).enumerate() {
        let y = TOP + KEY * (place as f64 + 0.3);
        canvas.line(&[(left, y), (left + 22.0, y)], ink, 3.0);
        let name = shortened(name, NAME_MAX);
        canvas.text((left + 30.0, y), Align::Start, Type::LABEL, &name);
    }
    if panels.len() > 1 && !series.is_empty() {
        canvas.part((left, TOP - 6.0), (SIDES[0].1, top(series) - 8.0));
    }
    for (place, panel) in panels.iter().enumerate() {
        let sides = if panels.len() == 1 { WHOLE } else { SIDES[place % 2] };
        let above = top(series) + PITCH * (place / 2) as f64;
        if panels.len() > 1 {
            readable_alone(canvas, sides, (above - 8.0, above + PITCH - 14.0));
        }
        draw_panel(canvas, (panel, series), sides, above);
    }
}

fn draw_panel(
    canvas: &mut Canvas<'_>,
    (shown, series): (&CurvePanel, &[String]),
    (left, right): (f64, f64),
    top: f64,
) {
    let bottom = top + PANEL_HEIGHT;
    let all = || shown.curves.iter().flatten();
    let Some((x_low, x_high)) = limits(all().map(|(x, _)| *x)) else {
        let nothing = "No values.";
        return Panel::draw_empty(canvas, (left, top), (right, bottom), "", nothing);
    };
    let (y_low, y_high) = limits(all().map(|(_, y)| *y)).unwrap_or((0.0, 1.0));
    let y = match shown.range {
        Range::Fitting => Axis::for_spread(y_low, y_high, LABELS),
        Range::Percent { .. } => Axis::linear(0.0, 100.0, 5.0),
    };
    let x = Axis::for_spread(x_low, x_high, LABELS);
    let panel = Panel { left, right, top, bottom, x, y };
    panel.draw(canvas, &format!("{}{}", shown.y, panel.y.scale_note()));
    panel.draw_foot(canvas, &format!("{}{}", shown.x, panel.x.scale_note()));
    if let Range::Percent { slo } = shown.range {
        let (_, level) = panel.at(0.0, slo);
        canvas.line(&[(left, level), (right, level)], Ink::FAINT, 1.6);
        let note = (right - 6.0, level + 11.0);
        canvas.text(note, Align::End, Type::NOTE, &format!("{slo} %"));
    }
    for (curve, ink) in shown.curves.iter().zip(INKS) {
        draw_curve(canvas, &panel, curve, ink, shown.points);
        if let Range::Percent { slo } = shown.range
            && let Some((x, y)) = last_kept(curve, slo)
        {
            canvas.line(&[panel.at(x, y), (panel.at(x, y).0, bottom)], ink, 1.2);
            canvas.dot(panel.at(x, y), ink, 7.0);
        }
    }
    // Above all that is drawn.
    for (place, curve) in shown.curves.iter().take(SERIES_MAX).enumerate() {
        for (x, y) in curve {
            let name = series.get(place).filter(|_| series.len() > 1);
            let values = [told(&shown.x, *x), told(&shown.y, *y)];
            let lines: Vec<String> = name.cloned().into_iter().chain(values).collect();
            canvas.tell(panel.at(x.mean, y.mean), REACH, &lines);
        }
    }
}

/// A value of a point, as in `Mean TPOT (ms): 12.4 ± 0.3`.
fn told(title: &str, value: Measure) -> String {
    let within = match value.within {
        0.0 => String::new(),
        within => format!(" ± {}", significant_signed(within)),
    };
    format!("{title}: {}{within}", significant_signed(value.mean))
}

/// The last point before the first that misses an SLO; none where none does, or the first.
fn last_kept(curve: &[(Measure, Measure)], slo: f64) -> Option<(f64, f64)> {
    let first_missed = curve.iter().position(|(_, y)| y.mean < slo)?;
    let (x, y) = curve[..first_missed].last()?;
    Some((x.mean, y.mean))
}

fn draw_curve(
    canvas: &mut Canvas<'_>,
    panel: &Panel,
    curve: &[(Measure, Measure)],
    ink: Ink,
    points: Points,
) {
    let ends = |measure: Measure| [measure.mean - measure.within, measure.mean + measure.within];
    let is_known = curve.iter().all(|(x, _)| x.within == 0.0);
    let has_intervals = curve.iter().any(|(_, y)| y.within > 0.0);
    if points == Points::Joined && is_known && has_intervals {
        let edge = |end: usize| curve.iter().map(move |(x, y)| panel.at(x.mean, ends(*y)[end]));
        let outline: Vec<(f64, f64)> = edge(1).chain(edge(0).rev()).collect();
        canvas.shade(&outline, ink, 0.18);
    } else {
        for (x, y) in curve {
            let upright = ends(*y).map(|end| panel.at(x.mean, end));
            let across = ends(*x).map(|end| panel.at(end, y.mean));
            for bar in [upright, across].iter().filter(|bar| bar[0] != bar[1]) {
                canvas.line(bar, ink, 1.2);
            }
        }
    }
    let at: Vec<(f64, f64)> = curve.iter().map(|(x, y)| panel.at(x.mean, y.mean)).collect();
    if points == Points::Joined && at.len() > 1 {
        canvas.line(&at, ink, 2.0);
    }
    for at in at {
        canvas.dot(at, ink, 3.5);
    }
}

/// The least and the most that is shown: the means, and their intervals where they are not far wider.
fn limits(values: impl Iterator<Item = Measure> + Clone) -> Option<(f64, f64)> {
    let least = values.clone().map(|one| one.mean).fold(f64::INFINITY, f64::min);
    let most = values.clone().map(|one| one.mean).fold(f64::NEG_INFINITY, f64::max);
    let reach = values.map(|one| one.mean + one.within).fold(f64::NEG_INFINITY, f64::max);
    least.is_finite().then(|| (least, reach.min(2.0 * most).max(most)))
}
