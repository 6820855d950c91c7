//! Where a fit begins: conditional sums of squares (`SARIMAX.start_params` of statsmodels 0.15).

use super::stationary::has_roots_within;
use super::{Order, differenced};
use crate::stats;
use crate::stats::least_squares::{Columns, shortest_solution};

/// The least variance that a fit begins with.
const LEAST_VARIANCE: f64 = 1e-10;

/// Constant, autoregressive and moving-average coefficients and variance that a fit begins with.
pub(super) fn parameters(order: Order, series: &[f64]) -> Vec<f64> {
    let series_len = series.len();
    let series = differenced(series, order.differences);
    let regression = regression(order, &series);
    let regressors = usize::from(order.has_constant) + order.ar + order.ma;
    let (mut found, residuals) = regression.unwrap_or_else(|| {
        // Too few values: nothing but their variance is told.
        let mean = stats::mean(&series);
        let residuals = vec![0.0; 2 * order.ma].into_iter().chain(series.iter().map(|x| x - mean));
        (vec![0.0; regressors], if series.is_empty() { vec![1.0] } else { residuals.collect() })
    });
    let variance = if regressors == 0 {
        squares(&series) / series_len as f64
    } else if residuals.len() > order.ma.max(1) {
        squares(&residuals[order.ma..]) / (residuals.len() - order.ma) as f64
    } else {
        stats::std_dev(&series).powi(2)
    };
    let (_, coefficients) = found.split_at_mut(usize::from(order.has_constant));
    let (ar, ma) = coefficients.split_at_mut(order.ar);
    if !has_roots_within(ar, 1.0) {
        ar.fill(0.0);
    }
    let turned: Vec<f64> = ma.iter().map(|x| -x).collect();
    if !has_roots_within(&turned, 1.0) {
        ma.fill(0.0);
    }
    found.push(variance.max(LEAST_VARIANCE));
    found
}

/// Coefficients by least squares on values and errors before, and what they leave. Errors are those of a longer
/// autoregression. None where there are too few values.
fn regression(order: Order, series: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
    let long = 2 * order.ma;
    let first = (long + order.ma).max(order.ar);
    let errors = if order.ma > 0 {
        if long >= series.len() {
            return None;
        }
        let columns: Columns = (1..=long).map(|lag| lagged(series, lag, long)).collect();
        let explained = shortest_solution(&columns, &series[long..]);
        left(&columns, &explained, &series[long..])
    } else {
        Vec::new()
    };
    if (order.ar > 0 && order.ar >= series.len()) || (order.ma > 0 && order.ma >= errors.len()) {
        return None;
    }
    let values = series.get(first..).unwrap_or_default();
    let constant = order.has_constant.then(|| vec![1.0; values.len()]);
    let ar = (1..=order.ar).map(|lag| lagged(series, lag, first));
    let ma = (1..=order.ma).map(|lag| lagged(&errors, lag, first - long));
    let columns: Columns = constant.into_iter().chain(ar).chain(ma).collect();
    let found = shortest_solution(&columns, values);
    let residuals = left(&columns, &found, values);
    Some((found, residuals))
}

/// From a place on, the values so far before each.
fn lagged(series: &[f64], lag: usize, from: usize) -> Vec<f64> {
    (from..series.len()).map(|at| series[at - lag]).collect()
}

fn left(columns: &Columns, coefficients: &[f64], values: &[f64]) -> Vec<f64> {
    let explained = |row: usize| -> f64 {
        columns.iter().zip(coefficients).map(|(column, x)| column[row] * x).sum()
    };
    values.iter().enumerate().map(|(row, value)| value - explained(row)).collect()
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum()
}
