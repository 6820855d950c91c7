//! What became of the requests of a run.

use serde::{Deserialize, Serialize};

use crate::engine::Finish;

/// Where all requests of a run ended: law L1 says that nothing is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Requests of the workload.
    pub arrived: u64,
    /// Answered in full.
    pub finished: u64,
    /// Refused by an engine.
    pub rejected: u64,
    /// Left by their clients.
    pub aborted: u64,
    /// Given up by their clients, because they took too long.
    pub timed_out: u64,
    /// Lost with their replicas, or refused because no replica was up.
    pub failed: u64,
    /// Still inside when nothing more could happen: the engine can never serve them.
    pub stuck: u64,
    /// Still under way when the clients stopped, at the end that the run was given.
    pub unfinished: u64,
    /// Of those stuck, requests inside an engine whose requests displace each other without end.
    pub displaced: u64,
    /// How often requests were sent again that were not answered. Not counted in `arrived`.
    pub retried: u64,
}

impl Counts {
    /// A request left.
    pub(super) fn leave(&mut self, finish: Finish) {
        match finish {
            Finish::Done => self.finished += 1,
            Finish::Aborted => self.aborted += 1,
            Finish::Rejected => self.rejected += 1,
            Finish::TimedOut => self.timed_out += 1,
            Finish::Failed => self.failed += 1,
        }
    }

    /// Adds the counts of others.
    pub(super) fn add(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.finished += other.finished;
        self.rejected += other.rejected;
        self.aborted += other.aborted;
        self.stuck += other.stuck;
        self.unfinished += other.unfinished;
        self.displaced += other.displaced;
        self.timed_out += other.timed_out;
        self.failed += other.failed;
        self.retried += other.retried;
    }

    /// The run is over, and so many requests have not left.
    pub(super) fn close(&mut self, left_over: u64, is_cut_off: bool) {
        if is_cut_off {
            self.unfinished = left_over;
        } else {
            self.stuck = left_over;
        }
        let Self { arrived, finished, rejected, aborted, timed_out, failed, .. } = *self;
        let left = finished + rejected + aborted + timed_out + failed;
        assert_eq!(arrived, left + left_over, "L1: no request is lost");
    }
}
