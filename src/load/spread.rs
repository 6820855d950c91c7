//! A scenario run several times: how far its figures vary.

use serde_json::{Value, json};

use super::{Cases, Draft, Listener, LoadError};
use crate::metrics::bench::{BenchSummary, Latency, MetricKey, Statistic, Tool};
use crate::stats;
use crate::threads;

/// Figures of a run with several seeds.
#[derive(Debug, Clone)]
pub struct Spread {
    /// How many.
    pub seeds: u32,
    /// Whether parameters were drawn from a calibration too.
    pub is_calibrated: bool,
    /// Whether servers were drawn from those of their class, as nothing is said of them.
    pub draws_servers: bool,
    /// A row for each figure that every run has.
    pub rows: Vec<SpreadRow>,
}

/// A figure of several runs.
#[derive(Debug, Clone)]
pub struct SpreadRow {
    /// Which.
    pub key: MetricKey,
    /// Its mean.
    pub mean: f64,
    /// Nine in ten further runs lie within this distance of the mean.
    pub within: f64,
    /// Between which nine in ten further runs lie, where servers are drawn: these differ by factors.
    pub interval: Option<[f64; 2]>,
}

impl Draft {
    /// Runs the scenario `count` times with other seeds, and with parameters drawn from its calibration.
    ///
    /// # Errors
    /// When a run fails.
    pub fn spread(&self, count: u32, listener: &Listener) -> Result<Spread, LoadError> {
        let cases = Cases::told(listener);
        let one = |number: u32| -> Result<BenchSummary, LoadError> {
            Ok(cases.of_draft(&self.drawn(number)?)?.run()?.report.summary)
        };
        let numbers: Vec<u32> = (1..=count).collect();
        let summaries = threads::map(&numbers, |number| one(*number));
        let summaries = summaries.into_iter().collect::<Result<Vec<_>, _>>()?;
        let draws_servers = self.draws_servers(&self.resolve()?);
        let row = |key| SpreadRow::new(key, &summaries, draws_servers);
        Ok(Spread {
            seeds: count,
            is_calibrated: self.is_calibrated(),
            draws_servers,
            rows: keys().filter_map(row).collect(),
        })
    }
}

fn keys() -> impl Iterator<Item = MetricKey> {
    use crate::metrics::bench::Figure;
    let figures = [
        Figure::Duration,
        Figure::RequestThroughput,
        Figure::OutputThroughput,
        Figure::TotalThroughput,
    ];
    let latencies = [Latency::Ttft, Latency::Tpot, Latency::Itl, Latency::E2e];
    let statistics = [Statistic::Mean, Statistic::Median, Statistic::Percentile(99.0)];
    let latencies = latencies.into_iter().flat_map(move |latency| {
        statistics.into_iter().map(move |statistic| MetricKey::Latency(latency, statistic))
    });
    figures.into_iter().map(MetricKey::Figure).chain(latencies)
}

impl SpreadRow {
    fn new(key: MetricKey, summaries: &[BenchSummary], draws_servers: bool) -> Option<Self> {
        let values: Option<Vec<f64>> = summaries.iter().map(|one| one.metric(key)).collect();
        let values = values?;
        let count = values.len() as f64;
        let deviation = stats::sample_std_dev(&values);
        let reach = stats::student_t(0.9, count - 1.0) * (1.0 + 1.0 / count).sqrt();
        let interval = (draws_servers && values.iter().all(|value| *value > 0.0)).then(|| {
            let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            let (mean, reach) = (stats::mean(&logs), reach * stats::sample_std_dev(&logs));
            [(mean - reach).exp(), (mean + reach).exp()]
        });
        Some(Self { key, mean: stats::mean(&values), within: reach * deviation, interval })
    }
}

impl Spread {
    /// A table: the figure, its mean, and the distance within which nine in ten runs lie.
    pub fn text(&self, tool: Tool) -> String {
        let drawn = match (self.is_calibrated, self.draws_servers) {
            (true, _) => " and drawn parameters",
            (false, true) => " and servers of their class",
            (false, false) => "",
        };
        let title =
            format!("{} runs with other seeds{drawn}; 90 % of runs lie within\n", self.seeds);
        let cells: Vec<[String; 3]> = self
            .rows
            .iter()
            .map(|row| {
                let mean = format!("{:.2}", row.mean);
                let within = match row.interval {
                    None => format!("± {:.2}", row.within),
                    Some([low, high]) => format!("{low:.2} to {high:.2}"),
                };
                [row.key.title(tool), mean, within]
            })
            .collect();
        let width = |column: usize| {
            cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let [w0, w1, w2] = [width(0), width(1), width(2)];
        let lines = cells
            .iter()
            .map(|[figure, mean, within]| format!("{figure:<w0$}  {mean:>w1$}  {within:>w2$}\n"));
        title + &lines.collect::<String>()
    }

    /// The part `seeds` of a summary.
    pub fn json(&self, tool: Tool) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({ "metric": row.key.name(tool), "mean": row.mean, "within_90_pct": row.within,
                    "interval_90": row.interval })
        });
        json!({
            "count": self.seeds,
            "parameters_drawn": self.is_calibrated,
            "servers_drawn": self.draws_servers,
            "figures": rows.collect::<Vec<_>>(),
        })
    }
}
