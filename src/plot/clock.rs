//! The time of a run as an axis, and quantities over it as means over equal spans.

use super::axis::{Axis, fixed, nice_above, significant};
use super::canvas::{Canvas, Ink, WIDTH};
use super::frame::Panel;
use crate::metrics::Series;
use crate::units::SimTime;

/// Below the last panel: labels and what the axis shows.
pub(super) const FOOT: f64 = 64.0;
/// Above a panel.
pub(super) const HEADING: f64 = 38.0;
pub(super) const LEFT: f64 = 88.0;
pub(super) const RIGHT: f64 = WIDTH - 28.0;

/// One quantity of a panel: its mean in each span.
pub(super) struct Curve {
    pub(super) name: &'static str,
    pub(super) ink: Ink,
    fill: Fill,
    pub(super) means: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    Empty,
    Shaded,
}

impl Curve {
    pub(super) fn line(name: &'static str, ink: Ink, means: Vec<f64>) -> Self {
        Self { name, ink, fill: Fill::Empty, means }
    }

    pub(super) fn area(name: &'static str, ink: Ink, means: Vec<f64>) -> Self {
        Self { name, ink, fill: Fill::Shaded, means }
    }
}

/// The time axis of a run and the spans over which means are taken.
pub(super) struct Clock {
    end: SimTime,
    pub(super) end_s: f64,
    span_s: f64,
    pub(super) spans: usize,
    pub(super) axis: Axis,
    pub(super) unit_s: f64,
    unit: &'static str,
    pub(super) title: String,
}

/// A panel over the time of the run, with room for its heading.
pub(super) struct Strip<'a> {
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) heading: &'a str,
    /// What stands beside the axis.
    pub(super) side: &'a str,
    /// What follows a number in the legend.
    pub(super) unit: &'a str,
}

impl Clock {
    /// The clock of a run; `None` when it has no duration.
    pub(super) fn of_run(end: SimTime) -> Option<Self> {
        Self::with_spans(end, 240.0)
    }

    /// The same with about half as many spans as series of replicas have bins.
    pub(super) fn of_replicas(end: SimTime) -> Option<Self> {
        Self::with_spans(end, 120.0)
    }

    /// The same for what those requests got that were sent in each of about `spans` spans, within what an eye
    /// can take in.
    pub(super) fn of_requests(end: SimTime, spans: usize) -> Option<Self> {
        let mut clock = Self::with_spans(end, spans.clamp(12, 120) as f64)?;
        let (unit, each) = (clock.unit, plain(clock.span_s));
        clock.title = format!("when requests were sent, in {unit}  ·  each value is over {each} s");
        Some(clock)
    }

    fn with_spans(end: SimTime, spans_max: f64) -> Option<Self> {
        /// Series keep no less (`metrics::Series`).
        const SPAN_MIN_S: f64 = 0.01;
        if end == SimTime::ZERO {
            return None;
        }
        let end_s = end.as_secs_f64();
        let span_s = nice_above((end_s / spans_max).max(SPAN_MIN_S));
        let (unit_s, unit) = match end_s {
            14_400.0.. => (3600.0, "h"),
            1200.0.. => (60.0, "min"),
            _ => (1.0, "s"),
        };
        Some(Self {
            end,
            end_s,
            span_s,
            spans: (end_s / span_s).ceil().max(1.0) as usize,
            axis: Axis::linear(0.0, end_s / unit_s, 10.0),
            unit_s,
            unit,
            title: format!("time in {unit}  ·  each value is a mean over {} s", plain(span_s)),
        })
    }

    /// When the span with this index begins, and how long it lasts within the run.
    pub(super) fn span(&self, index: usize) -> (f64, f64) {
        let from = index as f64 * self.span_s;
        (from, (from + self.span_s).min(self.end_s) - from)
    }

    pub(super) fn index(&self, seconds: f64) -> usize {
        ((seconds / self.span_s) as usize).min(self.spans - 1)
    }

    /// The mean of a series over each span. Amounts are conserved: a bin of the series counts in
    /// every span with the share of it that lies there.
    pub(super) fn resample(&self, series: &Series) -> Vec<f64> {
        self.resample_points(series.points(self.end))
    }

    /// The same of the middle of equal bins and the mean in each.
    pub(super) fn resample_points(&self, points: Vec<(f64, f64)>) -> Vec<f64> {
        let width = points.first().map_or(0.0, |&(middle, _)| middle * 2.0);
        let mut amounts = vec![0.0; self.spans];
        for (middle, mean) in points {
            let from = (middle - width / 2.0).min(self.end_s);
            let until = (from + width).min(self.end_s);
            let (first, last) = (self.index(from), self.index(until));
            for (index, amount) in amounts.iter_mut().enumerate().take(last + 1).skip(first) {
                let (begins, lasts) = self.span(index);
                let common = until.min(begins + lasts) - from.max(begins);
                let share = if first == last { 1.0 } else { common.max(0.0) / (until - from) };
                *amount += mean * width * share;
            }
        }
        self.per_second(amounts)
    }

