//! Latencies over the time of a run: of the requests that were sent in each span, beside what became of replicas
//! meanwhile.
//!
//! A request counts where it was sent, also one that a crash cost its first attempt: a figure shows what those
//! got who sent then. It has no part of its latency where it was not answered in full; those are counted apart.

use std::ops::Range;

use super::axis::{Axis, limits};
use super::canvas::{Canvas, Ink, TOP};
use super::clock::{Clock, FOOT, HEADING, LEFT, RIGHT};
use super::distribution::Unit;
use super::frame::Panel;
use super::timeline::say_nothing;
use crate::metrics::{Presence, Recorder, ReplicaKind, RequestRecord, Status};
use crate::sim::Slowness;
use crate::stats::percentile_sorted;
use crate::units::{SimDuration, SimTime};

const PANEL_HEIGHT: f64 = 196.0;
/// Requests of a span on average, so that a ninth decile says something.
const REQUESTS_PER_SPAN: usize = 20;
/// Labels that fit along the side of a panel.
const LABELS: f64 = 8.0;

/// What is drawn of the latencies of a span.
const PERCENTILES: [(f64, &str, Ink); 2] =
    [(50.0, "P50", Ink::BLUE), (90.0, "P90", Ink::VERMILION)];

/// What is marked of replicas, in the inks of what each replica does.
const MARKS: [Mark; 5] = [
    Mark {
        word: "down",
        ink: Ink::TEXT,
        opacity: 0.12..0.36,
        is_it: What::Is(|presence| matches!(presence, Presence::Down)),
    },
    Mark {
        word: "starting",
        ink: Ink::GREEN,
        opacity: 0.12..0.36,
        is_it: What::Is(|presence| matches!(presence, Presence::Provisioning | Presence::Loading)),
    },
    Mark {
        word: "draining",
        ink: Ink::FRAME,
        opacity: 0.4..0.6,
        is_it: What::Is(|presence| matches!(presence, Presence::Draining)),
    },
    Mark {
        word: "slow",
        ink: Ink::PURPLE,
        opacity: 0.16..0.48,
        is_it: What::HasSlow(Slowness::Steps),
    },
    Mark {
        word: "slow NICs",
        ink: Ink::BLUE,
        opacity: 0.08..0.24,
        is_it: What::HasSlow(Slowness::Nics),
    },
];

/// What replicas are for a time.
enum What {
    Is(fn(Presence) -> bool),
    HasSlow(Slowness),
}

impl What {
    /// From when to when a replica was that.
    fn spans(&self, run: &Recorder, id: usize, end: SimTime) -> Vec<(SimTime, SimTime)> {
        match self {
            Self::Is(is_it) => {
                let spans = run.presence.spans(id, end).into_iter();
                let spans = spans.filter(|(_, _, presence)| is_it(*presence));
                spans.map(|(from, until, _)| (from, until)).collect()
            }
            Self::HasSlow(slowness) => run.slowness.spans(id, *slowness, end),
        }
    }
}

/// Something that replicas are for a time.
struct Mark {
    word: &'static str,
    ink: Ink,
    /// Of hardly any replica, and of all.
    opacity: Range<f64>,
    is_it: What,
}

impl Mark {
    fn opacity(&self, share: f64) -> f64 {
        self.opacity.start + share * (self.opacity.end - self.opacity.start)
    }
}

/// A latency of requests; none of answers that have no such.
type Latency = fn(&RequestRecord) -> Option<SimDuration>;

/// The height of the figure: requests without an answer have a panel where there are some.
pub(super) fn height(requests: &[RequestRecord]) -> f64 {
    let panels = if requests.iter().all(is_answered) { 2.0 } else { 3.0 };
    TOP + panels * PANEL_HEIGHT + FOOT
}

fn is_answered(request: &RequestRecord) -> bool {
    request.status == Status::Finished
}

pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    run: &Recorder,
    requests: &[RequestRecord],
    groups: &[ReplicaKind],
) {
    let name = "Time to first token (TTFT)";
    let Some(clock) = Clock::of_requests(run.observed(), requests.len() / REQUESTS_PER_SPAN) else {
        return say_nothing(canvas, height(requests), name);
    };
    let marks = Marks::of(run, groups);
    let over_time = OverTime { clock, marks, requests };
    let ttft = over_time.latencies(canvas, 0, name, |request| Some(request.ttft()));
    over_time.draw_keys(canvas, &ttft);
    let name = "Time per output token (TPOT)";
    let mut last = over_time.latencies(canvas, 1, name, RequestRecord::tpot);
    if !requests.iter().all(is_answered) {
        last = over_time.losses(canvas, 2);
    }
    last.draw_foot(canvas, &over_time.clock.title);
}

