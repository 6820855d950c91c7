//! Settings that are given beside a file, and come before what it says.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::error::{Broken, BrokenSettings, LoadError, Origin};
use super::settings::{set, value_of};
use crate::problem::Problem;
use crate::resolved::ScenarioError;

/// A setting by the path of its key, and its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Override {
    /// As in `cluster.groups[0].replicas`.
    pub path: String,
    /// What it is set to.
    pub value: Value,
    /// As it was given, for messages.
    text: String,
}

impl Override {
    /// A setting and its value.
    pub fn new(path: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        let text = format!("{path}={value}");
        Self { path: path.trim().to_owned(), value, text }
    }

    fn origin(&self) -> Origin {
        Origin::Override(self.text.clone())
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `path=value`; the value as TOML, or as text where it is none.
impl FromStr for Override {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let origin = || Origin::Override(text.to_owned());
        let Some((path, value)) = text.split_once('=') else {
            let rule = format!("`{text}` has no `=`; write path=value");
            return Err(Origin::Argument("--set").fail(Problem::new("", rule)));
        };
        let value = value_of(value).map_err(|rule| origin().fail(Problem::new("", rule)))?;
        Ok(Self { path: path.trim().to_owned(), value, text: text.to_owned() })
    }
}

/// Puts all of them.
pub(super) fn put_all(root: &mut Table, overrides: &[Override]) -> Result<(), LoadError> {
    for given in overrides {
        set(root, &given.path, given.value.clone())
            .map_err(|problem| given.origin().fail(problem))?;
    }
    Ok(())
}

/// Whether a problem is that of an override: of what it sets, or of a table that it made in place of a value or under a
/// name that is not known.
pub(super) fn concerns(problem: &Problem, path: &str) -> bool {
    let is_made =
        problem.rule.starts_with("unknown key") || problem.value.as_deref() == Some("a table");
    let is_within = || path.strip_prefix(&problem.at).is_some_and(|rest| rest.starts_with('.'));
    problem.concerns(path) || (is_made && is_within())
}

/// Who is to blame for problems of a scenario: the last override of the setting or of one around it, else the
/// file.
pub(super) fn blame(name: &str, overrides: &[Override], error: ScenarioError) -> LoadError {
    let blamed = |problem: Problem| {
        let given = overrides.iter().rev().find(|given| concerns(&problem, &given.path));
        let origin = given.map_or_else(|| Origin::File(name.to_owned()), Override::origin);
        Broken { origin, problem }
    };
    BrokenSettings(error.problems.into_iter().map(blamed).collect()).into()
}
