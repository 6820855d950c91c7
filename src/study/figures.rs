//! The figures of a run by name.
//!
//! Latencies and throughputs go by the keys of vLLM's benchmark JSON (`mean_ttft_ms`,
//! `output_throughput`). Beside them: what became of the requests, the parts of the mean end-to-end
//! time ([`crate::metrics::Breakdown`]), what was computed, what it cost, and what each class of requests
//! got (`urgent.p99_ttft_ms`).

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::case::Run;
use crate::metrics::bench::{Figure, Latency, MetricKey, Statistic, Tool};
use crate::metrics::{
    Bill, Breakdown, ClassesReport, ClusterReport, ReplicaKind, RequestRecord, Status,
};
use crate::resolved::Scenario;
use crate::sim::Counts;

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    /// A latency, a cost, a loss.
    LowerIsBetter,
    /// A throughput, a share of met SLOs.
    HigherIsBetter,
    /// Neither: a size.
    Neither,
}

/// Figures by name, in the order in which they are reported.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures(Vec<(String, f64)>);

/// The percentiles that a study keeps of each latency.
const PERCENTILES: [f64; 3] = [90.0, 95.0, 99.0];

/// The parts of a mean end-to-end time, in the order of [`Breakdown::parts`].
const PARTS: [&str; Breakdown::PARTS] = [
    "mean_gateway_ms",
    "mean_api_ms",
    "mean_queued_ms",
    "mean_prefill_ms",
    "mean_decode_ms",
    "mean_preempted_ms",
    "mean_stalled_ms",
    "mean_transfer_ms",
];

/// The part that requests spent in attempts before the one that was answered, where some were sent again.
const RETRIES: &str = "mean_retries_ms";

/// What became of requests: name and count.
type Fate = (&'static str, fn(&Counts) -> u64);

const FATES: [Fate; 8] = [
    ("arrived", |counts| counts.arrived),
    ("finished", |counts| counts.finished),
    ("rejected", |counts| counts.rejected),
    ("aborted", |counts| counts.aborted),
    ("timed_out", |counts| counts.timed_out),
    ("failed", |counts| counts.failed),
    ("stuck", |counts| counts.stuck),
    ("unfinished", |counts| counts.unfinished),
];

/// Figures that count requests which were not answered in full, by what became of them.
pub const LOSSES: [&str; 6] = ["rejected", "aborted", "timed_out", "failed", "stuck", "unfinished"];

/// The figure that counts answers which an engine ended before they were over.
pub const CUT_ANSWERS: &str = "cut_answers";

/// How unevenly replicas of a kind are busy, of the kind where it is worst: the busiest over the mean.
const BUSY_IMBALANCE: &str = "busy_max_over_mean";

/// The names of all other figures.
const OTHERS: [&str; 10] = [
    CUT_ANSWERS,
    "slo_attainment",
    "cache_hit_rate",
    BUSY_IMBALANCE,
    "preemptions",
    "steps",
    "gpu_hours",
    "cost_usd",
    "usd_per_million_output_tokens",
    "energy_j",
];

/// Latencies of each class, of which a run has the mean and the 99th percentile.
const OF_CLASSES: [&str; 3] = ["ttft_ms", "tpot_ms", "e2el_ms"];

/// The figures of the benchmark tools.
fn keys() -> impl Iterator<Item = MetricKey> {
    let whole = [
        Figure::Duration,
        Figure::InputTokens,
        Figure::OutputTokens,
        Figure::RequestThroughput,
        Figure::RequestGoodput,
        Figure::OutputThroughput,
        Figure::TotalThroughput,
        Figure::Concurrency,
    ];
    let latencies = [Latency::Ttft, Latency::Tpot, Latency::Itl, Latency::E2e];
    let statistics = || {
        let percentiles = PERCENTILES.into_iter().map(Statistic::Percentile);
        [Statistic::Mean, Statistic::Median].into_iter().chain(percentiles)
    };
    let latencies = latencies.into_iter().flat_map(move |latency| {
        statistics().map(move |statistic| MetricKey::Latency(latency, statistic))
    });
    whole.into_iter().map(MetricKey::Figure).chain(latencies)
}

/// The figures that are parts of the mean end-to-end time and add up to it, in the order in which a
/// request goes through them.
pub fn parts() -> impl Iterator<Item = &'static str> {
    std::iter::once(RETRIES).chain(PARTS)
}

impl Figures {
    /// The names of all figures that a run may have.
    pub fn names() -> impl Iterator<Item = String> {
        let fates = FATES.into_iter().map(|(name, _)| name);
        let named = fates.chain(parts()).chain(OTHERS).map(str::to_owned);
        named.chain(keys().map(|key| key.name(Tool::Vllm)))
    }

