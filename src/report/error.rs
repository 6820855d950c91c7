//! Why there is no page of a folder.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::sweep::SweepError;

/// Why there is no page of a folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The folder holds no results, or a file of it is not what it must be.
    #[error("{}: {problem}", path.display())]
    Folder {
        /// The folder or the file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The sweep in it cannot be read.
    #[error(transparent)]
    Sweep(#[from] SweepError),
}

impl ReportError {
    pub(super) fn folder(path: &Path, problem: impl fmt::Display) -> Self {
        Self::Folder { path: path.to_owned(), problem: problem.to_string() }
    }
}
