//! What a fit says, for people.

use std::fmt::Write;

use crate::calibrate::{Answer, Estimate, Verdict, short};
use crate::calibration::Expected;
use crate::metrics::bench::Tool;
use crate::plain::table;

pub(super) fn text(answer: &Answer, verdict: &Verdict) -> String {
    let Answer { fit, held_out, .. } = answer;
    let mut text = String::new();
    for (title, runs) in [("fitted", &fit.fitted), ("held out", held_out)] {
        for run in runs {
            let _ = writeln!(text, "# {} ({title})", run.name);
            for warning in &run.warnings {
                let _ = writeln!(text, "warning: {warning}");
            }
            match &run.comparison {
                Some(comparison) => text.push_str(&comparison.text()),
                None => text.push_str("cannot be simulated with these parameters\n"),
            }
            text.push('\n');
        }
    }
    text.push_str(&parameter_table(&fit.estimates));
    for pair in &fit.inseparable {
        let _ = writeln!(
            text,
            "{} and {} are not separable from these runs (correlation {:+.2})",
            pair.first, pair.second, pair.correlation
        );
    }
    let _ =
        writeln!(text, "misfit: {:.1} times the noise between repetitions of a run", fit.misfit);
    let runs = if held_out.is_empty() { "fitted" } else { "held-out" };
    let Verdict { within_pct, judged, misses, worst_percentile } = verdict;
    let found = match (judged, misses) {
        (0, _) => "nothing to judge".to_owned(),
        (_, 0) => format!("every duration, mean and median within {within_pct} %"),
        _ => format!("{misses} durations, means or medians off by more than {within_pct} %"),
    };
    let _ = writeln!(text, "verdict on the {runs} runs: {found}");
    if let Some((key, error)) = worst_percentile {
        let name = key.title(Tool::Vllm).replace(" (ms)", "");
        let _ =
            writeln!(text, "percentiles are not judged; the furthest off is {name}, {error:+.1} %");
    }
    text
}

/// Estimates as lines: value, interval, and what was expected.
pub(in crate::cli) fn parameter_table(estimates: &[Estimate]) -> String {
    let header = ["parameter", "value", "90 % interval", "expected", ""].map(str::to_owned);
    let rows = estimates.iter().map(|estimate| {
        let (low, high) = estimate.interval;
        vec![
            estimate.parameter.title(),
            short(estimate.value),
            format!("{} to {}", short(low), short(high)),
            expected(estimate),
            if estimate.is_determined { "" } else { "not told by these runs" }.to_owned(),
        ]
    });
    let rows: Vec<Vec<String>> = std::iter::once(header.to_vec()).chain(rows).collect();
    table(&rows, &[2, 3, 4])
}

fn expected(estimate: &Estimate) -> String {
    match estimate.parameter.expected {
        Expected::Factor { centre, spread } => {
            format!("{} within {:.0} %", short(centre), spread * 100.0)
        }
        Expected::Amount { centre, spread } => format!("{} ± {}", short(centre), short(spread)),
    }
}
