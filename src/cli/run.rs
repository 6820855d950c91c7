//! `servecast run`: simulate scenarios and report them.

use std::io::IsTerminal;
use std::path::Path;

use super::args::{Format, OutputArguments, RunArguments};
use super::failure::Failure;
use super::outcome::Outcome;
use super::progress::Progress;
use super::results;
use super::terminal::{hear, listener, print, say};
use super::timeline;
use crate::cost::StepTime;
use crate::io::rundir::{Existing, RunDir, slug};
use crate::io::traces::TraceSummary;
use crate::io::unfinished;
use crate::load::memory::{self, Leaves};
use crate::load::{
    Draft, Listener, LoadError, Loaded, Note, only, state_setting, state_step_times,
};
use crate::metrics::{
    self, BenchReport, Caution, ExpectedFigures, Losses, Recorder, StepLog, tails_of,
};
use crate::resolved::Scenario;
use crate::threads;
use crate::workload::{TraceRows, Workload};

pub(super) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    if let Some(count) = &arguments.replicas {
        return Err(Failure::Input(anyhow::anyhow!(
            "--replicas: `--set cluster.replicas={count}` sets the replicas of the cluster, `--seeds \
             {count}` runs with that many seeds"
        )));
    }
    let drafts = arguments.changes.changes()?.load(arguments.scenario.as_deref())?.each;
    let drafts = only(drafts, &arguments.only)?;
    let drafts = drafts.into_iter().map(|draft| arguments.servers.of(draft));
    let drafts = drafts.collect::<Result<Vec<_>, _>>()?;
    let loaded = drafts.iter().map(Draft::resolve).collect::<Result<Vec<_>, _>>()?;
    let (dir, mut outcomes) = simulate_all(&loaded, &arguments.output, arguments.point)?;
    if !arguments.servers.is_given() && loaded.iter().any(|one| one.scenario.assumes_servers()) {
        say(
            "Servers that nobody measured are typical ones here. `servecast plan` buys for those slower than 19 of 20 like them, which \
             `--servers slow` simulates",
        );
    }
    if let Some(count) = arguments.seeds {
        for (index, outcome) in outcomes.iter_mut().enumerate() {
            let draft = drafts[index].clone();
            let draft = if arguments.point { draft.pinned() } else { draft };
            outcome.spread = Some(draft.spread(count, &listener())?);
        }
    }
    report(dir, &outcomes, &arguments.output)
}

/// Runs a scenario and its variants, in a run directory that is ready to take the results, if any
/// are to be written. With `point`, servers that nobody measured are typical ones alone.
pub(super) fn simulate_all(
    loaded: &[Loaded],
    output: &OutputArguments,
    point: bool,
) -> Result<(Option<RunDir>, Vec<Outcome>), Failure> {
    timeline::check(loaded, output)?;
    let writes = !output.no_files;
    if writes {
        check_folders(loaded)?;
    }
    let dir = writes.then(|| create_run_dir(&loaded[0].scenario, output)).transpose()?;
    remove_on_interrupt()?;
    let outcomes = loaded.iter().map(|one| simulate(one, output, point));
    Ok((dir, outcomes.collect::<Result<Vec<_>, _>>()?))
}

/// Runs that are written together have folders of their own, named after them.
fn check_folders(loaded: &[Loaded]) -> Result<(), Failure> {
    let names: Vec<&str> = loaded.iter().map(|one| one.scenario.name.as_str()).collect();
    for (index, name) in names.iter().enumerate() {
        let same = |before: &&&str| slug(before) == slug(name);
        if let Some(before) = names[..index].iter().find(same) {
            return Err(Failure::Input(anyhow::anyhow!(
                "variants: each name must give a folder of its own, got `{name}`, which is written to \
                 `{}` as `{before}` is",
                slug(name)
            )));
        }
    }
    Ok(())
}

/// Writes the results of runs and prints them.
pub(super) fn report(
    mut dir: Option<RunDir>,
    outcomes: &[Outcome],
    output: &OutputArguments,
) -> Result<(), Failure> {
    if let Some(dir) = &mut dir {
        results::write(dir, outcomes).map_err(Failure::Run)?;
    }
    let text = match output.format {
        Format::Table => results::text(outcomes),
        Format::Json => results::json(outcomes),
    };
    let target = dir.map(RunDir::commit).transpose();
    let target = target.map_err(|error| Failure::Run(error.into()))?;
    print(&text)?;
    if let Some(target) = target {
        say(&format!("results in {}", target.display()));
    }
    let stuck: u64 = outcomes.iter().map(|outcome| outcome.counts.stuck).sum();
    let displaced: u64 = outcomes.iter().map(|outcome| outcome.counts.displaced).sum();
    if displaced > 0 {
        return Err(Failure::Run(anyhow::anyhow!(
            "{stuck} requests could never be served, {displaced} of them because requests of equal \
             priority and arrival took each other's memory without end, as they would in vLLM; \
             they are marked `unfinished` in the results. Let them arrive one after the other, give \
             them more KV memory, or take policy `fcfs`"
        )));
    }
    if stuck > 0 {
        return Err(Failure::Run(anyhow::anyhow!(
            "{stuck} requests could never be served: the engine has nothing left to do and cannot \
             admit them; they are marked `unfinished` in the results"
        )));
    }
    outcomes.iter().try_for_each(answered)
}

/// A run that answers nobody has no latencies: no result that anybody means.
fn answered(outcome: &Outcome) -> Result<(), Failure> {
    match Losses::of(&outcome.counts) {
        Some(losses) if losses.is_total() => {
            Err(Failure::Run(anyhow::anyhow!("{}: {losses}", outcome.scenario.name)))
        }
        _ => Ok(()),
    }
}

