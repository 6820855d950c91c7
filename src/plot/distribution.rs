//! Latency distributions: the share of values up to x, with the percentiles marked on the curve.
//!
//! The curve is the inverse of numpy's linear percentiles, so that every percentile of the report
//! lies on it: of n values in order, the one with index i is at the share i/(n−1).

use super::axis::{Axis, significant};
use super::canvas::{Align, Canvas, Ink, TOP, Type};
use super::frame::{Panel, readable_alone};
use crate::metrics::RequestRecord;
use crate::metrics::Status;
use crate::plain::grouped;
use crate::stats::Sample;
use crate::stats::Weighted;
use crate::units::SimDuration;

/// The height of a figure of two distributions.
pub(super) const HEIGHT: f64 = 472.0;

const PANEL_TOP: f64 = TOP + 54.0;
const PANEL_BOTTOM: f64 = HEIGHT - 66.0;
const PANEL_SIDES: [(f64, f64); 2] = [(88.0, 464.0), (560.0, 936.0)];
/// Labels that fit along the foot of a panel.
const LABELS: f64 = 7.5;
const MARKED: [f64; 3] = [50.0, 90.0, 99.0];
/// Room above 100 %, for the label of the highest percentile.
const SHARE_MAX: f64 = 106.0;
/// A point is kept when it lies this share of an axis away from the one before; a curve that only
/// rises then keeps at most 1,000 such points, each with the corner before it, and nothing that a reader could see is lost.
const RESOLUTION: f64 = 1.0 / 500.0;

/// One distribution.
struct Distribution<'a> {
    name: &'a str,
    sample: &'a Weighted,
    /// What is counted, one and many.
    values: [&'a str; 2],
    ink: Ink,
    if_empty: &'a str,
}

pub(super) fn ttft_and_e2e(canvas: &mut Canvas<'_>, requests: &[RequestRecord]) {
    let ttft = of_finished(requests, |request| Some(request.ttft()));
    let e2e = of_finished(requests, |request| Some(request.e2e()));
    let values = ["request", "requests"];
    let if_empty = "No request finished.";
    let name = "Time to first token (TTFT)";
    draw(canvas, 0, &Distribution { name, sample: &ttft, values, ink: Ink::BLUE, if_empty });
    let name = "End-to-end latency (E2E)";
    draw(canvas, 1, &Distribution { name, sample: &e2e, values, ink: Ink::VERMILION, if_empty });
}

pub(super) fn tpot_and_itl(canvas: &mut Canvas<'_>, requests: &[RequestRecord], gaps: &Weighted) {
    let tpot = of_finished(requests, RequestRecord::tpot);
    let values = ["request", "requests"];
    let if_empty = "No finished answer has two tokens or more.";
    let name = "Time per output token (TPOT)";
    draw(canvas, 0, &Distribution { name, sample: &tpot, values, ink: Ink::GREEN, if_empty });
    let values = ["gap", "gaps"];
    let if_empty = "No answer has two tokens or more.";
    let name = "Inter-token latency (ITL)";
    draw(canvas, 1, &Distribution { name, sample: gaps, values, ink: Ink::PURPLE, if_empty });
}

/// A metric of the finished requests, in seconds.
fn of_finished(
    requests: &[RequestRecord],
    metric: impl Fn(&RequestRecord) -> Option<SimDuration>,
) -> Weighted {
    let finished = requests.iter().filter(|request| request.status == Status::Finished);
    Weighted::new(finished.filter_map(metric).map(|span| (span.as_secs_f64(), 1)).collect())
}

fn draw(canvas: &mut Canvas<'_>, place: usize, of: &Distribution<'_>) {
    let (left, right) = PANEL_SIDES[place];
    readable_alone(canvas, (left, right), (TOP, HEIGHT));
    let count = of.sample.count();
    if count == 0 {
        let (from, to) = ((left, PANEL_TOP), (right, PANEL_BOTTOM));
        Panel::draw_empty(canvas, from, to, of.name, of.if_empty);
        return;
    }
    let unit = Unit::of_seconds(of.sample.percentile(50.0), of.sample.max());
    let positive = of.sample.pairs().map(|(value, _)| value).find(|&value| value > 0.0);
    let smallest = positive.unwrap_or(0.0) * unit.per_second;
    let panel = Panel {
        left,
        right,
        top: PANEL_TOP,
        bottom: PANEL_BOTTOM,
        x: Axis::for_spread(smallest, of.sample.max() * unit.per_second, LABELS),
        y: Axis::linear(0.0, SHARE_MAX, 5.5),
    };
    let foot = format!("{} in {}{}", short(of.name), unit.name, panel.x.scale_note());
    let side = format!("share of {} (%)", of.values[1]);
    panel.draw(canvas, &side);
    panel.draw_foot(canvas, &foot);
    canvas.text((left, PANEL_TOP - 34.0), Align::Start, Type::HEADING, of.name);
    let (mean, max) = (unit.write(of.sample.mean()), unit.write(of.sample.max()));
    let values = of.values[usize::from(count != 1)];
    let note = format!("{} {values}  ·  mean {mean}  ·  max {max}", grouped(count));
    canvas.text((left, PANEL_TOP - 14.0), Align::Start, Type::NOTE, &note);
    let curve: Vec<(f64, f64)> = thinned(of.sample, &panel.x, unit.per_second)
        .into_iter()
        .map(|(value, share)| panel.at(value, share * 100.0))
        .collect();
    canvas.line(&curve, of.ink, 2.2);
    for p in MARKED {
        mark(canvas, &panel, of, &unit, p);
    }
}

