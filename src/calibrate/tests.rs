//! Fits of laws that are known.

use super::*;
use crate::calibration::{Expected, Parameter};
use crate::metrics::bench::{
    BenchInput, BenchRequest, BenchSummary, MetricKey, Outcome, TokenGaps, Tool,
};
use crate::stats::Weighted;

/// A benchmark of one request that waits and is answered by affine laws.
fn law(wait_s: f64, token_s: f64, tokens: u32) -> BenchSummary {
    let latency_s = wait_s + token_s * f64::from(tokens - 1);
    let request = BenchRequest {
        start_s: 0.0,
        ttft_s: wait_s,
        latency_s,
        prompt_tokens: 100,
        output_tokens: tokens,
        cached_tokens: 0,
        outcome: Outcome::Succeeded,
    };
    let gaps = TokenGaps::Weighted(Weighted::default());
    BenchSummary::new(BenchInput::new(latency_s, vec![request], gaps, 1.0), None)
}

fn measured(summary: &BenchSummary, names: &[&str]) -> Vec<(MetricKey, f64)> {
    let keys = names.iter().map(|name| MetricKey::parse(name).expect("it is a figure"));
    keys.map(|key| (key, summary.metric(key).expect("the summary has it"))).collect()
}

fn run<'a>(
    measured: Vec<(MetricKey, f64)>,
    simulate: impl Fn(&[f64]) -> BenchSummary + Sync + 'a,
) -> Run<'a> {
    Run {
        name: "run".to_owned(),
        tool: Tool::Vllm,
        measured,
        simulate: Box::new(move |values| Some(simulate(values))),
    }
}

fn parameter(path: &str, expected: Expected) -> Parameter {
    Parameter { path: path.to_owned(), runs: None, expected }
}

const ALL: [&str; 3] = ["duration", "mean_ttft_ms", "mean_tpot_ms"];

#[test]
fn the_law_behind_the_runs_is_found() {
    let simulate = |values: &[f64]| law(0.02 + values[0] / 1e3, 0.01 * values[1], 50);
    let parameters = [
        parameter("delay_ms", Expected::Amount { centre: 5.0, spread: 10.0 }),
        parameter("factor", Expected::Factor { centre: 1.0, spread: 0.2 }),
    ];
    let runs = [run(measured(&simulate(&[12.0, 1.15]), &ALL), simulate)];
    let fit = fit(&parameters, &runs).unwrap();
    let [delay, factor] = &fit.estimates[..] else { panic!("two parameters") };
    assert!((delay.value - 12.0).abs() < 0.3, "{delay:?}");
    assert!((factor.value - 1.15).abs() < 0.01, "{factor:?}");
    for estimate in [delay, factor] {
        let (low, high) = estimate.interval;
        assert!(low < estimate.value && estimate.value < high, "{estimate:?}");
        assert!(estimate.is_determined, "{estimate:?}");
    }
    assert!(fit.inseparable.is_empty(), "{:?}", fit.inseparable);
    assert!(fit.misfit < 0.5, "{}", fit.misfit);
    let observed = [runs[0].observed()];
    assert_eq!(super::fit::best(&parameters, &observed).unwrap(), fit.values());
}

#[test]
fn intervals_of_a_straight_law_are_those_of_the_normal_distribution() {
    // One figure with 2 % noise and a wide expectation: the logarithm of the factor is known
    // within 1.645 · 2 %.
    let simulate = |values: &[f64]| law(0.1 * values[0], 0.01, 50);
    let parameters = [parameter("factor", Expected::Factor { centre: 1.0, spread: 1.0 })];
    let runs = [run(measured(&simulate(&[1.0]), &["mean_ttft_ms"]), simulate)];
    let fit = fit(&parameters, &runs).unwrap();
    let (low, high) = fit.estimates[0].interval;
    assert!((low.ln() + 0.0329).abs() < 0.001, "{low}");
    assert!((high.ln() - 0.0329).abs() < 0.001, "{high}");
}

