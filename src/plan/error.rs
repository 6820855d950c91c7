//! Why something cannot be planned.

use std::fmt::Display;

use crate::load::{Draft, LoadError, Origin};
use crate::problem::Problem;
use crate::study::StudyError;
use crate::workload::WorkloadError;

/// Why something cannot be planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The scenario, or what is asked of it, breaks rules.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] StudyError),
    /// There is no layout to plan with.
    #[error("none of {count} layouts can be: {first}: {problem}")]
    NoLayout {
        /// How many were asked for.
        count: usize,
        /// The first.
        first: String,
        /// What is wrong with it.
        problem: Box<PlanError>,
    },
    /// Its requests cannot be drawn.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// Requests that depend on what was answered have no rate of their own.
    #[error(
        "a plan needs requests that come by themselves: `workload.{0}` makes them wait for answers"
    )]
    Closed(&'static str),
    /// Too little to plan for.
    #[error("a plan needs requests over some time, got {0} at one moment")]
    AtOnce(usize),
}

/// What is wrong with a part of the question, by its flag.
pub(super) fn asked(flag: &'static str, problem: impl Display) -> PlanError {
    Origin::Argument(flag).fail(Problem::new("", problem)).into()
}

/// What is wrong with a setting of the scenario.
pub(super) fn stated(draft: &Draft, at: &str, problem: impl Display) -> LoadError {
    Origin::File(draft.name().to_owned()).fail(Problem::new(at, problem))
}