struct OverTime<'a> {
    clock: Clock,
    marks: Marks,
    requests: &'a [RequestRecord],
}

impl OverTime<'_> {
    /// The panel of a latency, in a place from above.
    fn latencies(
        &self,
        canvas: &mut Canvas<'_>,
        place: usize,
        name: &str,
        latency: Latency,
    ) -> Panel {
        let curves = self.percentiles(latency);
        let values = || curves.iter().flatten().filter_map(|value| *value);
        let (smallest, largest) = limits(values().filter(|value| *value > 0.0));
        let unit = Unit::of_seconds(smallest, largest);
        let smallest = if smallest.is_finite() { smallest } else { 0.0 };
        let y = Axis::for_spread_from_zero(
            smallest * unit.per_second,
            largest * unit.per_second,
            LABELS,
        );
        let side = format!("{}{}", unit.name, y.scale_note());
        let panel = self.panel(canvas, place, (name, &side), y);
        if values().next().is_none() {
            panel.say(canvas, "No request that was answered in full has one.");
        }
        for (curve, (.., ink)) in curves.iter().zip(PERCENTILES) {
            let in_unit = curve.iter().map(|value| value.map(|value| value * unit.per_second));
            self.draw_curve(canvas, &panel, &in_unit.collect::<Vec<_>>(), ink);
        }
        panel
    }

    /// Percentiles of the requests that were sent in each span and answered, in seconds.
    fn percentiles(&self, latency: Latency) -> [Vec<Option<f64>>; PERCENTILES.len()] {
        let mut spans = vec![Vec::new(); self.clock.spans];
        for request in self.requests.iter().filter(|request| is_answered(request)) {
            if let Some(latency) = latency(request) {
                spans[self.clock.index(request.sent.as_secs_f64())].push(latency.as_secs_f64());
            }
        }
        for span in &mut spans {
            span.sort_unstable_by(f64::total_cmp);
        }
        PERCENTILES.map(|(p, ..)| {
            let of = |span: &Vec<f64>| (!span.is_empty()).then(|| percentile_sorted(span, p));
            spans.iter().map(of).collect()
        })
    }

    /// The panel of requests that got no answer, as a share of those sent in each span.
    fn losses(&self, canvas: &mut Canvas<'_>, place: usize) -> Panel {
        let shares = self.lost_percent();
        let (_, most) = limits(shares.iter().filter_map(|share| *share));
        let name = "Requests without an answer";
        let panel =
            self.panel(canvas, place, (name, "of those sent (%)"), Axis::from_zero(most, 4.0));
        self.draw_curve(canvas, &panel, &shares, Ink::PURPLE);
        panel
    }

    fn lost_percent(&self) -> Vec<Option<f64>> {
        let mut counts = vec![(0_u64, 0_u64); self.clock.spans];
        for request in self.requests {
            let (sent, lost) = &mut counts[self.clock.index(request.sent.as_secs_f64())];
            *sent += 1;
            *lost += u64::from(!is_answered(request));
        }
        let percent =
            |&(sent, lost): &(u64, u64)| (sent > 0).then(|| 100.0 * lost as f64 / sent as f64);
        counts.iter().map(percent).collect()
    }

    fn panel(
        &self,
        canvas: &mut Canvas<'_>,
        place: usize,
        (name, side): (&str, &str),
        y: Axis,
    ) -> Panel {
        let top = TOP + place as f64 * PANEL_HEIGHT;
        let (top, bottom) = (top + HEADING, top + PANEL_HEIGHT);
        let panel = Panel { left: LEFT, right: RIGHT, top, bottom, x: self.clock.axis.clone(), y };
        panel.draw(canvas, side);
        panel.draw_heading(canvas, name);
        self.marks.draw(canvas, &panel);
        panel
    }

    /// A line through the spans that have a value.
    fn draw_curve(&self, canvas: &mut Canvas<'_>, panel: &Panel, values: &[Option<f64>], ink: Ink) {
        let mut from = 0;
        for piece in values.split(Option::is_none) {
            let piece: Vec<f64> = piece.iter().flatten().copied().collect();
            if !piece.is_empty() {
                canvas.line(&self.clock.stairs(panel, from, &piece), ink, 1.6);
            }
            from += piece.len() + 1;
        }
    }

    /// What the lines are, and the marks that there are.
    fn draw_keys(&self, canvas: &mut Canvas<'_>, panel: &Panel) {
        let marks = self.marks.shown();
        for (slot, mark) in marks.iter().rev().enumerate() {
            panel.draw_word_key(canvas, slot, (mark.ink, mark.opacity(0.5)), mark.word);
        }
        for (slot, (_, word, ink)) in PERCENTILES.iter().rev().enumerate() {
            panel.draw_word_line_key(canvas, marks.len() + slot, *ink, word);
        }
    }
}

