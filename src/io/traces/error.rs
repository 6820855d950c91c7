//! What can be wrong with a trace file: the place, the rule, the value, and what would be right.

use std::fmt;
use std::io;
use std::path::Path;

use crate::io::output::OutputError;
use crate::workload::WorkloadError;

use super::format::TraceFormat;

/// Why a trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refuses the file, or it is damaged.
    #[error("{file}: cannot be read: {source}")]
    Unreadable {
        /// The file or folder.
        file: String,
        /// What the operating system or the decompressor says.
        source: io::Error,
    },
    /// The file as a whole is not what its format asks for.
    #[error("{file}: {problem}")]
    Unusable {
        /// The file or folder.
        file: String,
        /// The rule, the value, and what would be right.
        problem: String,
    },
    /// A column that the format needs is missing.
    #[error("{0}")]
    MissingColumn(Box<MissingColumn>),
    /// A row cannot be used.
    #[error("{file}:{line}: {problem}")]
    Row {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: u64,
        /// The rule, the value, and what would be right.
        problem: String,
    },
    /// The target exists and is not to be replaced. Nothing is written.
    #[error("{file}: exists already; choose another name, or replace it with --overwrite")]
    Exists {
        /// The target.
        file: String,
    },
    /// The target is no place for a file. Nothing is written.
    #[error(transparent)]
    Target(#[from] OutputError),
    /// The target cannot be written. Nothing of it is left behind.
    #[error("{file}: cannot be written, nothing is left behind: {source}")]
    Unwritable {
        /// The target.
        file: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// The rows to be written come from a workload that fails.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// A column that a format needs and a file does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingColumn {
    /// The file.
    pub file: String,
    /// The line that names the columns, counted from 1.
    pub line: u64,
    /// The format the file is read as.
    pub format: TraceFormat,
    /// What the column holds.
    pub role: &'static str,
    /// The names that would do.
    pub accepted: Vec<String>,
    /// The columns that are there.
    pub found: Vec<String>,
    /// The present column whose name is closest to an accepted one.
    pub closest: Option<String>,
}

impl fmt::Display for MissingColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, format, role, .. } = self;
        let (accepted, found) = (quoted(&self.accepted), quoted(&self.found));
        write!(f, "{file}:{line}: {format} needs a column for {role} ({accepted}), found {found}")?;
        match &self.closest {
            Some(name) => write!(f, "; is `{name}` meant?"),
            None => Ok(()),
        }
    }
}

impl TraceError {
    pub(super) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { file: path.display().to_string(), source }
    }

    pub(super) fn unusable(path: &Path, problem: impl Into<String>) -> Self {
        Self::Unusable { file: path.display().to_string(), problem: problem.into() }
    }

    pub(super) fn row(path: &Path, line: u64, problem: impl Into<String>) -> Self {
        Self::Row { file: path.display().to_string(), line, problem: problem.into() }
    }

    pub(super) fn unwritable(path: &Path, source: io::Error) -> Self {
        Self::Unwritable { file: path.display().to_string(), source }
    }
}

impl From<TraceError> for WorkloadError {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Row { file, line, problem } => Self::Row { file, line, problem },
            TraceError::Workload(error) => error,
            other => Self::Unusable(other.to_string()),
        }
    }
}

fn quoted(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The name among `found` that is fewest edits away from one of `accepted`, if that is under half
/// of its length.
pub(super) fn closest(accepted: &[String], found: &[String]) -> Option<String> {
    found
        .iter()
        .flat_map(|name| accepted.iter().map(move |wanted| (edits(wanted, name), name)))
        .filter(|(distance, name)| distance * 2 < name.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name.clone())
}

/// The Levenshtein distance, upper and lower case being equal.
fn edits(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_insertions_deletions_and_replacements() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("Tokens", "tokens"), 0);
    }

    #[test]
    fn a_far_name_is_no_suggestion() {
        let names = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let found = names(&["id", "prompt_token"]);
        assert_eq!(closest(&names(&["prompt_tokens"]), &found).as_deref(), Some("prompt_token"));
        assert_eq!(closest(&names(&["arrival_s"]), &found), None);
    }
}
