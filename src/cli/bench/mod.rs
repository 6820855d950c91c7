//! `servecast bench`: the flags of `sglang.bench_serving` and `vllm bench serve`, answered by the
//! simulator with the same block and the same JSON.

mod args;
mod blame;
mod datasets;
mod foreign;
mod host;
mod result_file;
mod server;
mod sharegpt;
mod tool;
mod workload;

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, FromArgMatches};

pub(super) use args::{BenchArguments, WorkloadArguments};
pub(super) use tool::expand;

use super::failure::Failure;
use super::run;
use super::terminal::say;
use crate::cli::failure::overrides;
use crate::load::{self, Loaded};
use crate::metrics::bench::{CacheReportFlag, RequestRate, Slos, Tool, VllmRun};
use crate::metrics::{BenchReport, BenchWriter};
use crate::rng::Seed;
use crate::scenario::{ReportConfig, ReportFormat, ScenarioFile};
use args::ReportArguments;
use result_file::{ResultFile, metadata};
use tool::title;
use workload::{Requests, only_for};

pub(super) fn bench(arguments: BenchArguments) -> Result<(), Failure> {
    let pasted = Pasted::of(arguments)?;
    let result_file = ResultFile::of(&pasted.arguments, pasted.tool)?;
    pasted.notices().iter().for_each(|notice| say(notice));
    let loaded = std::slice::from_ref(&pasted.loaded);
    let (dir, mut outcomes) =
        run::simulate_all(loaded, &pasted.arguments.output, pasted.arguments.point)?;
    pasted.put_into(&mut outcomes[0].report)?;
    run::report(dir, &outcomes, &pasted.arguments.output)?;
    match result_file {
        Some(file) => file.write((&pasted.arguments, pasted.tool), &outcomes[0].report),
        None => Ok(()),
    }
}

/// A command of a benchmark tool as a scenario, whose report is that of the tool.
#[derive(Debug)]
pub struct Pasted {
    arguments: BenchArguments,
    tool: Tool,
    requests: Requests,
    ignored: Vec<String>,
    loaded: Loaded,
}

impl Pasted {
    /// Reads what would stand behind `servecast bench`: the words of a command, and flags of the server.
    ///
    /// # Errors
    /// When clap does not know a flag, one is refused, or the scenario breaks a rule; in words.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let before = ["servecast", "bench"].map(OsString::from);
        let expanded = expand(before.into_iter().chain(words))?;
        let command = BenchArguments::augment_args(clap::Command::new("servecast bench"));
        let matches = command.try_get_matches_from(expanded.into_iter().skip(1));
        let arguments = matches.and_then(|matches| BenchArguments::from_arg_matches(&matches));
        let arguments = arguments.map_err(|error| error.to_string())?;
        Self::of(arguments).map_err(|failure| failure.to_string())
    }

    fn of(arguments: BenchArguments) -> Result<Self, Failure> {
        let ignored = arguments.foreign.without_effect()?;
        let tool = arguments.workload.tool()?;
        let engine = arguments.workload.engine(arguments.server.engine, tool)?;
        let report = report(&arguments, tool)?;
        let name_of_model = &arguments.server.model;
        let model = load::model("--model", name_of_model, Path::new(""))?;
        let model = model.ok_or_else(|| load::unknown_model("--model", name_of_model))?;
        let requests = arguments.workload.requests(Some(&model))?;
        let overrides = overrides(&arguments.overrides)?;
        let mut cluster = server::cluster(&arguments.server, engine)?;
        cluster.host = host::of(&arguments.workload, tool, &overrides);
        let file = ScenarioFile {
            name: name(&arguments, tool),
            seed: Seed(u64::from(arguments.workload.tool_seed(tool))),
            trace: requests.trace.clone(),
            workload: requests.workload.clone(),
            cluster,
            faults: Vec::new(),
            report,
            measured: None,
        };
        let loaded = load::from_flags(&file, &overrides)
            .map_err(|error| blame::by_flag(error, &requests.dataset))?;
        Ok(Self { arguments, tool, requests, ignored, loaded })
    }

    /// The scenario.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Whether a typical server alone is asked for.
    pub fn is_point(&self) -> bool {
        self.arguments.point
    }

    /// A flag that asks for files, which only the command writes.
    pub fn writes_files(&self) -> Option<&'static str> {
        let (output, report) = (&self.arguments.output, &self.arguments.report);
        let flags = [
            ("--output-dir", output.output_dir.is_some()),
            ("--timeline", output.timeline.is_some()),
            ("--steps", output.steps),
            ("--output-file", report.output_file.is_some()),
            ("--save-result", report.save_result),
            ("--append-result", report.append_result),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    /// Whose benchmark this is, and what of it is not simulated.
    pub fn notices(&self) -> Vec<String> {
        let (seed, title) = (self.arguments.workload.tool_seed(self.tool), title(self.tool));
        let dataset = &self.requests.dataset;
        let first = format!("{dataset} requests as {title} draws them with --seed {seed}");
        let others = self.ignored.iter().chain(&self.requests.notices);
        std::iter::once(first).chain(others.map(|text| format!("notice: {text}"))).collect()
    }

    /// Tells a report of it what the scenario does not know of the tool's flags.
    ///
    /// # Errors
    /// When a flag breaks a rule, which [`read`](Self::read) would have found; in words.
    pub fn dress(&self, report: &mut BenchReport) -> Result<(), String> {
        self.put_into(report).map_err(|failure| failure.to_string())
    }

    fn put_into(&self, report: &mut BenchReport) -> Result<(), Failure> {
        dress(&mut report.writer, &self.arguments, self.tool)
    }
}

