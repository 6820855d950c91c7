//! What the next interval brings, from those before.
//!
//! Zeros before anything has come are left out. Of Dynamo's predictors those that are written down in closed form are here;
//! `arima` and `prophet` search for models with libraries of their own and are refused where scenarios are checked.

use crate::scenario::{DynamoPlannerConfig, LoadPredictor};

/// Predicts one quantity.
#[derive(Debug, Clone)]
pub struct Predictor {
    takes_log: bool,
    min_points: u32,
    points: u32,
    last: f64,
    filter: Option<Filter>,
}

/// A Kalman filter of a level and its trend, which both wander.
#[derive(Debug, Clone)]
struct Filter {
    level: f64,
    trend: f64,
    /// Variances of level and trend, and their covariance.
    variances: [f64; 2],
    covariance: f64,
    noise: [f64; 2],
    seen: f64,
}

/// Variance of what is not known yet.
const UNKNOWN: f64 = 1000.0;

impl Predictor {
    /// Of a quantity of which nothing is known.
    pub fn new(config: &DynamoPlannerConfig) -> Self {
        let is_filter = config.load_predictor == LoadPredictor::Kalman;
        Self {
            takes_log: is_filter && config.load_predictor_log1p,
            min_points: config.kalman_min_points,
            points: 0,
            last: 0.0,
            filter: is_filter.then(|| Filter {
                level: 0.0,
                trend: 0.0,
                variances: [UNKNOWN, UNKNOWN],
                covariance: 0.0,
                noise: [config.kalman_q_level.max(1e-12), config.kalman_q_trend.max(1e-12)],
                seen: config.kalman_r.max(1e-9),
            }),
        }
    }

    /// An interval had so much of it.
    pub fn see(&mut self, value: f64) {
        let value = if value.is_finite() { value } else { 0.0 };
        if value == 0.0 && self.points == 0 {
            return;
        }
        if let Some(filter) = &mut self.filter {
            let value = if self.takes_log { value.max(0.0).ln_1p() } else { value };
            if self.points == 0 {
                filter.level = value;
            } else {
                filter.go_on();
                filter.correct(value);
            }
        }
        self.points = self.points.saturating_add(1);
        self.last = value;
    }

    /// What the next one is to have.
    pub fn next(&self) -> f64 {
        let Some(filter) = self.filter.as_ref().filter(|_| self.points >= self.min_points) else {
            return self.last;
        };
        let level = filter.level + filter.trend;
        let value = if self.takes_log { level.exp_m1() } else { level };
        value.max(0.0)
    }
}

impl Filter {
    /// An interval passes.
    fn go_on(&mut self) {
        let [level, trend] = self.variances;
        self.level += self.trend;
        self.variances =
            [level + 2.0 * self.covariance + trend + self.noise[0], trend + self.noise[1]];
        self.covariance += trend;
    }

    /// This is what it had.
    fn correct(&mut self, value: f64) {
        let [level, trend] = self.variances;
        let spread = level + self.seen;
        let gains = [level / spread, self.covariance / spread];
        let missed = value - self.level;
        self.level += gains[0] * missed;
        self.trend += gains[1] * missed;
        self.variances = [(1.0 - gains[0]) * level, trend - gains[1] * self.covariance];
        self.covariance *= 1.0 - gains[0];
    }
}
