//! One experiment: requests and their measured times from tables, an engine from a file.
//!
//! Every row of the tables is a request. Tables are read side by side, row by row, so that lengths
//! may lie in one file and times in another. Which column is what says `[requests.columns]`, where
//! keys carry the unit of their column: `arrival_s`, `ttft_ms`.

mod content;
mod load;
mod rows;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde::{Deserialize, Deserializer};

#[cfg(feature = "calibrate")]
pub(crate) use self::load::Loaded;
pub use self::load::experiments;
use self::rows::Row;
use super::case::{Case, Limits};
use crate::ids::AdapterId;
use crate::io::columns::Table;
use crate::metrics::bench::{
    BenchInput, BenchRequest, BenchSummary, Latency, MetricKey, Outcome, TokenGaps,
};
use crate::request::Request;
use crate::resolved::Scenario;
use crate::rng::Seed;
use crate::scenario::{
    ClientConfig, ClusterConfig, ReportConfig, ReportFormat, ScenarioFile, WorkloadConfig,
};
use crate::stats::Weighted;
use crate::units::{SimDuration, SimTime};

/// An experiment as it is typed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// A title.
    pub name: String,
    /// Where the measurement comes from.
    #[serde(default)]
    pub source: Option<String>,
    /// The requests and what was measured of them.
    pub requests: RequestsConfig,
    /// How the client sends.
    #[serde(default)]
    pub client: ClientConfig,
    /// The engine, as in a scenario.
    pub cluster: ClusterConfig,
    /// Largest errors in percent; without any, nothing is judged.
    #[serde(default)]
    pub limits: Limits,
    /// Whether a calibration scores the run instead of fitting to it.
    #[serde(default)]
    pub hold_out: bool,
}

/// Where the requests are.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestsConfig {
    /// Tables of the requests, relative to the experiment file, read side by side.
    pub files: Vec<String>,
    /// Which column is what.
    pub columns: BTreeMap<String, String>,
    /// Only rows whose column has this value: a text, a number or a switch.
    #[serde(default, deserialize_with = "as_texts")]
    pub keep: BTreeMap<String, String>,
    /// Answer tokens of every request, where the client counted others.
    #[serde(default)]
    pub output_tokens: Option<u32>,
    /// Tokens of a block of `hash_ids`.
    #[serde(default)]
    pub hash_block_tokens: Option<u32>,
    /// Prompts that repeat in order.
    #[serde(default)]
    pub repeat: Option<Repeat>,
}

/// Prompts that repeat in order: row i has the prompt of row i − `prompts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// Distinct prompts.
    pub prompts: u32,
    /// Tokens at the beginning that several prompts in a row share.
    #[serde(default)]
    pub shared_tokens: u32,
    /// How many prompts in a row share them.
    #[serde(default = "one")]
    pub shared_by: u32,
}

fn one() -> u32 {
    1
}

/// Values as tables hold them.
fn as_texts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Cell {
        Text(String),
        Switch(bool),
        Whole(i64),
        Number(f64),
    }
    let text = |cell| match cell {
        Cell::Text(text) => text,
        Cell::Switch(on) => on.to_string(),
        Cell::Whole(number) => number.to_string(),
        Cell::Number(number) => number.to_string(),
    };
    let cells = BTreeMap::<String, Cell>::deserialize(from)?;
    Ok(cells.into_iter().map(|(column, cell)| (column, text(cell))).collect())
}

/// A longer load is no measurement; three years.
const LONGEST_S: f64 = 1e8;

/// A measured request.
#[expect(clippy::struct_field_names, reason = "names end in their unit")]
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// When the client sent it, after the first arrival.
    pub(super) start_s: f64,
    pub(super) ttft_s: Option<f64>,
    pub(super) e2e_s: f64,
}

/// The requests of an experiment in order of arrival, and what was measured of them.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The requests; the first arrival is time zero.
    pub requests: Vec<Request>,
    /// The figures of their measured times.
    pub measured: Vec<(MetricKey, f64)>,
    /// What had to be assumed.
    pub assumed: Vec<&'static str>,
}

impl Experiment {
    /// Its requests; `tables` are those of its files.
    ///
    /// # Errors
    /// The column or the rule that is broken.
    pub fn sent(&self, tables: &[Table]) -> Result<Sent, String> {
        self.limits.check()?;
        let rows = rows::read(&self.requests, tables)?;
        let origin = rows.iter().map(|row| row.arrival_s).fold(f64::INFINITY, f64::min);
        let mut sent: Vec<(Request, Times)> = Vec::with_capacity(rows.len());
        let mut adapters: BTreeMap<String, AdapterId> = BTreeMap::new();
        let mut contents = content::Contents::new(&self.requests)?;
        for row in &rows {
            let output_tokens = self.requests.output_tokens.or(row.output_tokens);
            let output_tokens = output_tokens.ok_or_else(|| {
                "requests: give `output_tokens`, or a column of that name".to_owned()
            })?;
            let after_s = row.arrival_s - origin;
            if !(0.0..=LONGEST_S).contains(&after_s) {
                return Err(format!(
                    "requests: row {}: arrives {after_s} s after the first: is its unit right?",
                    row.place + 1
                ));
            }
            let arrival = SimTime::ZERO + SimDuration::from_secs_f64(after_s);
            let mut request = Request::new(arrival, row.prompt_tokens.max(1), output_tokens.max(1));
            request.content = contents.of(row.place, row)?;
            if let Some(name) = &row.adapter {
                let next = AdapterId::from_index(adapters.len());
                request.adapter = Some(*adapters.entry(name.clone()).or_insert(next));
            }
            let Row { ttft_s, e2e_s, .. } = *row;
            let start_s = row.sent_s.map_or(after_s, |sent_s| sent_s - origin);
            sent.push((request, Times { start_s, ttft_s, e2e_s }));
        }
        sent.sort_by_key(|(request, _)| request.arrival);
        if rows.iter().all(|row| row.sent_s.is_none()) {
            hold_back(&mut sent, &self.client);
        }
        let mut assumed = Vec::new();
        if !adapters.is_empty() {
            assumed.push("adapters: slots are kept, kernels and loads take no time");
        }
        Ok(Sent {
            measured: measured(&sent, &self.limits)?,
            requests: sent.into_iter().map(|(request, _)| request).collect(),
            assumed,
        })
    }

