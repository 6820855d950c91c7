//! Why a command did not succeed, and with which exit code it says so.

#[cfg(feature = "calibrate")]
use crate::calibrate::CalibrationError;
use crate::load::{LoadError, Override};
use crate::problem::Problem;
use crate::study::StudyError;

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Bad arguments or input: exit code 2.
    #[error("{}", chain(.0))]
    Input(anyhow::Error),
    /// The run failed, or its verdict is negative: exit code 1.
    #[error("{}", chain(.0))]
    Run(anyhow::Error),
}

/// An error with its causes; those that a message names already are not repeated.
fn chain(error: &anyhow::Error) -> String {
    let causes = error.chain().skip(1).map(ToString::to_string);
    let text = causes.fold(error.to_string(), |text, cause| {
        if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
    });
    without_codes(&crate::load::plain(&text))
}

/// The text without the numbers that the operating system gives its errors.
fn without_codes(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix(')') {
            Some(rest) => told += rest,
            None => told.extend([" (os error ", part]),
        }
    }
    told.replace("No such file or directory", "no such file or folder")
}

impl Failure {
    /// Bad input, in words.
    pub(super) fn input(message: impl Into<String>) -> Self {
        Self::Input(anyhow::anyhow!(message.into()))
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Run(_) => 1,
            Self::Input(_) => 2,
        }
    }
}

/// What is wrong with a scenario is bad input; settings of `--set` are blamed by that name.
impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Settings(_) => Self::input(error.told()),
            other => Self::Input(other.into()),
        }
    }
}

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Self {
        Self::Input(error.into())
    }
}

#[cfg(feature = "calibrate")]
impl From<CalibrationError> for Failure {
    fn from(error: CalibrationError) -> Self {
        Self::Input(error.into())
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::input(problem.to_string())
    }
}

/// The settings of `--set`.
pub(super) fn overrides(texts: &[String]) -> Result<Vec<Override>, Failure> {
    let each = texts.iter().map(|text| text.parse::<Override>());
    Ok(each.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::without_codes;

    #[test]
    fn errors_of_the_system_are_told_without_their_numbers() {
        for (said, told) in [
            ("a.toml: No such file or directory (os error 2)", "a.toml: no such file or folder"),
            ("x: Permission denied (os error 13): y", "x: Permission denied: y"),
            ("`b (os error c)`", "`b (os error c)`"),
        ] {
            assert_eq!(without_codes(said), told);
        }
    }
}
