//! Many scenarios in one figure: a row for each, a panel for each figure that was compared.

use super::Figure;
use super::axis::{Axis, significant_signed};
use super::canvas::{self, Align, Canvas, Ink, REACH, TOP, Type};
use super::comparison::Judgement;
use super::frame::Panel;
use super::shortened;
use crate::plain::percent;
use crate::stats::mean;

/// A figure that scenarios were compared in.
#[derive(Debug, Clone, PartialEq)]
pub struct SideBySide {
    /// What it is called.
    pub heading: String,
    /// Its unit; empty if it has none.
    pub unit: String,
    /// Its value in each scenario, if all runs have it.
    pub marks: Vec<Option<Mark>>,
}

/// A value over all seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mark {
    /// Its mean.
    pub mean: f64,
    /// Half the width of the interval of its difference from the baseline; 0 of the baseline itself.
    pub half_width: f64,
    /// What the difference is taken for.
    pub judgement: Judgement,
}

const ROW: f64 = 20.0;
const NAMES: f64 = 216.0;
const RIGHT: f64 = 936.0;
const GAP: f64 = 20.0;
/// Panels beside each other.
const ABREAST: usize = 3;
/// Letters of a scenario.
const NAME_MAX: usize = 28;
const HEAD: f64 = 26.0;
const FOOT: f64 = 62.0;

/// The figure of scenarios, the baseline first.
pub fn side_by_side_figure(
    scenarios: &[String],
    compared: &[SideBySide],
    seeds: usize,
    confidence: f64,
) -> Figure {
    let title = "Scenarios beside each other";
    let mut marks = compared.iter().flat_map(|one| one.marks.iter().flatten());
    let subtitle = if marks.any(|mark| mark.half_width > 0.0) {
        format!(
            "Means of {seeds} seeds, in blue if better than the first and in red if worse. Bars: {} intervals of that difference",
            percent(confidence)
        )
    } else {
        "Of these requests alone, in blue if better than the first and in red if worse".to_owned()
    };
    let band = HEAD + ROW * scenarios.len() as f64 + FOOT;
    let bands = compared.len().div_ceil(ABREAST).max(1);
    let svg = canvas::draw(TOP + band * bands as f64, title, &subtitle, &|canvas| {
        for (place, some) in compared.chunks(ABREAST).enumerate() {
            let top = TOP + band * place as f64 + HEAD;
            draw_names(canvas, top, scenarios);
            let width = (RIGHT - NAMES + GAP) / some.len().clamp(2, ABREAST) as f64;
            for (column, one) in some.iter().enumerate() {
                let left = NAMES + width * column as f64;
                let sides = (left, left + width - GAP);
                let across = (top, top + ROW * scenarios.len() as f64);
                draw_panel(canvas, sides, across, (scenarios, one));
            }
        }
    });
    Figure { file_name: "scenarios.svg", title, svg }
}

fn draw_names(canvas: &mut Canvas<'_>, top: f64, scenarios: &[String]) {
    for (place, name) in scenarios.iter().enumerate() {
        let y = top + ROW * (place as f64 + 0.5);
        canvas.text((NAMES - 12.0, y), Align::End, Type::LABEL, &shortened(name, NAME_MAX));
    }
}

fn draw_panel(
    canvas: &mut Canvas<'_>,
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
    (scenarios, one): (&[String], &SideBySide),
) {
    const LABELS: f64 = 4.0;
    let there = || one.marks.iter().flatten();
    let all: Vec<f64> = there().map(|mark| mark.mean).collect();
    if all.is_empty() {
        return Panel::draw_empty(canvas, (left, top), (right, bottom), &one.heading, "No values.");
    }
    let ends = there().flat_map(|mark| [mark.mean - mark.half_width, mark.mean + mark.half_width]);
    let (low, high) = ends
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)));
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    // What spreads over decades is drawn so; a bar may reach beyond such an axis.
    let is_wide = least > 0.0 && high > 20.0 * least;
    let x = if is_wide {
        Axis::log(least * 0.8, high * 1.2, LABELS)
    } else {
        let margin = match 0.06 * (high - low).max(mean(&all).abs() * 1e-3) {
            0.0 => 0.5,
            margin => margin,
        };
        Axis::linear(low - margin, high + margin, LABELS)
    };
    let y = Axis::linear(0.0, 1.0, 1.0).without_ticks();
    let panel = Panel { left, right, top, bottom, x, y };
    panel.draw(canvas, "");
    let middle = |place: usize| top + ROW * (place as f64 + 0.5);
    for place in 0..one.marks.len() {
        canvas.line(&[(left, middle(place)), (right, middle(place))], Ink::GRID_FINE, 1.0);
    }
    panel.draw_heading(canvas, &one.heading);
    panel.draw_foot(canvas, &format!("{}{}", one.unit, panel.x.scale_note()));
    if let Some(Some(first)) = one.marks.first() {
        let (x, _) = panel.at(first.mean, 0.0);
        canvas.line(&[(x, top), (x, bottom)], Ink::FRAME, 1.0);
    }
    for (place, mark) in one.marks.iter().enumerate() {
        let Some(mark) = mark else { continue };
        let y = middle(place);
        let ink = mark.judgement.ink(Ink::FAINT);
        let across = |value: f64| panel.at(value, 0.0).0;
        let ends = [mark.mean - mark.half_width, mark.mean + mark.half_width].map(across);
        canvas.line(&[(ends[0], y), (ends[1], y)], ink, 2.0);
        canvas.dot((across(mark.mean), y), ink, 3.5);
        let name = scenarios.get(place).cloned().unwrap_or_default();
        let unit = if one.unit.is_empty() { String::new() } else { format!(" {}", one.unit) };
        let mean = significant_signed(mark.mean);
        let within = match mark.half_width {
            0.0 => String::new(),
            within => {
                format!("; its difference from the first ± {}{unit}", significant_signed(within))
            }
        };
        let value = format!("{}: {mean}{unit}{within}", one.heading);
        canvas.tell((across(mark.mean), y), REACH, &[name, value]);
    }
}
