//! Forecasts of Dynamo's planner by ARIMA models against those of pmdarima, which the planner uses.

use serde::Deserialize;

use servecast::cluster::autoscaler::dynamo::Predictor;
use servecast::scenario::{DynamoPlannerConfig, LoadPredictor};

/// A series, and what pmdarima expects after its last values (`tests/data/forecasts/make.py`).
#[derive(Debug, Deserialize)]
struct Case {
    log1p: bool,
    /// Autoregressive lags, differences and moving-average lags, whether there is a constant, whether it is of logarithms.
    order: (u32, u32, u32, bool, bool),
    values: Vec<f64>,
    forecasts: Vec<f64>,
}

fn cases() -> Vec<Case> {
    let text = include_str!("../../data/forecasts/forecasts.json");
    serde_json::from_str(text).expect("it is a list of cases")
}

/// How far forecasts of a case are off, in parts of pmdarima's.
fn errors(case: &Case) -> Vec<f64> {
    let mut predictor = Predictor::new(&DynamoPlannerConfig {
        load_predictor: LoadPredictor::Arima,
        load_predictor_log1p: case.log1p,
        ..DynamoPlannerConfig::default()
    });
    let unasked = case.values.len() - case.forecasts.len();
    case.values[..unasked].iter().for_each(|value| predictor.see(*value));
    let asked = case.values[unasked..].iter().zip(&case.forecasts).map(|(value, theirs)| {
        predictor.see(*value);
        (predictor.forecast() - theirs).abs() / theirs.abs().max(1.0)
    });
    asked.collect()
}

/// Slopes are found by differences, so that some fits end elsewhere by the last digits of a likelihood.
#[test]
fn forecasts_are_those_of_pmdarima() {
    let cases = cases();
    let count = |has: fn(&Case) -> bool| cases.iter().filter(|case| has(case)).count();
    assert!(count(|case| case.order.0 > 0) >= 8 && count(|case| case.order.2 > 0) >= 4);
    assert!(
        count(|case| case.order.1 > 0) >= 8 && count(|case| case.order.0 + case.order.2 > 2) >= 3
    );
    assert!(count(|case| !case.order.3) >= 3 && count(|case| case.order.4) >= 8);
    let errors: Vec<Vec<f64>> = cases.iter().map(errors).collect();
    let all: Vec<f64> = errors.iter().flatten().copied().collect();
    let within = |limit: f64| all.iter().filter(|error| **error <= limit).count() * 100 / all.len();
    assert!(within(1e-5) >= 98 && within(1e-3) >= 99, "{errors:?}");
}
