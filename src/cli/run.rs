//! `servecast run`: simulate scenarios and report them.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::args::{Format, OutputArguments, RunArguments};
use super::progress::Progress;
use super::scenario_file::{self, Loaded};
use super::{Failure, print, results, say, timeline};
use crate::io::rundir::{Existing, RunDir};
use crate::io::traces::{self, TraceFormat, TraceOptions};
use crate::metrics::bench::{Comparison, MetricKey, Tool};
use crate::metrics::{BenchReport, BenchWriter, Recorder, StepLog};
use crate::rng::Seed;
use crate::scenario::{KvSource, Scenario, StepTimeConfig, TraceConfig};
use crate::sim::{Counts, Simulation};
use crate::units::SimDuration;
use crate::workload::{Client, Notice, TraceRow, Workload, WorkloadError};

pub(super) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let path = arguments.scenario.as_deref();
    let loaded = scenario_file::load(path, &arguments.overrides, arguments.seed)?;
    let (dir, outcomes) = simulate_all(&loaded, &arguments.output)?;
    report(dir, &outcomes, &arguments.output)
}

/// A scenario that was run.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) scenario: Scenario,
    pub(super) counts: Counts,
    pub(super) recorder: Recorder,
    pub(super) steps: Option<StepLog>,
    pub(super) report: BenchReport,
    pub(super) comparison: Option<Comparison>,
    /// Real time the run took, in seconds.
    pub(super) wall_s: f64,
}

/// Runs a scenario and its variants, in a run directory that is ready to take the results.
pub(super) fn simulate_all(
    loaded: &[Loaded],
    output: &OutputArguments,
) -> Result<(RunDir, Vec<Outcome>), Failure> {
    timeline::check(loaded, output)?;
    let dir = create_run_dir(&loaded[0].scenario, output)?;
    let outcomes = loaded.iter().map(|one| simulate(one, output)).collect::<Result<Vec<_>, _>>()?;
    Ok((dir, outcomes))
}

/// Writes the results of runs and prints them.
pub(super) fn report(
    mut dir: RunDir,
    outcomes: &[Outcome],
    output: &OutputArguments,
) -> Result<(), Failure> {
    results::write(&mut dir, outcomes).map_err(Failure::Run)?;
    let text = match output.format {
        Format::Table => results::text(outcomes),
        Format::Json => results::json(outcomes),
    };
    let target = dir.commit().map_err(|error| Failure::Run(error.into()))?;
    print(&text)?;
    say(&format!("results in {}", target.display()));
    let stuck: u64 = outcomes.iter().map(|outcome| outcome.counts.stuck).sum();
    if stuck > 0 {
        return Err(Failure::Run(anyhow::anyhow!(
            "{stuck} requests could never be served: the engine has nothing left to do and cannot \
             admit them; they are marked `stuck` in the results"
        )));
    }
    Ok(())
}

/// What this process has begun to write, removed on Ctrl-C.
static STAGING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Has a file or folder removed on Ctrl-C.
pub(super) fn stage(path: &Path) {
    if let Ok(mut staging) = STAGING.lock() {
        staging.push(path.to_path_buf());
    }
}

fn create_run_dir(scenario: &Scenario, output: &OutputArguments) -> Result<RunDir, Failure> {
    let target = output
        .output_dir
        .clone()
        .unwrap_or_else(|| RunDir::next_free("runs".as_ref(), &results::slug(&scenario.file.name)));
    let existing = if output.overwrite { Existing::Overwrite } else { Existing::Refuse };
    let dir = RunDir::create(&target, existing).map_err(|error| Failure::Input(error.into()))?;
    stage(dir.staging());
    let handled = ctrlc::set_handler(|| {
        for path in STAGING.lock().iter().flat_map(|staging| staging.iter()) {
            // An interrupted process has nobody to tell that something remained.
            let _ = std::fs::remove_dir_all(path).or_else(|_| std::fs::remove_file(path));
        }
        std::process::exit(130);
    });
    handled.map_err(|error| Failure::Run(error.into()))?;
    Ok(dir)
}

fn simulate(loaded: &Loaded, output: &OutputArguments) -> Result<Outcome, Failure> {
    let scenario = &loaded.scenario;
    state_setting(scenario);
    let mut workload = open_workload(loaded)?;
    let cluster = crate::sim::cluster(scenario).map_err(|error| Failure::Input(error.into()))?;
    let client = Client::new(&scenario.file.workload.client);
    let api_delay = SimDuration::from_secs_f64(scenario.file.cluster.api_delay_ms / 1e3);
    let mut recorder = Recorder::default();
    let mut steps = output.steps.then(StepLog::default);
    let mut timeline = timeline::open(scenario, output)?;
    let total = scenario.file.workload.num_requests.map(u64::from);
    let mut progress = std::io::stderr().is_terminal().then(|| Progress::new(total));

    #[expect(clippy::disallowed_methods, reason = "how long the simulation itself takes")]
    let started = std::time::Instant::now();
    let counts = Simulation::new(&mut workload, client, cluster, api_delay)
        .run(&mut ((&mut recorder, &mut steps), (&mut timeline, &mut progress)))
        .map_err(|error| Failure::Input(error.into()))?;
    let wall_s = started.elapsed().as_secs_f64();

    if let Some(progress) = &progress {
        progress.finish();
    }
    if let Some(timeline) = timeline {
        timeline::commit(timeline)?;
    }
    for notice in workload.notices() {
        say(&format!("notice: {}", notice_text(notice)));
    }
    let report = BenchReport::new(&recorder, &scenario.file);
    let comparison = compare(scenario, &report);
    let scenario = Scenario { file: scenario_file::relocated(loaded), ..scenario.clone() };
    Ok(Outcome { scenario, counts, recorder, steps, report, comparison, wall_s })
}

