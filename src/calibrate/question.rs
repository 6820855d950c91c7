//! The question of a calibration: which runs, which parameters; and how it is answered.

use std::path::PathBuf;

use super::answer::Answer;
use super::fit::{CalibrationError, fit};
use super::measured::{MeasuredRun, collect};
use crate::calibration::{MadeOn, Parameter};
use crate::load::{Listener, LoadError, Note, Override, fail};
use crate::resolved::Demand;

/// What is calibrated on what.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Measured runs to calibrate on: scenarios with measured figures (their variants are runs too), experiments
    /// as [`crate::validate::experiments`] takes them, or with a `server` what a benchmark tool printed or wrote.
    pub runs: Vec<PathBuf>,
    /// Measured runs that are scored and not fitted to.
    pub hold_out: Vec<PathBuf>,
    /// The scenario that outputs of benchmark tools were measured on.
    pub server: Option<PathBuf>,
    /// Folder of the tables that an experiment names and its own folder has not.
    pub data: Option<PathBuf>,
    /// Settings of every scenario.
    pub overrides: Vec<Override>,
    /// What is fitted; where there are none, what the files want fitted, else the host's time and, by a little,
    /// the kernels.
    pub parameters: Vec<Parameter>,
}

/// Measured runs with the parameters that are fitted to them.
#[derive(Debug)]
pub struct Calibration {
    runs: Vec<MeasuredRun>,
    parameters: Vec<Parameter>,
    listener: Listener,
}

impl Calibration {
    /// Reads the runs. The listener hears of what is in the files, and of lengths that are not those of the run.
    ///
    /// # Errors
    /// When a file cannot be read, has nothing measured or breaks a rule, and when a scenario has no place for a
    /// parameter.
    pub fn of(question: &Question, listener: &Listener) -> Result<Self, LoadError> {
        let collected = collect(question, listener)?;
        let runs = collected.runs;
        let parameters = match (&question.parameters[..], collected.fit) {
            ([], Some(table)) => {
                table.try_into().map_err(|error: toml::de::Error| fail("fit", error.message()))?
            }
            ([], None) => usual(runs.iter().any(|run| run.tensor_parallel_size > 1)),
            (given, _) => given.to_vec(),
        };
        for run in &runs {
            run.check(&parameters)?;
            run.length_warning(&parameters).iter().for_each(|note| listener.tell(note));
        }
        let is_idle = |one: &&Parameter| !runs.iter().any(|run| one.concerns(&run.name));
        if let Some(parameter) = parameters.iter().find(is_idle) {
            return Err(fail("fit", format_args!("no run has {}", parameter.title())));
        }
        Ok(Self { runs, parameters, listener: listener.clone() })
    }

    /// Fits the parameters, and simulates the runs that were held out with what was found.
    ///
    /// # Errors
    /// When every run is held out, no run tells a latency or a duration, or one cannot be simulated.
    pub fn fit(&self) -> Result<Answer, CalibrationError> {
        let of = |hold_out: bool| self.runs.iter().filter(move |run| run.hold_out == hold_out);
        let [fitted, held_out] = [false, true].map(|hold_out| {
            of(hold_out).map(|run| run.simulatable(&self.parameters)).collect::<Vec<_>>()
        });
        if fitted.is_empty() {
            return Err(CalibrationError::AllHeldOut);
        }
        self.listener.tell(&Note::Remark(format!(
            "{} parameters, {} to calibrate on, {} held out",
            self.parameters.len(),
            counted(fitted.len()),
            counted(held_out.len())
        )));
        let mut fit = fit(&self.parameters, &fitted)?;
        let mut held_out: Vec<_> = held_out.iter().map(|run| fit.hold_out(run)).collect();
        let values = fit.values();
        let mut demand: Option<Demand> = None;
        for (hold_out, figures) in [(false, &mut fit.fitted), (true, &mut held_out)] {
            for (run, figures) in of(hold_out).zip(figures) {
                let Some(warnings) = run.warnings(&self.parameters, &values) else { continue };
                figures.warnings = warnings.texts();
                if !hold_out {
                    demand = demand.into_iter().chain(warnings.demand).reduce(Demand::with);
                }
            }
        }
        let told = |hold_out: bool| {
            of(hold_out).map(|run| format!("{}: {}", run.name, run.source)).collect()
        };
        let scenarios: Vec<_> = of(false).filter_map(MeasuredRun::scenario).collect();
        let made_on = MadeOn { demand, ..MadeOn::of(&scenarios) };
        let file = fit.file([told(false), told(true)], made_on);
        Ok(Answer { fit, held_out, file })
    }
}

fn counted(runs: usize) -> String {
    format!("{runs} {}", if runs == 1 { "run" } else { "runs" })
}

/// What differs between servers of one kind: the host and, by a little, the kernels.
fn usual(has_all_reduce: bool) -> Vec<Parameter> {
    let factor = |part: &str, spread| {
        Parameter::factor(format!("cluster.step_time.calibration.{part}"), spread)
    };
    let mut parameters = vec![
        Parameter::amount("cluster.api_delay_ms", 20.0),
        Parameter::amount("cluster.step_time.calibration.per_step_us", 1000.0),
        Parameter::amount("cluster.step_time.calibration.per_prefill_step_us", 5000.0),
        factor("products", 0.2),
        factor("decode_attention", 0.3),
        factor("prefill_attention", 0.3),
    ];
    if has_all_reduce {
        parameters.push(factor("all_reduce", 0.7));
    }
    parameters
}
