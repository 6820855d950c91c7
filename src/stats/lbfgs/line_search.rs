//! How far to go along a direction: J. Moré and D. Thuente, Line search algorithms with guaranteed sufficient decrease
//! (1994).

/// Of the slope at the start, the least decrease that is enough.
const DECREASE: f64 = 1e-3;
/// Of the slope at the start, the most that may be left.
const SLOPE_LEFT: f64 = 0.9;
/// Of its upper end, the width of an interval that is searched no further.
const WIDTH: f64 = 0.1;
/// The longest step.
const LONGEST: f64 = 1e10;

/// A length, and value and slope there.
#[derive(Debug, Clone, Copy)]
struct Point {
    at: f64,
    value: f64,
    slope: f64,
}

/// A search along a direction.
#[derive(Debug)]
pub(super) struct LineSearch {
    /// The length that is tried next, or that it ended with.
    pub(super) length: f64,
    start: Point,
    /// The end of the interval with the least value, and the other one.
    best: Point,
    other: Point,
    /// Whether these two have a minimum between them.
    is_bracketed: bool,
    /// Whether it still looks for a decrease alone.
    is_first_stage: bool,
    /// Where the next length may lie.
    bounds: (f64, f64),
    /// The interval's width, and the one two lengths before.
    widths: (f64, f64),
}

impl LineSearch {
    /// From a point with such a value and slope, below 0, in the direction of a first length.
    pub(super) fn new(value: f64, slope: f64, length: f64) -> Self {
        let start = Point { at: 0.0, value, slope };
        Self {
            length,
            start,
            best: start,
            other: start,
            is_bracketed: false,
            is_first_stage: true,
            bounds: (0.0, length + 4.0 * length),
            widths: (LONGEST, 2.0 * LONGEST),
        }
    }

    /// Takes value and slope at the length that was tried; whether it ends there, or chooses the next length.
    pub(super) fn ends(&mut self, value: f64, slope: f64) -> bool {
        let here = Point { at: self.length, value, slope };
        let least_slope = DECREASE * self.start.slope;
        let enough = self.start.value + here.at * least_slope;
        if self.is_first_stage && value <= enough && slope >= 0.0 {
            self.is_first_stage = false;
        }
        let (low, high) = self.bounds;
        let is_narrow =
            self.is_bracketed && (here.at <= low || here.at >= high || high - low <= WIDTH * high);
        let is_longest = here.at >= LONGEST && value <= enough && slope <= least_slope;
        let is_shortest = here.at <= 0.0 && (value > enough || slope >= least_slope);
        let is_flat = value <= enough && slope.abs() <= SLOPE_LEFT * -self.start.slope;
        if is_narrow || is_longest || is_shortest || is_flat {
            return true;
        }
        if self.is_first_stage && value <= self.best.value && value > enough {
            // What is above the decrease that is enough.
            let lower = |point: Point, sign: f64| Point {
                at: point.at,
                value: point.value + sign * point.at * least_slope,
                slope: point.slope + sign * least_slope,
            };
            self.best = lower(self.best, -1.0);
            self.other = lower(self.other, -1.0);
            self.take(lower(here, -1.0));
            self.best = lower(self.best, 1.0);
            self.other = lower(self.other, 1.0);
        } else {
            self.take(here);
        }
        self.confine();
        false
    }

    /// The interval, or the bounds without one, after a length was chosen.
    fn confine(&mut self) {
        let (a, b) = (self.best.at, self.other.at);
        if self.is_bracketed {
            if (b - a).abs() >= 0.66 * self.widths.1 {
                self.length = a + 0.5 * (b - a);
            }
            self.widths = ((b - a).abs(), self.widths.0);
            self.bounds = (a.min(b), a.max(b));
        } else {
            let further = self.length - a;
            self.bounds = (self.length + 1.1 * further, self.length + 4.0 * further);
        }
        self.length = self.length.clamp(0.0, LONGEST);
        let (low, high) = self.bounds;
        if self.is_bracketed
            && (self.length <= low || self.length >= high || high - low <= WIDTH * high)
        {
            self.length = a;
        }
    }