/// A dot on the curve with the percentile beside it, on the side where a rising curve never is.
fn mark(canvas: &mut Canvas<'_>, panel: &Panel, of: &Distribution<'_>, unit: &Unit, p: f64) {
    let value = of.sample.percentile(p);
    let (x, y) = panel.at(value * unit.per_second, p);
    canvas.dot((x, y), of.ink, 4.0);
    let label = format!("p{p}  {}", unit.write(value));
    let (dx, dy, align) = if x < panel.left + 0.6 * (panel.right - panel.left) {
        (9.0, 10.0, Align::Start)
    } else {
        (-9.0, -9.0, Align::End)
    };
    canvas.text((x + dx, y + dy), align, Type::LABEL, &label);
}

/// The corners of the curve, value in the unit of the axis and share from 0 to 1, without those
/// too close to be seen apart.
pub(super) fn thinned(sample: &Weighted, axis: &Axis, per_second: f64) -> Vec<(f64, f64)> {
    let last = sample.count().saturating_sub(1).max(1) as f64;
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let mut skipped = None;
    let mut below = 0;
    for (seconds, weight) in sample.pairs() {
        let value = seconds * per_second;
        let first_share = below as f64 / last;
        below += weight;
        let last_share = if sample.count() == 1 { 1.0 } else { (below - 1) as f64 / last };
        for point in [(value, first_share), (value, last_share)] {
            let is_seen = kept.last().is_none_or(|&(x, y)| {
                axis.share(point.0) - axis.share(x) >= RESOLUTION || point.1 - y >= RESOLUTION
            });
            if is_seen {
                // a jump starts where the curve was, not where it was last drawn
                kept.extend(skipped.take());
                kept.push(point);
            } else {
                skipped = Some(point);
            }
        }
    }
    kept.extend(skipped);
    kept.dedup();
    kept
}

/// The unit of a time axis.
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) per_second: f64,
}

impl Unit {
    /// The unit in which a distribution with this median and maximum is read most easily.
    pub(super) fn of_seconds(median: f64, max: f64) -> Self {
        match (median, max) {
            (1.0.., _) | (_, 100.0..) => Self { name: "s", per_second: 1.0 },
            (_, 1e-3..) => Self { name: "ms", per_second: 1e3 },
            _ => Self { name: "µs", per_second: 1e6 },
        }
    }

    fn write(&self, seconds: f64) -> String {
        format!("{} {}", significant(seconds * self.per_second), self.name)
    }
}

/// The abbreviation in brackets at the end of a name.
fn short(name: &str) -> &str {
    name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_of_a_million_values_keeps_few_corners_and_both_ends() {
        let sample = Weighted::new((1..=1_000_000_u64).map(|i| (i as f64 * 1e-6, 1)).collect());
        let axis = Axis::for_spread(1e-6, 1.0, 6.0);
        let curve = thinned(&sample, &axis, 1.0);
        assert!(curve.len() <= 2_000, "{}", curve.len());
        assert_eq!(curve.first(), Some(&(1e-6, 0.0)));
        assert_eq!(curve.last(), Some(&(1.0, 1.0)));
        assert!(curve.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
    }

    #[test]
    fn percentiles_lie_on_the_curve() {
        // values 1, 2, 2, 9: shares 0, 1/3, 2/3, 1; the median is 2, inside the riser
        let sample = Weighted::new(vec![(1.0, 1), (2.0, 2), (9.0, 1)]);
        let curve = thinned(&sample, &Axis::for_spread(1.0, 9.0, 6.0), 1.0);
        let third = 1.0 / 3.0;
        assert_eq!(curve, [(1.0, 0.0), (2.0, third), (2.0, 2.0 * third), (9.0, 1.0)]);
    }

    #[test]
    fn one_value_is_a_vertical_line() {
        let sample = Weighted::new(vec![(4.0, 1)]);
        let curve = thinned(&sample, &Axis::for_spread(4.0, 4.0, 6.0), 1.0);
        assert_eq!(curve, [(4.0, 0.0), (4.0, 1.0)]);
    }
}
