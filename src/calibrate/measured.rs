//! Measured runs: scenarios with measured figures, experiments, or the output of a benchmark tool
//! on a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fit::Run;
use super::question::Question;
use crate::calibration::Parameter;
use crate::io::text;
use crate::load::{Broken, Cases, Changes, Draft, Drafts, Listener, LoadError, Loaded, Note, fail};
use crate::metrics::bench::{self, BenchSummary, MetricKey, Tool};
use crate::metrics::{Warnings, measured};
use crate::request::Request;
use crate::resolved::{Scenario, Unstated};
use crate::study::Case;
use crate::validate::{self, tool_output};
use crate::workload::TraceRow;

/// How far a total of tokens may be from the one that the tool counted.
const SAME_TOTAL: f64 = 0.01;

/// A run with its measured figures.
#[derive(Debug)]
pub(super) struct MeasuredRun {
    pub(super) name: String,
    pub(super) hold_out: bool,
    pub(super) tensor_parallel_size: u32,
    pub(super) tool: Tool,
    pub(super) measured: Vec<(MetricKey, f64)>,
    pub(super) source: String,
    draft: Draft,
    load: Load,
}

/// What is sent, read once.
#[derive(Debug)]
enum Load {
    /// The workload of the scenario; the rows of its trace.
    Workload(Option<Arc<[TraceRow]>>),
    /// Recorded requests.
    Requests(Vec<Request>),
}

/// All runs, and the parameters that their files want fitted.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) runs: Vec<MeasuredRun>,
    pub(super) fit: Option<toml::Value>,
}

pub(super) fn collect(question: &Question, listener: &Listener) -> Result<Collected, LoadError> {
    let mut collected = Collected { runs: Vec::new(), fit: None };
    let Question { runs, hold_out, server, overrides, .. } = question;
    let fitted = runs.iter().map(|path| (path, false));
    let held_out = hold_out.iter().map(|path| (path, true));
    let whole = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let told: Vec<PathBuf> = runs.iter().map(whole).collect();
    if let Some(path) = hold_out.iter().find(|path| told.contains(&whole(path))) {
        return Err(wrong(path, "is both calibrated on and held out"));
    }
    for (path, hold_out) in fitted.chain(held_out) {
        let Drafts { each: drafts, fit, .. } = match server {
            Some(server) if !is_scenario(path) => {
                tool_output::drafts(server, path, &Changes::set(overrides), listener)?
            }
            None if is_tool_output(path) => {
                let rule = "is not a scenario; what a benchmark tool printed or wrote needs --server \
                            SCENARIO";
                return Err(wrong(path, rule));
            }
            _ => Changes::set(overrides).load(Some(path))?,
        };
        collected.fit = collected.fit.or(fit);
        let before = collected.runs.len();
        for draft in drafts {
            collected.runs.extend(if draft.is_experiment() {
                Some(MeasuredRun::of_experiment(&draft, hold_out, question.data.as_deref())?)
            } else {
                MeasuredRun::new(draft, hold_out, listener)?
            });
        }
        if collected.runs.len() == before {
            let rule = "has no table [measured], so there is nothing to compare with";
            return Err(wrong(path, rule));
        }
    }
    Ok(collected)
}

fn wrong(path: &Path, rule: &str) -> LoadError {
    fail(&path.display().to_string(), rule)
}

