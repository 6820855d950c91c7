//! Recordings of speculative decoding: how many drafts each verification of a request accepted.
//!
//! JSON lines, plain or gzip, one request a line in any order:
//!
//! ```json
//! {"request": 0, "accepted": [2, 0, 3, 3]}
//! ```
//!
//! Requests are numbered from 0 in order of arrival, without gaps; `accepted` has the drafts
//! accepted in each of its verification steps, in order, without the token that follows them.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::io::text::Input;

/// Why a recording cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptanceError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not what the format says.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A request is missing.
    #[error("{}: request {request} is missing, though request {later} is there", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The first that is missing.
        request: usize,
        /// The next that is there.
        later: usize,
    },
    /// There is no request.
    #[error("{}: no request in it", .0.display())]
    Empty(PathBuf),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    request: u32,
    accepted: Vec<u32>,
}

/// Reads a recording: for each request the drafts accepted in each of its verifications, at most
/// `drafts` in one.
///
/// # Errors
/// [`AcceptanceError`] when the file cannot be read, a line is malformed, accepts more than there
/// are drafts, has no verification or repeats a request, or a request is missing.
pub fn read(path: &Path, drafts: u32) -> Result<Vec<Vec<u32>>, AcceptanceError> {
    let unreadable = |source| AcceptanceError::Io { path: path.to_path_buf(), source };
    requests(path, Input::open(path).map_err(unreadable)?, drafts)
}

fn requests(path: &Path, mut input: Input, drafts: u32) -> Result<Vec<Vec<u32>>, AcceptanceError> {
    let mut found: Vec<(usize, usize, Vec<u32>)> = Vec::new();
    let fail = |line: usize, problem: String| {
        let path = path.to_path_buf();
        AcceptanceError::Line { path, line, problem }
    };
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        input.begin_row();
        if input.read_line(&mut text).map_err(|error| fail(line, error.to_string()))? == 0 {
            break;
        }
        let text = text.trim();
        if !text.is_empty() {
            let (request, accepted) =
                request(text, drafts).map_err(|problem| fail(line, problem))?;
            found.push((request, line, accepted));
        }
    }
    found.sort_by_key(|(request, ..)| *request);
    for (index, (request, line, _)) in found.iter().enumerate() {
        if *request > index {
            let path = path.to_path_buf();
            return Err(AcceptanceError::Missing { path, request: index, later: *request });
        }
        if *request < index {
            return Err(fail(*line, format!("request {request} is there already")));
        }
    }
    if found.is_empty() {
        return Err(AcceptanceError::Empty(path.to_path_buf()));
    }
    Ok(found.into_iter().map(|(.., accepted)| accepted).collect())
}

fn request(text: &str, drafts: u32) -> Result<(usize, Vec<u32>), String> {
    let line: Line = serde_json::from_str(text)
        .map_err(|error| format!(r#"{error}; expected {{"request": 0, "accepted": [2, 0, 3]}}"#))?;
    let Line { request, accepted } = line;
    if accepted.is_empty() {
        return Err(format!("request {request} has no verification"));
    }
    match accepted.iter().position(|&count| count > drafts) {
        None => Ok((request as usize, accepted)),
        Some(step) => Err(format!(
            "request {request} has {} drafts accepted in step {step}, of {drafts}",
            accepted[step]
        )),
    }
}

#[cfg(test)]
mod tests;
