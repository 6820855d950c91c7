//! What each replica does over the time of a run, in rows.

use std::ops::Range;

use super::axis::{Axis, nice_above};
use super::canvas::{Align, Canvas, Ink, TOP, Type};
use super::clock::{Clock, FOOT, HEADING, LEFT, RIGHT};
use super::frame::Panel;
use super::timeline::say_nothing;
use crate::cluster::Role;
use crate::metrics::{Activity, Presence, Recorder, ReplicaKind, StepKind};
use crate::units::SimTime;

/// Rows of a group at most; more replicas share rows.
const ROWS_MAX: usize = 64;
/// Room for the text of a row.
const LABEL: f64 = 14.0;
/// Between groups.
const GAP: f64 = 14.0;
const OPACITY: f64 = 0.8;
/// What lies above each other in a row, from below.
const KINDS: [(StepKind, Ink); 3] = [
    (StepKind::Decode, Ink::BLUE),
    (StepKind::Mixed, Ink::PURPLE),
    (StepKind::Prefill, Ink::VERMILION),
];

/// What lies behind that where a replica is not simply there.
const STATES: [(&str, Ink, f64); 3] =
    [("starting", Ink::GREEN, 0.35), ("draining", Ink::FRAME, 0.45), ("down", Ink::TEXT, 0.75)];

/// The paint behind what a replica does.
fn paint(presence: Presence) -> Option<(Ink, f64)> {
    let state = |place: usize| Some((STATES[place].1, STATES[place].2));
    match presence {
        Presence::Up => Some((Ink::GRID_FINE, 1.0)),
        Presence::Off => None,
        Presence::Provisioning | Presence::Loading => state(0),
        Presence::Draining => state(1),
        Presence::Down => state(2),
    }
}

/// Replicas in rows: some groups of them, each with the replicas of its rows.
struct Rows<'a> {
    group: &'a ReplicaKind,
    rows: Vec<Range<usize>>,
}

impl<'a> Rows<'a> {
    fn of(groups: &'a [ReplicaKind]) -> Vec<Self> {
        let rows = |(group, ids): (&'a ReplicaKind, Range<usize>)| {
            let each = ids.len().div_ceil(ROWS_MAX).max(1);
            let starts = ids.clone().step_by(each);
            Self { group, rows: starts.map(|id| id..(id + each).min(ids.end)).collect() }
        };
        ReplicaKind::ids(groups).map(rows).collect()
    }

    /// Of the frame around all rows.
    fn height_of(&self, row: f64) -> f64 {
        self.rows.len() as f64 * row
    }
}

/// What the replicas of a group are called.
pub(super) fn group_name(group: &ReplicaKind) -> String {
    let name = match group.role {
        Role::Whole => "replica",
        Role::Prefill => "prefill replica",
        Role::Decode => "decode replica",
    };
    let counted = match group.replicas {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    };
    match &group.name {
        Some(name) => format!("{counted} ({name})"),
        None => counted,
    }
}

