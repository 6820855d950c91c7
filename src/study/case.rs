//! A scenario with all it reads, simulated as often as one likes.

use std::sync::Arc;

use super::figures::Figures;
use super::policies::Policies;
use crate::cluster::Cluster;
use crate::cost::StepTime;
use crate::metrics::bench::Comparison;
use crate::metrics::{
    BenchReport, Caution, Recorder, StepLog, Summary, Warnings, comparison, tails_of,
};
use crate::resolved::{Scenario, ScenarioError};
use crate::sim::{self, Counts, Observer, Separable};
use crate::workload::{TraceRow, TraceRows, Workload, WorkloadError};

/// Why a run of a study failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// The scenario cannot be simulated.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Its requests cannot be drawn.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A policy is not for it.
    #[error("{0}")]
    Policy(String),
}

/// A scenario, the rows of its trace and its step times.
#[derive(Debug, Clone)]
pub struct Case {
    /// The scenario.
    pub scenario: Scenario,
    rows: Option<Arc<[TraceRow]>>,
    costs: Arc<[StepTime]>,
    policies: Option<Arc<Policies<'static>>>,
}

/// A run that ended, with its records.
#[derive(Debug)]
pub struct Run {
    /// What was simulated.
    pub scenario: Scenario,
    /// What became of the requests.
    pub counts: Counts,
    /// All records.
    pub recorder: Recorder,
    /// The figures of the benchmark tools.
    pub report: BenchReport,
    /// The same of a fast and a slow server, for the intervals of the summary, where [`Case::tails`] gave them.
    pub tails: Vec<BenchReport>,
}

/// A run with what its figures hang on and, where they are kept, its steps.
#[derive(Debug)]
pub struct Recording {
    /// The run.
    pub run: Run,
    /// What its figures hang on.
    pub warnings: Warnings,
    /// Its steps.
    pub steps: Option<StepLog>,
}

/// The idle cluster of a scenario, with policies in place of its own.
pub(crate) fn cluster(
    scenario: &Scenario,
    costs: &[StepTime],
    policies: Option<&Policies<'_>>,
) -> Result<Cluster, StudyError> {
    let cluster = sim::cluster_priced_by(scenario, costs)?;
    match policies {
        None => Ok(cluster),
        Some(policies) => policies.applied(scenario, cluster).map_err(StudyError::Policy),
    }
}

impl Recording {
    /// All that is said of the run: the content of `summary.json`.
    pub fn summary(&self) -> Summary {
        let mut summary = self.run.summary();
        summary.warn(&self.warnings);
        let comparison = comparison(&self.run.scenario, &self.run.report);
        summary.comparison = comparison.as_ref().map(Comparison::figures);
        summary
    }
}

impl Run {
    /// Its figures by name.
    pub fn figures(&self) -> Figures {
        Figures::new(&self.scenario, self)
    }

    /// All that is said of it, without what it hangs on ([`Case::warnings`]).
    pub fn summary(&self) -> Summary {
        Summary::new(&self.scenario, &self.counts, &self.recorder, &self.report, &self.tails)
    }
}

impl Case {
    /// A scenario with the rows of the trace it reads, if it reads one; rows are shared, not copied.
    ///
    /// # Errors
    /// When there are no step times for it.
    pub fn new(scenario: Scenario, rows: Option<Arc<[TraceRow]>>) -> Result<Self, StudyError> {
        let costs = sim::step_times(&scenario)?.into();
        Ok(Self { scenario, rows, costs, policies: None })
    }

    /// The same with the step times of its groups of replicas, which are shared too.
    ///
    /// # Panics
    /// When there are not as many as groups.
    pub fn with_step_times(
        scenario: Scenario,
        rows: Option<Arc<[TraceRow]>>,
        costs: Arc<[StepTime]>,
    ) -> Self {
        assert_eq!(costs.len(), scenario.groups.len(), "step times of each group");
        Self { scenario, rows, costs, policies: None }
    }

    /// The same with policies in place of those of the scenario, if there are some.
    #[must_use]
    pub fn with_policies(self, policies: Option<Arc<Policies<'static>>>) -> Self {
        Self { policies, ..self }
    }

    /// The same with other rows of the trace it reads.
    #[must_use]
    pub fn with_rows(self, rows: Arc<[TraceRow]>) -> Self {
        Self { rows: Some(rows), ..self }
    }

    /// The rows of the trace it reads, if it reads one.
    pub fn rows(&self) -> Option<&[TraceRow]> {
        self.rows.as_deref()
    }

    /// The step times of its groups of replicas.
    pub fn costs(&self) -> &[StepTime] {
        &self.costs
    }

