//! Scenarios to figures. Runs know nothing of one another, so threads change nothing but the time.

use std::path::Path;

use super::case::Case;
use super::plan::Plan;
use super::record::Record;
use super::report::{Validation, Verdict};
use super::score::{Outcome, RunScore};
use super::skip::Skip;
use super::{inferencex, mlenergy};
use crate::cost::StepTime;
use crate::load::{self, LoadError};
use crate::metrics::bench::{BenchSummary, Comparison, ComparisonRow, Tool};
use crate::metrics::{BenchReport, Caution, Recorder, Warnings, interval_of, tails_of};
use crate::request::Request;
use crate::resolved::{Scenario, ServerClass, Unstated};
use crate::scenario::ScenarioFile;
use crate::sim::{Counts, Requests, Separable, Source};
use crate::threads;
use crate::workload::Workload;

/// What the caller changes in the scenario of a record before it is run; the error is the rule it breaks.
pub type Adjust<'a> = dyn Fn(&Record, ScenarioFile) -> Result<ScenarioFile, String> + Sync + 'a;

/// Simulates every record that can be and compares.
pub fn validate(records: &[Record], adjust: &Adjust<'_>) -> Validation {
    let one = |record: &Record| Outcome {
        id: record.id.clone(),
        family: record.family.clone(),
        result: run_record(record, adjust),
    };
    Validation::of(threads::map(records, one))
}

/// Simulates cases and judges them by their limits.
pub fn judge(cases: &[Case]) -> Verdict {
    Verdict::of(cases, threads::map(cases, Case::run))
}

fn run_record(record: &Record, adjust: &Adjust<'_>) -> Result<RunScore, Skip> {
    let plan = Plan::of(record)?;
    let mut file = adjust(record, plan.scenario.clone()).map_err(Skip::Scenario)?;
    inferencex::tell_tuned(record, &mut file);
    let scenario = load::resolved_for(file, Path::new(""), Unstated::TYPICAL);
    let scenario = scenario.map_err(|error| broken(&error))?;
    let class = scenario.first().server_class;
    let is_expected = scenario.first().class.is_some();
    let mut assumed = plan.assumed.clone();
    if is_expected {
        assumed.push("kernels: as much longer than alone as in other published runs");
    }
    if is_expected && class == Some(ServerClass::TunedExperts) {
        assumed.push("kernels: chosen for the model and the GPU, as in InferenceX's recipes");
    }
    let (report, warnings) = plan.simulate(&scenario)?;
    let comparison = Comparison::of_figures(Tool::Vllm, &plan.measured, &report.summary);
    let tails = tails_of(&scenario).into_iter().flatten();
    let tails = tails.map(|tail| Ok(plan.simulate(&tail)?.0));
    let tails = tails.collect::<Result<Vec<_>, Skip>>()?;
    let interval = |row: &ComparisonRow| {
        let class = class.filter(|_| is_expected)?;
        Some((row.key, interval_of(class, &report, &tails, row.key)?))
    };
    Ok(RunScore {
        intervals: comparison.rows().iter().filter_map(interval).collect(),
        id: record.id.clone(),
        family: record.family.clone(),
        assumed,
        warnings,
        rows: comparison.rows().to_vec(),
        class,
    })
}

impl Plan {
    /// The figures of the scenario of a record as it was changed, and what they hang on.
    fn simulate(&self, scenario: &Scenario) -> Result<(BenchReport, Warnings), Skip> {
        simulated(scenario, self.requests.clone(), self.full_at)
    }

    /// The figures of the scenario of a record as it was changed and nothing else, for a search.
    ///
    /// # Errors
    /// Why it cannot be simulated.
    pub fn figures(&self, scenario: &Scenario) -> Result<BenchSummary, Skip> {
        figures_of(scenario, self.requests.clone(), self.full_at)
    }
}

/// The figures of a scenario, and what they hang on; `requests` in place of those of its workload,
/// if given.
///
/// # Errors
/// Why it cannot be simulated.
pub fn simulate(
    scenario: &Scenario,
    requests: Option<Vec<Request>>,
) -> Result<(BenchReport, Warnings), Skip> {
    simulated(scenario, requests, None)
}

/// The figures of a scenario and nothing else, for a search; `requests` in place of those of its
/// workload, if given.
///
/// # Errors
/// Why it cannot be simulated.
pub fn figures(scenario: &Scenario, requests: Option<Vec<Request>>) -> Result<BenchSummary, Skip> {
    figures_of(scenario, requests, None)
}

fn simulated(
    scenario: &Scenario,
    requests: Option<Vec<Request>>,
    full_at: Option<u32>,
) -> Result<(BenchReport, Warnings), Skip> {
    let costs = crate::sim::step_times(scenario).map_err(|error| refused(&error))?;
    let mut recorder = Recorder::default();
    let mut caution = Caution::new(scenario, costs.clone());
    let counts = observe(scenario, &costs, requests, &mut (&mut recorder, &mut caution))?;
    Ok((report(&recorder, scenario, full_at)?, caution.warnings(scenario, &counts)))
}

fn figures_of(
    scenario: &Scenario,
    requests: Option<Vec<Request>>,
    full_at: Option<u32>,
) -> Result<BenchSummary, Skip> {
    let costs = crate::sim::step_times(scenario).map_err(|error| refused(&error))?;
    let mut recorder = Recorder::default();
    observe(scenario, &costs, requests, &mut recorder)?;
    Ok(report(&recorder, scenario, full_at)?.summary)
}

/// The figures of a run, or of the time in which so many requests ran at a time.
fn report(
    recorder: &Recorder,
    scenario: &Scenario,
    full_at: Option<u32>,
) -> Result<BenchReport, Skip> {
    let mut report = BenchReport::new(recorder, scenario);
    if let Some(places) = full_at {
        mlenergy::narrow(&mut report.summary, &recorder.requests, places)?;
    }
    Ok(report)
}

fn refused(error: &impl ToString) -> Skip {
    Skip::Scenario(error.to_string())
}

/// Runs a scenario under an observer.
fn observe(
    scenario: &Scenario,
    costs: &[StepTime],
    requests: Option<Vec<Request>>,
    observer: &mut impl Separable,
) -> Result<Counts, Skip> {
    let counts = if let Some(requests) = requests {
        run_source(scenario, costs, Requests(requests.into_iter()), observer)?
    } else {
        let workload = Workload::open(&scenario.workload, scenario.seed, None);
        run_source(scenario, costs, workload.map_err(|error| refused(&error))?, observer)?
    };
    // A server refuses and loses requests too: what became of them is told with the figures.
    if counts.stuck == 0 && counts.finished > 0 { Ok(counts) } else { Err(Skip::Stuck) }
}

fn run_source(
    scenario: &Scenario,
    costs: &[StepTime],
    source: impl Source + Send,
    observer: &mut impl Separable,
) -> Result<Counts, Skip> {
    let run = crate::sim::simulation(scenario, costs, source).map_err(|error| refused(&error))?;
    run.run_in_lanes(observer).map_err(|error| refused(&error))
}

/// A broken rule without its numbers, so that equal reasons are counted together.
fn broken(error: &LoadError) -> Skip {
    let problem = match error {
        LoadError::Settings(broken) => {
            let problems = broken.0.iter().map(|one| one.problem.to_string());
            problems.collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    };
    Skip::Scenario(if problem.contains("does not fit") {
        "does not fit in GPU memory".to_owned()
    } else {
        problem
    })
}