/// The height of one row: the more there are, the less.
fn row_height(groups: &[Rows<'_>]) -> f64 {
    let rows: usize = groups.iter().map(|group| group.rows.len()).sum();
    (480.0 / rows.max(1) as f64).clamp(12.0, 44.0)
}

/// The height of the figure of what each replica does.
pub(super) fn height(groups: &[ReplicaKind]) -> f64 {
    let groups = Rows::of(groups);
    let row = row_height(&groups);
    let panels: f64 = groups.iter().map(|group| HEADING + group.height_of(row) + GAP).sum();
    TOP + panels - GAP + FOOT
}

pub(super) fn draw(canvas: &mut Canvas<'_>, run: &Recorder, groups: &[ReplicaKind]) {
    let Some(clock) = Clock::of_replicas(run.observed()) else {
        return say_nothing(canvas, height(groups), "Replicas");
    };
    let groups = Rows::of(groups);
    let row = row_height(&groups);
    let mut top = TOP + HEADING;
    for (index, group) in groups.iter().enumerate() {
        let bottom = top + group.height_of(row);
        let y = Axis::linear(0.0, group.rows.len() as f64, 1.0).without_ticks();
        let panel = Panel { left: LEFT, right: RIGHT, top, bottom, x: clock.axis.clone(), y };
        panel.draw(canvas, "replica");
        panel.draw_heading(canvas, &group_name(group.group));
        if index == 0 {
            for (slot, (kind, ink)) in KINDS.iter().enumerate() {
                panel.draw_word_key(canvas, slot, (*ink, OPACITY), kind.name());
            }
            if run.presence.changes().iter().any(|(at, ..)| *at > SimTime::ZERO) {
                for (slot, (word, ink, opacity)) in STATES.iter().enumerate() {
                    panel.draw_word_key(canvas, KINDS.len() + slot, (*ink, *opacity), word);
                }
            }
        }
        for (place, ids) in group.rows.iter().enumerate() {
            let from = top + place as f64 * row;
            draw_presence(canvas, &clock, &panel, (from, row), (run, ids.clone()));
            draw_row(canvas, &clock, &panel, (from, row), &shares(&clock, run, ids.clone()));
        }
        label_rows(canvas, &group.rows, top, row);
        if index + 1 == groups.len() {
            panel.draw_foot(canvas, &clock.title);
        }
        top = bottom + GAP + HEADING;
    }
}

/// For each kind of step the share of each span that the replicas of a row spend on it, on average.
fn shares(clock: &Clock, run: &Recorder, ids: Range<usize>) -> Vec<Vec<f64>> {
    let count = ids.len() as f64;
    let unused = Activity::default();
    let mean = |kind| {
        let mut sum = vec![0.0; clock.spans];
        for id in ids.clone() {
            let activity = run.replicas.get(id).map_or(&unused, |replica| &replica.activity);
            let shares = clock.resample_points(activity.points(kind));
            for (sum, share) in sum.iter_mut().zip(shares) {
                *sum += share / count;
            }
        }
        sum
    };
    KINDS.iter().map(|(kind, _)| mean(*kind)).collect()
}

fn margin(height: f64) -> f64 {
    if height > 20.0 { 3.0 } else { 1.0 }
}

/// When the replica of a row was there. Of several in one row it does not show.
fn draw_presence(
    canvas: &mut Canvas<'_>,
    clock: &Clock,
    panel: &Panel,
    (top, height): (f64, f64),
    (run, ids): (&Recorder, Range<usize>),
) {
    let margin = margin(height);
    let (head, foot) = (top + margin, top + height - margin);
    let end = run.observed();
    let spans = match ids.len() {
        1 => run.presence.spans(ids.start, end),
        _ => vec![(SimTime::ZERO, end, Presence::Up)],
    };
    for (from, until, presence) in spans {
        let across = |at: SimTime| panel.at(at.as_secs_f64() / clock.unit_s, 0.0).0;
        let (left, right) = (across(from), across(until).min(RIGHT));
        let Some((ink, opacity)) = paint(presence) else { continue };
        canvas.shade(&[(left, head), (right, head), (right, foot), (left, foot)], ink, opacity);
    }
}

/// Bands that lie on each other, a margin kept between rows.
fn draw_row(
    canvas: &mut Canvas<'_>,
    clock: &Clock,
    panel: &Panel,
    (top, height): (f64, f64),
    shares: &[Vec<f64>],
) {
    let margin = margin(height);
    let (foot, room) = (top + height - margin, height - 2.0 * margin);
    // Heights in half pixels: neighbours that look alike are one piece.
    let level = |share: f64| (2.0 * room * share.min(1.0)).round() / 2.0;
    let mut below = vec![0.0; clock.spans];
    for ((_, ink), shares) in KINDS.iter().zip(shares) {
        let above: Vec<f64> =
            below.iter().zip(shares).map(|(below, share)| below + share).collect();
        let levels = |shares: &[f64]| shares.iter().map(|share| level(*share)).collect::<Vec<_>>();
        for piece in pieces(&levels(&below), &levels(&above)) {
            let across = |span: usize| panel.at(clock.span(span).0 / clock.unit_s, 0.0).0;
            let outline = |levels: &[f64]| -> Vec<(f64, f64)> {
                let spans = levels.iter().zip(piece.start..);
                let corners = spans.flat_map(|(level, span)| {
                    [(across(span), foot - level), (across(span + 1).min(RIGHT), foot - level)]
                });
                corners.collect()
            };
            let mut shape = outline(&levels(&above)[piece.clone()]);
            shape.extend(outline(&levels(&below)[piece.clone()]).into_iter().rev());
            canvas.shade(&without_middles(shape), *ink, OPACITY);
        }
        below = above;
    }
}

/// The runs of spans in which a band has a height.
fn pieces(below: &[f64], above: &[f64]) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    for (span, (below, above)) in below.iter().zip(above).enumerate() {
        match pieces.last_mut() {
            _ if above <= below => {}
            Some(last) if last.end == span => last.end = span + 1,
            _ => pieces.push(span..span + 1),
        }
    }
    pieces
}

/// An outline without the corners on a straight line between their neighbours.
fn without_middles(outline: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let same = |a: f64, b: f64| (a - b).abs() < 1e-9;
    let mut kept: Vec<(f64, f64)> = Vec::with_capacity(outline.len());
    for point in outline {
        if let [.., before, last] = kept.as_slice() {
            let is_level = same(before.1, last.1) && same(last.1, point.1);
            let is_upright = same(before.0, last.0) && same(last.0, point.0);
            if is_level || is_upright {
                kept.pop();
            }
        }
        kept.push(point);
    }
    kept
}

fn label_rows(canvas: &mut Canvas<'_>, rows: &[Range<usize>], top: f64, row: f64) {
    let every = nice_above(LABEL / row).max(1.0) as usize;
    for (place, ids) in rows.iter().enumerate().step_by(every) {
        let label = match ids.len() {
            1 => ids.start.to_string(),
            _ => format!("{}–{}", ids.start, ids.end - 1),
        };
        let middle = top + (place as f64 + 0.5) * row;
        canvas.text((LEFT - 8.0, middle), Align::End, Type::LABEL, &label);
    }
}
