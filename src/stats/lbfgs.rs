//! Minimises a smooth function of a few numbers that nothing bounds: L-BFGS (J. Nocedal, Updating quasi-Newton matrices
//! with limited storage, 1980) with the line search of J. Moré and D. Thuente (1994).
//!
//! Steps, tolerances and memory are those of L-BFGS-B 3.0 where nothing is bounded, as `scipy.optimize.fmin_l_bfgs_b` calls
//! it, so that a search that is cut short ends where it does there.

mod line_search;

use std::collections::VecDeque;

use line_search::LineSearch;

use super::dot;

/// Steps whose curvature is remembered.
const MEMORY: usize = 10;
/// The largest slope that passes for none.
const SLOPE_TOLERANCE: f64 = 1e-5;
/// The least gain of a step that goes on, in units of what a float tells apart.
const GAIN_TOLERANCE: f64 = 1e7;
/// Values that one line search may ask for.
const LINE_VALUES: u32 = 20;

/// A function, and how far its arguments are moved to find slopes.
struct Objective<F> {
    value: F,
    difference: f64,
}

impl<F: FnMut(&[f64]) -> f64> Objective<F> {
    /// Its value, and its slopes by forward differences.
    fn at(&mut self, x: &[f64]) -> (f64, Vec<f64>) {
        let here = (self.value)(x);
        let mut moved = x.to_vec();
        let slopes = (0..x.len()).map(|i| {
            moved[i] = x[i] + self.difference;
            let slope = ((self.value)(&moved) - here) / (moved[i] - x[i]);
            moved[i] = x[i];
            slope
        });
        (here, slopes.collect())
    }
}

/// The argument at which `value` is least, searched from `start` on in at most so many iterations. Slopes are found by
/// moving each number by `difference`. `None` where a value or slope is no finite number.
pub(crate) fn minimize(
    value: impl FnMut(&[f64]) -> f64,
    start: &[f64],
    max_iterations: u32,
    difference: f64,
) -> Option<Vec<f64>> {
    let mut objective = Objective { value, difference };
    let mut x = start.to_vec();
    let (mut least, mut slopes) = objective.at(&x);
    let mut curvature = Curvature::default();
    for iteration in 0..max_iterations {
        if !least.is_finite() || slopes.iter().any(|slope| !slope.is_finite()) {
            return None;
        }
        if slopes.iter().all(|slope| slope.abs() <= SLOPE_TOLERANCE) {
            break;
        }
        let (length, direction, found) = loop {
            let direction = curvature.direction(&slopes);
            let slope = dot(&direction, &slopes);
            let norm = dot(&direction, &direction).sqrt();
            // Of the first direction nothing but its sense is known.
            let first = if iteration == 0 { 1.0 / norm } else { 1.0 };
            let found = along(&mut objective, (&x, &direction), (least, slope), first);
            if let Some((length, point)) = found {
                break (length, direction, point);
            }
            if curvature.pairs.is_empty() {
                return Some(x);
            }
            curvature = Curvature::default();
        };
        let (next, (value, next_slopes)) = found;
        let gain = least - value;
        let enough = f64::EPSILON * GAIN_TOLERANCE * least.abs().max(value.abs()).max(1.0);
        curvature.remember(length, &direction, &slopes, &next_slopes);
        (x, least, slopes) = (next, value, next_slopes);
        if gain <= enough {
            break;
        }
    }
    Some(x)
}

/// A point, the value there and the slopes.
type Found = (Vec<f64>, (f64, Vec<f64>));

/// The point to go to along a direction, and its distance in lengths of that; none where the search fails.
fn along<F: FnMut(&[f64]) -> f64>(
    objective: &mut Objective<F>,
    (x, direction): (&[f64], &[f64]),
    (value, slope): (f64, f64),
    first: f64,
) -> Option<(f64, Found)> {
    if slope.is_nan() || slope >= 0.0 {
        return None;
    }
    let mut search = LineSearch::new(value, slope, first);
    for _ in 0..LINE_VALUES {
        let length = search.length;
        let point: Vec<f64> = x.iter().zip(direction).map(|(x, d)| x + length * d).collect();
        let there = objective.at(&point);
        if search.ends(there.0, dot(&there.1, direction)) {
            return Some((length, (point, there)));
        }
    }
    None
}

/// What the last steps told of second derivatives.
#[derive(Debug, Default)]
struct Curvature {
    /// Steps, and how slopes changed over them.
    pairs: VecDeque<(Vec<f64>, Vec<f64>)>,
}

impl Curvature {
    /// Where to go from a point with these slopes.
    fn direction(&self, slopes: &[f64]) -> Vec<f64> {
        let mut d: Vec<f64> = slopes.iter().map(|slope| -slope).collect();
        let mut shares = Vec::with_capacity(self.pairs.len());
        for (step, change) in self.pairs.iter().rev() {
            let share = dot(step, &d) / dot(step, change);
            add(&mut d, change, -share);
            shares.push(share);
        }
        if let Some((step, change)) = self.pairs.back() {
            let scale = dot(step, change) / dot(change, change);
            d = d.iter().map(|d| scale * d).collect();
        }
        for ((step, change), share) in self.pairs.iter().zip(shares.into_iter().rev()) {
            let back = dot(change, &d) / dot(step, change);
            add(&mut d, step, share - back);
        }
        d
    }

    /// A step of such a length was made, unless it told nothing.
    fn remember(&mut self, length: f64, direction: &[f64], before: &[f64], after: &[f64]) {
        let step: Vec<f64> = direction.iter().map(|d| length * d).collect();
        let change: Vec<f64> =
            after.iter().zip(before).map(|(after, before)| after - before).collect();
        if dot(&step, &change) <= f64::EPSILON * -dot(before, &step) {
            return;
        }
        if self.pairs.len() == MEMORY {
            self.pairs.pop_front();
        }
        self.pairs.push_back((step, change));
    }
}

fn add(to: &mut [f64], what: &[f64], times: f64) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += times * what);
}

#[cfg(test)]
mod tests {
    use super::minimize;

    #[test]
    fn valleys_that_bend_are_followed_to_their_end() {
        let rosenbrock = |x: &[f64]| (1.0 - x[0]).powi(2) + 100.0 * (x[1] - x[0] * x[0]).powi(2);
        let end = minimize(rosenbrock, &[-1.2, 1.0], 200, 1e-8).expect("it is finite");
        assert!((end[0] - 1.0).abs() < 1e-3 && (end[1] - 1.0).abs() < 1e-3, "{end:?}");
    }

    #[test]
    fn no_iteration_stays_and_no_number_is_told() {
        let square = |x: &[f64]| x[0] * x[0];
        assert_eq!(minimize(square, &[3.0], 0, 1e-8), Some(vec![3.0]));
        assert_eq!(minimize(|_| f64::NAN, &[3.0], 9, 1e-8), None);
    }
}
