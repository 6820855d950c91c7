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
    /// The operating system refuses the file.
    #[error("{file}: cannot be read: {source}")]
    Unreadable {
        /// The file or folder.
        file: String,
        /// What the operating system says.
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
    /// What is missing, at least one.
    pub missing: Vec<MissingRole>,
    /// The columns that are there.
    pub found: Vec<String>,
}

/// What no column is known to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRole {
    /// What the column holds, in words.
    pub role: &'static str,
    /// What it is called where columns are named.
    pub key: &'static str,
    /// The names that would do.
    pub accepted: Vec<String>,
    /// The present column that is probably meant.
    pub closest: Option<String>,
}

impl fmt::Display for MissingColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, format, missing, found } = self;
        let list = |each: Vec<String>| each.join(", ");
        let roles = missing.iter().map(|one| match one.accepted.as_slice() {
            [] => one.role.to_owned(),
            [only] => format!("{} (`{only}`)", one.role),
            [first, ..] => format!("{} (such as `{first}`)", one.role),
        });
        let columns = if missing.len() == 1 { "a column" } else { "columns" };
        write!(f, "{file}:{line}: {format} needs {columns} for {}", list(roles.collect()))?;
        write!(f, ", found {}", quoted(found))?;
        if *format == TraceFormat::Csv && found.len() == 1 {
            return f.write_str(" alone; a trace has a line of names first, with commas, semicolons or tabs between them");
        }
        let name = |one: &MissingRole| one.closest.clone().unwrap_or_else(|| "NAME".to_owned());
        let options = missing.iter().map(|one| {
            let name = name(one);
            let mark = if name.chars().all(|c| c.is_alphanumeric() || "_-./".contains(c)) {
                ""
            } else {
                "'"
            };
            format!("--column {mark}{}={name}{mark}", one.key)
        });
        let keys = missing.iter().map(|one| format!("{} = \"{}\"", one.key, name(one)));
        write!(
            f,
            "; say which it is, as in `{}`, or in a scenario `trace.columns = {{ {} }}`",
            options.collect::<Vec<_>>().join(" "),
            list(keys.collect())
        )
    }
}

impl TraceError {
    /// What the system refuses to read, or what is not in the file as it must be.
    pub(super) fn unreadable(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Self::unusable(path, source.to_string())
            }
            _ => Self::Unreadable { file: path.display().to_string(), source },
        }
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
