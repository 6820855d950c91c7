//! Requests that were not answered in full, which latencies say nothing of.

use std::fmt;

use serde::Serialize;

use crate::sim::Counts;

/// The share of requests from which on their loss is worth a warning.
const NOTABLE: f64 = 0.01;

/// What became of the requests of a run of which some were not answered in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Requests of the workload.
    pub arrived: u64,
    /// Answered in full: the requests that latencies are of.
    pub finished: u64,
    /// Refused by an engine or the gateway.
    pub rejected: u64,
    /// Left by their clients.
    pub aborted: u64,
    /// Given up by their clients, because they took too long.
    pub timed_out: u64,
    /// Lost with their replicas, or refused because no replica was up.
    pub failed: u64,
    /// Never served: the engine could not admit them.
    pub stuck: u64,
    /// Still under way when the clients stopped.
    pub unfinished: u64,
}

impl Losses {
    /// Those of a run; nothing where at least 99 % of the requests were answered and none was rejected.
    pub fn of(counts: &Counts) -> Option<Self> {
        let Counts { arrived, finished, rejected, aborted, timed_out, failed, .. } = *counts;
        let losses = Self {
            arrived,
            finished,
            rejected,
            aborted,
            timed_out,
            failed,
            stuck: counts.stuck,
            unfinished: counts.unfinished,
        };
        (losses.is_total() || losses.share() >= NOTABLE || rejected > 0).then_some(losses)
    }

    /// Whether no request was answered: there are no latencies then.
    pub fn is_total(&self) -> bool {
        self.finished == 0
    }

    /// The share of requests that were not answered, from 0 to 1.
    pub fn share(&self) -> f64 {
        if self.arrived == 0 { 0.0 } else { self.lost() as f64 / self.arrived as f64 }
    }

    fn lost(&self) -> u64 {
        self.arrived - self.finished
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.arrived == 0 {
            return f.write_str("no request arrived; there are no latencies");
        }
        let fates = [
            (self.rejected, "rejected"),
            (self.timed_out, "timed out"),
            (self.failed, "failed"),
            (self.aborted, "cancelled"),
            (self.stuck, "could never be served"),
            (self.unfinished, "unfinished when the client stopped"),
        ];
        let met = fates.iter().filter(|(count, _)| *count > 0);
        let met: Vec<String> = met.map(|(count, fate)| format!("{count} {fate}")).collect();
        let (arrived, finished, met) = (self.arrived, self.finished, met.join(", "));
        if self.is_total() {
            return write!(
                f,
                "none of {arrived} requests was answered ({met}); there are no latencies"
            );
        }
        let (lost, share) = (self.lost(), 100.0 * self.share());
        write!(
            f,
            "{lost} of {arrived} requests ({share:.2} %) were not answered ({met}); latencies are of \
             the {finished} that were"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(arrived: u64, finished: u64) -> Counts {
        Counts { arrived, finished, timed_out: arrived - finished, ..Counts::default() }
    }

    #[test]
    fn losses_are_told_from_one_in_a_hundred_on() {
        assert_eq!(Losses::of(&counts(1000, 991)), None);
        let told = Losses::of(&counts(1000, 990)).expect("1 % is lost").to_string();
        assert_eq!(
            told,
            "10 of 1000 requests (1.00 %) were not answered (10 timed out); latencies are of the \
             990 that were"
        );
    }

    #[test]
    fn a_run_without_an_answer_has_no_latencies() {
        let told = Losses::of(&counts(200, 0)).expect("all are lost").to_string();
        assert_eq!(
            told,
            "none of 200 requests was answered (200 timed out); there are no latencies"
        );
        let nobody = Losses::of(&Counts::default()).expect("none came").to_string();
        assert_eq!(nobody, "no request arrived; there are no latencies");
    }

    #[test]
    fn each_rejection_is_told() {
        let one = Counts { arrived: 1000, finished: 999, rejected: 1, ..Counts::default() };
        assert!(Losses::of(&one).is_some());
    }
}
