//! Why a scenario cannot be loaded.

use std::fmt;

use super::words::plain;
use crate::io::acceptance::AcceptanceError;
use crate::io::traces::TraceError;
use crate::problem::Problem;
use crate::resolved::ScenarioError;
use crate::workload::WorkloadError;

/// Why a scenario cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Settings break rules.
    #[error(transparent)]
    Settings(#[from] BrokenSettings),
    /// The recorded acceptance that it names cannot be read.
    #[error(transparent)]
    Acceptance(#[from] AcceptanceError),
    /// The trace that it names cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Its machines cannot be made: a table of step times lacks something.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Its requests cannot be drawn.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A policy that was put in place of one of its own is not for it.
    #[error("{0}")]
    Policy(String),
    /// A run of it does not fit into memory.
    #[error(
        "{name}: {run} need {needed} of memory or more, and {free} are free: take fewer \
         (workload.num_requests, cluster.replicas), or a machine with more memory"
    )]
    Memory {
        /// The scenario.
        name: String,
        /// Its requests and replicas.
        run: String,
        /// Memory with its unit.
        needed: String,
        /// Memory with its unit.
        free: String,
    },
}

impl LoadError {
    /// In words for one who gave overrides by `--set`: broken settings each on a line of its own, as it goes on
    /// behind `error: `.
    pub(crate) fn told(&self) -> String {
        let Self::Settings(broken) = self else { return plain(&self.to_string()) };
        let lines = broken.0.iter().map(|one| match &one.origin {
            Origin::Override(text) => format!("--set {text}: {}", one.problem),
            origin => format!("{origin}: {}", one.problem),
        });
        plain(&lines.collect::<Vec<_>>().join("\n       "))
    }
}

/// Settings that break rules, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenSettings(pub Vec<Broken>);

impl fmt::Display for BrokenSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, broken) in self.0.iter().enumerate() {
            let before = if index > 0 { "\n" } else { "" };
            write!(f, "{before}{broken}")?;
        }
        Ok(())
    }
}

impl std::error::Error for BrokenSettings {}

/// A setting that breaks a rule, and where it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Who gave it.
    pub origin: Origin,
    /// What is wrong with it.
    pub problem: Problem,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.problem)
    }
}

/// Where a setting was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file, or in what goes by a name: `chat.toml`, a variant of it, the built-in scenario.
    File(String),
    /// In an override, as `cluster.replicas=4`.
    Override(String),
    /// In an argument of this name.
    Argument(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(name) => f.write_str(name),
            Self::Override(text) => write!(f, "override {text}"),
            Self::Argument(name) => f.write_str(name),
        }
    }
}

impl Origin {
    /// What is wrong with something that was given here.
    pub(crate) fn fail(self, problem: Problem) -> LoadError {
        BrokenSettings(vec![Broken { origin: self, problem }]).into()
    }
}

/// What is wrong with a file.
pub(crate) fn fail(name: &str, problem: impl fmt::Display) -> LoadError {
    Origin::File(name.to_owned()).fail(Problem::new("", problem))
}
