//! Errors of the library as Python exceptions.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use servecast::calibrate::CalibrationError;
use servecast::compare::CompareError;
use servecast::explain::ExplainError;
use servecast::load::LoadError;
use servecast::plan::PlanError;
use servecast::study::StudyError;
use servecast::sweep::{BrokenRule, SweepError};

/// What a job came to that did not do what it was asked to.
pub(crate) enum Failure {
    /// A scenario, or what is asked, breaks rules.
    Load(LoadError),
    /// What is varied breaks a rule.
    Rule(BrokenRule),
    /// Something else.
    Other(String),
    /// Python code failed.
    Python(PyErr),
}

impl Failure {
    /// As an exception.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Load(LoadError::Policy(why)) => of_class(py, "SimulationError", &why),
            Self::Load(error) => load_error(py, &error),
            Self::Rule(rule) => broken_rule(py, &rule),
            Self::Other(text) => of_class(py, "SimulationError", &text),
            Self::Python(error) => error,
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Self {
        Self::Load(error.into())
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Load(error) => Self::Load(error),
            SweepError::Rule(rule) => Self::Rule(rule),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Load(error) => Self::Load(error),
            PlanError::Run(error) => error.into(),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        match error {
            CompareError::Load(error) => Self::Load(error),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<ExplainError> for Failure {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Load(error) => Self::Load(error),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<CalibrationError> for Failure {
    fn from(error: CalibrationError) -> Self {
        Self::Other(error.to_string())
    }
}

/// Where something is from, its path, the rule, the value, the nearest name, what helps.
type Told = (String, String, String, Option<String>, Option<String>, Option<String>);

/// `servecast.ScenarioError`: the text, and each problem.
fn scenario_error(py: Python<'_>, text: &str, problems: Vec<Told>) -> PyErr {
    let error = || -> PyResult<PyErr> {
        let class = py.import("servecast._errors")?.getattr("ScenarioError")?;
        Ok(PyErr::from_value(class.call1((text, problems))?))
    };
    error().unwrap_or_else(|error| error)
}

/// What is wrong with what is varied.
pub(crate) fn broken_rule(py: Python<'_>, rule: &BrokenRule) -> PyErr {
    let told = ("vary".to_owned(), rule.place.clone(), rule.problem.clone(), None, None, None);
    scenario_error(py, &format!("vary: {rule}"), vec![told])
}

/// What is wrong with the words of a command.
pub(crate) fn argument_error(py: Python<'_>, text: &str) -> PyErr {
    let text = text.trim().trim_start_matches("error: ");
    let told = ("command".to_owned(), String::new(), text.to_owned(), None, None, None);
    scenario_error(py, text, vec![told])
}

fn load_error(py: Python<'_>, error: &LoadError) -> PyErr {
    let mut problems = Vec::new();
    if let LoadError::Settings(broken) = error {
        for one in &broken.0 {
            let problem = &one.problem;
            problems.push((
                one.origin.to_string(),
                problem.at.clone(),
                problem.rule.clone(),
                problem.value.clone(),
                problem.near.clone(),
                problem.hint.as_deref().map(str::to_owned),
            ));
        }
    }
    scenario_error(py, &error.to_string(), problems)
}

/// An exception of this class of the package.
pub(crate) fn of_class(py: Python<'_>, class: &str, text: &str) -> PyErr {
    let error = || -> PyResult<PyErr> {
        let class = py.import("servecast._errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((text,))?))
    };
    error().unwrap_or_else(|_| PyRuntimeError::new_err(text.to_owned()))
}
