//! All that is said of a run in one object: `summary.json`, as it is written and as it is read again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::bench::{ComparedFigure, Goodput, NonFinite};
use super::{
    AdaptersReport, BenchReport, Bill, ClassesReport, ClusterReport, ExpectedFigures, ModelsReport,
    Recorder, ReplicaKind, ScaledPool, ScalingReport, TierReport, TransferReport, Warnings,
};
use crate::engine::DraftCounts;
use crate::resolved::{KvSource, ReplicaGroup, Scenario};
use crate::scenario::MeasuredConfig;
use crate::sim::Counts;

/// What is said of a run. Equal runs give equal bytes once it is a JSON value, whose keys are sorted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The title of its scenario.
    pub name: String,
    /// The figures of the benchmark tool, by the names that the tool gives them.
    pub benchmark: Map<String, Value>,
    /// What became of its requests.
    pub requests: Counts,
    /// What was measured of the system that it is of.
    pub measured: Option<MeasuredConfig>,
    /// Measured figures beside simulated ones.
    pub comparison: Option<Vec<ComparedFigure>>,
    /// What it hangs on.
    pub warnings: Cautions,
    /// What it costs.
    pub bill: Bill,
    /// The SLOs, where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo: Option<KeptSlos>,
    /// Reports by name on what else is to be told of it: its replicas, engines, classes of requests, adapters.
    #[serde(flatten)]
    pub parts: Map<String, Value>,
}

/// What a result hangs on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cautions {
    /// In words.
    pub texts: Vec<String>,
    /// The figures behind them, as of [`Warnings`].
    pub figures: Map<String, Value>,
}

/// SLOs, and how many requests keep them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptSlos {
    /// Each by the name of its metric.
    pub limits: BTreeMap<String, KeptSlo>,
    /// The share of all requests that keep all of them.
    pub attainment: Option<f64>,
    /// Requests a second that keep all of them.
    pub goodput_per_s: Option<f64>,
}

/// An SLO, and how many requests keep it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KeptSlo {
    /// The latency that a request may have, in ms.
    pub limit_ms: f64,
    /// The share of all requests that keep it.
    pub attainment: Option<f64>,
}

impl Summary {
    /// Of a recorded run. `tails` are the reports of [`tails_of`](super::tails_of) the scenario.
    ///
    /// # Panics
    /// Never: what reports say is JSON.
    pub fn new(
        scenario: &Scenario,
        counts: &Counts,
        recorder: &Recorder,
        report: &BenchReport,
        tails: &[BenchReport],
    ) -> Self {
        let kinds = ReplicaKind::of(scenario);
        let benchmark = serde_json::from_str(&report.json(NonFinite::Null));
        let mut summary = Self {
            name: scenario.name.clone(),
            benchmark: benchmark.expect("strict benchmark JSON is an object"),
            requests: *counts,
            measured: scenario.measured.clone(),
            comparison: None,
            warnings: Cautions::default(),
            bill: Bill::new(recorder, &kinds, &scenario.report),
            slo: report.summary.goodput.as_ref().map(KeptSlos::new),
            parts: Map::new(),
        };
        summary.put("engine", Some(engine(scenario, recorder)));
        summary.put("expected", ExpectedFigures::of(scenario, report, tails));
        summary.put("cluster", Some(ClusterReport::new(recorder, &kinds)));
        summary.put("transfers", TransferReport::of(recorder, scenario));
        summary.put("adapters", AdaptersReport::new(recorder, scenario));
        summary.put("kv_tiers", TierReport::of(recorder, scenario));
        summary.put("autoscaler", autoscaler(scenario, recorder));
        let may_fail = !scenario.faults.is_empty() || scenario.workload.client.may_give_up();
        summary.put("faults", may_fail.then(|| recorder.fault_report()));
        summary.put("gateway", recorder.gateway_report());
        summary.put("models", ModelsReport::new(recorder, scenario));
        if let Some(report) = ClassesReport::new(recorder, scenario) {
            summary.put("classes", Some(report.classes));
            summary.put("fairness", report.fairness);
        }
        summary
    }

