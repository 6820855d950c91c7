//! Quantities over the time of a run, as means over equal spans.

use super::axis::Axis;
use super::canvas::{Canvas, Ink, TOP};
use super::clock::{Clock, Curve, FOOT, HEADING, LEFT, RIGHT, Strip};
use super::frame::Panel;
use crate::metrics::Recorder;
use crate::metrics::RequestRecord;
use crate::metrics::Status;
use crate::units::SimTime;

/// The height of the figure of queues and memory.
pub(super) const QUEUE_HEIGHT: f64 = KV_TOP + 176.0 + FOOT;
/// The height of the figure of throughput.
pub(super) const THROUGHPUT_HEIGHT: f64 = TOP + 3.0 * RATE_HEIGHT + FOOT;

const KV_TOP: f64 = TOP + 224.0;
const RATE_HEIGHT: f64 = 176.0;
const NO_TIME: &str = "Nothing happened: the run has no duration.";

pub(super) fn queue_and_memory(canvas: &mut Canvas<'_>, run: &Recorder) {
    let heading = "Requests in the engine";
    let Some(clock) = Clock::of_run(run.end) else {
        return say_nothing(canvas, QUEUE_HEIGHT, heading);
    };
    let strip = Strip { top: TOP, bottom: KV_TOP, heading, side: "requests", unit: "" };
    let curves = [
        Curve::line("running", Ink::BLUE, clock.resample(&run.timeline.running)),
        Curve::line("waiting", Ink::VERMILION, clock.resample(&run.timeline.waiting)),
    ];
    // requests are whole: four at least, so that ticks are
    let y = Axis::from_zero(highest(&curves).max(4.0), 4.0);
    clock.draw(canvas, &strip, y, &curves);
    let (bottom, side) = (QUEUE_HEIGHT - FOOT, "blocks in use (%)");
    let strip = Strip { top: KV_TOP, bottom, heading: "KV cache", side, unit: "%" };
    let capacity = run.timeline.kv_capacity.max(1) as f64;
    let mut kv_use = clock.resample(&run.timeline.kv_blocks);
    for blocks in &mut kv_use {
        *blocks *= 100.0 / capacity;
    }
    let curves = [Curve::area("blocks in use", Ink::GREEN, kv_use)];
    clock
        .draw(canvas, &strip, Axis::linear(0.0, 100.0, 5.0), &curves)
        .draw_foot(canvas, &clock.title);
}

pub(super) fn throughput(canvas: &mut Canvas<'_>, run: &Recorder) {
    let Some(clock) = Clock::of_run(run.end) else {
        return say_nothing(canvas, THROUGHPUT_HEIGHT, "Tokens per second");
    };
    let strip = |place: f64, heading, unit| {
        let (top, side) = (TOP + place * RATE_HEIGHT, unit);
        Strip { top, bottom: top + RATE_HEIGHT, heading, side, unit }
    };
    let mut draw = |strip: Strip<'_>, curves: &[Curve]| {
        clock.draw(canvas, &strip, Axis::from_zero(highest(curves), 3.0), curves)
    };
    let prefill = clock.resample(&run.timeline.prefill_tokens);
    let curves = [Curve::area("prefill", Ink::BLUE, prefill)];
    draw(strip(0.0, "Prompt tokens computed", "tokens/s"), &curves);
    let output = clock.resample(&run.timeline.output_tokens);
    let curves = [Curve::area("output", Ink::VERMILION, output)];
    draw(strip(1.0, "Output tokens", "tokens/s"), &curves);
    let sent = run.requests.iter().map(|request| request.sent);
    let curves = [
        Curve::line("sent", Ink::PURPLE, clock.rate(sent)),
        Curve::line("finished", Ink::GREEN, clock.rate(finish_times(&run.requests))),
    ];
    draw(strip(2.0, "Requests", "requests/s"), &curves).draw_foot(canvas, &clock.title);
}

pub(super) fn highest(curves: &[Curve]) -> f64 {
    curves.iter().flat_map(|curve| &curve.means).copied().fold(0.0, f64::max)
}

fn finish_times(requests: &[RequestRecord]) -> impl Iterator<Item = SimTime> {
    let finished = requests.iter().filter(|request| request.status == Status::Finished);
    finished.map(|request| request.finish)
}

pub(super) fn say_nothing(canvas: &mut Canvas<'_>, height: f64, heading: &str) {
    let (from, to) = ((LEFT, TOP + HEADING), (RIGHT, height - FOOT));
    Panel::draw_empty(canvas, from, to, heading, NO_TIME);
}
