//! Scenarios beside each other: latency distributions laid over one another, and the relative
//! differences of figures with their intervals.

use super::Figure;
use super::axis::{Axis, significant};
use super::canvas::{self, Align, Canvas, Ink, TOP, Type};
use super::distribution::{Unit, thinned};
use super::frame::{Panel, readable_alone};
use super::shortened;
use crate::plain::percent;
use crate::stats::Sample;
use crate::stats::Weighted;

/// The latencies of the finished requests of one scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    /// What it is called.
    pub name: String,
    /// Time to first token, time per output token, end-to-end latency, in seconds.
    pub seconds: [Vec<f64>; 3],
}

/// What a difference is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// Better.
    Better,
    /// Worse.
    Worse,
    /// Not found, or of a figure that is no better either way.
    Neither,
}

impl Judgement {
    /// The ink that says so; of neither, the one given.
    pub(super) fn ink(self, neither: Ink) -> Ink {
        match self {
            Self::Better => Ink::BLUE,
            Self::Worse => Ink::VERMILION,
            Self::Neither => neither,
        }
    }
}

/// The relative difference of a figure between a scenario and the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// The scenario.
    pub scenario: String,
    /// The figure.
    pub figure: String,
    /// As a share of the baseline.
    pub change: f64,
    /// Half the width of its interval.
    pub half_width: f64,
    /// What it is taken for.
    pub judgement: Judgement,
}

const INKS: [Ink; 6] = [Ink::BLUE, Ink::VERMILION, Ink::GREEN, Ink::PURPLE, Ink::TEXT, Ink::FRAME];
const PANEL_SIDES: [(f64, f64); 3] = [(84.0, 316.0), (394.0, 626.0), (704.0, 936.0)];
const PANEL_HEIGHT: f64 = 300.0;
const KEY: f64 = 18.0;
/// Room of a key on a narrow screen: fifty characters.
const KEYS_WIDTH: f64 = 380.0;
const LABELS: f64 = 5.0;
const TITLES: [&str; 3] =
    ["Time to first token (TTFT)", "Time per output token (TPOT)", "End-to-end latency (E2E)"];

/// The figures of a comparison: distributions of the first seed, and intervals over all `seeds`.
pub fn comparison_figures(
    overlays: &[Overlay],
    intervals: &[Interval],
    seeds: usize,
    confidence: f64,
) -> Vec<Figure> {
    let shown = &overlays[..overlays.len().min(INKS.len())];
    let subtitle = if shown.len() < overlays.len() {
        let (shown, all) = (shown.len(), overlays.len());
        format!("Finished requests of the first seed; the first {shown} of {all} scenarios")
    } else {
        "Finished requests of the first seed".to_owned()
    };
    let top = TOP + 36.0 + KEY * shown.len() as f64;
    let title = "Latencies beside each other";
    let height = top + PANEL_HEIGHT + 66.0;
    let latencies = canvas::draw(height, title, &subtitle, &|canvas| {
        draw_keys(canvas, shown);
        let left = PANEL_SIDES[0].0;
        canvas.part((left, TOP - 4.0), (left + KEYS_WIDTH, top - 28.0));
        for place in 0..TITLES.len() {
            draw_overlay(canvas, place, top, shown);
        }
    });
    let percent = percent(confidence);
    let is_drawn = intervals.is_empty() || intervals.iter().any(|one| one.half_width > 0.0);
    let subtitle = if is_drawn {
        format!("Relative to the baseline, {percent} intervals over {seeds} seeds")
    } else {
        "Relative to the baseline, of these requests alone".to_owned()
    };
    let name = "Differences from the baseline";
    let differences = canvas::draw(height_of(intervals), name, &subtitle, &|canvas| {
        draw_intervals(canvas, intervals);
    });
    vec![
        Figure { file_name: "latencies.svg", title, svg: latencies },
        Figure { file_name: "differences.svg", title: name, svg: differences },
    ]
}

fn draw_keys(canvas: &mut Canvas<'_>, shown: &[Overlay]) {
    const NAME_MAX: usize = 100;
    let (left, _) = PANEL_SIDES[0];
    for (place, overlay) in shown.iter().enumerate() {
        let y = TOP + KEY * (place as f64 + 0.5);
        canvas.line(&[(left, y), (left + 22.0, y)], INKS[place], 3.0);
        let name: String = overlay.name.chars().take(NAME_MAX).collect();
        canvas.text((left + 30.0, y), Align::Start, Type::LABEL, &name);
    }
}