/// Shades of a mark.
const SHADES: f64 = 8.0;
/// Columns of a panel, two pixels each: what is shorter still is seen.
const COLUMNS: usize = ((RIGHT - LEFT) / 2.0) as usize;

/// When replicas were down, starting, draining or slow, as shares of the time of all of them in columns of a panel.
struct Marks([Vec<f64>; MARKS.len()]);

impl Marks {
    fn of(run: &Recorder, groups: &[ReplicaKind]) -> Self {
        let end = run.observed();
        let replicas: usize = groups.iter().map(|group| group.replicas as usize).sum();
        let place = |at: SimTime| at.as_secs_f64() / end.as_secs_f64() * COLUMNS as f64;
        Self(MARKS.map(|mark| {
            let mut shares = vec![0.0; COLUMNS];
            for (from, until) in (0..replicas).flat_map(|id| mark.is_it.spans(run, id, end)) {
                let (from, until) = (place(from), place(until));
                let first = (from as usize).min(COLUMNS - 1);
                let last = (until.ceil() as usize).clamp(first + 1, COLUMNS);
                for (column, share) in shares.iter_mut().enumerate().take(last).skip(first) {
                    let within = until.min(column as f64 + 1.0) - from.max(column as f64);
                    // What takes no time is seen too.
                    *share += within.max(f64::EPSILON) / replicas as f64;
                }
            }
            shares
        }))
    }

