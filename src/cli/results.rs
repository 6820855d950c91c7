//! What a run leaves behind: the printed report and the run directory.

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::autoscaler;
use super::classes;
use super::faults;
use super::run::Outcome;
use crate::engine::DraftCounts;
use crate::engine::tiers::TierKind;
use crate::io::rundir::{RunDir, slug};
use crate::metrics::bench::{Goodput, JsonLayout, NonFinite, Tool};
use crate::metrics::{
    AdaptersReport, Bill, ClusterReport, ReplicaKind, TierReport, TransferReport, Warnings,
};
use crate::resolved::{KvSource, ReplicaGroup};
use crate::rng::Seed;

/// The printed report: for each scenario its block, what became of the requests, and measured
/// beside simulated figures.
pub(super) fn text(outcomes: &[Outcome]) -> String {
    let parts: Vec<String> =
        outcomes.iter().map(|outcome| one_text(outcome, outcomes.len())).collect();
    parts.join("\n")
}

fn one_text(outcome: &Outcome, outcomes: usize) -> String {
    let file = &outcome.scenario.file;
    let title = if outcomes > 1 { format!("# {}\n", file.name) } else { String::new() };
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
    let transfers = transfers(outcome).map(|report| format!("{}\n", report.text()));
    let transfers = transfers.unwrap_or_default();
    let tiers = tiers(outcome).map(|(report, tiers)| format!("{}\n", report.text(&tiers)));
    let tiers = tiers.unwrap_or_default();
    let (cluster, bill) = cluster(outcome);
    let scaling = autoscaler::text(outcome);
    let cluster = slo_text(outcome) + &scaling + &cluster.text() + &bill.text();
    let measured = match (&outcome.comparison, &file.measured) {
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
    json!({
        "servecast": env!("CARGO_PKG_VERSION"),
        "command": std::env::args().collect::<Vec<_>>(),
        "seed": seed,
        "runs": runs.collect::<Vec<_>>(),
    })
}

/// Writes all files of the runs; variants in folders of their own.
pub(super) fn write(dir: &mut RunDir, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let names = outcomes.iter().map(|outcome| outcome.scenario.file.name.as_str());
    let mut run = run_json(outcomes[0].scenario.file.seed, names);
    run["wall_s"] = json!(outcomes.iter().map(|outcome| outcome.wall_s).sum::<f64>());
    dir.write("run.json", format!("{run:#}\n").as_bytes())?;
    for outcome in outcomes {
        let folder = match outcomes.len() {
            1 => String::new(),
            _ => format!("{}/", slug(&outcome.scenario.file.name)),
        };
        write_one(dir, &folder, outcome)?;
    }
    Ok(())
}

fn write_one(dir: &mut RunDir, folder: &str, outcome: &Outcome) -> anyhow::Result<()> {
    let resolved = crate::erased::text(&outcome.scenario.file).context("the resolved scenario")?;
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
    use crate::io::tables;
    let path = dir.reserve(&format!("{folder}requests.parquet"))?;
    tables::write_requests(&path, &outcome.recorder, &outcome.scenario)?;
    if let Some(log) = &outcome.steps {
        let path = dir.reserve(&format!("{folder}steps.parquet"))?;
        tables::write_steps(&path, &log.steps)?;
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
    let name = &outcome.scenario.file.name;
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

/// A table of adapters; nothing where there are none.
fn adapters(outcome: &Outcome) -> String {
    let file = &outcome.scenario.file;
    AdaptersReport::text(&outcome.recorder, file).unwrap_or_default()
}

/// The KV caches that travelled; nothing where none did.
fn transfers(outcome: &Outcome) -> Option<TransferReport> {
    let nics = outcome.scenario.nics_bytes_per_s()?;
    TransferReport::new(&outcome.recorder, &nics)
}

/// What KV memory below that of the GPUs did, and which tiers it has; nothing where there is none.
fn tiers(outcome: &Outcome) -> Option<(TierReport, Vec<TierKind>)> {
    let tiers = outcome.scenario.file.cluster.kv_tiers?;
    let is_there = [tiers.host.is_some(), tiers.disk.is_some(), tiers.pool.is_some()];
    let there = TierKind::ALL.into_iter().zip(is_there).filter(|(_, is_there)| *is_there);
    let groups = outcome.scenario.groups.iter();
    let with_tiers = groups.filter(|group| group.cluster.kv_tiers.is_some());
    let replicas = with_tiers.map(|group| group.replicas() as usize).sum();
    let report = TierReport::of_first(&outcome.recorder, replicas);
    Some((report, there.map(|(kind, _)| kind).collect()))
}

/// What the replicas did, and what that costs.
fn cluster(outcome: &Outcome) -> (ClusterReport, Bill) {
    let kinds = ReplicaKind::of(&outcome.scenario);
    let report = &outcome.scenario.file.report;
    let recorder = &outcome.recorder;
    (ClusterReport::new(recorder, &kinds), Bill::new(recorder, &kinds, report))
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

/// The SLOs, each with the share of all requests that keep it, and of those that keep
/// all.
fn slo(goodput: &Goodput) -> Value {
    let kept = &goodput.attainment_by_metric;
    let limits = goodput.slos.limits_ms().map(|(metric, limit_ms)| {
        let attainment = kept.iter().find(|(known, _)| *known == metric).map(|(_, share)| *share);
        let limit = json!({ "limit_ms": limit_ms, "attainment": attainment });
        (metric.name().to_owned(), limit)
    });
    json!({
        "limits": limits.collect::<Map<String, Value>>(),
        "attainment": goodput.attainment,
        "goodput_per_s": goodput.request_goodput,
    })
}

/// What a result hangs on: in words, and the figures behind them.
pub(super) fn warnings(warnings: &Warnings) -> Value {
    json!({ "texts": warnings.texts(), "figures": warnings })
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

/// Everything about a run in one JSON object; equal runs give equal bytes.
fn summary(outcome: &Outcome) -> Value {
    let counts = &outcome.counts;
    let benchmark: Value = serde_json::from_str(&outcome.report.json(NonFinite::Null))
        .expect("strict benchmark JSON is JSON");
    let comparison = outcome.comparison.as_ref().map(|comparison| {
        let rows = comparison.json(JsonLayout::Line);
        serde_json::from_str::<Value>(&rows).expect("a comparison is JSON")
    });
    let mut summary = json!({
        "name": outcome.scenario.file.name,
        "benchmark": benchmark,
        "requests": {
            "arrived": counts.arrived,
            "finished": counts.finished,
            "rejected": counts.rejected,
            "aborted": counts.aborted,
            "timed_out": counts.timed_out,
            "failed": counts.failed,
            "stuck": counts.stuck,
            "unfinished": counts.unfinished,
            "displaced": counts.displaced,
            "retried": counts.retried,
        },
        "engine": {
            "steps": outcome.recorder.steps,
            "preemptions": outcome.recorder.preemptions(),
            "simulated_s": outcome.recorder.end.as_secs_f64(),
        },
        "measured": outcome.scenario.file.measured,
        "comparison": comparison,
        "warnings": warnings(&outcome.warnings),
    });
    let (cluster, bill) = cluster(outcome);
    summary["cluster"] = json!(cluster);
    summary["bill"] = json!(bill);
    if let Some(transfers) = transfers(outcome) {
        summary["transfers"] = json!(transfers);
    }
    let adapters = AdaptersReport::new(&outcome.recorder, &outcome.scenario.file);
    if let Some(adapters) = adapters {
        summary["adapters"] = json!(adapters);
    }
    if let Some((tiers, _)) = tiers(outcome) {
        summary["kv_tiers"] = json!(tiers);
    }
    let groups = &outcome.scenario.groups;
    if outcome.scenario.file.cluster.groups.is_empty() {
        summary["engine"]["kv"] = kv(outcome.scenario.first());
    } else {
        let listed = groups.iter().map(|one| {
            let mut listed = group(one);
            if outcome.scenario.models.len() > 1 {
                listed["model"] = json!(one.model.name);
            }
            listed
        });
        summary["engine"]["groups"] = listed.collect();
    }
    if let Some(scaling) = autoscaler::json(outcome) {
        summary["autoscaler"] = scaling;
    }
    if let Some(faults) = faults::json(outcome) {
        summary["faults"] = faults;
    }
    classes::add_to(&mut summary, outcome);
    if let Some(speculation) = speculation(&outcome.recorder.drafts) {
        summary["engine"]["speculation"] = speculation;
    }
    if let Some(goodput) = &outcome.report.summary.goodput {
        summary["slo"] = slo(goodput);
    }
    if let Some(spread) = &outcome.spread {
        summary["seeds"] = spread.json(outcome.report.tool());
    }
    summary
}