fn draw_overlay(canvas: &mut Canvas<'_>, place: usize, top: f64, shown: &[Overlay]) {
    let (left, right) = PANEL_SIDES[place];
    let bottom = top + PANEL_HEIGHT;
    readable_alone(canvas, (left, right), (top - 28.0, bottom + 56.0));
    let sample = |overlay: &Overlay| {
        Weighted::new(overlay.seconds[place].iter().map(|seconds| (*seconds, 1)).collect())
    };
    let samples: Vec<Weighted> = shown.iter().map(sample).collect();
    let there = || samples.iter().filter(|sample| sample.count() > 0);
    let Some(first) = there().next() else {
        let nothing = "No values.";
        return Panel::draw_empty(canvas, (left, top), (right, bottom), TITLES[place], nothing);
    };
    let largest = there().map(Sample::max).fold(0.0, f64::max);
    let unit = Unit::of_seconds(first.percentile(50.0), largest);
    let positive = there().filter_map(|sample| sample.pairs().map(|(x, _)| x).find(|x| *x > 0.0));
    let smallest = positive.fold(f64::INFINITY, f64::min).min(largest);
    let x = Axis::for_spread(smallest * unit.per_second, largest * unit.per_second, LABELS);
    let y = Axis::linear(0.0, 100.0, 5.0);
    let panel = Panel { left, right, top, bottom, x, y };
    panel.draw(canvas, "share of requests (%)");
    panel.draw_heading(canvas, TITLES[place]);
    panel.draw_foot(canvas, &format!("{}{}", unit.name, panel.x.scale_note()));
    for (sample, ink) in samples.iter().zip(INKS) {
        let curve = thinned(sample, &panel.x, unit.per_second);
        let curve: Vec<_> = curve.iter().map(|(x, share)| panel.at(*x, share * 100.0)).collect();
        if !curve.is_empty() {
            canvas.line(&curve, ink, 2.0);
        }
    }
}

const ROW: f64 = 22.0;
const GROUP: f64 = 34.0;
const INTERVALS_LEFT: f64 = 270.0;
const INTERVALS_RIGHT: f64 = 770.0;
/// In percent. What reaches farther ends at the frame; its number stands beside it.
const FARTHEST: f64 = 200.0;
/// Letters of a scenario beside its panel.
const NAME_MAX: usize = 28;

fn groups(intervals: &[Interval]) -> usize {
    let mut names: Vec<&str> = intervals.iter().map(|one| one.scenario.as_str()).collect();
    names.dedup();
    names.len()
}

fn height_of(intervals: &[Interval]) -> f64 {
    TOP + GROUP * groups(intervals) as f64 + ROW * intervals.len().max(2) as f64 + 70.0
}

/// A row for each figure, under the name of its scenario.
fn draw_intervals(canvas: &mut Canvas<'_>, intervals: &[Interval]) {
    let bottom = height_of(intervals) - 62.0;
    let (left, right) = (INTERVALS_LEFT, INTERVALS_RIGHT);
    if intervals.is_empty() {
        let nothing = "No figure has a baseline other than 0.";
        return Panel::draw_empty(canvas, (left, TOP), (right, bottom), "", nothing);
    }
    let reach = intervals.iter().map(|one| (one.change.abs() + one.half_width) * 100.0);
    let reach = (reach.fold(0.0, f64::max) * 1.05).clamp(0.1, FARTHEST);
    let x = Axis::linear(-reach, reach, 8.0);
    let y = Axis::linear(0.0, 1.0, 1.0).without_ticks();
    let panel = Panel { left, right, top: TOP, bottom, x, y };
    panel.draw(canvas, "");
    panel.draw_foot(canvas, "difference (%)");
    let (zero, _) = panel.at(0.0, 0.0);
    canvas.line(&[(zero, panel.top), (zero, panel.bottom)], Ink::FRAME, 2.0);
    let mut y = TOP;
    let mut before = None;
    for one in intervals {
        if before != Some(&one.scenario) {
            let name = shortened(&one.scenario, NAME_MAX);
            canvas.text((24.0, y + 0.6 * GROUP), Align::Start, Type::HEADING, &name);
            before = Some(&one.scenario);
            y += GROUP;
        }
        draw_interval(canvas, &panel, y + ROW / 2.0, one);
        y += ROW;
    }
}

fn draw_interval(canvas: &mut Canvas<'_>, panel: &Panel, y: f64, one: &Interval) {
    let ink = one.judgement.ink(Ink::FRAME);
    let word = match one.judgement {
        Judgement::Better => "better",
        Judgement::Worse => "worse",
        Judgement::Neither => "",
    };
    let across = |share: f64| panel.at(share * 100.0, 0.0).0;
    let ends = [one.change - one.half_width, one.change + one.half_width].map(across);
    canvas.line(&[(ends[0], y), (ends[1], y)], ink, 3.0);
    for end in ends {
        canvas.line(&[(end, y - 5.0), (end, y + 5.0)], ink, 2.0);
    }
    canvas.dot((across(one.change), y), ink, 4.0);
    canvas.text((panel.left - 12.0, y), Align::End, Type::LABEL, &one.figure);
    let sign = if one.change < 0.0 { "−" } else { "+" };
    // No difference that matters needs more decimals, and there is no room for them.
    let digits = |share: f64| match share * 100.0 {
        small if small < 1.0 => format!("{small:.2}"),
        percent => significant(percent),
    };
    let change = digits(one.change.abs());
    // Of what is not drawn there is no interval.
    let half = if one.half_width > 0.0 {
        format!(" ± {} %", digits(one.half_width))
    } else {
        String::new()
    };
    let label = format!("{sign}{change} %{half}  {word}");
    canvas.text((panel.right + 12.0, y), Align::Start, Type::LABEL, label.trim_end());
}
