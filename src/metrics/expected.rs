//! Where servers are of which nothing was measured.
//!
//! What servers of a class have of a figure is known as parts of what the typical one has ([`Prior::interval`]). Where
//! requests come at their own pace, a slow server also has longer queues than the typical one: there, the intervals hold the
//! figures of a slow and a fast server too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::BenchReport;
use super::bench::{Figure, Latency, MetricKey, Statistic};
use crate::resolved::{Prior, Quantity, Scenario, ServerClass, Unstated};
use crate::scenario::ArrivalConfig;

/// Figures whose intervals are told in words.
const TOLD: [MetricKey; 3] = [
    MetricKey::Figure(Figure::OutputThroughput),
    MetricKey::Latency(Latency::Ttft, Statistic::Mean),
    MetricKey::Latency(Latency::Tpot, Statistic::Mean),
];

/// Figures whose intervals are written.
const WRITTEN: [MetricKey; 8] = [
    MetricKey::Figure(Figure::RequestThroughput),
    MetricKey::Figure(Figure::OutputThroughput),
    MetricKey::Figure(Figure::TotalThroughput),
    MetricKey::Latency(Latency::Ttft, Statistic::Mean),
    MetricKey::Latency(Latency::Ttft, Statistic::Median),
    MetricKey::Latency(Latency::Ttft, Statistic::Percentile(99.0)),
    MetricKey::Latency(Latency::Tpot, Statistic::Mean),
    MetricKey::Latency(Latency::Tpot, Statistic::Median),
];

/// Where the figures of nine of ten servers are that are like those of a run, of which nothing was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpectedFigures {
    /// The class of the servers.
    pub class: String,
    /// Which of them were simulated: `typical`, `slow` or `fast`; nothing of servers that were drawn.
    #[serde(default)]
    pub servers: Option<String>,
    /// The lower and the upper end, by the benchmark tool's names of figures; none unless the typical ones were
    /// simulated, and with them the tails where there are some.
    pub interval_90: BTreeMap<String, [f64; 2]>,
}

impl Prior {
    /// Where nine of ten servers are, of which one value was simulated; nothing for figures of which too little
    /// is known.
    pub fn interval(&self, key: MetricKey, simulated: f64) -> Option<[f64; 2]> {
        let quantity = match key {
            MetricKey::Figure(
                Figure::RequestThroughput
                | Figure::InputThroughput
                | Figure::OutputThroughput
                | Figure::TotalThroughput,
            ) => Quantity::Throughput,
            MetricKey::Latency(Latency::Ttft, Statistic::Mean | Statistic::Median) => {
                Quantity::Ttft
            }
            MetricKey::Latency(Latency::Ttft, Statistic::Percentile(_)) => Quantity::TailTtft,
            MetricKey::Latency(Latency::Tpot, Statistic::Mean | Statistic::Median) => {
                Quantity::Tpot
            }
            _ => return None,
        };
        self.ratios(quantity).map(|ratios| ratios.map(|ratio| ratio * simulated))
    }
}

/// The class that all servers of a scenario are of, where it was expected of all, and what they are like.
fn class_of(scenario: &Scenario) -> Option<(ServerClass, Unstated)> {
    let first = scenario.first();
    let class = first.class?;
    scenario.groups.iter().all(|group| group.class == Some(class)).then_some((class, first.server))
}

/// Whether servers decide how many requests there are in a second, and not who sends them.
fn is_paced_by_servers(scenario: &Scenario) -> bool {
    let workload = &scenario.workload;
    workload.client.max_concurrency.is_some()
        || matches!(workload.arrivals, ArrivalConfig::AllAtOnce {})
}

/// The scenario with a fast and with a slow server, whose figures say how far servers of the class are apart; nothing where
/// typical servers are not what it simulates, and where requests wait for answers.
pub fn tails_of(scenario: &Scenario) -> Option<[Scenario; 2]> {
    let tails = [Unstated::FAST, Unstated::SLOW];
    has_tails(scenario).then(|| tails.map(|server| scenario.with_servers(server)))
}