    /// The names of all figures of classes that a run with these classes may have.
    pub fn names_of_classes<'a>(classes: &[&'a str]) -> impl Iterator<Item = String> + use<'a> {
        // Of one class they are those of the run.
        let classes = if classes.len() < 2 { Vec::new() } else { classes.to_vec() };
        classes.into_iter().flat_map(|class| {
            let latencies = OF_CLASSES.into_iter();
            let latencies =
                latencies.flat_map(|name| [format!("mean_{name}"), format!("p99_{name}")]);
            let others = ["finished", "slo_attainment"].map(str::to_owned);
            latencies.chain(others).map(move |name| format!("{class}.{name}"))
        })
    }

    /// The figures of a run of a scenario.
    pub fn new(scenario: &Scenario, run: &Run) -> Self {
        let mut all = Self(Vec::with_capacity(64));
        all.add_counts(run);
        all.add_benchmark(run);
        all.add_parts(run);
        all.add_work(scenario, run);
        all.add_classes(scenario, run);
        all
    }

    /// Figures that come from elsewhere.
    pub fn of<'a>(figures: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        Self(figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The figure of this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// What is no number is left out.
    fn put(&mut self, name: impl Into<String>, value: f64) {
        if value.is_finite() {
            self.0.push((name.into(), value));
        }
    }

    fn add_counts(&mut self, run: &Run) {
        for (name, of) in FATES {
            self.put(name, of(&run.counts) as f64);
        }
        self.put(CUT_ANSWERS, run.recorder.cut.answers as f64);
    }

    fn add_benchmark(&mut self, run: &Run) {
        let summary = &run.report.summary;
        // Where nothing was answered, nothing took no time.
        let has_values = |key: &MetricKey| match key {
            MetricKey::Latency(latency, _) => summary.latency(*latency).count() > 0,
            MetricKey::Figure(_) => true,
        };
        for key in keys().filter(has_values) {
            if let Some(value) = summary.metric(key) {
                self.put(key.name(Tool::Vllm), value);
            }
        }
        if let Some(goodput) = &summary.goodput {
            self.put("slo_attainment", goodput.attainment);
        }
        self.put("cache_hit_rate", summary.cache.hit_rate_pct());
    }

    fn add_parts(&mut self, run: &Run) {
        let (count, _) = run.recorder.answered();
        if count == 0 {
            return;
        }
        let lasted = |records: &[RequestRecord]| {
            let finished = records.iter().filter(|record| record.status == Status::Finished);
            finished.map(|record| record.e2e().as_nanos()).sum::<u64>()
        };
        if run.recorder.faults.has_retries() {
            let before = lasted(&run.recorder.seen()) - lasted(&run.recorder.requests);
            self.put(RETRIES, before as f64 / count as f64 / 1e6);
        }
        for (sum, name) in run.recorder.parts().into_iter().zip(PARTS) {
            self.put(name, sum as f64 / count as f64 / 1e6);
        }
    }

    /// Of each class, where there are several: `name.figure`.
    fn add_classes(&mut self, scenario: &Scenario, run: &Run) {
        let Some(report) = ClassesReport::new(&run.recorder, scenario) else { return };
        if report.classes.len() < 2 {
            return;
        }
        for class in &report.classes {
            let spreads = [class.ttft_ms, class.tpot_ms, class.e2e_ms];
            for (name, spread) in OF_CLASSES.into_iter().zip(spreads) {
                if let Some(spread) = spread {
                    self.put(format!("{}.mean_{name}", class.name), spread.mean);
                    self.put(format!("{}.p99_{name}", class.name), spread.p99);
                }
            }
            self.put(format!("{}.finished", class.name), class.finished as f64);
            if let Some(share) = class.attainment {
                self.put(format!("{}.slo_attainment", class.name), share);
            }
        }
    }

    fn add_work(&mut self, scenario: &Scenario, run: &Run) {
        let recorder = &run.recorder;
        self.put("preemptions", recorder.preemptions() as f64);
        self.put("steps", recorder.steps as f64);
        let kinds = ReplicaKind::of(scenario);
        let cluster = ClusterReport::new(recorder, &kinds);
        let several = cluster.groups.iter().filter(|group| group.replicas > 1);
        let uneven = several.filter_map(|group| group.busy_time).map(|busy| busy.max_over_mean);
        if let Some(worst) = uneven.reduce(f64::max) {
            self.put(BUSY_IMBALANCE, worst);
        }
        let bill = Bill::new(recorder, &kinds, &scenario.report);
        self.put("gpu_hours", bill.gpu_hours);
        if let Some(cost) = &bill.cost {
            self.put("cost_usd", cost.usd);
            if let Some(usd) = cost.usd_per_million_output_tokens {
                self.put("usd_per_million_output_tokens", usd);
            }
        }
        if let Some(energy) = &bill.energy {
            self.put("energy_j", energy.joules);
        }
    }
}

/// An object with the figures in their order.
impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Figures;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("figures by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Figures, A::Error> {
                let mut all = Figures::default();
                while let Some((name, value)) = map.next_entry::<String, f64>()? {
                    all.put(name, value);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Which way the figure of this name is better.
pub fn sense(name: &str) -> Sense {
    // Of a class as of all.
    match name.rsplit('.').next().unwrap_or(name) {
        "finished"
        | "request_throughput"
        | "request_goodput"
        | "output_throughput"
        | "total_token_throughput"
        | "slo_attainment"
        | "cache_hit_rate" => Sense::HigherIsBetter,
        "preemptions"
        | "busy_max_over_mean"
        | "duration"
        | "gpu_hours"
        | "cost_usd"
        | "usd_per_million_output_tokens"
        | "energy_j" => Sense::LowerIsBetter,
        lost if lost == CUT_ANSWERS || LOSSES.contains(&lost) => Sense::LowerIsBetter,
        latency if latency.ends_with("_ms") => Sense::LowerIsBetter,
        _ => Sense::Neither,
    }
}