    /// Adds a report on a part of the run; nothing where there is none.
    ///
    /// # Panics
    /// When the report is no JSON.
    pub fn put(&mut self, name: &str, part: Option<impl Serialize>) {
        let part = part.map(|part| serde_json::to_value(part).expect("a report is JSON"));
        self.parts.extend(part.map(|part| (name.to_owned(), part)));
    }

    /// Adds what it hangs on.
    ///
    /// # Panics
    /// Never: the figures are an object.
    pub fn warn(&mut self, warnings: &Warnings) {
        let Value::Object(figures) = json!(warnings) else { unreachable!("a struct is an object") };
        self.warnings = Cautions { texts: warnings.texts(), figures };
    }

    /// A figure of the benchmark tool, by the tool's name for it.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.benchmark.get(name)?.as_f64()
    }
}

impl KeptSlos {
    fn new(goodput: &Goodput) -> Self {
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        let kept = &goodput.attainment_by_metric;
        let limits = goodput.slos.limits_ms().map(|(metric, limit_ms)| {
            let attainment = kept.iter().find(|(known, _)| *known == metric);
            let attainment = attainment.and_then(|(_, share)| finite(*share));
            (metric.name().to_owned(), KeptSlo { limit_ms, attainment })
        });
        Self {
            limits: limits.collect(),
            attainment: finite(goodput.attainment),
            goodput_per_s: finite(goodput.request_goodput),
        }
    }
}

fn engine(scenario: &Scenario, recorder: &Recorder) -> Value {
    let mut engine = json!({
        "steps": recorder.steps,
        "preemptions": recorder.preemptions(),
        "simulated_s": recorder.end.as_secs_f64(),
    });
    if scenario.lists_groups() {
        let listed = scenario.groups.iter().map(|one| {
            let mut listed = group(one);
            if scenario.models.len() > 1 {
                listed["model"] = json!(one.model.name);
            }
            listed
        });
        engine["groups"] = listed.collect();
    } else {
        engine["kv"] = kv(scenario.first());
    }
    if let Some(speculation) = speculation(&recorder.drafts) {
        engine["speculation"] = speculation;
    }
    engine
}

/// The gain of speculative decoding; nothing where no draft was verified.
fn speculation(drafts: &DraftCounts) -> Option<Value> {
    (!drafts.is_empty()).then(|| {
        json!({
            "verifications": drafts.verifications(),
            "draft_tokens": drafts.draft_tokens(),
            "accepted_tokens": drafts.accepted_tokens(),
            "acceptance_rate_pct": drafts.acceptance_rate_pct(),
            "acceptance_length": drafts.acceptance_length(),
            "acceptance_per_position": drafts.acceptance_per_position(),
        })
    })
}

/// Where the number of KV blocks of a replica comes from.
fn kv(group: &ReplicaGroup) -> Value {
    match group.kv {
        KvSource::Given => json!({ "source": "given" }),
        KvSource::Derived(kv) => json!({
            "source": "derived",
            "blocks": kv.blocks,
            "block_bytes": kv.block_bytes,
            "weights_bytes": kv.weights,
            "reserve_bytes": kv.reserve,
            "adapters_bytes": kv.adapters,
        }),
    }
}

/// A listed group of replicas.
fn group(group: &ReplicaGroup) -> Value {
    let mut listed = json!({
        "name": group.name(),
        "role": group.role,
        "replicas": group.replicas(),
        "gpu": group.gpu.name,
        "tensor_parallel_size": group.cluster.tensor_parallel_size,
        "kv": kv(group),
    });
    if group.cluster.pipeline_parallel_size > 1 {
        listed["pipeline_parallel_size"] = json!(group.cluster.pipeline_parallel_size);
    }
    if group.cluster.data_parallel_size > 1 {
        listed["data_parallel_size"] = json!(group.cluster.data_parallel_size);
    }
    listed
}

/// What autoscalers did: an object for that of all replicas, a list for those of groups.
fn autoscaler(scenario: &Scenario, recorder: &Recorder) -> Option<Value> {
    let pools = ScaledPool::of(scenario);
    let reports: Vec<ScalingReport> =
        pools.iter().map(|pool| ScalingReport::new(recorder, pool)).collect();
    match reports.as_slice() {
        [] => None,
        [report] if report.group.is_none() => Some(json!(report)),
        reports => Some(json!(reports)),
    }
}
