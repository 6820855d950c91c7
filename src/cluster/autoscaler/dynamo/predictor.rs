//! What the next interval brings, from those before, as Dynamo 1.6.1 predicts it
//! (`components/src/dynamo/planner/core/load/predictors.py`).
//!
//! Zeros before anything has come are left out. `prophet` fits models with a library of its own and is refused where
//! scenarios are checked.

use crate::scenario::{DynamoPlannerConfig, LoadPredictor};
use crate::stats::arima::Arima;

/// Predicts one quantity.
#[derive(Debug, Clone)]
pub struct Predictor {
    way: Way,
    takes_log: bool,
    points: u32,
    last: f64,
}

/// How it predicts.
#[derive(Debug, Clone)]
enum Way {
    Last,
    /// From so many points on.
    Filter(Filter, u32),
    Model(Model),
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

/// An ARIMA model, whose order is searched for once and whose parameters are fitted anew to what comes.
#[derive(Debug, Clone, Default)]
struct Model {
    fitted: Option<Arima>,
    /// Whether the model is one of logarithms.
    is_of_logs: bool,
    values: Vec<f64>,
    /// So many of them it was fitted to, or could not be.
    taken: usize,
}

/// Variance of what is not known yet.
const UNKNOWN: f64 = 1000.0;
/// Values that an order is searched for with.
const MODEL_POINTS: usize = 5;

impl Predictor {
    /// Of a quantity of which nothing is known.
    pub fn new(config: &DynamoPlannerConfig) -> Self {
        let way = match config.load_predictor {
            LoadPredictor::Constant | LoadPredictor::Prophet => Way::Last,
            LoadPredictor::Arima => {
                Way::Model(Model { is_of_logs: config.load_predictor_log1p, ..Model::default() })
            }
            LoadPredictor::Kalman => {
                let filter = Filter {
                    level: 0.0,
                    trend: 0.0,
                    variances: [UNKNOWN, UNKNOWN],
                    covariance: 0.0,
                    noise: [config.kalman_q_level.max(1e-12), config.kalman_q_trend.max(1e-12)],
                    seen: config.kalman_r.max(1e-9),
                };
                Way::Filter(filter, config.kalman_min_points)
            }
        };
        Self { way, takes_log: config.load_predictor_log1p, points: 0, last: 0.0 }
    }

    /// An interval had so much of it.
    pub fn see(&mut self, value: f64) {
        let value = if value.is_finite() { value } else { 0.0 };
        if value == 0.0 && self.points == 0 {
            return;
        }
        match &mut self.way {
            Way::Last => {}
            Way::Filter(filter, _) => {
                let value = if self.takes_log { value.max(0.0).ln_1p() } else { value };
                if self.points == 0 {
                    filter.level = value;
                } else {
                    filter.go_on();
                    filter.correct(value);
                }
            }
            Way::Model(model) => model.values.push(value.max(0.0)),
        }
        self.points = self.points.saturating_add(1);
        self.last = value;
    }

    /// What the next one is to have.
    pub fn forecast(&mut self) -> f64 {
        match &mut self.way {
            Way::Filter(filter, min_points) if self.points >= *min_points => {
                let level = filter.level + filter.trend;
                let value = if self.takes_log { level.exp_m1() } else { level };
                value.max(0.0)
            }
            Way::Model(model) => model.forecast().unwrap_or(self.last),
            Way::Last | Way::Filter(..) => self.last,
        }
    }
}

impl Model {
    /// What comes next; none while there are too few values, and where no model fits.
    fn forecast(&mut self) -> Option<f64> {
        let first = *self.values.first()?;
        if self.values.len() < MODEL_POINTS {
            return None;
        }
        if self.values.iter().all(|value| value.total_cmp(&first).is_eq()) {
            return Some(first);
        }
        let taken = std::mem::replace(&mut self.taken, self.values.len());
        let is_fitted = if let Some(fitted) = &mut self.fitted {
            let further = of_space(self.is_of_logs, &self.values[taken..]);
            further.is_empty() || fitted.update(&further)
        } else {
            self.search();
            self.fitted.is_some()
        };
        let next = self.fitted.as_ref().filter(|_| is_fitted)?.next();
        Some(if self.is_of_logs { next.exp_m1() } else { next }.max(0.0))
    }

    /// Searches for an order. A model without lags gives way to one of logarithms.
    fn search(&mut self) {
        self.fitted = Arima::searched(&of_space(self.is_of_logs, &self.values));
        let has_lags = |model: &Arima| model.order().ar + model.order().ma > 0;
        if self.is_of_logs || self.fitted.as_ref().is_none_or(has_lags) {
            return;
        }
        if let Some(of_logs) = Arima::searched(&of_space(true, &self.values)) {
            self.is_of_logs = true;
            self.fitted = Some(of_logs);
        }
    }
}

/// Values as a model takes them.
fn of_space(is_of_logs: bool, values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| if is_of_logs { value.ln_1p() } else { *value }).collect()
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
