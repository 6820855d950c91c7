//! Forecasts by ARIMA models (G. Box and G. Jenkins, Time Series Analysis, 1970) whose order is searched for, as
//! `pmdarima.auto_arima` 2.1.1 searches with its defaults and statsmodels 0.15 (`SARIMAX`) fits: exact likelihood of a state
//! space model, differences included, with limited iterations. What their numbers are is told in `search.rs`,
//! `likelihood.rs` and `start.rs`.

mod likelihood;
mod search;
mod start;
mod stationary;

use likelihood::Filtered;

use super::lbfgs;

/// The most lags of either kind, and the most differences (`auto_arima`).
const MAX_LAGS: usize = 5;
const MAX_DIFFERENCES: usize = 2;
/// Iterations of a first fit (`maxiter` of `auto_arima`), and of one after further values (`ARIMA.update`).
const FIRST_ITERATIONS: u32 = 50;
const FURTHER_ITERATIONS: u32 = 5;
/// How far parameters are moved to find slopes (`MLEModel.fit`).
const DIFFERENCE: f64 = 1e-5;

/// What an ARIMA model is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Order {
    /// Values before that a value hangs on.
    pub(crate) ar: usize,
    /// How often differences are taken.
    pub(crate) differences: usize,
    /// Errors before that a value hangs on.
    pub(crate) ma: usize,
    /// Whether there is a constant.
    pub(crate) has_constant: bool,
}

impl Order {
    /// Of the constant, the autoregressive and the moving-average part and the variance.
    fn parameters(self) -> usize {
        usize::from(self.has_constant) + self.ar + self.ma + 1
    }
}

/// A model and the values that it was fitted to.
#[derive(Debug, Clone)]
pub(crate) struct Arima {
    order: Order,
    series: Vec<f64>,
    /// Constant, autoregressive and moving-average coefficients, variance of errors.
    parameters: Vec<f64>,
    /// Akaike's information criterion.
    aic: f64,
    /// What it expects next.
    next: f64,
}

impl Arima {
    /// The model of the order with the least information criterion; none if no model fits.
    pub(crate) fn searched(series: &[f64]) -> Option<Self> {
        search::best(series)
    }

    /// A model of one order.
    fn fitted(order: Order, series: &[f64]) -> Option<Self> {
        let start = start::parameters(order, series);
        Self::fitted_from(order, series.to_vec(), &start, FIRST_ITERATIONS)
    }

    fn fitted_from(order: Order, series: Vec<f64>, start: &[f64], iterations: u32) -> Option<Self> {
        let free = stationary::freed(order, start);
        let objective = |free: &[f64]| {
            let parameters = stationary::confined(order, free);
            let filtered = likelihood::filter(order, &parameters, &series);
            filtered.map_or(f64::NAN, |filtered| -filtered.log_likelihood / series.len() as f64)
        };
        let free = lbfgs::minimize(objective, &free, iterations, DIFFERENCE)?;
        let parameters = stationary::confined(order, &free);
        let Filtered { log_likelihood, next } = likelihood::filter(order, &parameters, &series)?;
        let aic = 2.0 * order.parameters() as f64 - 2.0 * log_likelihood;
        (aic.is_finite() && next.is_finite()).then_some(Self {
            order,
            series,
            parameters,
            aic,
            next,
        })
    }

    /// Takes further values, and fits the same order to all from the parameters so far; whether that succeeds. If not, the
    /// model stays what it was.
    pub(crate) fn update(&mut self, further: &[f64]) -> bool {
        let series = [&self.series, further].concat();
        let iterations = FURTHER_ITERATIONS.max(further.len() as u32 / 10);
        let updated = Self::fitted_from(self.order, series, &self.parameters, iterations);
        let is_updated = updated.is_some();
        if let Some(updated) = updated {
            *self = updated;
        }
        is_updated
    }

    /// What comes after the last value.
    pub(crate) const fn next(&self) -> f64 {
        self.next
    }

    /// Its order.
    pub(crate) const fn order(&self) -> Order {
        self.order
    }
}

/// Differences of neighbours, so many times.
fn differenced(series: &[f64], times: usize) -> Vec<f64> {
    let next = |series: Vec<f64>| series.windows(2).map(|pair| pair[1] - pair[0]).collect();
    (0..times).fold(series.to_vec(), |series, _| next(series))
}

/// Whether all values are one.
fn is_constant(series: &[f64]) -> bool {
    series.windows(2).all(|pair| pair[0].total_cmp(&pair[1]).is_eq())
}
