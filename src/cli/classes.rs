//! What a report says of models, of classes and of the gateway.

use super::outcome::Outcome;
use crate::metrics::{ClassesReport, GatewayReport, ModelsReport};

/// What each model and each class got, and what happened at the gateway; nothing where there are none.
pub(super) fn text(outcome: &Outcome) -> String {
    let gateway = outcome.recorder.gateway_report().map(|report| gateway_text(&report));
    let classes = ClassesReport::new(&outcome.recorder, &outcome.scenario);
    let classes = classes.map(|report| report.text());
    let models = ModelsReport::new(&outcome.recorder, &outcome.scenario);
    let models = models.map(|report| report.text());
    gateway.unwrap_or_default() + &models.unwrap_or_default() + &classes.unwrap_or_default()
}

fn gateway_text(report: &GatewayReport) -> String {
    let turned_away = report.turned_away;
    let reasons = [
        (turned_away.full, "as too many waited"),
        (turned_away.rate_limit, "by the rate limit"),
        (turned_away.deadline, "after the deadline"),
        (turned_away.no_replica, "as no replica was up"),
    ];
    let met = reasons.iter().filter(|(count, _)| *count > 0);
    let met: Vec<String> = met.map(|(count, reason)| format!("{count} {reason}")).collect();
    let met = if met.is_empty() { "nobody".to_owned() } else { met.join(", ") };
    format!(
        "Gateway: {:.1} requests waiting on average, {} at most, {:.2} ms each; turned away: {met}\n",
        report.waiting_mean, report.waiting_peak, report.wait_mean_ms
    )
}
