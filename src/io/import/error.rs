//! Why measurements cannot be imported.

use std::path::Path;

use crate::cost::LayerProfileError;

/// Why measurements cannot be imported. The message names the file, the rule and the value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerImportError {
    /// A file cannot be read.
    #[error("{file}: {problem}")]
    Read {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A file says something that is not understood.
    #[error("{file}: {problem}")]
    Content {
        /// The file.
        file: String,
        /// The rule and the value.
        problem: String,
    },
    /// The measurements do not make a profile.
    #[error("the measurements make no profile: {0}")]
    Profile(#[from] LayerProfileError),
}

impl LayerImportError {
    pub(super) fn read(file: &Path, error: &std::io::Error) -> Self {
        Self::Read { file: file.display().to_string(), problem: error.to_string() }
    }

    pub(super) fn content(file: &Path, problem: impl Into<String>) -> Self {
        Self::Content { file: file.display().to_string(), problem: problem.into() }
    }
}
