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
    crate::load::plain(&text)
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