    /// How many of these instants there are per second in each span.
    pub(super) fn rate(&self, instants: impl Iterator<Item = SimTime>) -> Vec<f64> {
        let mut counts = vec![0.0; self.spans];
        for instant in instants {
            counts[self.index(instant.as_secs_f64())] += 1.0;
        }
        self.per_second(counts)
    }

    fn per_second(&self, mut amounts: Vec<f64>) -> Vec<f64> {
        for (index, amount) in amounts.iter_mut().enumerate() {
            *amount /= self.span(index).1;
        }
        amounts
    }

    /// The mean over the whole run.
    pub(super) fn mean(&self, means: &[f64]) -> f64 {
        let amounts = means.iter().enumerate().map(|(index, mean)| mean * self.span(index).1);
        amounts.sum::<f64>() / self.end_s
    }

    pub(super) fn draw(
        &self,
        canvas: &mut Canvas<'_>,
        strip: &Strip<'_>,
        y: Axis,
        curves: &[Curve],
    ) -> Panel {
        let (top, bottom) = (strip.top + HEADING, strip.bottom);
        let panel = Panel { left: LEFT, right: RIGHT, top, bottom, x: self.axis.clone(), y };
        panel.draw(canvas, strip.side);
        panel.draw_heading(canvas, strip.heading);
        for (slot, curve) in curves.iter().rev().enumerate() {
            let mean = significant(self.mean(&curve.means));
            let label = format!("{}, mean {mean} {}", curve.name, strip.unit);
            panel.draw_key(canvas, slot, curve.ink, label.trim_end());
        }
        for curve in curves {
            let steps = self.staircase(&panel, &curve.means);
            if curve.fill == Fill::Shaded {
                let (from, to) = (panel.at(0.0, 0.0), panel.at(self.end_s / self.unit_s, 0.0));
                canvas.shade(&[&[from], steps.as_slice(), &[to]].concat(), curve.ink, 0.18);
            }
            canvas.line(&steps, curve.ink, 1.6);
        }
        panel
    }

    pub(super) fn staircase(&self, panel: &Panel, means: &[f64]) -> Vec<(f64, f64)> {
        self.stairs(panel, 0, means)
    }

    /// The same of spans from one on.
    pub(super) fn stairs(&self, panel: &Panel, first: usize, means: &[f64]) -> Vec<(f64, f64)> {
        let corners = means.iter().zip(first..).flat_map(|(&mean, index)| {
            let (from, lasts) = self.span(index);
            [(from, mean), (from + lasts, mean)]
        });
        corners.map(|(seconds, mean)| panel.at(seconds / self.unit_s, mean)).collect()
    }
}

/// A span of 1, 2 or 5 times a power of ten, without needless zeros.
fn plain(seconds: f64) -> String {
    let decimals = (-seconds.log10() - 1e-9).ceil().max(0.0) as usize;
    fixed(seconds, decimals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Quantity;

    #[test]
    fn a_rate_over_spans_adds_up_to_what_happened() {
        for millis_apart in [1, 7, 130, 2_900] {
            let mut series = Series::new(Quantity::Flow);
            let mut end = SimTime::ZERO;
            for index in 0..1_000_u64 {
                end = SimTime::from_nanos(index * millis_apart * 1_000_000);
                series.add(end, 3);
            }
            let clock = Clock::of_run(end).expect("the run has a duration");
            let total = clock.mean(&clock.resample(&series)) * end.as_secs_f64();
            assert!((total - 3_000.0).abs() < 1e-6, "{millis_apart} ms apart: {total}");
            assert!(clock.spans <= 241, "{} spans", clock.spans);
        }
    }

    #[test]
    fn a_level_keeps_its_height_in_the_last_broken_span() {
        let mut series = Series::new(Quantity::Level);
        series.set(SimTime::ZERO, 5);
        // 10.003 s: spans of 50 ms, the last one 3 ms long
        let clock = Clock::of_run(SimTime::from_nanos(10_003_000_000)).expect("it has a duration");
        let means = clock.resample(&series);
        assert_eq!(means.len(), 201);
        assert!(means.iter().all(|mean| (mean - 5.0).abs() < 1e-6), "{means:?}");
    }
}