fn create_run_dir(scenario: &Scenario, output: &OutputArguments) -> Result<RunDir, Failure> {
    let target = output
        .output_dir
        .clone()
        .unwrap_or_else(|| RunDir::next_free("runs".as_ref(), &slug(&scenario.name)));
    results_dir(&target, output.overwrite)
}

/// A folder of results in the making.
pub(super) fn results_dir(target: &Path, overwrite: bool) -> Result<RunDir, Failure> {
    let existing = if overwrite { Existing::Overwrite } else { Existing::Refuse };
    RunDir::create(target, existing).map_err(|error| Failure::Input(error.into()))
}

/// On Ctrl-C, removes what is not finished and exits with 130.
pub(super) fn remove_on_interrupt() -> Result<(), Failure> {
    let handled = ctrlc::set_handler(|| {
        unfinished::remove();
        std::process::exit(130);
    });
    handled.map_err(|error| Failure::Run(error.into()))
}

fn simulate(loaded: &Loaded, output: &OutputArguments, point: bool) -> Result<Outcome, Failure> {
    let scenario = &loaded.scenario;
    let leaves = if output.no_files { Leaves::Figures } else { Leaves::Records };
    memory::check(scenario, leaves, &listener())?;
    state_setting(scenario, &listener());
    let (workload, costs) = threads::both(|| open_workload(loaded), || step_times(scenario));
    let (mut workload, costs) = (workload?, costs?);
    state_step_times(scenario, &costs, &listener());
    let run = crate::sim::simulation(scenario, &costs, &mut workload);
    let run = run.map_err(|error| Failure::Input(error.into()))?;
    let mut caution = Caution::new(scenario, costs);
    let mut recorder = match leaves {
        Leaves::Records => Recorder::of(scenario),
        Leaves::Figures => Recorder::of_figures(scenario),
    };
    let mut steps = output.steps.then(StepLog::default);
    let mut timeline = timeline::open(scenario, output)?;
    let total = scenario.workload.num_requests.map(u64::from);
    let mut progress = std::io::stderr().is_terminal().then(|| Progress::new(total));

    #[expect(clippy::disallowed_methods, reason = "how long the simulation itself takes")]
    let started = std::time::Instant::now();
    let mut records = (&mut recorder, (&mut caution, &mut progress));
    let counts = if steps.is_none() && timeline.is_none() {
        run.run_in_lanes(&mut records)
    } else {
        run.run(&mut (records, (&mut steps, &mut timeline)))
    };
    let counts = counts.map_err(|error| Failure::Input(error.into()))?;
    let wall_s = started.elapsed().as_secs_f64();
    let recorded = scenario.check_accepted_drafts(counts.arrived);
    recorded.map_err(|error| Failure::Input(error.into()))?;

    if let Some(progress) = &progress {
        progress.finish();
    }
    if let Some(timeline) = timeline {
        timeline::commit(timeline)?;
    }
    for notice in workload.notices() {
        say(&format!("notice: {notice}"));
    }
    let warnings = caution.warnings(scenario, &counts);
    for text in warnings.texts() {
        say(&format!("warning: {text}"));
    }
    if recorder.folded().is_some_and(|folded| folded.shifts_seconds()) {
        say(
            "notice: the first request was not answered. Seconds for the peak of concurrent requests (and, without \
             streaming, of tokens) are counted from it, not from the first answered request",
        );
    }
    let report = BenchReport::new(&recorder, scenario);
    let has_tails = !point && report.summary.completed > 0;
    let tails = if has_tails { tails(loaded, wall_s)? } else { Vec::new() };
    if let Some(line) = ExpectedFigures::line(scenario, &report, &tails) {
        say(&line);
    }
    let comparison = metrics::comparison(scenario, &report);
    let mut scenario = scenario.clone();
    scenario.rename_files(loaded.relocated());
    Ok(Outcome {
        scenario,
        counts,
        recorder,
        steps,
        report,
        tails,
        comparison,
        warnings,
        spread: None,
        wall_s,
    })
}

/// The reports of a fast and a slow server, where there are some; a run took so long.
fn tails(loaded: &Loaded, wall_s: f64) -> Result<Vec<BenchReport>, Failure> {
    let Some([_, slow]) = tails_of(&loaded.scenario) else { return Ok(Vec::new()) };
    if let Err(error) = memory::check(&slow, Leaves::Figures, &Listener::default()) {
        say(&format!("notice: no ranges, for which a slow server is simulated: {error}"));
        return Ok(Vec::new());
    }
    if std::io::stderr().is_terminal() && wall_s > 1.0 {
        say("A fast and a slow server are simulated too, which --point does without");
    }
    Ok(loaded.case()?.tails().map_err(LoadError::from)?)
}

fn step_times(scenario: &Scenario) -> Result<Vec<StepTime>, Failure> {
    crate::sim::step_times(scenario).map_err(|error| Failure::Input(error.into()))
}

fn open_workload(loaded: &Loaded) -> Result<Workload, Failure> {
    let rows = trace_rows(loaded)?;
    let workload = Workload::open(&loaded.scenario.workload, loaded.scenario.seed, rows)
        .map_err(|error| Failure::Input(error.into()))?;
    let trace = loaded.scenario.trace.as_ref();
    let file = trace.map(|trace| loaded.folder.join(&trace.path).display().to_string());
    Ok(workload.of_trace(file))
}

/// The rows of the trace that a scenario reads, if it reads one; says what it holds.
pub(super) fn trace_rows(loaded: &Loaded) -> Result<Option<TraceRows>, Failure> {
    Ok(loaded.trace()?.map(said))
}

/// Says what a trace holds.
fn said((summary, rows): (TraceSummary, TraceRows)) -> TraceRows {
    Note::of_trace(&summary).for_each(|note| hear(&note));
    rows
}