/// Says what is simulated: the engine's memory and where step times come from.
fn state_setting(scenario: &Scenario) {
    let cluster = &scenario.file.cluster;
    let gpus = cluster.replicas * cluster.tensor_parallel_size;
    say(&format!(
        "{}: {} on {gpus} {} ({} {}, TP {})",
        scenario.file.name,
        scenario.model.name,
        scenario.gpu.name,
        cluster.replicas,
        if cluster.replicas == 1 { "replica" } else { "replicas" },
        cluster.tensor_parallel_size
    ));
    if let KvSource::Derived(kv) = scenario.kv {
        say(&format!(
            "  KV cache: {} blocks per replica, derived from {} of GPU memory: weights {}, \
             activations and graphs {} (estimate)",
            kv.blocks,
            scenario.gpu.memory(),
            kv.weights,
            kv.reserve
        ));
    }
    if matches!(cluster.step_time, StepTimeConfig::Roofline { .. }) {
        let measured_on = &scenario.gpu.efficiency.measured_on;
        let borrowed = if *measured_on == scenario.gpu.name {
            String::new()
        } else {
            format!(
                "; no kernels of {} were measured, those of {measured_on} stand in",
                scenario.gpu.name
            )
        };
        say(&format!("  step times: roofline, not calibrated against a run{borrowed}"));
    }
    if let StepTimeConfig::LayerTable(config) = &cluster.step_time {
        let fit = if config.calibration.is_neutral() { "not calibrated" } else { "calibrated" };
        let name = config.profile.as_deref().unwrap_or_default();
        say(&format!("  step times: layer profile {name}, {fit}"));
    }
    if let Some(window) = &scenario.model.sliding_window {
        say(&format!(
            "  sliding window of {} tokens in {} layers: not modelled, full attention is assumed",
            window.tokens, window.layers
        ));
    }
}

pub(super) type Rows = Box<dyn Iterator<Item = Result<TraceRow, WorkloadError>> + Send>;

fn open_workload(loaded: &Loaded) -> Result<Workload, Failure> {
    let file = &loaded.scenario.file;
    let rows = match &file.trace {
        None => None,
        Some(trace) => Some(open_rows(trace, &loaded.folder, file.seed)?),
    };
    Workload::open(&file.workload, file.seed, rows).map_err(|error| Failure::Input(error.into()))
}

/// Reads the whole trace once, to say what it holds and to find a bad row before anything is
/// simulated; then opens it for the run.
pub(super) fn open_rows(trace: &TraceConfig, folder: &Path, seed: Seed) -> Result<Rows, Failure> {
    let path = folder.join(&trace.path);
    let (format, options) = trace_options(trace, seed)?;
    let input = |error: traces::TraceError| Failure::Input(error.into());
    let summary = traces::describe(&path, format, &options).map_err(input)?;
    say(&format!("  {}", summary.statement()));
    for notice in summary.notices() {
        say(&format!("notice: {notice}"));
    }
    Ok(traces::open(&path, format, &options).map_err(input)?.into_rows())
}

/// How the trace of a scenario is read.
pub(super) fn trace_options(
    trace: &TraceConfig,
    seed: Seed,
) -> Result<(Option<TraceFormat>, TraceOptions), Failure> {
    let wrong = |key: &str| {
        let key = key.to_owned();
        move |problem: String| Failure::input(format!("trace.{key}: {problem}"))
    };
    let format = trace.format.as_deref().map(str::parse).transpose().map_err(wrong("format"))?;
    let time_unit = trace.time_unit.as_deref().map(str::parse).transpose();
    let options = TraceOptions {
        columns: trace.columns.clone(),
        time_unit: time_unit.map_err(wrong("time_unit"))?,
        hash_block_tokens: trace.hash_block_tokens,
        origin: trace.origin,
        seed,
        ..TraceOptions::default()
    };
    Ok((format, options))
}

pub(super) fn notice_text(notice: Notice) -> String {
    match notice {
        Notice::RowsOutOfOrder(rows) => {
            format!("{rows} rows of the trace were put in order of time")
        }
        Notice::RowsOutsideWindow(rows) => format!("{rows} rows outside the window were left out"),
        Notice::RowsEmpty(rows) => {
            format!("{rows} rows without prompt or answer tokens were left out")
        }
    }
}

fn compare(scenario: &Scenario, report: &BenchReport) -> Option<Comparison> {
    let measured = scenario.file.measured.as_ref()?;
    let tool = match report.writer {
        BenchWriter::Sglang(_) => Tool::Sglang,
        BenchWriter::Vllm(_) => Tool::Vllm,
    };
    let mut figures: Vec<(MetricKey, f64)> = measured
        .metrics
        .iter()
        .filter_map(|(name, value)| Some((MetricKey::parse(name)?, *value)))
        .collect();
    figures.sort_by(|(a, _), (b, _)| a.place().total_cmp(&b.place()));
    Some(Comparison::of_figures(tool, &figures, &report.summary))
}
