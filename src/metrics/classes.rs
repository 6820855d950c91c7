//! What each class of requests got.

use std::collections::BTreeMap;

use serde::Serialize;

use super::columns::{self, Line};
use super::fairness::Fairness;
use super::gateway::TurnedAway;
use super::record::{RequestRecord, Status};
use super::recorder::Recorder;
use crate::ids::ClassId;
use crate::resolved::Scenario;
use crate::scenario::ClassConfig;
use crate::stats;
use crate::units::{SimDuration, SimTime};

/// What each class got.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassesReport {
    /// The classes, in the order of the workload.
    pub classes: Vec<ClassReport>,
    /// What tenants were served, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
}

/// What a class got. Latencies are of requests answered in full; a request that was sent again counts
/// once, from when it was first sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// Whose requests these are.
    pub tenant: String,
    /// Requests that arrived.
    pub requests: u64,
    /// Answered in full.
    pub finished: u64,
    /// Turned away by the gateway, retries among them.
    pub turned_away: TurnedAway,
    /// Time to first token.
    pub ttft_ms: Option<Spread>,
    /// Time per output token after the first, of answers of two tokens or more.
    pub tpot_ms: Option<Spread>,
    /// End-to-end latency.
    pub e2e_ms: Option<Spread>,
    /// Of that, waiting at the gateway.
    pub gateway_wait_ms: Option<Spread>,
    /// SLOs.
    pub limits: BTreeMap<&'static str, Limit>,
    /// The share of all requests that met all SLOs; nothing without SLOs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attainment: Option<f64>,
    /// Requests that met all SLOs, per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_per_s: Option<f64>,
}

/// Mean and P99.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The 99th percentile.
    pub p99: f64,
}

/// An SLO.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limit {
    /// The SLO.
    pub limit_ms: f64,
    /// The share of all requests that kept it.
    pub attainment: f64,
}

impl ClassesReport {
    /// Of a recorded run of a scenario; nothing where all its requests are alike.
    pub fn new(recorder: &Recorder, scenario: &Scenario) -> Option<Self> {
        let classes = &scenario.workload.classes;
        if classes.is_empty() {
            return None;
        }
        let seen = recorder.seen();
        let end = if recorder.end == SimTime::ZERO { recorder.observed() } else { recorder.end };
        let mut of_class: Vec<Vec<&RequestRecord>> = vec![Vec::new(); classes.len()];
        for record in seen.iter() {
            of_class[usize::from(record.class.0)].push(record);
        }
        let report = |(index, class): (usize, &ClassConfig)| {
            let id = ClassId(index as u16);
            let turned_away = recorder.gateway.refused_of(id);
            let waits = Spread::of(waits_of(recorder, id));
            ClassReport::new(class, &of_class[index], waits, TurnedAway::new(turned_away), end)
        };
        Some(Self {
            classes: classes.iter().enumerate().map(report).collect(),
            fairness: Fairness::new(recorder, scenario),
        })
    }

    /// A line for each figure with a column for each class, and one of fairness.
    pub fn text(&self) -> String {
        let names: Vec<String> = self.classes.iter().map(|class| class.name.clone()).collect();
        let plural = if names.len() == 1 { "class" } else { "classes" };
        let title = format!("{} {plural}", names.len());
        let text = columns::table(&title, &names, &self.classes, &LINES);
        text + &self.fairness.as_ref().map(Fairness::text).unwrap_or_default()
    }
}

const LINES: [Line<ClassReport>; 13] = [
    ("requests", 0, |class| Some(class.requests as f64)),
    ("finished", 0, |class| Some(class.finished as f64)),
    ("turned away", 0, |class| Some(class.turned_away.total() as f64)),
    ("mean TTFT (ms)", 2, |class| class.ttft_ms.map(|spread| spread.mean)),
    ("P99 TTFT (ms)", 2, |class| class.ttft_ms.map(|spread| spread.p99)),
    ("mean TPOT (ms)", 2, |class| class.tpot_ms.map(|spread| spread.mean)),
    ("P99 TPOT (ms)", 2, |class| class.tpot_ms.map(|spread| spread.p99)),
    ("mean E2E (ms)", 2, |class| class.e2e_ms.map(|spread| spread.mean)),
    ("P99 E2E (ms)", 2, |class| class.e2e_ms.map(|spread| spread.p99)),
    ("mean wait at gateway (ms)", 2, |class| class.gateway_wait_ms.map(|spread| spread.mean)),
    ("P99 wait at gateway (ms)", 2, |class| class.gateway_wait_ms.map(|spread| spread.p99)),
    ("keep all limits (%)", 2, |class| class.attainment.map(|share| 100.0 * share)),
    ("goodput (req/s)", 2, |class| class.goodput_per_s),
];

impl ClassReport {
    fn new(
        class: &ClassConfig,
        records: &[&RequestRecord],
        waits: Option<Spread>,
        turned_away: TurnedAway,
        end: SimTime,
    ) -> Self {
        let done = |record: &&&RequestRecord| record.status == Status::Finished;
        let spread = |of: fn(&RequestRecord) -> Option<SimDuration>| {
            let values = records.iter().filter(done).filter_map(|record| of(record));
            Spread::of(values.map(SimDuration::as_millis_f64).collect())
        };
        let all = records.len().max(1) as f64;
        let given: Vec<(&'static str, f64)> =
            class.limits_ms().into_iter().filter_map(|(name, ms)| Some((name, ms?))).collect();
        let count = |keeps: &dyn Fn(&RequestRecord) -> bool| {
            records.iter().filter(done).filter(|record| keeps(record)).count() as f64
        };
        let good = count(&|record| given.iter().all(|limit| keeps(record, *limit)));
        let has_slos = !given.is_empty();
        let limits = given.iter().map(|&limit| {
            let attainment = count(&|record| keeps(record, limit)) / all;
            (limit.0, Limit { limit_ms: limit.1, attainment })
        });
        Self {
            name: class.name.clone(),
            tenant: class.tenant().to_owned(),
            requests: records.len() as u64,
            finished: records.iter().filter(done).count() as u64,
            turned_away,
            ttft_ms: spread(|record| Some(record.ttft())),
            tpot_ms: spread(RequestRecord::tpot),
            e2e_ms: spread(|record| Some(record.e2e())),
            gateway_wait_ms: waits,
            limits: limits.collect(),
            attainment: has_slos.then_some(good / all),
            goodput_per_s: has_slos.then(|| good / end.as_secs_f64().max(1e-9)),
        }
    }
}

/// The waits at the gateway of the requests of a class that were answered in full, in ms.
fn waits_of(recorder: &Recorder, class: ClassId) -> Vec<f64> {
    let records = recorder.requests.iter().enumerate();
    let answered =
        records.filter(|(_, record)| record.class == class && record.status == Status::Finished);
    answered.map(|(place, _)| recorder.gateway_wait_of(place).as_millis_f64()).collect()
}

/// Whether an answer meets an SLO; one of a single token keeps every time per token.
pub(super) fn keeps(record: &RequestRecord, (name, limit_ms): (&str, f64)) -> bool {
    let latency = match name {
        "ttft" => record.ttft(),
        "tpot" => record.tpot().unwrap_or(SimDuration::ZERO),
        _ => record.e2e(),
    };
    latency.as_millis_f64() <= limit_ms
}

impl Spread {
    pub(super) fn of(values: Vec<f64>) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let values = stats::Values::new(values);
        let sorted = values.sorted();
        Some(Self { mean: stats::mean(sorted), p99: stats::percentile_sorted(sorted, 99.0) })
    }
}
