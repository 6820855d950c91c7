//! Which order: stepwise from simple models on to neighbours of the best one, by the information criterion of Akaike (R.
//! Hyndman and Y. Khandakar, Automatic time series forecasting, 2008), as `pmdarima.auto_arima` 2.1.1 goes.

use rustc_hash::FxHashSet;

use super::stationary::{has_roots_within, split};
use super::{Arima, MAX_DIFFERENCES, MAX_LAGS, Order, differenced, is_constant};
use crate::stats;

/// The lags of either kind that the search begins with.
const START_LAGS: usize = 2;
/// Values below which the search begins with one lag.
const FEW: usize = 10;
/// The most models that are fitted.
const MAX_FITS: usize = 100;
/// A root this near to 1 is as good as none.
const LARGEST_ROOT: f64 = 0.99;
/// The statistic of a stationary series at a level of 5 % (D. Kwiatkowski et al., Testing the null hypothesis of stationarity
/// against the alternative of a unit root, 1992, table 1).
const STATIONARY_UP_TO: f64 = 0.463;

/// The best model of a series.
pub(super) fn best(series: &[f64]) -> Option<Arima> {
    let simple = |differences: usize, has_constant: bool| {
        let order = Order { ar: 0, differences, ma: 0, has_constant };
        Arima::fitted(order, series)
    };
    if is_constant(series) {
        return simple(0, false);
    }
    let differences = differences(series);
    if is_constant(&differenced(series, differences)) {
        // Where nothing is said, pmdarima takes a word for a yes.
        return simple(differences, true);
    }
    let max_lags = MAX_LAGS.min(series.len() / 3);
    let start = START_LAGS.min(if series.len() < FEW { 1 } else { max_lags }).min(max_lags);
    let mut search = Search {
        series,
        max_lags,
        here: Order { ar: start, differences, ma: start, has_constant: differences < 2 },
        fitted: FxHashSet::default(),
        best: None,
    };
    search.begin();
    search.go_on();
    search.best
}

struct Search<'a> {
    series: &'a [f64],
    max_lags: usize,
    here: Order,
    fitted: FxHashSet<Order>,
    best: Option<Arima>,
}

impl Search<'_> {
    /// The models that it begins with.
    fn begin(&mut self) {
        let start = self.here;
        self.takes(start);
        let plain = Order { ar: 0, ma: 0, ..start };
        let max_lags = self.max_lags;
        let simple = [plain, Order { ar: 1, ..plain }, Order { ma: 1, ..plain }];
        for order in simple.into_iter().filter(|order| order.ar.max(order.ma) <= max_lags) {
            if self.takes(order) {
                self.here = order;
            }
        }
        if start.has_constant && self.takes(Order { has_constant: false, ..plain }) {
            self.here = Order { has_constant: start.has_constant, ..plain };
        }
    }

    /// To neighbours, until none is better.
    fn go_on(&mut self) {
        let mut known = 0;
        while known < self.fitted.len() && self.fitted.len() < MAX_FITS {
            known = self.fitted.len();
            let here = self.here;
            let moves = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)];
            let moved = moves.into_iter().filter_map(|(ar, ma)| {
                let lags = |now: usize, by: isize| {
                    now.checked_add_signed(by).filter(|lags| *lags <= self.max_lags)
                };
                Some(Order { ar: lags(here.ar, ar)?, ma: lags(here.ma, ma)?, ..here })
            });
            let other = Order { has_constant: !here.has_constant, ..here };
            let neighbours: Vec<Order> = moved.chain([other]).collect();
            let better = neighbours
                .into_iter()
                .find(|order| self.fitted.len() < MAX_FITS && self.takes(*order));
            self.here = better.unwrap_or(here);
        }
    }

    /// Fits an order that was not fitted yet; whether it is better than all before.
    fn takes(&mut self, order: Order) -> bool {
        if !self.fitted.insert(order) {
            return false;
        }
        let Some(model) = Arima::fitted(order, self.series).filter(is_well_within) else {
            return false;
        };
        let is_better = self.best.as_ref().is_none_or(|best| model.aic < best.aic);
        if is_better {
            self.best = Some(model);
        }
        is_better
    }
}

/// Whether its roots are far enough from 1; those of the autoregressive part only count where there is no other one.
fn is_well_within(model: &Arima) -> bool {
    let (_, ar, ma, _) = split(model.order, &model.parameters);
    let turned: Vec<f64> = ma.iter().map(|x| -x).collect();
    has_roots_within(if ma.is_empty() { ar } else { &turned }, LARGEST_ROOT)
}

/// How often differences are taken until the series is stationary.
fn differences(series: &[f64]) -> usize {
    let mut series = series.to_vec();
    for taken in 0..MAX_DIFFERENCES {
        if is_constant(&series) || is_stationary(&series) {
            return taken;
        }
        series = differenced(&series, 1);
    }
    MAX_DIFFERENCES
}

/// The test of Kwiatkowski, Phillips, Schmidt and Shin around a level, with the window of Bartlett.
fn is_stationary(series: &[f64]) -> bool {
    let n = series.len() as f64;
    let mean = stats::mean(series);
    let errors: Vec<f64> = series.iter().map(|x| x - mean).collect();
    let sums = errors.iter().scan(0.0, |sum, error| {
        *sum += error;
        Some(*sum)
    });
    let wandered = sums.map(|sum| sum * sum).sum::<f64>() / (n * n);
    let lags = (4.0 * (n / 100.0).powf(0.25)) as usize;
    let product = |lag: usize| -> f64 {
        errors.iter().skip(lag).zip(&errors).map(|(a, b)| a * b).sum::<f64>()
    };
    let weighted = |lag: usize| product(lag) * (1.0 - lag as f64 / (lags as f64 + 1.0));
    let variance = (product(0) + 2.0 * (1..=lags).map(weighted).sum::<f64>()) / n;
    wandered / variance <= STATIONARY_UP_TO
}
