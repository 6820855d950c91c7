//! The exact likelihood of an ARIMA model: a Kalman filter of the state space form of A. Harvey (Forecasting, Structural
//! Time Series Models and the Kalman Filter, 1989), as statsmodels 0.15 sets it up (`SARIMAX`).
//!
//! First among the states stand the level and its slope where differences are taken, of which nothing is known at first; then
//! the stationary part, which is what it is in the long run.

use std::f64::consts::TAU;

use super::stationary::split;
use super::{MAX_DIFFERENCES, MAX_LAGS, Order};

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

/// The most states: two differences, five lags and the error of now.
const MAX_STATES: usize = MAX_DIFFERENCES + MAX_LAGS + 1;

type State = [f64; MAX_STATES];
type Square = [State; MAX_STATES];

/// How states go on. What is beyond their number is 0.
struct Dynamics {
    /// States before the stationary part, and all.
    differences: usize,
    states: usize,
    transition: Square,
    /// What is added to each state in a step.
    constant: State,
    /// How an error enters each state.
    entrance: State,
    variance: f64,
}

/// Runs the filter over all values; none where a variance is no positive number.
pub(super) fn filter(order: Order, parameters: &[f64], series: &[f64]) -> Option<Filtered> {
    let dynamics = Dynamics::new(order, parameters);
    let all = 0..dynamics.states;
    let (mut state, mut spread) = dynamics.begins()?;
    let mut log_likelihood = 0.0;
    for (at, value) in series.iter().enumerate() {
        let missed = value - dynamics.seen(&state);
        // What is seen, crossed with each state.
        let mut common = State::default();
        all.clone().for_each(|i| common[i] = dynamics.seen(&spread[i]));
        let variance = dynamics.seen(&common);
        if variance.is_nan() || variance <= 0.0 {
            return None;
        }
        if at >= order.differences {
            log_likelihood -= 0.5 * (TAU.ln() + variance.ln() + missed * missed / variance);
        }
        for i in all.clone() {
            state[i] += common[i] / variance * missed;
            all.clone().for_each(|j| spread[i][j] -= common[i] * common[j] / variance);
        }
        state = dynamics.go_on(&state);
        spread = dynamics.spread_on(&spread);
    }
    Some(Filtered { log_likelihood, next: dynamics.seen(&state) })
}

impl Dynamics {
    fn new(order: Order, parameters: &[f64]) -> Self {
        let (given, ar, ma, variance) = split(order, parameters);
        let d = order.differences;
        let states = d + ar.len().max(ma.len() + 1);
        let mut transition = Square::default();
        for (row, of) in transition.iter_mut().enumerate().take(states) {
            if row < d {
                // The level and slopes go on by those above, and by what the stationary part brings.
                of[row..=d].fill(1.0);
            } else {
                of[d] = ar.get(row - d).copied().unwrap_or_default();
                if row + 1 < states {
                    of[row + 1] = 1.0;
                }
            }
        }
        let (mut constant, mut entrance) = (State::default(), State::default());
        constant[d] = given.first().copied().unwrap_or_default();
        entrance[d] = 1.0;
        entrance[d + 1..=d + ma.len()].copy_from_slice(ma);
        Self { differences: d, states, transition, constant, entrance, variance }
    }

    /// What is observed of a state.
    fn seen(&self, state: &State) -> f64 {
        state[..=self.differences].iter().sum()
    }

    fn go_on(&self, state: &State) -> State {
        let mut next = self.constant;
        (0..self.states).for_each(|i| next[i] += self.dot(&self.transition[i], state));
        next
    }

    fn spread_on(&self, spread: &Square) -> Square {
        let (mut moved, mut next) = (Square::default(), Square::default());
        for i in 0..self.states {
            (0..self.states).for_each(|j| moved[i][j] = self.dot(&self.transition[j], &spread[i]));
        }
        for (i, row) in next.iter_mut().enumerate().take(self.states) {
            for (j, to) in row.iter_mut().enumerate().take(self.states) {
                let carried: f64 =
                    (0..self.states).map(|k| self.transition[i][k] * moved[k][j]).sum();
                *to = carried + self.entrance[i] * self.entrance[j] * self.variance;
            }
        }
        next
    }

    fn dot(&self, a: &State, b: &State) -> f64 {
        a[..self.states].iter().zip(b).map(|(a, b)| a * b).sum()
    }

    /// The states before the first value, and their covariances.
    fn begins(&self) -> Option<(State, Square)> {
        let d = self.differences;
        let n = self.states - d;
        let of = |i: usize, j: usize| self.transition[d + i][d + j];
        // mean = T·mean + constant
        let equations = (0..n).map(|i| (0..n).map(|j| f64::from(i == j) - of(i, j)).collect());
        let mean = solve(equations.collect(), self.constant[d..d + n].to_vec())?;
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
        let (mut state, mut spread) = (State::default(), Square::default());
        state[d..d + n].copy_from_slice(&mean);
        (0..d).for_each(|i| spread[i][i] = UNKNOWN);
        for i in 0..n {
            (0..n).for_each(|j| spread[d + i][d + j] = covariances[place(i, j)]);
        }
        Some((state, spread))
    }
}

/// The solution of linear equations by elimination; none where they have not exactly one.
fn solve(mut rows: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
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