    /// Chooses the next length from a cubic or a line through slopes, and takes the point into the interval.
    fn take(&mut self, here: Point) {
        let best = self.best;
        let is_opposite = here.slope * (best.slope / best.slope.abs()) < 0.0;
        let (low, high) = self.bounds;
        let away = (best.at - here.at, here.at - best.at);
        let next = if here.value > best.value {
            // A higher value: there is a minimum between the two.
            self.is_bracketed = true;
            let (theta, gamma) = cubic(best, here, true);
            let gamma = if here.at < best.at { -gamma } else { gamma };
            let share =
                ((gamma - best.slope) + theta) / (((gamma - best.slope) + gamma) + here.slope);
            let by_cubic = best.at + share * away.1;
            let falls = (best.value - here.value) / away.1 + best.slope;
            let by_parabola = best.at + (best.slope / falls) / 2.0 * away.1;
            if (by_cubic - best.at).abs() < (by_parabola - best.at).abs() {
                by_cubic
            } else {
                by_cubic + (by_parabola - by_cubic) / 2.0
            }
        } else if is_opposite {
            // A lower value and slopes of opposite signs: there is one too.
            self.is_bracketed = true;
            let (theta, gamma) = cubic(best, here, true);
            let gamma = if here.at > best.at { -gamma } else { gamma };
            let share =
                ((gamma - here.slope) + theta) / (((gamma - here.slope) + gamma) + best.slope);
            let by_cubic = here.at + share * away.0;
            let by_slopes = here.at + here.slope / (here.slope - best.slope) * away.0;
            if (by_cubic - here.at).abs() > (by_slopes - here.at).abs() {
                by_cubic
            } else {
                by_slopes
            }
        } else if here.slope.abs() < best.slope.abs() {
            // A lower value and a lesser slope of the same sign.
            let (theta, gamma) = cubic(best, here, false);
            let gamma = if here.at > best.at { -gamma } else { gamma };
            let share =
                ((gamma - here.slope) + theta) / ((gamma + (best.slope - here.slope)) + gamma);
            let by_cubic = if share < 0.0 && gamma != 0.0 {
                here.at + share * away.0
            } else if here.at > best.at {
                high
            } else {
                low
            };
            let by_slopes = here.at + here.slope / (here.slope - best.slope) * away.0;
            let is_cubic_nearer = (by_cubic - here.at).abs() < (by_slopes - here.at).abs();
            if self.is_bracketed {
                let next = if is_cubic_nearer { by_cubic } else { by_slopes };
                let furthest = here.at + 0.66 * (self.other.at - here.at);
                if here.at > best.at { next.min(furthest) } else { next.max(furthest) }
            } else {
                let next = if is_cubic_nearer { by_slopes } else { by_cubic };
                next.clamp(low.min(high), high.max(low))
            }
        } else if self.is_bracketed {
            // A lower value and no lesser slope.
            let other = self.other;
            let (theta, gamma) = cubic(other, here, true);
            let gamma = if here.at > other.at { -gamma } else { gamma };
            let share =
                ((gamma - here.slope) + theta) / (((gamma - here.slope) + gamma) + other.slope);
            here.at + share * (other.at - here.at)
        } else if here.at > best.at {
            high
        } else {
            low
        };
        if here.value > best.value {
            self.other = here;
        } else {
            if is_opposite {
                self.other = best;
            }
            self.best = here;
        }
        self.length = next;
    }
}

/// Of the cubic through two points with their slopes: the number that places its minimum, and the root of its discriminant,
/// which is above 0 where that is certain.
fn cubic(a: Point, b: Point, is_certain: bool) -> (f64, f64) {
    let theta = 3.0 * (a.value - b.value) / (b.at - a.at) + a.slope + b.slope;
    let scale = theta.abs().max(a.slope.abs()).max(b.slope.abs());
    let discriminant = (theta / scale).powi(2) - (a.slope / scale) * (b.slope / scale);
    let discriminant = if is_certain { discriminant } else { discriminant.max(0.0) };
    (theta, scale * discriminant.sqrt())
}
