//! What a run leaves behind: the printed report and the run directory.

use serde_json::{Value, json};

use super::autoscaler;
use super::classes;
use super::faults;
use super::outcome::Outcome;
use crate::engine::tiers::TierKind;
use crate::io::rundir::{RunDir, RunFile, slug};
use crate::metrics::bench::{Comparison, NonFinite, Tool};
use crate::metrics::{
    AdaptersReport, Bill, ClusterReport, ReplicaKind, Summary, TierReport, TransferReport,
};
use crate::rng::Seed;

/// The printed report: for each scenario its block, what became of the requests, and measured
/// beside simulated figures.
pub(super) fn text(outcomes: &[Outcome]) -> String {
    let parts: Vec<String> =
        outcomes.iter().map(|outcome| one_text(outcome, outcomes.len())).collect();
    parts.join("\n")
}

fn one_text(outcome: &Outcome, outcomes: usize) -> String {
    let title = if outcomes > 1 { format!("# {}\n", outcome.scenario.name) } else { String::new() };
    let block = outcome.report.text();
    let counts = &outcome.counts;
    let fate = format!(
        "{} requests: {} finished, {} rejected, {} stuck{}{}; {} preemptions, {} steps\n{}",
        counts.arrived,
        counts.finished,
        counts.rejected,
        counts.stuck,
        faults::fates(counts),
        if counts.unfinished > 0 {
            format!(", {} unfinished when the client stopped", counts.unfinished)
        } else {
            String::new()
        },
        outcome.recorder.preemptions(),
        outcome.recorder.steps,
        faults::text(outcome) + &classes::text(outcome) + &adapters(outcome)
    );
    let (recorder, scenario) = (&outcome.recorder, &outcome.scenario);
    let transfers = TransferReport::of(recorder, scenario);
    let transfers = transfers.map(|report| format!("{}\n", report.text())).unwrap_or_default();
    let tiers = tiers(outcome);
    let kinds = ReplicaKind::of(scenario);
    let cluster = ClusterReport::new(recorder, &kinds);
    let bill = Bill::new(recorder, &kinds, &outcome.scenario.report);
    let scaling = autoscaler::text(outcome);
    let cluster = slo_text(outcome) + &scaling + &cluster.text() + &bill.text();
    let measured = match (&outcome.comparison, &outcome.scenario.measured) {
        (Some(comparison), Some(measured)) => {
            format!("\nMeasured: {}\n{}", measured.source, comparison.text())
        }
        _ => String::new(),
    };
    let tool = outcome.report.tool();
    let spread = outcome.spread.as_ref().map(|spread| format!("\n{}", spread.text(tool)));
    let spread = spread.unwrap_or_default();
    format!(
        "{title}{}\n{fate}{transfers}{tiers}{cluster}{measured}{spread}",
        block.trim_end_matches('\n')
    )
}

/// The report as JSON: one object, or an array for a scenario with variants.
pub(super) fn json(outcomes: &[Outcome]) -> String {
    let mut values: Vec<Value> = outcomes.iter().map(summary).collect();
    let value = if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
    format!("{value:#}\n")
}

/// What was asked: the content of `run.json`.
pub(super) fn run_json<'a>(seed: Seed, runs: impl Iterator<Item = &'a str>) -> Value {
    json!(run_file(seed, runs))
}

fn run_file<'a>(seed: Seed, runs: impl Iterator<Item = &'a str>) -> RunFile {
    RunFile {
        servecast: env!("CARGO_PKG_VERSION").to_owned(),
        command: std::env::args().collect(),
        seed: Some(seed),
        runs: runs.map(str::to_owned).collect(),
        wall_s: None,
    }
}

/// Writes all files of the runs; variants in folders of their own.
pub(super) fn write(dir: &mut RunDir, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let names = outcomes.iter().map(|outcome| outcome.scenario.name.as_str());
    let run = RunFile {
        wall_s: Some(outcomes.iter().map(|outcome| outcome.wall_s).sum()),
        ..run_file(outcomes[0].scenario.seed, names)
    };
    dir.write("run.json", format!("{:#}\n", json!(run)).as_bytes())?;
    for outcome in outcomes {
        let folder = match outcomes.len() {
            1 => String::new(),
            _ => format!("{}/", slug(&outcome.scenario.name)),
        };
        write_one(dir, &folder, outcome)?;
    }
    Ok(())
}