    /// What is sent to it.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub fn workload(&self) -> Result<Workload, StudyError> {
        let rows = self.rows.clone().map(|rows| {
            let each = (0..rows.len()).map(move |row| Ok(rows[row].clone()));
            Box::new(each) as TraceRows
        });
        let trace = self.scenario.trace.as_ref().map(|trace| trace.path.clone());
        let workload = Workload::open(&self.scenario.workload, self.scenario.seed, rows)?;
        Ok(workload.of_trace(trace))
    }

    /// Its idle cluster, with its policies.
    ///
    /// # Errors
    /// When a recording that the scenario names was not read, or a policy is not for it.
    pub fn cluster(&self) -> Result<Cluster, StudyError> {
        cluster(&self.scenario, &self.costs, self.policies.as_deref())
    }

    /// Simulates it and tells an observer.
    ///
    /// # Errors
    /// When the workload cannot be drawn.
    pub fn observe(&self, observer: &mut impl Separable) -> Result<Counts, StudyError> {
        self.observe_on(self.cluster()?, observer)
    }

    /// The same in one loop, for observers that follow single requests.
    ///
    /// # Errors
    /// When the workload cannot be drawn.
    pub fn follow(&self, observer: &mut impl Observer) -> Result<Counts, StudyError> {
        let run = sim::simulation_on(&self.scenario, self.cluster()?, self.workload()?)?;
        Ok(run.run(observer)?)
    }

    /// Simulates it on a cluster that was changed and tells an observer.
    ///
    /// # Errors
    /// When the workload cannot be drawn.
    pub fn observe_on(
        &self,
        cluster: Cluster,
        observer: &mut impl Separable,
    ) -> Result<Counts, StudyError> {
        let run = sim::simulation_on(&self.scenario, cluster, self.workload()?)?;
        Ok(run.run_in_lanes(observer)?)
    }

    /// Simulates it and keeps the records.
    ///
    /// # Errors
    /// When the workload cannot be drawn.
    pub fn run(&self) -> Result<Run, StudyError> {
        self.run_on(self.cluster()?)
    }

    /// Simulates it on a cluster that was changed and keeps the records.
    ///
    /// # Errors
    /// When the workload cannot be drawn.
    pub fn run_on(&self, cluster: Cluster) -> Result<Run, StudyError> {
        self.record_on(cluster, Recorder::of(&self.scenario))
    }

    /// Simulates it on a cluster that may have been changed, with all that can be said of the run, and tells an
    /// observer. Where steps are kept, the whole is simulated in one loop.
    ///
    /// # Errors
    /// When the workload cannot be drawn.
    pub fn record(
        &self,
        cluster: Cluster,
        keeps_steps: bool,
        observer: &mut impl Separable,
    ) -> Result<Recording, StudyError> {
        let mut recorder = Recorder::of(&self.scenario);
        let mut caution = Caution::new(&self.scenario, self.costs.to_vec());
        let mut heard = (&mut recorder, (&mut caution, observer));
        let (counts, steps) = if keeps_steps {
            let mut steps = StepLog::default();
            let run = sim::simulation_on(&self.scenario, cluster, self.workload()?)?;
            (run.run(&mut (heard, &mut steps))?, Some(steps))
        } else {
            (self.observe_on(cluster, &mut heard)?, None)
        };
        let warnings = caution.warnings(&self.scenario, &counts);
        Ok(Recording { run: self.recorded(counts, recorder)?, warnings, steps })
    }

    fn record_on(&self, cluster: Cluster, mut recorder: Recorder) -> Result<Run, StudyError> {
        let counts = self.observe_on(cluster, &mut recorder)?;
        self.recorded(counts, recorder)
    }

    fn recorded(&self, counts: Counts, recorder: Recorder) -> Result<Run, StudyError> {
        self.scenario.check_accepted_drafts(counts.arrived)?;
        let report = BenchReport::new(&recorder, &self.scenario);
        Ok(Run { scenario: self.scenario.clone(), counts, recorder, report, tails: Vec::new() })
    }

    /// The figures with a fast and with a slow server, where nothing of the server was measured and queues make more of a
    /// slow one than its steps do ([`tails_of`]); else none.
    ///
    /// # Errors
    /// When the workload cannot be drawn.
    pub fn tails(&self) -> Result<Vec<BenchReport>, StudyError> {
        let Some([fast, slow]) = tails_of(&self.scenario) else { return Ok(Vec::new()) };
        let report = |scenario: Scenario| {
            let case = Self::new(scenario, self.rows.clone())?;
            let recorder = Recorder::of_figures(&case.scenario);
            let run = case.with_policies(self.policies.clone()).record_with(recorder);
            run.map(|run| run.report)
        };
        // One after the other: a slow one may need much memory.
        Ok(vec![report(fast)?, report(slow)?])
    }

    /// Simulates it and says what its figures hang on.
    ///
    /// # Errors
    /// When the workload cannot be drawn.
    pub fn warnings(&self) -> Result<Warnings, StudyError> {
        let mut caution = Caution::new(&self.scenario, self.costs.to_vec());
        let counts = self.observe(&mut caution)?;
        Ok(caution.warnings(&self.scenario, &counts))
    }

    /// Simulates it and gives its figures, with what they hang on; records of many requests are not kept
    /// ([`Recorder::of_figures`]).
    ///
    /// # Errors
    /// When the workload cannot be drawn.
    pub fn figures_and_warnings(&self) -> Result<(Figures, Warnings), StudyError> {
        let mut recorder = Recorder::of_figures(&self.scenario);
        let mut caution = Caution::new(&self.scenario, self.costs.to_vec());
        let counts = self.observe(&mut (&mut recorder, &mut caution))?;
        let warnings = caution.warnings(&self.scenario, &counts);
        Ok((self.recorded(counts, recorder)?.figures(), warnings))
    }

    /// Simulates it and gives its figures; records of many requests are not kept
    /// ([`Recorder::of_figures`]).
    ///
    /// # Errors
    /// When the workload cannot be drawn.
    pub fn figures(&self) -> Result<Figures, StudyError> {
        Ok(self.record_with(Recorder::of_figures(&self.scenario))?.figures())
    }

    fn record_with(&self, recorder: Recorder) -> Result<Run, StudyError> {
        self.record_on(self.cluster()?, recorder)
    }
}
