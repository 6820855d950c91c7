//! Cases of studies, made of drafts; what several of them read is read once.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::memory::{self, Leaves};
use super::notes::{Listener, Note};
use super::{Draft, LoadError, Loaded};
use crate::cost::StepTime;
use crate::resolved::{ReplicaGroup, Scenario};
use crate::rng::Stream;
use crate::scenario::{ArrivalConfig, LengthConfig, TraceArrivalConfig};
use crate::sim;
use crate::study::Case;
use crate::workload::{TraceRow, resampled_rows};

/// Makes cases and keeps the traces they read, and their step times.
#[derive(Debug, Default)]
pub struct Cases {
    listener: Listener,
    tells_caveats: bool,
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
    /// Tells a listener what the files hold and what results hang on.
    pub fn told(listener: &Listener) -> Self {
        Self { tells_caveats: true, ..Self::told_of_files(listener) }
    }

    /// Tells a listener what the files hold.
    pub fn told_of_files(listener: &Listener) -> Self {
        Self { listener: listener.clone(), ..Self::default() }
    }

    /// The case of a draft.
    ///
    /// # Errors
    /// Every rule that it breaks, files that cannot be read, and runs that do not fit into memory.
    pub fn of_draft(&self, draft: &Draft) -> Result<Case, LoadError> {
        self.of(draft.resolve()?, Leaves::Records)
    }

    /// The case of a resolved scenario, whose runs leave this. The paths in it hold wherever its file lies.
    ///
    /// # Errors
    /// When files cannot be read, and runs do not fit into memory.
    pub fn of(&self, mut loaded: Loaded, leaves: Leaves) -> Result<Case, LoadError> {
        if self.tells_caveats {
            for caveat in loaded.scenario.caveats() {
                self.listener.tell(&Note::Warning(caveat.to_string()));
            }
        }
        memory::check(&loaded.scenario, leaves, &self.listener)?;
        loaded.scenario.rename_files(loaded.relocated());
        let rows = self.rows(&loaded)?;
        let costs = self.step_times(&loaded.scenario)?;
        Ok(Case::with_step_times(loaded.scenario, rows, costs).with_policies(loaded.policies))
    }

    /// The case of a draft with another stretch of the trace that it plays, drawn from the stream
    /// ([`resampled_rows`]); and whether there is one. There is none where arrivals or lengths do not come from the trace,
    /// `jitter_s` moves arrivals, or rows are drawn.
    ///
    /// # Errors
    /// As [`of_draft`](Self::of_draft).
    pub fn of_stretch(
        &self,
        draft: &Draft,
        stream: &mut Stream,
    ) -> Result<(Case, bool), LoadError> {
        let loaded = draft.resolve()?;
        let played = played(&loaded);
        let mut case = self.of(loaded, Leaves::Records)?;
        let requests = case.scenario.workload.num_requests;
        let rows = played.as_ref().zip(case.rows());
        let rows = rows.and_then(|(played, rows)| resampled_rows(rows, played, requests, stream));
        let Some((arrivals, rows)) = played.zip(rows) else { return Ok((case, false)) };
        // The stretch has as many requests as it has, all of them in the window.
        case.scenario.workload.num_requests = None;
        let arrivals = TraceArrivalConfig { window_end_s: None, ..arrivals };
        case.scenario.workload.arrivals = ArrivalConfig::Trace(arrivals);
        Ok((case.with_rows(rows.into()), true))
    }

    /// The step times of a scenario, those of an earlier one if its replicas are of the same kinds.
    fn step_times(&self, scenario: &Scenario) -> Result<StepTimes, LoadError> {
        let mut kinds = scenario.groups.clone();
        for group in &mut kinds {
            group.cluster.replicas = 1;
        }
        let lock = || self.step_times.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, costs)) = lock().iter().find(|(known, _)| *known == kinds) {
            return Ok(costs.clone());
        }
        let costs: StepTimes = sim::step_times(scenario)?.into();
        let mut known = lock();
        if known.len() == STEP_TIMES_MAX {
            known.remove(0);
        }
        known.push((kinds, costs.clone()));
        Ok(costs)
    }

    /// The rows of the trace that a scenario reads, if it reads one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn rows(&self, loaded: &Loaded) -> Result<Option<Arc<[TraceRow]>>, LoadError> {
        let Some(trace) = &loaded.scenario.trace else { return Ok(None) };
        let seed = draws_rows(loaded).then_some(loaded.scenario.seed);
        let key = format!("{seed:?} {trace:?}");
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, rows)) = traces.iter().find(|(known, _)| *known == key) {
            return Ok(Some(rows.clone()));
        }
        let opened = loaded.trace()?;
        let rows = opened.into_iter().flat_map(|(summary, rows)| {
            Note::of_trace(&summary).for_each(|note| self.listener.tell(&note));
            rows
        });
        let rows: Arc<[TraceRow]> = rows.collect::<Result<Vec<TraceRow>, _>>()?.into();
        traces.push((key, rows.clone()));
        Ok(Some(rows))
    }
}

/// How a scenario plays its trace as it was recorded, with the window that it plays; nothing where it does not.
fn played(loaded: &Loaded) -> Option<TraceArrivalConfig> {
    let workload = &loaded.scenario.workload;
    let ArrivalConfig::Trace(arrivals) = &workload.arrivals else { return None };
    let is_recorded = matches!(workload.lengths, LengthConfig::Trace { .. })
        && arrivals.jitter_s == 0.0
        && !draws_rows(loaded);
    let until = workload.duration_s.filter(|_| arrivals.rate_per_s.is_none()).map(|duration_s| {
        arrivals.window_start_s.unwrap_or(0.0) + duration_s * arrivals.rate_scale
    });
    let ends = [arrivals.window_end_s, until].into_iter().flatten();
    let window_end_s = ends.reduce(f64::min);
    is_recorded.then(|| TraceArrivalConfig { window_end_s, ..arrivals.clone() })
}

/// Whether the rows of a trace are drawn with the seed: `ServeGen`'s folders hold rates.
fn draws_rows(loaded: &Loaded) -> bool {
    loaded.scenario.trace.as_ref().is_some_and(|trace| Path::new(&trace.path).is_dir())
}