/// The name of the scenario, and so of its run directory.
fn name(arguments: &BenchArguments, tool: Tool) -> String {
    let model = arguments.server.model.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let (gpu, dataset) = (&arguments.server.gpu, arguments.workload.dataset(tool));
    format!("bench {dataset} {model} {gpu}")
}

fn report(arguments: &BenchArguments, tool: Tool) -> Result<ReportConfig, Failure> {
    let ReportArguments { goodput, percentile_metrics, metric_percentiles, disable_stream, .. } =
        &arguments.report;
    check_tool(&arguments.report, tool)?;
    metadata(&arguments.report.metadata)?;
    let input = |error: anyhow::Error| Failure::Input(error);
    let mut config = ReportConfig {
        format: Some(match tool {
            Tool::Sglang => ReportFormat::Sglang,
            Tool::Vllm => ReportFormat::Vllm,
        }),
        streaming: !disable_stream,
        ..ReportConfig::default()
    };
    if !goodput.is_empty() {
        let slos = Slos::parse(goodput).map_err(|error| input(error.into()))?;
        let limits = slos.limits_ms().map(|(metric, ms)| (metric.name().to_owned(), ms));
        config.goodput = limits.collect();
    }
    if let Some(list) = percentile_metrics {
        VllmRun::parse_metrics(list).map_err(|error| input(error.into()))?;
        config.percentile_metrics = list.split(',').map(|name| name.trim().to_owned()).collect();
    }
    if let Some(list) = metric_percentiles {
        config.metric_percentiles =
            VllmRun::parse_percentiles(list).map_err(|error| input(error.into()))?;
    }
    Ok(config)
}

/// Refuses flags of the tool that is not in use.
fn check_tool(report: &ReportArguments, tool: Tool) -> Result<(), Failure> {
    let sglang = [
        ("--disable-stream", report.disable_stream),
        ("--cache-report", report.cache_report),
        ("--tag", report.tag.is_some()),
        ("--output-file", report.output_file.is_some()),
    ];
    let vllm = [
        ("--percentile-metrics", report.percentile_metrics.is_some()),
        ("--metric-percentiles", report.metric_percentiles.is_some()),
        ("--save-result", report.save_result),
        ("--append-result", report.append_result),
        ("--result-dir", report.result_dir.is_some()),
        ("--result-filename", report.result_filename.is_some()),
        ("--label", report.label.is_some()),
        ("--metadata", !report.metadata.is_empty()),
    ];
    only_for(tool, &sglang, &vllm)
}

/// Tells the writer what the scenario does not know of the tool's flags.
fn dress(writer: &mut BenchWriter, arguments: &BenchArguments, tool: Tool) -> Result<(), Failure> {
    let BenchWriter::Sglang(run) = writer else { return Ok(()) };
    let workload = &arguments.workload;
    workload.backend_of(tool).name().clone_into(&mut run.backend);
    workload.dataset(tool).clone_into(&mut run.dataset_name);
    run.tag.clone_from(&arguments.report.tag);
    run.sharegpt_output_len = workload.sharegpt_output_len.map(u64::from);
    run.random_input_len = Some(u64::from(workload.input_len()));
    run.random_output_len = Some(u64::from(workload.output_len(tool)));
    run.random_range_ratio = Some(workload.range_ratio()?);
    run.request_rate = if workload.use_trace_timestamps {
        RequestRate::Trace
    } else {
        RequestRate::PerSecond(workload.request_rate.unwrap_or(f64::INFINITY))
    };
    if arguments.report.cache_report {
        run.cache_report = CacheReportFlag::Present;
    }
    Ok(())
}
