//! Laws that are known are found again.

use super::*;

const LIMITS: Limits =
    Limits { prompt_tokens: 2048, context_tokens: 8192, streams: 64, repetitions: 3 };

/// Answers of a server that prefills all prompts of a round in one step, in seconds.
fn answers(round: &Round, prefill_s: f64, gap_s: impl Fn(u32) -> f64) -> Vec<Answer> {
    let streams = 0..round.streams;
    streams
        .map(|_| {
            let mut now = prefill_s;
            let mut tokens_s = vec![now];
            for index in 1..round.output_tokens {
                now += gap_s(round.prompt_tokens + index - 1);
                tokens_s.push(now);
            }
            Answer { sent_s: 0.0, tokens_s, prompt_tokens: round.prompt_tokens }
        })
        .collect()
}

#[test]
fn a_plan_stays_within_its_limits() {
    let plan = Plan::new(&LIMITS);
    for round in &plan.rounds {
        assert!(round.streams <= LIMITS.streams, "{round:?}");
        assert!(round.prompt_tokens + round.output_tokens <= LIMITS.context_tokens, "{round:?}");
        assert!(!round.is_lone_prompt() || round.prompt_tokens <= LIMITS.prompt_tokens);
    }
    let sum: u32 = plan.rounds.iter().map(|round| round.times * round.streams).sum();
    assert_eq!(plan.requests(), u64::from(sum) * 3);
    assert!(plan.rounds.iter().any(|round| round.prompt_tokens >= 4096));
}

#[test]
fn an_affine_law_is_found_again() {
    // 5 ms on the way; steps of 4 ms + 20 µs a prompt token + 50 µs a sequence + 300 µs per 1000
    // tokens of context; 8000 µs per 10⁶ token².
    let plan = Plan::new(&LIMITS);
    let points: Vec<Point> = plan
        .rounds
        .iter()
        .filter_map(|round| {
            let (n, tokens) = (f64::from(round.streams), f64::from(round.prompt_tokens));
            let prefill = 9e-3 + 20e-6 * tokens + 8000e-12 * tokens * tokens / 2.0;
            let gap = |context: u32| 4e-3 + n * (50e-6 + 0.3e-6 * f64::from(context));
            Point::of(round, &[answers(round, prefill, gap)])
        })
        .collect();
    assert_eq!(points.len(), plan.rounds.len());
    let fit = fit_points(Law::Affine, &points).unwrap();
    let values: Vec<f64> = fit.estimates.iter().map(|estimate| estimate.value).collect();
    for (value, true_value) in values.iter().zip([5.0, 4000.0, 20.0, 50.0]) {
        assert!((value / true_value - 1.0).abs() < 0.005, "{values:?}");
    }
    for ((_, value), true_value) in fit.outside.iter().zip([300.0, 8000.0]) {
        assert!((value / true_value - 1.0).abs() < 0.005, "{:?}", fit.outside);
    }
    assert!(fit.estimates.iter().all(|estimate| estimate.is_determined));
}

#[test]
fn what_would_be_negative_is_zero_and_the_rest_is_fitted_anew() {
    // Fewer seconds at more streams: no law of ours.
    let round = |streams| Round { streams, prompt_tokens: 64, output_tokens: 40, times: 1 };
    let points: Vec<Point> = [1, 2, 4, 8]
        .iter()
        .filter_map(|n| {
            let gap = |_| 1e-2 - 1e-4 * f64::from(*n);
            Point::of(&round(*n), &[answers(&round(*n), 0.1, gap)])
        })
        .collect();
    let fit = fit_points(Law::Affine, &points).unwrap();
    let value = |path: &str| {
        let found = fit.estimates.iter().find(|estimate| estimate.parameter.path.ends_with(path));
        found.map(|estimate| estimate.value).unwrap()
    };
    assert!(value("decode_seq_us").abs() < 1e-9);
    assert!((value("base_us") / 9600.0 - 1.0).abs() < 0.03, "{}", value("base_us"));
}

#[test]
fn a_late_token_does_not_move_the_gap() {
    let round = Round { streams: 1, prompt_tokens: 64, output_tokens: 33, times: 1 };
    let mut late = answers(&round, 0.1, |_| 5e-3);
    late[0].tokens_s[10] += 4e-3;
    let point = Point::of(&round, &[late]).unwrap();
    assert!((point.measured_ms - 5.0).abs() < 1e-9, "{}", point.measured_ms);
}

#[test]
fn streams_that_never_decode_together_are_no_point() {
    let round = Round { streams: 2, prompt_tokens: 64, output_tokens: 33, times: 1 };
    let mut apart = answers(&round, 0.1, |_| 5e-3);
    apart[1].tokens_s.iter_mut().for_each(|time| *time += 10.0);
    assert_eq!(Point::of(&round, &[apart]), None);
}

#[test]
fn no_points_are_an_error() {
    assert_eq!(fit_points(Law::Affine, &[]), Err(ProbeError::NoPoints));
}
