//! Why a sweep cannot be asked for, run or read.

use std::path::PathBuf;

use super::plan::BrokenRule;
use crate::io::output::OutputError;
use crate::io::rundir::RunDirError;
use crate::load::LoadError;

/// Why a sweep cannot be asked for, run or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// Its scenario cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// What is varied breaks a rule.
    #[error("sweep: {0}")]
    Rule(#[from] BrokenRule),
    /// A path is no place for its folder.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A path is no place for a file of it.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Something lies in its folder that is not what must lie there, or something is missing.
    #[error("{}: {problem}", path.display())]
    Folder {
        /// The folder, or a file of it.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Folders are not parts of one sweep, or not all of them.
    #[error("{0}")]
    Parts(String),
    /// A file cannot be read or written to its end.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No run has ended.
    #[error("no run of the sweep has ended in any part")]
    NoRuns,
    /// No run answered any request.
    #[error("no request of any run was answered")]
    Unanswered,
    /// Every run failed.
    #[error("all {runs} runs failed: {error}")]
    AllFailed {
        /// How many there are.
        runs: usize,
        /// Why the first one failed.
        error: String,
        /// Whether any of them is of a scenario that could be loaded.
        any_loaded: bool,
    },
}

#[cfg(feature = "sweep")]
impl SweepError {
    pub(super) fn folder(path: &std::path::Path, problem: impl std::fmt::Display) -> Self {
        Self::Folder { path: path.to_owned(), problem: problem.to_string() }
    }

    pub(super) fn file(
        path: &std::path::Path,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::File { path: path.to_owned(), source: source.into() }
    }
}

impl SweepError {
    /// Whether what was asked for is wrong, and not what became of it.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::File { .. } | Self::NoRuns | Self::Unanswered => false,
            Self::AllFailed { any_loaded, .. } => !any_loaded,
            _ => true,
        }
    }
}
