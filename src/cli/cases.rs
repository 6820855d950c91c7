//! Cases of studies, made of drafts; what several of them read is read once.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::memory::{self, Leaves};
use super::run::trace_rows;
use super::{Failure, say_once};
use crate::cost::StepTime;
use crate::load::{Draft, Loaded};
use crate::resolved::{ReplicaGroup, Scenario};
use crate::sim;
use crate::study::{Case, StudyError};
use crate::workload::TraceRow;

/// Makes cases and keeps the traces they read, and their step times.
#[derive(Debug, Default)]
pub(super) struct Cases {
    /// By file and the way it is read.
    traces: Mutex<Vec<(String, Arc<[TraceRow]>)>>,
    /// Of groups of replicas whose number is left out, the last ones made at the end.
    step_times: Mutex<Vec<(Vec<ReplicaGroup>, StepTimes)>>,
}

/// Of each group of replicas.
type StepTimes = Arc<[StepTime]>;

/// How many clusters' step times are kept: to make them from a table takes a few milliseconds.
const STEP_TIMES_MAX: usize = 16;

impl Cases {
    /// The case of a draft.
    pub(super) fn of_draft(&self, draft: &Draft) -> Result<Case, Failure> {
        self.of(draft.resolve()?, Leaves::Records)
    }

    /// The case of a resolved scenario, whose runs leave this. The paths in it hold wherever its file lies.
    pub(super) fn of(&self, mut loaded: Loaded, leaves: Leaves) -> Result<Case, Failure> {
        for caveat in loaded.scenario.caveats() {
            say_once(&format!("warning: {caveat}"));
        }
        memory::check(&loaded.scenario, leaves)?;
        loaded.scenario.file = loaded.relocated();
        let rows = self.rows(&loaded)?;
        let costs = self.step_times(&loaded.scenario)?;
        Ok(Case::with_step_times(loaded.scenario, rows, costs))
    }

    /// The step times of a scenario, those of an earlier one if its replicas are of the same kinds.
    fn step_times(&self, scenario: &Scenario) -> Result<StepTimes, Failure> {
        let mut kinds = scenario.groups.clone();
        for group in &mut kinds {
            group.cluster.replicas = 1;
        }
        let lock = || self.step_times.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, costs)) = lock().iter().find(|(known, _)| *known == kinds) {
            return Ok(costs.clone());
        }
        let costs: StepTimes = sim::step_times(scenario).map_err(StudyError::from)?.into();
        let mut known = lock();
        if known.len() == STEP_TIMES_MAX {
            known.remove(0);
        }
        known.push((kinds, costs.clone()));
        Ok(costs)
    }

    /// The rows of the trace that a scenario reads, if it reads one.
    pub(super) fn rows(&self, loaded: &Loaded) -> Result<Option<Arc<[TraceRow]>>, Failure> {
        let Some(trace) = &loaded.scenario.file.trace else { return Ok(None) };
        // ServeGen's folders hold rates, from which requests are drawn with the seed.
        let seed = Path::new(&trace.path).is_dir().then_some(loaded.scenario.file.seed);
        let key = format!("{seed:?} {trace:?}");
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, rows)) = traces.iter().find(|(known, _)| *known == key) {
            return Ok(Some(rows.clone()));
        }
        let rows = trace_rows(loaded)?.into_iter().flatten();
        let rows: Result<Vec<TraceRow>, _> = rows.collect();
        let rows: Arc<[TraceRow]> = rows.map_err(|error| Failure::Input(error.into()))?.into();
        traces.push((key, rows.clone()));
        Ok(Some(rows))
    }
}

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Self {
        Self::Input(error.into())
    }
}
