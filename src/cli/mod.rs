//! The command line: arguments in, results on stdout, everything else on stderr.

mod args;
mod autoscaler;
mod bench;
#[cfg(feature = "calibrate")]
mod calibrate;
mod check;
mod classes;
mod compare;
mod conformance;
mod faults;
mod plan;
mod profile;
mod progress;
mod replace;
mod report;
mod results;
mod run;
mod schema;
mod seeds;
mod setting;
mod sweep;
mod terminal;
mod timeline;
mod trace;
mod validate;
mod vary;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Arguments, Command};
use terminal::{hear, listener, print, print_text, say};

#[cfg(feature = "calibrate")]
use crate::calibrate::CalibrationError;
use crate::load::{LoadError, Override};
use crate::problem::Problem;
use crate::study::StudyError;

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
enum Failure {
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
    fn input(message: impl Into<String>) -> Self {
        Self::Input(anyhow::anyhow!(message.into()))
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Run(_) => ExitCode::from(1),
            Self::Input(_) => ExitCode::from(2),
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
fn overrides(texts: &[String]) -> Result<Vec<Override>, Failure> {
    let each = texts.iter().map(|text| text.parse::<Override>());
    Ok(each.collect::<Result<_, _>>()?)
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let expanded = bench::expand(std::env::args_os()).map_err(Failure::input);
    let arguments = expanded.map(Arguments::try_parse_from);
    let ended = match arguments {
        Ok(Ok(arguments)) => dispatch(arguments),
        Ok(Err(refused)) => return terminal::arguments(&refused),
        Err(failure) => Err(failure),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("error: {failure}"));
            failure.exit_code()
        }
    }
}

fn dispatch(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        None => run::run(&args::RunArguments::default()),
        Some(Command::Run(arguments)) => run::run(&arguments),
        Some(Command::Bench(arguments)) => bench::bench(&arguments),
        #[cfg(feature = "calibrate")]
        Some(Command::Calibrate(arguments)) => calibrate::calibrate(&arguments),
        Some(Command::Check(arguments)) => check::check(&arguments),
        Some(Command::Compare(arguments)) => compare::compare(&arguments),
        Some(Command::Plan(arguments)) => plan::plan(&arguments),
        Some(Command::Trace(arguments)) => trace::trace(&arguments),
        Some(Command::Profile(arguments)) => profile::profile(&arguments),
        Some(Command::Conformance(arguments)) => conformance::conformance(&arguments),
        Some(Command::Validate(arguments)) => validate::validate(&arguments),
        Some(Command::Sweep(arguments)) => sweep::sweep(&arguments),
        Some(Command::Merge(arguments)) => sweep::merge(&arguments),
        Some(Command::Report(arguments)) => report::report(&arguments),
        Some(Command::Schema) => print(&format!("{}\n", schema::schema())),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "servecast", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}
