//! What requests for each of several models got.

use serde::Serialize;

use super::classes::Spread;
use super::columns::{self, Line};
use super::record::{RequestRecord, Status};
use super::recorder::Recorder;
use crate::resolved::{ReplicaGroup, Scenario};
use crate::scenario::models;
use crate::units::{SimDuration, SimTime};

/// What the models of a run did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ModelsReport {
    /// The models, in the order in which classes name them.
    pub models: Vec<ModelReport>,
}

/// What a model did. Latencies and tokens are of requests answered in full; a request that was sent again
/// counts once, from when it was first sent. Rates are over the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelReport {
    /// Its name.
    pub model: String,
    /// Replicas that serve it, whatever they do of a request.
    pub replicas: u32,
    /// Their GPUs.
    pub gpus: u64,
    /// Requests that asked for it.
    pub requests: u64,
    /// Answered in full.
    pub finished: u64,
    /// Refused by the gateway or an engine.
    pub rejected: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Their output tokens.
    pub output_tokens: u64,
    /// Answered per second.
    pub requests_per_s: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
    /// Time to first token.
    pub ttft_ms: Option<Spread>,
    /// Time per output token after the first, of answers of two tokens or more.
    pub tpot_ms: Option<Spread>,
    /// End-to-end latency.
    pub e2e_ms: Option<Spread>,
}

impl ModelsReport {
    /// Of a recorded run of a scenario; nothing where all requests ask for one model.
    pub fn new(recorder: &Recorder, scenario: &Scenario) -> Option<Self> {
        if scenario.models.len() < 2 {
            return None;
        }
        let (_, model_of) = models(&scenario.workload.classes);
        let seen = recorder.seen();
        let end = if recorder.end == SimTime::ZERO { recorder.observed() } else { recorder.end };
        let mut of_model: Vec<Vec<&RequestRecord>> = vec![Vec::new(); scenario.models.len()];
        for record in seen.iter() {
            of_model[model_of[usize::from(record.class.0)].index()].push(record);
        }
        let report = |(place, records): (usize, &Vec<&RequestRecord>)| {
            let groups = scenario.groups.iter().filter(|group| group.serves.index() == place);
            let gpus = |replicas: u32, gpus: u32| u64::from(replicas) * u64::from(gpus);
            ModelReport {
                model: scenario.models[place].clone(),
                replicas: groups.clone().map(ReplicaGroup::replicas).sum(),
                gpus: groups.map(|it| gpus(it.replicas(), it.cluster.gpus_per_replica())).sum(),
                ..ModelReport::of(records, end)
            }
        };
        Some(Self { models: of_model.iter().enumerate().map(report).collect() })
    }

    /// A line for each figure with a column for each model.
    pub fn text(&self) -> String {
        let name =
            |model: &ModelReport| model.model.rsplit('/').next().unwrap_or_default().to_owned();
        let names: Vec<String> = self.models.iter().map(name).collect();
        columns::table(&format!("{} models", names.len()), &names, &self.models, &LINES)
    }
}

const LINES: [Line<ModelReport>; 12] = [
    ("GPUs", 0, |model| Some(model.gpus as f64)),
    ("requests", 0, |model| Some(model.requests as f64)),
    ("finished", 0, |model| Some(model.finished as f64)),
    ("rejected", 0, |model| Some(model.rejected as f64)),
    ("finished (req/s)", 2, |model| Some(model.requests_per_s)),
    ("output (tok/s)", 2, |model| Some(model.output_tokens_per_s)),
    ("mean TTFT (ms)", 2, |model| model.ttft_ms.map(|spread| spread.mean)),
    ("P99 TTFT (ms)", 2, |model| model.ttft_ms.map(|spread| spread.p99)),
    ("mean TPOT (ms)", 2, |model| model.tpot_ms.map(|spread| spread.mean)),
    ("P99 TPOT (ms)", 2, |model| model.tpot_ms.map(|spread| spread.p99)),
    ("mean E2E (ms)", 2, |model| model.e2e_ms.map(|spread| spread.mean)),
    ("P99 E2E (ms)", 2, |model| model.e2e_ms.map(|spread| spread.p99)),
];

impl ModelReport {
    /// All but the name and the replicas.
    fn of(records: &[&RequestRecord], end: SimTime) -> Self {
        let with = |status| records.iter().filter(move |record| record.status == status);
        let done = || with(Status::Finished);
        let spread = |of: fn(&RequestRecord) -> Option<SimDuration>| {
            let values = done().filter_map(|record| of(record));
            Spread::of(values.map(SimDuration::as_millis_f64).collect())
        };
        let sum = |of: fn(&RequestRecord) -> u32| done().map(|record| u64::from(of(record))).sum();
        let output_tokens: u64 = sum(|record| record.output_tokens);
        let finished = done().count() as u64;
        let seconds = end.as_secs_f64().max(1e-9);
        Self {
            model: String::new(),
            replicas: 0,
            gpus: 0,
            requests: records.len() as u64,
            finished,
            rejected: with(Status::Rejected).count() as u64,
            prompt_tokens: sum(|record| record.prompt_tokens),
            output_tokens,
            requests_per_s: finished as f64 / seconds,
            output_tokens_per_s: output_tokens as f64 / seconds,
            ttft_ms: spread(|record| Some(record.ttft())),
            tpot_ms: spread(RequestRecord::tpot),
            e2e_ms: spread(|record| Some(record.e2e())),
        }
    }
}