fn write_one(dir: &mut RunDir, folder: &str, outcome: &Outcome) -> anyhow::Result<()> {
    let resolved = outcome.scenario.text();
    dir.write(&format!("{folder}scenario.resolved.toml"), resolved.as_bytes())?;
    let summary = format!("{:#}\n", summary(outcome));
    dir.write(&format!("{folder}summary.json"), summary.as_bytes())?;
    let benchmark = format!("{}\n", outcome.report.json(NonFinite::Python));
    dir.write(&format!("{folder}benchmark.jsonl"), benchmark.as_bytes())?;
    if let Some(replicas) = autoscaler::csv(outcome) {
        dir.write(&format!("{folder}autoscaler.csv"), replicas.as_bytes())?;
    }
    write_tables(dir, folder, outcome)?;
    write_figures(dir, folder, outcome)
}

#[cfg(feature = "tables")]
fn write_tables(dir: &mut RunDir, folder: &str, outcome: &Outcome) -> anyhow::Result<()> {
    use crate::io::{parquet, tables};
    let path = dir.reserve(&format!("{folder}requests.parquet"))?;
    let (recorder, scenario) = (&outcome.recorder, &outcome.scenario);
    parquet::write_parts(&path, recorder.requests.len(), |places| {
        tables::requests_within(recorder, scenario, places)
    })?;
    if let Some(log) = &outcome.steps {
        let path = dir.reserve(&format!("{folder}steps.parquet"))?;
        parquet::write_parts(&path, log.steps.len(), tables::steps_by_part(&log.steps))?;
    }
    Ok(())
}

#[cfg(not(feature = "tables"))]
fn write_tables(_: &mut RunDir, _: &str, outcome: &Outcome) -> anyhow::Result<()> {
    if outcome.steps.is_some() {
        anyhow::bail!("--steps needs a build with the feature `tables`");
    }
    super::say("notice: built without the feature `tables`, no table of requests is written");
    Ok(())
}

#[cfg(feature = "plot")]
fn write_figures(dir: &mut RunDir, folder: &str, outcome: &Outcome) -> anyhow::Result<()> {
    let kinds = ReplicaKind::of(&outcome.scenario);
    let name = &outcome.scenario.name;
    for figure in crate::plot::run_figures(name, &outcome.recorder, &kinds) {
        dir.write(&format!("{folder}figures/{}", figure.file_name), figure.svg.as_bytes())?;
    }
    Ok(())
}

#[cfg(not(feature = "plot"))]
#[expect(clippy::unnecessary_wraps, reason = "as fallible as its twin with the feature")]
fn write_figures(_: &mut RunDir, _: &str, _: &Outcome) -> anyhow::Result<()> {
    super::say("notice: built without the feature `plot`, no figures are written");
    Ok(())
}

/// What KV memory below that of the GPUs did, in words; nothing where there is none.
fn tiers(outcome: &Outcome) -> String {
    let Some(tiers) = outcome.scenario.kv_tiers() else { return String::new() };
    let is_there = [tiers.host.is_some(), tiers.disk.is_some(), tiers.pool.is_some()];
    let there = TierKind::ALL.into_iter().zip(is_there).filter(|(_, is_there)| *is_there);
    let there: Vec<TierKind> = there.map(|(kind, _)| kind).collect();
    let report = TierReport::of(&outcome.recorder, &outcome.scenario);
    report.map(|report| format!("{}\n", report.text(&there))).unwrap_or_default()
}

/// A table of adapters; nothing where there are none.
fn adapters(outcome: &Outcome) -> String {
    AdaptersReport::text(&outcome.recorder, &outcome.scenario).unwrap_or_default()
}

/// The shares of requests that meet latency SLOs, where the tool's block lacks them.
fn slo_text(outcome: &Outcome) -> String {
    let Some(goodput) = &outcome.report.summary.goodput else { return String::new() };
    if outcome.report.tool() == Tool::Sglang {
        return String::new();
    }
    let kept = goodput.attainment_by_metric.iter();
    let kept = kept.map(|(metric, share)| format!("{} {:.2} %", metric.name(), share * 100.0));
    let (kept, all) = (kept.collect::<Vec<_>>().join(", "), goodput.attainment * 100.0);
    format!("Requests that keep their limits: {kept}, all {all:.2} %\n")
}

/// Everything about a run in one JSON object; equal runs give equal bytes.
fn summary(outcome: &Outcome) -> Value {
    let Outcome { scenario, counts, recorder, report, .. } = outcome;
    let mut summary = Summary::new(scenario, counts, recorder, report, &outcome.tails);
    summary.comparison = outcome.comparison.as_ref().map(Comparison::figures);
    summary.warn(&outcome.warnings);
    summary.put("seeds", outcome.spread.as_ref().map(|spread| spread.json(report.tool())));
    json!(summary)
}
