//! Requests as their clients saw them, and the one at a percentile.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::ExplainError;
use crate::ids::RequestId;
use crate::metrics::{Recorder, RequestRecord, Status};
use crate::units::SimDuration;

/// A latency of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Time to first token.
    Ttft,
    /// Mean time per output token after the first.
    Tpot,
    /// From sending to the last token.
    E2e,
}

impl Metric {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Ttft, Self::Tpot, Self::E2e];

    /// Its limit among those of SLOs, which go by the names of the tools or those of classes.
    pub(super) fn limit_among<'a>(
        self,
        limits: impl IntoIterator<Item = (&'a str, Option<f64>)>,
    ) -> Option<f64> {
        let names: &[&str] = match self {
            Self::Ttft => &["ttft"],
            Self::Tpot => &["tpot"],
            Self::E2e => &["e2el", "e2e"],
        };
        limits.into_iter().find(|(name, _)| names.contains(name)).and_then(|(_, limit)| limit)
    }

    /// As reports write it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::E2e => "E2E",
        }
    }

    /// Of a request that was answered.
    pub fn of(self, record: &RequestRecord) -> Option<SimDuration> {
        match self {
            Self::Ttft => Some(record.ttft()),
            Self::Tpot => record.tpot(),
            Self::E2e => Some(record.e2e()),
        }
    }

    /// Of all requests that were answered and have it, in ms, ascending.
    pub(super) fn sorted_ms(self, requests: &[RequestRecord]) -> Vec<f64> {
        let finished = requests.iter().filter(|record| record.status == Status::Finished);
        let mut values: Vec<f64> =
            finished.filter_map(|record| self.of(record)).map(SimDuration::as_millis_f64).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

/// A request that was answered, as its client saw it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Picked {
    /// Its number, as tables of requests give it; of several attempts, that of the last.
    pub id: RequestId,
    /// How often it was sent.
    pub attempts: u32,
    /// Its record, sent when the first attempt was.
    pub record: RequestRecord,
}

/// The requests of a run.
pub(super) struct Requests<'a> {
    recorder: &'a Recorder,
    /// Attempts by the one that came after.
    before: BTreeMap<RequestId, RequestId>,
    /// Attempts that were sent again, and as which.
    after: BTreeMap<RequestId, RequestId>,
}

impl<'a> Requests<'a> {
    pub(super) fn new(recorder: &'a Recorder) -> Self {
        let retries = recorder.faults.retries();
        let before = retries.iter().copied().collect();
        let after = retries.iter().map(|(retry, of)| (*of, *retry)).collect();
        Self { recorder, before, after }
    }

    /// The request of a number.
    pub(super) fn numbered(&self, request: u32) -> Result<Picked, ExplainError> {
        let count = self.recorder.requests.len();
        let record = self.recorder.requests.get(request as usize);
        let record = record.ok_or(ExplainError::NoSuchRequest { request, count })?;
        let refused = |why| Err(ExplainError::NotAnswered { request, why });
        if let Some(retry) = self.after.get(&RequestId(request)) {
            return refused(format!("was given up and sent again as request {}", retry.0));
        }
        let waited = record.e2e().as_secs_f64();
        match record.status {
            Status::Finished => Ok(self.seen(RequestId(request))),
            Status::Unfinished => refused("had not left when the run ended".to_owned()),
            Status::Rejected => refused("was rejected".to_owned()),
            Status::Aborted => refused(format!("was aborted by its client after {waited:.3} s")),
            Status::TimedOut => refused(format!("timed out after {waited:.3} s")),
            Status::Failed => {
                refused("failed: its replica was lost, or no replica was up".to_owned())
            }
        }
    }

    /// The request at a percentile, by nearest rank; of equal ones the later is the slower.
    pub(super) fn at(&self, metric: Metric, percentile: f64) -> Result<Picked, ExplainError> {
        let records = self.recorder.requests.iter().enumerate();
        let finished = records.filter(|(_, record)| record.status == Status::Finished);
        let seen = finished.map(|(place, _)| self.seen(RequestId::from_index(place)));
        let ranked: BTreeSet<(SimDuration, RequestId)> =
            seen.filter_map(|one| Some((metric.of(&one.record)?, one.id))).collect();
        // Multiplied first: 99.9 / 100 is a little more than 0.999.
        let rank = (percentile * ranked.len() as f64 / 100.0).ceil() as usize;
        let found = ranked.iter().nth(rank.clamp(1, ranked.len().max(1)) - 1);
        let (_, id) = found.ok_or(ExplainError::NoAnswer(metric.title()))?;
        Ok(self.seen(*id))
    }

    fn seen(&self, id: RequestId) -> Picked {
        let mut record = self.recorder.requests[id.index()];
        let (mut first, mut attempts) = (id, 1);
        while let Some(before) = self.before.get(&first) {
            (first, attempts) = (*before, attempts + 1);
        }
        let sent = &self.recorder.requests[first.index()];
        (record.arrival, record.sent) = (sent.arrival, sent.sent);
        Picked { id, attempts, record }
    }
}
