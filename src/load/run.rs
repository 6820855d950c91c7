//! From a loaded scenario to runs of it.

use std::sync::Arc;

use super::Loaded;
use super::draft::Draft;
use super::error::LoadError;
use super::paths::for_each_path;
use crate::erased;
use crate::scenario::ScenarioFile;
use crate::study::{Case, Run, StudyError};
use crate::workload::TraceRow;

impl Draft {
    /// Resolves the scenario and simulates it; where nothing is said of its servers, with a fast and a slow one too
    /// ([`Case::tails`]).
    ///
    /// ```
    /// let run = servecast::load::built_in().with("workload.num_requests", 50)?.run()?;
    /// assert_eq!(run.counts.finished, 50);
    /// # Ok::<(), servecast::load::LoadError>(())
    /// ```
    ///
    /// # Errors
    /// Every rule that the scenario breaks, and files that cannot be read.
    pub fn run(&self) -> Result<Run, LoadError> {
        let case = self.resolve()?.case()?;
        let mut run = case.run()?;
        run.tails = case.tails()?;
        Ok(run)
    }
}

impl Loaded {
    /// The scenario with the rows of its trace and its step times, ready to be simulated.
    ///
    /// # Errors
    /// When its trace cannot be read, or its step times cannot be derived.
    pub fn case(&self) -> Result<Case, LoadError> {
        let mut scenario = self.scenario.clone();
        scenario.rename_files(self.relocated());
        let rows = self.trace()?.map(|(_, rows)| rows.collect::<Result<Vec<TraceRow>, _>>());
        let rows = rows.transpose()?.map(Arc::from);
        Ok(Case::new(scenario, rows)?.with_policies(self.policies.clone()))
    }

    /// The scenario in TOML, with every default filled in and absolute paths.
    ///
    /// # Panics
    /// Never: what can be read can be written.
    pub fn text(&self) -> String {
        erased::text(&self.relocated()).expect("a scenario is TOML")
    }

    /// The scenario with absolute paths, which hold wherever its file lies.
    pub fn relocated(&self) -> ScenarioFile {
        let mut file = self.scenario.written();
        for_each_path(&mut file, &self.folder, |name, path| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            *name = absolute.display().to_string();
        });
        file
    }
}

impl From<StudyError> for LoadError {
    fn from(error: StudyError) -> Self {
        match error {
            StudyError::Scenario(error) => error.into(),
            StudyError::Workload(error) => error.into(),
            StudyError::Policy(why) => Self::Policy(why),
        }
    }
}
