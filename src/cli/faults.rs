//! What a report says of faults and of requests without an answer.

use super::outcome::Outcome;
use crate::sim::Counts;

/// The fates that only faults and impatient clients bring, each with a comma before it.
pub(super) fn fates(counts: &Counts) -> String {
    let fates = [
        (counts.failed, "failed"),
        (counts.timed_out, "timed out"),
        (counts.aborted, "cancelled"),
        (counts.retried, "retries"),
    ];
    let met = fates.iter().filter(|(count, _)| *count > 0);
    met.flat_map(|(count, fate)| [", ".to_owned(), count.to_string(), format!(" {fate}")]).collect()
}

/// What failed in a run, in words on a line; nothing where nothing did.
pub(super) fn text(outcome: &Outcome) -> String {
    let report = outcome.recorder.fault_report();
    let mut parts = Vec::new();
    if report.crashes > 0 {
        let crashes = if report.crashes == 1 { "crash" } else { "crashes" };
        parts.push(format!(
            "{} {crashes}, replicas down for {:.1} s together",
            report.crashes, report.replica_down_s
        ));
    }
    if report.transfers_failed > 0 {
        parts.push(format!("{} KV transfers failed", report.transfers_failed));
    }
    if report.tokens_lost > 0 {
        parts.push(format!("{} tokens of answers lost", report.tokens_lost));
    }
    if parts.is_empty() { String::new() } else { format!("{}\n", parts.join("; ")) }
}