#[test]
fn two_parameters_that_only_occur_as_a_product_are_not_separable() {
    let simulate = |values: &[f64]| law(0.02, 0.01 * values[0] * values[1], 50);
    let factor = Expected::Factor { centre: 1.0, spread: 0.3 };
    let parameters = [parameter("weights", factor), parameter("host", factor)];
    let runs = [run(measured(&simulate(&[1.2, 1.1]), &ALL), simulate)];
    let fit = fit(&parameters, &runs).unwrap();
    let [pair] = &fit.inseparable[..] else { panic!("{:?}", fit.inseparable) };
    assert_eq!((pair.first.as_str(), pair.second.as_str()), ("weights", "host"));
    assert!(pair.correlation < -0.9);
    let product = fit.estimates[0].value * fit.estimates[1].value;
    assert!((product - 1.32).abs() < 0.02, "{product}");
}

#[test]
fn what_the_runs_do_not_touch_stays_as_expected_and_undetermined() {
    let simulate = |values: &[f64]| law(0.02 * values[0], 0.01, 50);
    let factor = Expected::Factor { centre: 1.0, spread: 0.3 };
    let parameters = [parameter("seen", factor), parameter("unseen", factor)];
    let runs = [run(measured(&simulate(&[1.2, 1.0]), &ALL), simulate)];
    let fit = fit(&parameters, &runs).unwrap();
    assert!(fit.estimates[0].is_determined);
    let unseen = &fit.estimates[1];
    assert!(!unseen.is_determined);
    assert!((unseen.value - 1.0).abs() < 1e-6, "{unseen:?}");
}

#[test]
fn runs_that_contradict_each_other_widen_the_intervals() {
    let simulate = |values: &[f64]| law(0.1 * values[0], 0.01, 50);
    let parameters = [parameter("factor", Expected::Factor { centre: 1.0, spread: 1.0 })];
    let figures = |value: f64| measured(&simulate(&[value]), &["mean_ttft_ms"]);
    let width = |a: f64, b: f64| {
        let runs = [run(figures(a), simulate), run(figures(b), simulate)];
        let (low, high) = fit(&parameters, &runs).unwrap().estimates[0].interval;
        high / low
    };
    assert!(width(1.0, 1.0) < width(0.8, 1.25));
}

#[test]
fn a_run_that_cannot_be_simulated_is_named() {
    let parameters = [parameter("factor", Expected::Factor { centre: 1.0, spread: 1.0 })];
    let runs = [Run {
        name: "broken".to_owned(),
        tool: Tool::Vllm,
        measured: measured(&law(0.1, 0.01, 5), &ALL),
        simulate: Box::new(|_| None),
    }];
    let error = fit(&parameters, &runs).unwrap_err();
    assert_eq!(error, CalibrationError::Unsimulable { run: "broken".to_owned() });
}

#[test]
fn a_step_to_where_nothing_can_be_simulated_is_not_taken() {
    // A share, of which a long first step makes more than the whole.
    let simulate = |values: &[f64]| law(0.01 + 0.1 * values[0].powi(4), 0.01, 50);
    let parameters = [parameter("efficiency", Expected::Factor { centre: 0.3, spread: 0.9 })];
    let mut run = run(measured(&simulate(&[0.9]), &ALL), simulate);
    let refused = std::sync::atomic::AtomicBool::new(false);
    run.simulate = Box::new(|values| {
        let is_share = values[0] <= 1.0;
        refused.fetch_or(!is_share, std::sync::atomic::Ordering::Relaxed);
        is_share.then(|| simulate(values))
    });
    let fit = fit(&parameters, &[run]).unwrap();
    assert!((fit.estimates[0].value - 0.9).abs() < 0.02, "{:?}", fit.estimates[0]);
    assert!(refused.into_inner(), "the test has no such step");
}

#[test]
fn nothing_to_fit_to_is_an_error() {
    let parameters = [parameter("factor", Expected::Factor { centre: 1.0, spread: 1.0 })];
    let runs = [run(Vec::new(), |_| law(0.1, 0.01, 5))];
    assert_eq!(fit(&parameters, &runs).unwrap_err(), CalibrationError::NoFigures);
    assert_eq!(fit(&[], &runs).unwrap_err(), CalibrationError::NoParameters);
}
