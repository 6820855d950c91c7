//! What is wrong with a setting: where it stands, the rule it breaks, what it says, and what was probably meant.

use std::fmt::{self, Display};

use crate::plain::shown;

/// A setting that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The path of the setting, as in `cluster.groups[0].engine.block_size`; empty where it is the whole file.
    pub at: String,
    /// The rule, as in `must be at least 1`, or what is wrong in a sentence.
    pub rule: String,
    /// What the setting says, where the rule is about that.
    pub value: Option<String>,
    /// The known name that is nearest to one that is not known.
    pub near: Option<String>,
    /// What helps.
    pub hint: Option<Box<str>>,
    /// Whether the memory of GPUs does not hold what is asked for.
    pub is_of_memory: bool,
}

impl Problem {
    /// A problem in a sentence.
    pub fn new(at: impl Into<String>, rule: impl Display) -> Self {
        let (at, rule) = (at.into(), rule.to_string());
        Self { at, rule, value: None, near: None, hint: None, is_of_memory: false }
    }

    /// A value that is not as it must be: `rule` goes on from `must be`.
    pub fn must_be(at: impl Into<String>, rule: impl Display, value: impl Display) -> Self {
        let value = Some(shown(value));
        Self { value, ..Self::new(at, format_args!("must be {rule}")) }
    }

    /// The same with the known name that is nearest to what was given, if one is near.
    #[must_use]
    pub fn or_near(self, near: Option<&str>) -> Self {
        Self { near: near.map(str::to_owned), ..self }
    }

    /// The same with what helps.
    #[must_use]
    pub fn with_hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same, which is that the memory of GPUs does not hold what is asked for.
    #[must_use]
    pub fn of_memory(self) -> Self {
        Self { is_of_memory: true, ..self }
    }

    /// The same of a table that lies at a path.
    #[must_use]
    pub fn below(mut self, path: &str) -> Self {
        let dot = if self.at.is_empty() { "" } else { "." };
        self.at = format!("{path}{dot}{}", self.at);
        self
    }

    /// Whether it concerns the setting at a path, or one in the table there.
    pub fn concerns(&self, path: &str) -> bool {
        let rest = self.at.strip_prefix(path).filter(|_| !path.is_empty());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        f.write_str(&self.rule)?;
        if let Some(value) = &self.value {
            write!(f, ", got {value}")?;
        }
        if let Some(near) = &self.near {
            write!(f, "; did you mean `{near}`?")?;
        }
        match &self.hint {
            None => Ok(()),
            Some(hint) if self.near.is_none() => write!(f, "; {hint}"),
            // A question ends the sentence before.
            Some(hint) => {
                let mut letters = hint.chars();
                let first = letters.next().into_iter().flat_map(char::to_uppercase);
                write!(f, " {}{}", first.collect::<String>(), letters.as_str())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_tells_place_rule_value_neighbour_and_help() {
        let told = Problem::must_be("cluster.replicas", "at least 1", 0).to_string();
        assert_eq!(told, "cluster.replicas: must be at least 1, got 0");
        let unknown = Problem::new("gpu", "`H10` is not known").or_near(Some("H100"));
        let told = unknown.with_hint("`profile list` names them").below("cluster").to_string();
        assert_eq!(
            told,
            "cluster.gpu: `H10` is not known; did you mean `H100`? `profile list` names them"
        );
        let unknown = Problem::new("a", "unknown key `b`").with_hint("known keys: `c`");
        assert_eq!(unknown.to_string(), "a: unknown key `b`; known keys: `c`");
        let told = unknown.or_near(Some("c")).to_string();
        assert_eq!(told, "a: unknown key `b`; did you mean `c`? Known keys: `c`");
        assert_eq!(Problem::new("", "is empty").to_string(), "is empty");
    }

    #[test]
    fn a_problem_concerns_the_setting_and_the_tables_around_it() {
        let problem = Problem::new("cluster.groups[0].engine.block_size", "is odd");
        for path in ["cluster", "cluster.groups", "cluster.groups[0].engine", &problem.at] {
            assert!(problem.concerns(path), "{path}");
        }
        for path in ["", "clus", "cluster.groups[0].engine.block", "workload"] {
            assert!(!problem.concerns(path), "{path}");
        }
    }
}
