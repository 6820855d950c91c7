//! A panel: a rectangle with two axes, their grid and their titles.

use super::axis::Axis;
use super::canvas::{self, Align, Canvas, Ink, Type};

/// The stroke of a legend.
const STROKE: f64 = 22.0;
/// Thirty characters of a wide font, and the stroke.
const SLOT: f64 = 252.0;
/// Seven characters of a wide font, and the stroke or patch.
const WORD_SLOT: f64 = 100.0;

/// Room that the labels and titles of a panel take beyond its frame: to the left, and to the right.
const BESIDE: (f64, f64) = (68.0, 14.0);

/// Says that a panel, or a row of them, can be read by itself: from above its heading to below its foot.
pub(super) fn readable_alone(
    canvas: &mut Canvas<'_>,
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
) {
    let left = (left - BESIDE.0).max(0.0);
    canvas.part((left, top), ((right + BESIDE.1).min(canvas::WIDTH), bottom));
}

/// A rectangle of the sheet with an axis along its foot and one along its left side.
#[derive(Debug, Clone)]
pub(super) struct Panel {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) x: Axis,
    pub(super) y: Axis,
}

impl Panel {
    /// Where a point lies on the sheet.
    pub(super) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let across = self.left + self.x.share(x) * (self.right - self.left);
        let down = self.bottom - self.y.share(y) * (self.bottom - self.top);
        (across, down)
    }

    /// Draws what lies under the data: grid, frame, the labels of the side and what it shows.
    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, side: &str) {
        for tick in &self.x.ticks {
            let (x, _) = self.at(tick.at, 0.0);
            let ink = if tick.label.is_empty() { Ink::GRID_FINE } else { Ink::GRID };
            canvas.line(&[(x, self.top), (x, self.bottom)], ink, 1.0);
        }
        for tick in &self.y.ticks {
            let y = self.bottom - self.y.share(tick.at) * (self.bottom - self.top);
            canvas.line(&[(self.left, y), (self.right, y)], Ink::GRID, 1.0);
            canvas.text((self.left - 8.0, y), Align::End, Type::LABEL, &tick.label);
        }
        frame(canvas, (self.left, self.top), (self.right, self.bottom));
        let middle = f64::midpoint(self.top, self.bottom);
        canvas.text((self.left - 60.0, middle), Align::Upwards, Type::LABEL, side);
    }

    /// Labels the foot and says what it shows.
    pub(super) fn draw_foot(&self, canvas: &mut Canvas<'_>, title: &str) {
        for tick in &self.x.ticks {
            let (x, _) = self.at(tick.at, 0.0);
            canvas.line(&[(x, self.bottom), (x, self.bottom + 5.0)], Ink::FRAME, 1.0);
            canvas.text((x, self.bottom + 17.0), Align::Middle, Type::LABEL, &tick.label);
        }
        let middle = f64::midpoint(self.left, self.right);
        canvas.text((middle, self.bottom + 41.0), Align::Middle, Type::LABEL, title);
    }

    /// Writes above the frame what the panel shows.
    pub(super) fn draw_heading(&self, canvas: &mut Canvas<'_>, heading: &str) {
        canvas.heading((self.left, self.top - 13.0), heading);
    }

    /// Draws an entry of the legend above the frame, in one of the slots counted from the right.
    pub(super) fn draw_key(&self, canvas: &mut Canvas<'_>, slot: usize, ink: Ink, text: &str) {
        self.draw_stroke(canvas, (slot, SLOT), ink, text);
    }

    /// The same for one word.
    pub(super) fn draw_word_line_key(
        &self,
        canvas: &mut Canvas<'_>,
        slot: usize,
        ink: Ink,
        word: &str,
    ) {
        self.draw_stroke(canvas, (slot, WORD_SLOT), ink, word);
    }

    fn draw_stroke(&self, canvas: &mut Canvas<'_>, place: (usize, f64), ink: Ink, text: &str) {
        let (x, y) = self.slot(canvas, place);
        canvas.line(&[(x, y), (x + STROKE, y)], ink, 3.0);
        canvas.text((x + STROKE + 8.0, y), Align::Start, Type::LABEL, text);
    }

    /// The same for what is shaded.
    pub(super) fn draw_patch_key(
        &self,
        canvas: &mut Canvas<'_>,
        slot: usize,
        (ink, opacity): (Ink, f64),
        text: &str,
    ) {
        self.draw_patch(canvas, (slot, SLOT), (ink, opacity), text);
    }

    /// The same for one word.
    pub(super) fn draw_word_key(
        &self,
        canvas: &mut Canvas<'_>,
        slot: usize,
        (ink, opacity): (Ink, f64),
        word: &str,
    ) {
        self.draw_patch(canvas, (slot, WORD_SLOT), (ink, opacity), word);
    }

    fn draw_patch(
        &self,
        canvas: &mut Canvas<'_>,
        place: (usize, f64),
        (ink, opacity): (Ink, f64),
        text: &str,
    ) {
        let (x, y) = self.slot(canvas, place);
        let (top, bottom) = (y - 5.0, y + 5.0);
        let patch = [(x, top), (x + STROKE, top), (x + STROKE, bottom), (x, bottom)];
        canvas.shade(&patch, ink, opacity);
        canvas.text((x + STROKE + 8.0, y), Align::Start, Type::LABEL, text);
    }

    /// Where the entry in a slot begins, counted from the right in slots of this width.
    fn slot(&self, canvas: &mut Canvas<'_>, (slot, width): (usize, f64)) -> (f64, f64) {
        let place = (self.right - width * (slot + 1) as f64, self.top - 13.0);
        canvas.key(place, width);
        place
    }

    /// Says in the middle of an empty frame why there is no data.
    pub(super) fn draw_empty(
        canvas: &mut Canvas<'_>,
        (left, top): (f64, f64),
        (right, bottom): (f64, f64),
        heading: &str,
        message: &str,
    ) {
        canvas.text((left, top - 13.0), Align::Start, Type::HEADING, heading);
        frame(canvas, (left, top), (right, bottom));
        say(canvas, (left, top), (right, bottom), message);
    }

    /// The same in the middle of a panel that has axes.
    pub(super) fn say(&self, canvas: &mut Canvas<'_>, message: &str) {
        say(canvas, (self.left, self.top), (self.right, self.bottom), message);
    }
}

fn frame(canvas: &mut Canvas<'_>, (left, top): (f64, f64), (right, bottom): (f64, f64)) {
    let corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
    canvas.line(&corners, Ink::FRAME, 1.0);
}

fn say(
    canvas: &mut Canvas<'_>,
    (left, top): (f64, f64),
    (right, bottom): (f64, f64),
    message: &str,
) {
    let middle = (f64::midpoint(left, right), f64::midpoint(top, bottom));
    canvas.text(middle, Align::Middle, Type::MESSAGE, message);
}