    fn shown(&self) -> Vec<&'static Mark> {
        let all = MARKS.iter().zip(&self.0);
        let shown = all.filter(|(_, shares)| shares.iter().any(|share| *share > 0.0));
        shown.map(|(mark, _)| mark).collect()
    }

    /// Shades the columns in which there is something to mark, the stronger the more replicas it is true of.
    fn draw(&self, canvas: &mut Canvas<'_>, panel: &Panel) {
        let across = |column: usize| panel.left + 2.0 * column as f64;
        for (mark, shares) in MARKS.iter().zip(&self.0) {
            // One replica of many is seen too.
            let least = |share: f64| u32::from(share > 0.0);
            let shade = |share: &f64| ((share * SHADES).round() as u32).max(least(*share));
            let shades: Vec<u32> = shares.iter().map(shade).collect();
            let mut first = 0;
            for alike in shades.chunk_by(|one, next| one == next) {
                let (left, right) = (across(first), across(first + alike.len()));
                first += alike.len();
                if alike[0] > 0 {
                    let (top, bottom) = (panel.top, panel.bottom);
                    let outline = [(left, top), (right, top), (right, bottom), (left, bottom)];
                    let opacity = mark.opacity(f64::from(alike[0]) / SHADES);
                    canvas.shade(&outline, mark.ink, opacity);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{group, run_of, simulated};
    use super::*;
    use crate::cluster::Role;

    fn over_time<'a>(run: &'a Recorder, groups: &[ReplicaKind]) -> OverTime<'a> {
        let requests = &run.requests[..];
        let clock = Clock::of_requests(run.observed(), requests.len() / REQUESTS_PER_SPAN);
        let clock = clock.expect("the run has a duration");
        OverTime { clock, marks: Marks::of(run, groups), requests }
    }

    #[test]
    fn a_span_has_the_percentiles_of_those_who_sent_in_it() {
        // One a millisecond: the first token of 50 comes after 10 ms, of 50 more after 30 ms.
        let ttft = |index| SimDuration::from_millis(if index < 50 { 10 } else { 30 });
        let mut run = run_of(100, |index| (ttft(index), SimDuration::ZERO, 1));
        // The last 10 get no answer.
        let failed = |(index, request): (usize, &RequestRecord)| {
            let status = if index < 90 { request.status } else { Status::Failed };
            RequestRecord { status, ..*request }
        };
        run.requests = run.requests.iter().enumerate().map(failed).collect::<Vec<_>>().into();
        let over_time = over_time(&run, &[group(Role::Whole, 1)]);
        // 129 ms in at most 12 spans are 7 of 20 ms. In the third are ten of 10 ms and ten of 30 ms.
        let [median, ninth_decile] = over_time.percentiles(|request| Some(request.ttft()));
        let ms = |ms: [Option<f64>; 7]| ms.map(|ms| ms.map(|ms| ms / 1e3));
        let (low, high) = (Some(10.0), Some(30.0));
        assert_eq!(median, ms([low, low, Some(20.0), high, high, None, None]));
        assert_eq!(ninth_decile, ms([low, low, high, high, high, None, None]));
        let (none, half) = (Some(0.0), Some(50.0));
        assert_eq!(over_time.lost_percent(), [none, none, none, none, half, None, None]);
        let [median, _] = over_time.percentiles(RequestRecord::tpot);
        assert!(median.iter().all(Option::is_none), "answers of one token have none");
    }

    #[test]
    fn what_is_down_is_marked_while_it_is_however_shortly() {
        for (down_s, until_s) in [("15.0", 25.0), ("0.001", 10.0)] {
            let (run, scenario) = simulated(
                &format!(
                    "replicas = 4\n[[faults]]\ntype = 'crash'\nreplica = 2\nat_s = 10.0\n\
                     down_s = {down_s}"
                ),
                40.0,
            );
            let marks = Marks::of(&run, &ReplicaKind::of(&scenario));
            let words: Vec<&str> = marks.shown().iter().map(|mark| mark.word).collect();
            assert_eq!(words, ["down"]);
            let columns: Vec<usize> =
                (0..COLUMNS).filter(|column| marks.0[0][*column] > 0.0).collect();
            assert!(columns.iter().all(|column| marks.0[0][*column] <= 0.25 + 1e-9), "one of four");
            let inside = &columns[1..columns.len().max(2) - 1];
            assert!(inside.iter().all(|column| (marks.0[0][*column] - 0.25).abs() < 1e-9));
            let each_s = run.observed().as_secs_f64() / COLUMNS as f64;
            let (first, last) = (columns[0], columns[columns.len() - 1]);
            assert_eq!(columns.len(), last + 1 - first, "in one piece");
            assert!((first as f64 * each_s - 10.0).abs() < each_s);
            assert!(((last + 1) as f64 * each_s - until_s).abs() <= 1.5 * each_s);
        }
    }

    #[test]
    fn what_is_slow_is_marked_by_what_is_slow() {
        let faults = "replicas = 4\n\
                      [[faults]]\ntype = 'straggler'\nreplica = 1\nat_s = 10.0\nfor_s = 10.0\nfactor = 2.0";
        let (run, scenario) = simulated(faults, 40.0);
        let marks = Marks::of(&run, &ReplicaKind::of(&scenario));
        let words: Vec<&str> = marks.shown().iter().map(|mark| mark.word).collect();
        assert_eq!(words, ["slow"]);
        // One of four, for ten seconds.
        let slow_s = marks.0[3].iter().sum::<f64>() * run.observed().as_secs_f64() / COLUMNS as f64;
        assert!((slow_s - 2.5).abs() < 1e-6, "{slow_s}");
    }

    #[test]
    fn many_short_crashes_are_marked_by_the_time_they_take() {
        // Four in a second, and about ten columns.
        let crash = |at: u32| {
            let at_s = 1.0 + f64::from(at) / 4.0;
            format!("[[faults]]\ntype = 'crash'\nreplica = 2\nat_s = {at_s:?}\ndown_s = 0.05\n")
        };
        let crashes: String = (0..80).map(crash).collect();
        let (run, scenario) = simulated(&format!("replicas = 4\n{crashes}"), 40.0);
        let marks = Marks::of(&run, &ReplicaKind::of(&scenario));
        let (sum, most) = marks.0[0]
            .iter()
            .fold((0.0, 0.0_f64), |(sum, most), share| (sum + share, most.max(*share)));
        let down_s = sum * 4.0 * run.observed().as_secs_f64() / COLUMNS as f64;
        assert!((down_s - 4.0).abs() < 1e-6 && most <= 0.25, "{down_s} s, {most}");
    }
}
