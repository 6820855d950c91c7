//! Where the time of requests went: a bar for each, of parts one after the other.

use super::axis::{Axis, significant};
use super::canvas::{Align, Canvas, Ink, TOP, Type};
use super::frame::Panel;

/// What a part is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// In a queue.
    Waiting,
    /// On a wire, or between processes.
    Moving,
    /// Its prompt is computed.
    Prefill,
    /// Its answer is computed.
    Decode,
    /// Others hold its answer up.
    HeldUp,
    /// What was computed was lost.
    Lost,
}

impl Tone {
    const ALL: [Self; 6] =
        [Self::Waiting, Self::Moving, Self::Prefill, Self::Decode, Self::HeldUp, Self::Lost];

    fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Moving => "moving",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::HeldUp => "held up",
            Self::Lost => "lost",
        }
    }

    fn paint(self) -> (Ink, f64) {
        match self {
            Self::Waiting => (Ink::FRAME, 0.6),
            Self::Moving => (Ink::GREEN, 0.8),
            Self::Prefill => (Ink::VERMILION, 0.85),
            Self::Decode => (Ink::BLUE, 0.85),
            Self::HeldUp => (Ink::PURPLE, 0.85),
            Self::Lost => (Ink::TEXT, 0.75),
        }
    }
}

/// A part of the time of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// What it is like.
    pub tone: Tone,
    /// How long.
    pub seconds: f64,
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanRow {
    /// What it is called.
    pub label: String,
    /// When its first token came, since it was sent.
    pub first_token_s: f64,
    /// The parts of its time, in order.
    pub spans: Vec<Span>,
}

impl SpanRow {
    fn total(&self) -> f64 {
        self.spans.iter().map(|span| span.seconds).sum()
    }
}

const ROW: f64 = 54.0;
const BAR: f64 = 26.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 840.0;
const FOOT: f64 = 62.0;
const KEYS: f64 = 24.0;
const KEY: f64 = 110.0;

/// The height of the sheet.
pub(super) fn height(rows: &[SpanRow]) -> f64 {
    TOP + KEYS + ROW * rows.len().max(1) as f64 + FOOT
}

pub(super) fn draw(canvas: &mut Canvas<'_>, rows: &[SpanRow]) {
    let most = rows.iter().map(SpanRow::total).fold(0.0, f64::max);
    let (unit, unit_s) = if most < 1.0 { ("ms", 1e-3) } else { ("s", 1.0) };
    let most = if most > 0.0 { most / unit_s } else { 1.0 };
    let top = TOP + KEYS;
    let bottom = height(rows) - FOOT;
    let panel = Panel {
        left: LEFT,
        right: RIGHT,
        top,
        bottom,
        x: Axis::from_zero(most, 8.0),
        y: Axis::linear(0.0, 1.0, 1.0).without_ticks(),
    };
    panel.draw(canvas, "");
    panel.draw_foot(
        canvas,
        &format!("time since the request was sent ({unit}); parts of a kind together, a dot at the first token"),
    );
    draw_keys(canvas, rows, top - 13.0);
    for (place, row) in rows.iter().enumerate() {
        let middle = top + ROW * (place as f64 + 0.5);
        let (head, foot) = (middle - BAR / 2.0, middle + BAR / 2.0);
        let across = |seconds: f64| panel.at(seconds / unit_s, 0.0).0;
        let mut from = 0.0;
        for span in row.spans.iter().filter(|span| span.seconds > 0.0) {
            let (left, right) = (across(from), across(from + span.seconds));
            let (ink, opacity) = span.tone.paint();
            canvas.shade(&[(left, head), (right, head), (right, foot), (left, foot)], ink, opacity);
            from += span.seconds;
        }
        canvas.dot((across(row.first_token_s), head), Ink::TEXT, 4.0);
        canvas.text((LEFT - 12.0, middle), Align::End, Type::LABEL, &row.label);
        let total = format!("{} {unit}", significant(row.total() / unit_s));
        canvas.text((RIGHT + 14.0, middle), Align::Start, Type::LABEL, &total);
    }
}

/// The tones that a row has.
fn draw_keys(canvas: &mut Canvas<'_>, rows: &[SpanRow], y: f64) {
    let is_there = |tone: &Tone| {
        let mut spans = rows.iter().flat_map(|row| &row.spans);
        spans.any(|span| span.tone == *tone && span.seconds > 0.0)
    };
    canvas.legend();
    for (slot, tone) in Tone::ALL.into_iter().filter(is_there).enumerate() {
        let x = LEFT + KEY * slot as f64;
        canvas.key((x, y), KEY);
        let (ink, opacity) = tone.paint();
        let patch = [(x, y - 5.0), (x + 22.0, y - 5.0), (x + 22.0, y + 5.0), (x, y + 5.0)];
        canvas.shade(&patch, ink, opacity);
        canvas.text((x + 30.0, y), Align::Start, Type::LABEL, tone.word());
    }
}
