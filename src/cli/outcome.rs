//! A scenario that was run, for all that is said of it.

use crate::load::Spread;
use crate::metrics::bench::Comparison;
use crate::metrics::{BenchReport, Recorder, StepLog, Warnings};
use crate::resolved::Scenario;
use crate::sim::Counts;

/// A scenario that was run.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) scenario: Scenario,
    pub(super) counts: Counts,
    pub(super) recorder: Recorder,
    pub(super) steps: Option<StepLog>,
    pub(super) report: BenchReport,
    /// The same of a fast and a slow server, where nothing of the server was measured.
    pub(super) tails: Vec<BenchReport>,
    pub(super) comparison: Option<Comparison>,
    /// What the result hangs on.
    pub(super) warnings: Warnings,
    /// How the figures vary between seeds and within what a calibration knows.
    pub(super) spread: Option<Spread>,
    /// Real time the run took, in seconds.
    pub(super) wall_s: f64,
}