    /// The run of this experiment, in the scenario that [`scenario_file`](Self::scenario_file)
    /// resolves to.
    pub fn case(self, sent: Sent, scenario: Scenario) -> Case {
        Case {
            id: self.name.clone(),
            family: self.name,
            scenario,
            requests: Some(sent.requests),
            measured: sent.measured,
            limits: self.limits,
            assumed: sent.assumed,
        }
    }

    /// The engine and the client, with a workload that is not drawn.
    pub fn scenario_file(&self, requests: usize) -> ScenarioFile {
        scenario_file(&self.name, (requests, self.client), self.cluster.clone())
    }
}

/// A cluster and a client, with so many requests that are not drawn.
pub(super) fn scenario_file(
    name: &str,
    (requests, client): (usize, ClientConfig),
    cluster: ClusterConfig,
) -> ScenarioFile {
    ScenarioFile {
        name: name.to_owned(),
        seed: Seed::default(),
        trace: None,
        workload: WorkloadConfig {
            client,
            ..WorkloadConfig::at_once(u32::try_from(requests).ok())
        },
        cluster,
        report: ReportConfig { format: Some(ReportFormat::Vllm), ..ReportConfig::default() },
        faults: Vec::new(),
        measured: None,
    }
}

/// When a client that lets so many requests into flight sends each of them: as it arrives, or when an answer
/// has made room, first come, first sent.
fn hold_back(sent: &mut [(Request, Times)], client: &ClientConfig) {
    let Some(most) = client.max_concurrency else { return };
    // Whole nanoseconds, which are in order.
    let mut free: BinaryHeap<Reverse<SimTime>> = BinaryHeap::new();
    for (request, times) in sent {
        let mut start = request.arrival;
        if free.len() >= most as usize
            && let Some(Reverse(at)) = free.pop()
        {
            start = start.max(at);
        }
        times.start_s = start.as_secs_f64();
        let held = SimDuration::from_secs_f64(times.e2e_s + client.think_time_s);
        free.push(Reverse(start + held));
    }
}

/// The figures of the measured times: the usual ones, and those that have a limit.
fn measured(sent: &[(Request, Times)], limits: &Limits) -> Result<Vec<(MetricKey, f64)>, String> {
    let limited = limits.keys();
    let names: Vec<&str> =
        FIGURES.into_iter().chain(limited.iter().map(|(name, _)| *name)).collect();
    let found = figures(sent, &names);
    let lost = limited.iter().find(|(_, key)| found.iter().all(|(have, _)| have != key));
    match lost {
        Some((name, _)) => Err(format!("limits.{name}: these requests do not tell it")),
        None => Ok(found),
    }
}

/// What experiments tell.
const FIGURES: [&str; 14] = [
    "request_throughput",
    "output_throughput",
    "mean_ttft_ms",
    "median_ttft_ms",
    "p90_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "p90_tpot_ms",
    "p99_tpot_ms",
    "mean_e2el_ms",
    "median_e2el_ms",
    "p90_e2el_ms",
    "p99_e2el_ms",
];

/// Those of these figures that measured times tell, by the definitions of the benchmark tools.
pub(super) fn figures(sent: &[(Request, Times)], names: &[&str]) -> Vec<(MetricKey, f64)> {
    let bench = |(request, times): &(Request, Times)| BenchRequest {
        start_s: times.start_s,
        ttft_s: times.ttft_s.unwrap_or(times.e2e_s),
        latency_s: times.e2e_s,
        prompt_tokens: request.prompt_tokens,
        output_tokens: request.output_tokens,
        cached_tokens: 0,
        outcome: Outcome::Succeeded,
    };
    let requests: Vec<BenchRequest> = sent.iter().map(bench).collect();
    let ends = requests.iter().map(|request| request.start_s + request.latency_s);
    let duration_s = ends.fold(0.0, f64::max);
    let gaps = TokenGaps::Weighted(Weighted::default());
    let summary = BenchSummary::new(BenchInput::new(duration_s, requests, gaps, 0.0), None);
    let has_ttft = sent.iter().all(|(_, times)| times.ttft_s.is_some());
    let mut keys: Vec<MetricKey> = names.iter().filter_map(|name| MetricKey::parse(name)).collect();
    keys.sort_by(|a, b| a.place().total_cmp(&b.place()));
    keys.dedup();
    let is_known = |key: &MetricKey| match key {
        MetricKey::Latency(Latency::Ttft | Latency::Tpot, _) => has_ttft,
        _ => true,
    };
    let value = |key: MetricKey| Some((key, summary.metric(key)?));
    let known = keys.into_iter().filter(is_known);
    known.filter_map(value).filter(|(_, value)| *value > 0.0).collect()
}

#[cfg(test)]
mod tests;
