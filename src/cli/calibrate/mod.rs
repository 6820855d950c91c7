//! `servecast calibrate`: parameters from measured runs.

mod args;
mod arrivals;
mod outcome;
mod runs;
mod tool_output;

pub(super) use args::CalibrateArguments;
#[cfg(feature = "probe")]
pub(super) use outcome::{found, parameter_table};

use std::io::Write;

use super::args::Format;
use super::{Failure, print, replace, say};
use crate::calibrate::{self, Fit, RunFigures};
use crate::calibration::Parameter;
use args::parameters;
use outcome::Outcome;
use runs::{MeasuredRun, collect};

pub(super) fn calibrate(arguments: &CalibrateArguments) -> Result<(), Failure> {
    if !(arguments.within > 0.0 && arguments.within.is_finite()) {
        let within = arguments.within;
        return Err(Failure::input(format!("--within: must be above 0 (percent), got {within}")));
    }
    if let Some(path) = &arguments.output {
        replace::check(path)?;
    }
    let collected = collect(arguments)?;
    let parameters = parameters(&arguments.parameters, collected.fit, &collected.runs)?;
    for run in &collected.runs {
        run.check(&parameters)?;
        if let Some(warning) = run.length_warning(&parameters) {
            say(&warning);
        }
    }
    let is_idle = |one: &&Parameter| !collected.runs.iter().any(|run| one.concerns(&run.name));
    if let Some(parameter) = parameters.iter().find(is_idle) {
        return Err(Failure::input(format!("fit: no run has {}", parameter.title())));
    }
    let [fitted, held_out] = [false, true].map(|hold_out| {
        let chosen = collected.runs.iter().filter(move |run| run.hold_out == hold_out);
        chosen.map(|run| run.simulatable(&parameters)).collect::<Vec<_>>()
    });
    if fitted.is_empty() {
        return Err(Failure::input("every run is held out: none is left to calibrate on"));
    }
    say(&format!(
        "{} parameters, {} to calibrate on, {} held out",
        parameters.len(),
        runs(fitted.len()),
        runs(held_out.len())
    ));
    let fit = calibrate::fit(&parameters, &fitted).map_err(|error| Failure::Input(error.into()))?;
    let held_out: Vec<RunFigures> = held_out.iter().map(|run| fit.hold_out(run)).collect();
    let values = fit.values();
    let warned = |hold_out: bool| {
        let chosen = collected.runs.iter().filter(move |run| run.hold_out == hold_out);
        chosen.map(|run| run.warnings(&parameters, &values)).collect()
    };
    let outcome = Outcome {
        fit: &fit,
        held_out: &held_out,
        warnings: [warned(false), warned(true)],
        within_pct: arguments.within,
    };
    print(&match arguments.format {
        Format::Table => outcome.text(),
        Format::Json => outcome.json(),
    })?;
    if let Some(path) = &arguments.output {
        let text = outcome.profile(&collected.runs);
        replace::replace(path, |file| Ok(file.write_all(text.as_bytes())?))?;
        say(&format!("parameters in {}", path.display()));
    }
    verdict(&fit, &outcome)
}

fn runs(count: usize) -> String {
    format!("{count} {}", if count == 1 { "run" } else { "runs" })
}

fn verdict(fit: &Fit, outcome: &Outcome<'_>) -> Result<(), Failure> {
    say(&format!("{} simulations", fit.simulations));
    if outcome.judged_figures() == 0 {
        return Err(Failure::Run(anyhow::anyhow!(
            "nothing to judge: no run tells a duration, a mean or a median"
        )));
    }
    match outcome.misses() {
        0 => Ok(()),
        misses => Err(Failure::Run(anyhow::anyhow!(
            "{misses} durations, means or medians err by more than {} %",
            outcome.within_pct
        ))),
    }
}

impl MeasuredRun {
    fn simulatable<'a>(&'a self, parameters: &'a [Parameter]) -> calibrate::Run<'a> {
        calibrate::Run {
            name: self.name.clone(),
            tool: self.tool,
            measured: self.measured.clone(),
            scatter: 0.0,
            simulate: Box::new(move |values| self.summary(parameters, values)),
        }
    }
}