fn is_scenario(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        ["toml", "yaml", "yml"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// Whether a file can only be what a benchmark tool printed or wrote; a scenario may be JSON too.
fn is_tool_output(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_json = extension.is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let holds_results = || {
        let text = text::whole(path, text::RESULTS_MIB_MAX).unwrap_or_default();
        !bench::read(&text).measured.is_empty()
    };
    !is_scenario(path) && path.exists() && (!is_json || holds_results())
}

impl MeasuredRun {
    /// Nothing for a scenario without measured figures.
    fn new(draft: Draft, hold_out: bool, listener: &Listener) -> Result<Option<Self>, LoadError> {
        // What is fitted holds everything.
        let draft = draft.of_server(Unstated::Bare);
        let loaded = draft.resolve()?;
        let scenario = &loaded.scenario;
        let Some((tool, measured)) = measured(scenario) else { return Ok(None) };
        let told = scenario.measured.as_ref();
        let rows = Cases::told(listener).rows(&loaded)?;
        Ok(Some(Self {
            name: scenario.name.clone(),
            hold_out: hold_out || told.is_some_and(|measured| measured.hold_out),
            tensor_parallel_size: scenario.first().cluster.tensor_parallel_size,
            source: told.map(|measured| measured.source.clone()).unwrap_or_default(),
            tool,
            measured,
            load: Load::Workload(rows),
            draft,
        }))
    }

    fn of_experiment(
        draft: &Draft,
        hold_out: bool,
        data: Option<&Path>,
    ) -> Result<Self, LoadError> {
        let validate::Loaded { experiment, sent, draft } = validate::Loaded::of(draft, data)?;
        Ok(Self {
            name: experiment.name,
            hold_out: hold_out || experiment.hold_out,
            tensor_parallel_size: experiment.cluster.tensor_parallel_size,
            tool: Tool::Vllm,
            measured: sent.measured,
            source: experiment.source.unwrap_or_default(),
            draft,
            load: Load::Requests(sent.requests),
        })
    }

    /// What it is a run of; nothing where the scenario breaks a rule.
    pub(super) fn scenario(&self) -> Option<Scenario> {
        Some(self.draft.resolve().ok()?.scenario)
    }

    /// The run, for a fit of these parameters.
    pub(super) fn simulatable<'a>(&'a self, parameters: &'a [Parameter]) -> Run<'a> {
        Run {
            name: self.name.clone(),
            tool: self.tool,
            measured: self.measured.clone(),
            simulate: Box::new(move |values| self.summary(parameters, values)),
        }
    }

    /// The simulated figures with the parameters at these values; nothing where the scenario then
    /// breaks a rule.
    fn summary(&self, parameters: &[Parameter], values: &[f64]) -> Option<BenchSummary> {
        let loaded = self.with(parameters, values)?;
        match &self.load {
            Load::Workload(rows) => {
                let case = Case::new(loaded.scenario, rows.clone());
                Some(case.ok()?.run().ok()?.report.summary)
            }
            Load::Requests(requests) => {
                validate::figures(&loaded.scenario, Some(requests.clone())).ok()
            }
        }
    }

    /// Where prompts or answers are drawn otherwise than the tool counted them.
    pub(super) fn length_warning(&self, parameters: &[Parameter]) -> Option<Note> {
        let Load::Workload(_) = self.load else { return None };
        let names = ["total_input_tokens", "total_output_tokens"];
        let told = names.iter().filter_map(|name| {
            let key = MetricKey::parse(name)?;
            let (_, measured) = self.measured.iter().find(|(have, _)| *have == key)?;
            Some((name, key, *measured))
        });
        let told: Vec<_> = told.filter(|(.., measured)| *measured > 0.0).collect();
        if told.is_empty() {
            return None;
        }
        let centre: Vec<f64> = parameters.iter().map(|one| one.expected.value(0.0)).collect();
        let summary = self.summary(parameters, &centre)?;
        told.into_iter().find_map(|(name, key, measured)| {
            let drawn = summary.metric(key)?;
            ((drawn / measured - 1.0).abs() > SAME_TOTAL).then(|| {
                Note::Warning(format!(
                    "{}: {name}: the workload has {drawn}, the tool counted {measured}: are the \
                     lengths of the scenario those of the run?",
                    self.name
                ))
            })
        })
    }

    /// What those figures hang on; nothing where the scenario then breaks a rule.
    pub(super) fn warnings(&self, parameters: &[Parameter], values: &[f64]) -> Option<Warnings> {
        self.with(parameters, values).and_then(|loaded| match &self.load {
            Load::Workload(rows) => Case::new(loaded.scenario, rows.clone()).ok()?.warnings().ok(),
            Load::Requests(requests) => {
                let simulated = validate::simulate(&loaded.scenario, Some(requests.clone()));
                simulated.ok().map(|(_, warnings)| warnings)
            }
        })
    }

    fn with(&self, parameters: &[Parameter], values: &[f64]) -> Option<Loaded> {
        let mut draft = self.draft.clone();
        let all = parameters.iter().zip(values);
        for (parameter, value) in all.filter(|(parameter, _)| parameter.concerns(&self.name)) {
            draft.put_parameter(parameter, *value).ok()?;
        }
        draft.resolve().ok()
    }

    /// Whether the scenario has all these settings.
    pub(super) fn check(&self, parameters: &[Parameter]) -> Result<(), LoadError> {
        let mut draft = self.draft.clone();
        for parameter in parameters.iter().filter(|one| one.concerns(&self.name)) {
            draft.put_parameter(parameter, parameter.expected.value(0.0))?;
        }
        let Err(mut error) = draft.resolve() else { return Ok(()) };
        let is_whole = |broken: &Broken| broken.problem.rule.starts_with("must be a whole number");
        if let LoadError::Settings(all) = &mut error
            && all.0.iter().any(is_whole)
            && let Some(last) = all.0.last_mut()
        {
            let hint = "only numbers that may be fractions can be fitted";
            let before = last.problem.hint.take().map(|before| format!("{before}; "));
            last.problem.hint = Some((before.unwrap_or_default() + hint).into());
        }
        Err(error)
    }
}
