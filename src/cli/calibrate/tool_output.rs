//! What a benchmark tool printed or wrote, as runs of a known server.

use std::fs;
use std::path::Path;

use super::super::Failure;
use super::super::scenario_file::{self, Draft, Drafts};
use crate::metrics::bench::Measured;
use crate::metrics::bench::{self, Figure, MetricKey, RequestRate, Tool};

/// One run for every result of the file, on the server and workload of a scenario; what the tool
/// tells of its load (requests, rate, concurrency) overrides the scenario's.
pub(super) fn drafts(server: &Path, path: &Path, overrides: &[String]) -> Result<Drafts, Failure> {
    let place = |problem: &str| Failure::input(format!("{}: {problem}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| place(&error.to_string()))?;
    let found = bench::read(&text);
    if let Some(problem) = found.problems.first() {
        return Err(Failure::input(format!("{}:{problem}", path.display())));
    }
    if found.measured.is_empty() {
        return Err(place("holds no benchmark block, result table or result JSON"));
    }
    let server = scenario_file::drafts(Some(server), None, overrides, None)?.each;
    let server = server.into_iter().next().expect("a scenario file is at least one scenario");
    let drafts = found.measured.iter().map(|measured| draft(&server, measured, path));
    Ok(Drafts { each: drafts.collect::<Result<_, _>>()?, fit: None, calibration: None })
}

fn draft(server: &Draft, measured: &Measured, path: &Path) -> Result<Draft, Failure> {
    let mut draft = server.clone();
    draft.put("name", format!("{}:{}", path.display(), measured.line))?;
    let requests = count(measured, Figure::Completed) + count(measured, Figure::Failed);
    if requests > 0 {
        draft.put("workload.num_requests", requests)?;
    }
    if let Some(most) = measured.max_concurrency {
        draft.put("workload.client.max_concurrency", i64::try_from(most).unwrap_or(i64::MAX))?;
    }
    if let Some(RequestRate::PerSecond(rate)) = measured.request_rate {
        draft.put("workload.arrivals", arrivals(measured.tool, rate))?;
    }
    draft.put("measured", table(measured, path))?;
    Ok(draft)
}

fn count(measured: &Measured, figure: Figure) -> i64 {
    measured.get(MetricKey::Figure(figure)).unwrap_or_default() as i64
}

fn arrivals(tool: Option<Tool>, rate_per_s: f64) -> toml::Table {
    let mut arrivals = toml::Table::new();
    let kind = match tool {
        _ if !rate_per_s.is_finite() => "all_at_once",
        Some(Tool::Sglang) => "sglang",
        Some(Tool::Vllm) => "vllm",
        None => "poisson",
    };
    arrivals.insert("type".to_owned(), kind.into());
    if rate_per_s.is_finite() {
        arrivals.insert("rate_per_s".to_owned(), rate_per_s.into());
    }
    arrivals
}

fn table(measured: &Measured, path: &Path) -> toml::Table {
    let metrics = measured.named_metrics();
    let metrics: toml::Table = metrics.map(|(name, value)| (name, value.into())).collect();
    let mut table = toml::Table::new();
    table.insert("source".to_owned(), format!("{}:{}", path.display(), measured.line).into());
    table.insert("metrics".to_owned(), metrics.into());
    table
}
