//! What failed in a run, and which requests were sent again.

use std::borrow::Cow;

use serde::Serialize;

use super::record::RequestRecord;
use super::recorder::Recorder;
use crate::cluster::Stage;
use crate::engine::{Finish, Life};
use crate::ids::{InstanceId, RequestId};
use crate::sim::Occurrence;
use crate::units::{SimDuration, SimTime};

/// Counts what failed.
#[derive(Debug, Clone, Default)]
pub struct FaultLog {
    crashes: u64,
    /// Over all replicas that are up again.
    down: SimDuration,
    /// Replicas that are down, and since when.
    stopped: Vec<(InstanceId, SimTime)>,
    transfers_failed: u64,
    /// Tokens of answers that nobody got to the end.
    tokens_lost: u64,
    /// Each retry and the request that it sends again, in order.
    retries: Vec<(RequestId, RequestId)>,
}

/// What failed in a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FaultReport {
    /// Crashes of replicas.
    pub crashes: u64,
    /// Seconds of replicas that were down, until the last request left.
    pub replica_down_s: f64,
    /// KV caches that did not arrive.
    pub transfers_failed: u64,
    /// Answer tokens that came out of requests which were given up, or lost with their replica.
    pub tokens_lost: u64,
}

impl FaultLog {
    pub(super) fn hear(&mut self, at: SimTime, what: &Occurrence<'_>) {
        match *what {
            Occurrence::Crashed(instance, _) => {
                self.crashes += 1;
                self.stopped.push((instance, at));
            }
            // A broken machine that is given back is nobody's any more.
            Occurrence::Recovered(instance) | Occurrence::Scaled(instance, Stage::Off) => {
                let is_it = |(stopped, _): &(InstanceId, SimTime)| *stopped == instance;
                if let Some(place) = self.stopped.iter().position(is_it) {
                    self.down += at - self.stopped.swap_remove(place).1;
                }
            }
            Occurrence::Dropped(_, life, _) => self.tokens_lost += u64::from(life.generated),
            Occurrence::TransferFailed(..) => self.transfers_failed += 1,
            Occurrence::Retried { retry, of } => self.retries.push((retry, of)),
            _ => {}
        }
    }

    /// Whether requests were sent again.
    pub fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// Each request that was sent because another was given up, and that other, in order.
    pub fn retries(&self) -> &[(RequestId, RequestId)] {
        &self.retries
    }

    /// What failed in a run that ended at `end`.
    pub(super) fn report(&self, end: SimTime) -> FaultReport {
        // A replica may stop after the last request has left, and before a retry that never came.
        let still = self.stopped.iter().map(|(_, since)| end.max(*since) - *since);
        let down = still.fold(self.down, |sum, span| sum + span);
        FaultReport {
            crashes: self.crashes,
            replica_down_s: down.as_secs_f64(),
            transfers_failed: self.transfers_failed,
            tokens_lost: self.tokens_lost,
        }
    }

    /// The requests as their clients saw them: of one that was sent again, the last record, sent when
    /// the first was.
    pub(super) fn as_seen<'a>(&self, records: &'a [RequestRecord]) -> Cow<'a, [RequestRecord]> {
        if self.retries.is_empty() {
            return Cow::Borrowed(records);
        }
        let mut seen: Vec<Option<RequestRecord>> = records.iter().copied().map(Some).collect();
        for (retry, of) in &self.retries {
            let first = seen[of.index()].take().expect("a request is sent again once at a time");
            let last = seen[retry.index()].as_mut().expect("a retry is later than what it repeats");
            (last.arrival, last.sent) = (first.arrival, first.sent);
        }
        seen.into_iter().flatten().collect()
    }
}

impl Recorder {
    /// What failed in the run.
    pub fn fault_report(&self) -> FaultReport {
        self.faults.report(self.end)
    }

    /// A client waits no longer; what its request came to until then, if it reached an instance.
    pub(super) fn give_up(
        &mut self,
        at: SimTime,
        id: RequestId,
        life: Option<&Life>,
        finish: Finish,
    ) {
        self.tiers.left(id, false);
        let was_prefilled_elsewhere = self.handed_over.remove(&id).is_some();
        let record = self.requests.at(self.lane.place(id));
        if let Some(since) = self.gateway.gone(at, id) {
            record.sent = since;
        }
        if life.is_none() {
            record.queued = at;
        }
        if !was_prefilled_elsewhere {
            record.first_scheduled = life.and_then(|life| life.first_scheduled).unwrap_or(at);
            record.cached_tokens = life.map_or(0, |life| life.cached_tokens);
        }
        record.first_token = life.and_then(|life| life.first_token).unwrap_or(at);
        record.output_tokens = life.map_or(0, |life| life.generated);
        record.preemptions += life.map_or(0, |life| life.preemptions);
        record.stalled = SimDuration::ZERO;
        record.finish = at;
        record.status = finish.into();
        self.end = at;
    }
}
