//! The exact likelihood of an ARIMA model: a Kalman filter of the state space form of A. Harvey (Forecasting, Structural
//! Time Series Models and the Kalman Filter, 1989), as statsmodels 0.15 sets it up (`SARIMAX`).
//!
//! First among the states stand the level and its slope where differences are taken, of which nothing is known at first; then
//! the stationary part, which is what it is in the long run.

use std::f64::consts::TAU;

use super::Order;
use super::stationary::split;

/// Variance of what is not known yet (`initial_variance`).
const UNKNOWN: f64 = 1e6;

/// What a filter has come to after all values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filtered {
    /// Of the values after those that only tell where the level is.
    pub(super) log_likelihood: f64,
    /// The value that is expected next.
    pub(super) next: f64,
}

/// A square matrix, row by row.
type Matrix = Vec<Vec<f64>>;

/// How states go on.
struct Dynamics {
    /// States before the stationary part.
    differences: usize,
    transition: Matrix,
    /// What is added to each state in a step.
    constant: Vec<f64>,
    /// How an error enters each state.
    entrance: Vec<f64>,
    variance: f64,
}

/// Runs the filter over all values; none where a variance is no positive number.
pub(super) fn filter(order: Order, parameters: &[f64], series: &[f64]) -> Option<Filtered> {
    let dynamics = Dynamics::new(order, parameters);
    let (mut state, mut spread) = dynamics.begins()?;
    let mut log_likelihood = 0.0;
    for (at, value) in series.iter().enumerate() {
        let missed = value - dynamics.seen(&state);
        // What is seen, crossed with each state.
        let common: Vec<f64> = spread.iter().map(|row| dynamics.seen(row)).collect();
        let variance = dynamics.seen(&common);
        if variance.is_nan() || variance <= 0.0 {
            return None;
        }
        if at >= order.differences {
            log_likelihood -= 0.5 * (TAU.ln() + variance.ln() + missed * missed / variance);
        }
        state.iter_mut().zip(&common).for_each(|(x, c)| *x += c / variance * missed);
        for (row, c) in spread.iter_mut().zip(&common) {
            row.iter_mut().zip(&common).for_each(|(x, other)| *x -= c * other / variance);
        }
        state = dynamics.go_on(&state);
        spread = dynamics.spread_on(&spread);
    }
    Some(Filtered { log_likelihood, next: dynamics.seen(&state) })
}

impl Dynamics {
    fn new(order: Order, parameters: &[f64]) -> Self {
        let (constant, ar, ma, variance) = split(order, parameters);
        let d = order.differences;
        let stationary = ar.len().max(ma.len() + 1);
        let states = d + stationary;
        let mut transition = vec![vec![0.0; states]; states];
        for (row, of) in transition.iter_mut().enumerate() {
            if row < d {
                // The level and slopes go on by those above, and by what the stationary part brings.
                of[row..=d].fill(1.0);
            } else {
                let lag = row - d;
                of[d] = ar.get(lag).copied().unwrap_or_default();
                if lag + 1 < stationary {
                    of[row + 1] = 1.0;
                }
            }
        }
        let mut added = vec![0.0; states];
        added[d] = constant.first().copied().unwrap_or_default();
        let mut entrance = vec![0.0; states];
        entrance[d] = 1.0;
        entrance[d + 1..].iter_mut().zip(ma).for_each(|(into, ma)| *into = *ma);
        Self { differences: d, transition, constant: added, entrance, variance }
    }

    /// What is observed of a state.
    fn seen(&self, state: &[f64]) -> f64 {
        state[..=self.differences].iter().sum()
    }

    fn go_on(&self, state: &[f64]) -> Vec<f64> {
        let rows = self.transition.iter().zip(&self.constant);
        rows.map(|(row, constant)| dot(row, state) + constant).collect()
    }

    fn spread_on(&self, spread: &Matrix) -> Matrix {
        let moved: Matrix = spread
            .iter()
            .map(|row| self.transition.iter().map(|of| dot(of, row)).collect())
            .collect();
        let states = self.transition.len();
        let element = |i: usize, j: usize| -> f64 {
            let carried: f64 = (0..states).map(|k| self.transition[i][k] * moved[k][j]).sum();
            carried + self.entrance[i] * self.entrance[j] * self.variance
        };
        (0..states).map(|i| (0..states).map(|j| element(i, j)).collect()).collect()
    }

    /// The states before the first value, and their covariances.
    fn begins(&self) -> Option<(Vec<f64>, Matrix)> {
        let (d, states) = (self.differences, self.transition.len());
        let n = states - d;
        let of = |i: usize, j: usize| self.transition[d + i][d + j];
        // mean = T·mean + constant
        let equations = (0..n).map(|i| (0..n).map(|j| f64::from(i == j) - of(i, j)).collect());
        let mean = solve(equations.collect(), self.constant[d..].to_vec())?;
        // P = T·P·Tᵀ + σ²·r·rᵀ, of which one half is unknown.
        let pairs: Vec<(usize, usize)> =
            (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))).collect();
        let place = |i: usize, j: usize| (i.max(j) * (i.max(j) + 1)) / 2 + i.min(j);
        let mut equations = vec![vec![0.0; pairs.len()]; pairs.len()];
        for (row, &(i, j)) in equations.iter_mut().zip(&pairs) {
            row[place(i, j)] += 1.0;
            for k in (0..n).filter(|&k| of(i, k) != 0.0) {
                for l in 0..n {
                    row[place(k, l)] -= of(i, k) * of(j, l);
                }
            }
        }
        let entrance = |i: usize| self.entrance[d + i];
        let right = pairs.iter().map(|&(i, j)| entrance(i) * entrance(j) * self.variance);
        let covariances = solve(equations, right.collect())?;
        let mut state = vec![0.0; d];
        state.extend(mean);
        let mut spread = vec![vec![0.0; states]; states];
        for i in 0..states {
            for j in 0..states {
                spread[i][j] = match (i.checked_sub(d), j.checked_sub(d)) {
                    (Some(i), Some(j)) => covariances[place(i, j)],
                    _ if i == j => UNKNOWN,
                    _ => 0.0,
                };
            }
        }
        Some((state, spread))
    }
}

/// The solution of linear equations by elimination; none where they have not exactly one.
fn solve(mut rows: Matrix, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let n = right.len();
    for at in 0..n {
        let pivot = (at..n).max_by(|&a, &b| rows[a][at].abs().total_cmp(&rows[b][at].abs()))?;
        if rows[pivot][at] == 0.0 || !rows[pivot][at].is_finite() {
            return None;
        }
        rows.swap(at, pivot);
        right.swap(at, pivot);
        for below in at + 1..n {
            let share = rows[below][at] / rows[at][at];
            if share != 0.0 {
                let (upper, lower) = rows.split_at_mut(below);
                lower[0][at..].iter_mut().zip(&upper[at][at..]).for_each(|(x, y)| *x -= share * y);
                right[below] -= share * right[at];
            }
        }
    }
    for at in (0..n).rev() {
        let known: f64 = (at + 1..n).map(|k| rows[at][k] * right[k]).sum();
        right[at] = (right[at] - known) / rows[at][at];
    }
    Some(right)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
