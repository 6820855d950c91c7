//! Replicas that an autoscaler starts and drains, and the load that they follow.

use super::axis::Axis;
use super::canvas::{Canvas, Ink, TOP};
use super::clock::{Clock, Curve, FOOT, Strip};
use super::timeline::{highest, say_nothing};
use crate::metrics::{Presence, Recorder, ReplicaKind};

const PANEL_HEIGHT: f64 = 188.0;
/// The height of the figure.
pub(super) const HEIGHT: f64 = TOP + 3.0 * PANEL_HEIGHT + FOOT;

pub(super) fn draw(canvas: &mut Canvas<'_>, run: &Recorder, groups: &[ReplicaKind]) {
    let Some(clock) = Clock::of_run(run.observed()) else {
        return say_nothing(canvas, HEIGHT, "Replicas");
    };
    let strip = |place: f64, heading, side, unit| {
        let top = TOP + place * PANEL_HEIGHT;
        Strip { top, bottom: top + PANEL_HEIGHT, heading, side, unit }
    };
    let replicas = groups.iter().map(|group| group.replicas as usize).sum();
    let count =
        |such: fn(Presence) -> bool| clock.resample(&run.replicas_over_time(replicas, such));
    let starts = |presence| matches!(presence, Presence::Provisioning | Presence::Loading);
    let curves = [
        Curve::area("serving", Ink::GREEN, count(|presence| presence == Presence::Up)),
        Curve::line("starting", Ink::PURPLE, count(starts)),
        Curve::line("draining", Ink::VERMILION, count(|presence| presence == Presence::Draining)),
    ];
    // Replicas are whole: four at least, so that ticks are.
    let y = Axis::from_zero(highest(&curves).max(4.0), 4.0);
    clock.draw(canvas, &strip(0.0, "Replicas", "replicas", ""), y, &curves);
    let curves = [
        Curve::line("running", Ink::BLUE, clock.resample(&run.timeline.running)),
        Curve::line("waiting", Ink::VERMILION, clock.resample(&run.timeline.waiting)),
    ];
    let y = Axis::from_zero(highest(&curves).max(4.0), 4.0);
    clock.draw(canvas, &strip(1.0, "Requests in the engines", "requests", ""), y, &curves);
    let sent = clock.rate(run.requests.iter().map(|request| request.sent));
    let curves = [Curve::area("sent", Ink::BLUE, sent)];
    let y = Axis::from_zero(highest(&curves), 3.0);
    clock
        .draw(canvas, &strip(2.0, "Requests sent", "requests/s", "requests/s"), y, &curves)
        .draw_foot(canvas, &clock.title);
}