fn has_tails(scenario: &Scenario) -> bool {
    let is_typical = class_of(scenario).is_some_and(|(_, server)| server == Unstated::TYPICAL);
    is_typical && !is_paced_by_servers(scenario)
}

/// Whether the slow one of the tails leaves more than one in a hundred unanswered of those that the typical one answers: then
/// latencies are those of the others.
fn loses_requests(report: &BenchReport, tails: &[BenchReport]) -> bool {
    let answered = |report: &BenchReport| report.summary.completed as f64;
    tails.last().is_some_and(|slow| answered(slow) < 0.99 * answered(report))
}

/// Where a figure of nine of ten servers is, from that of the typical one and those of the tails.
pub fn interval_of(
    class: ServerClass,
    report: &BenchReport,
    tails: &[BenchReport],
    key: MetricKey,
) -> Option<[f64; 2]> {
    let figure = |report: &BenchReport| report.summary.metric(key).filter(|one| one.is_finite());
    let [low, high] = class.prior().interval(key, figure(report)?)?;
    if loses_requests(report, tails) {
        return None;
    }
    let of_tails = tails.iter().filter_map(figure);
    Some(of_tails.fold([low, high], |[low, high], one| [low.min(one), high.max(one)]))
}

fn intervals<'a>(
    class: ServerClass,
    scenario: &Scenario,
    (report, tails): (&'a BenchReport, &'a [BenchReport]),
    keys: &'a [MetricKey],
) -> impl Iterator<Item = (MetricKey, [f64; 2])> + 'a {
    let has_throughput = is_paced_by_servers(scenario);
    keys.iter().filter_map(move |key| {
        if matches!(key, MetricKey::Figure(_)) && !has_throughput {
            return None;
        }
        Some((*key, interval_of(class, report, tails, *key)?))
    })
}

impl ExpectedFigures {
    /// The servers of the class in words.
    pub fn servers_of_class(&self) -> String {
        let unknown = || format!("servers of the class `{}`", self.class);
        ServerClass::named(&self.class).map_or_else(unknown, |class| class.servers().to_owned())
    }

    /// Of a run of servers that are all of one class; nothing where a scenario says how long steps take. `tails` are the
    /// reports of [`tails_of`] the scenario.
    pub fn of(scenario: &Scenario, report: &BenchReport, tails: &[BenchReport]) -> Option<Self> {
        let (class, server) = class_of(scenario)?;
        let servers = server.word().map(str::to_owned);
        let class_name = class.name().to_owned();
        if server != Unstated::TYPICAL || (has_tails(scenario) && tails.is_empty()) {
            return Some(Self { class: class_name, servers, interval_90: BTreeMap::new() });
        }
        let named = |(key, interval): (MetricKey, _)| (key.name(report.tool()), interval);
        let intervals = intervals(class, scenario, (report, tails), &WRITTEN);
        let interval_90 = intervals.map(named).collect();
        Some(Self { class: class_name, servers, interval_90 })
    }

    /// The three that matter most, in words; nothing unless typical servers were simulated.
    pub fn line(
        scenario: &Scenario,
        report: &BenchReport,
        tails: &[BenchReport],
    ) -> Option<String> {
        let tool = report.tool();
        let told = |(key, [low, high]): (MetricKey, [f64; 2])| {
            let decimals = usize::from(high < 100.0);
            format!("{} {low:.decimals$} to {high:.decimals$}", key.title(tool))
        };
        let (class, _) = class_of(scenario).filter(|(_, server)| *server == Unstated::TYPICAL)?;
        if report.summary.completed == 0 {
            return None;
        }
        if has_tails(scenario) && tails.is_empty() {
            return None;
        }
        if loses_requests(report, tails) {
            let slow = format!("Of {}, those slower than 19 of 20", class.servers());
            return Some(format!(
                "{slow} leave requests unanswered here that a typical one answers"
            ));
        }
        let told: Vec<String> =
            intervals(class, scenario, (report, tails), &TOLD).map(told).collect();
        let line = format!("90 % of {} have: {}", class.servers(), told.join(", "));
        (!told.is_empty()).then_some(line)
    }
}
