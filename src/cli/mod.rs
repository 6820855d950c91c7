//! The command line: arguments in, results on stdout, everything else on stderr.

mod args;
mod autoscaler;
mod bench;
#[cfg(feature = "calibrate")]
mod calibrate;
mod check;
mod classes;
mod commands;
mod compare;
mod conformance;
mod explain;
mod failure;
mod faults;
mod init;
mod man;
mod outcome;
mod plan;
mod profile;
mod progress;
mod replace;
#[cfg(feature = "serve")]
mod replay;
mod report;
mod results;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod servers;
mod sweep;
mod terminal;
mod timeline;
mod trace;
mod validate;
mod vary;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

pub use bench::Pasted;
use commands::{Arguments, Command};
use failure::Failure;
use terminal::{print, say};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    run(std::env::args_os()).into()
}

/// Runs a command line, of which the first word is the name of the command, and gives its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let expanded = bench::expand(arguments).map_err(Failure::input);
    let arguments = expanded.map(parse);
    let ended = match arguments {
        Ok(Ok(arguments)) => dispatch(arguments),
        Ok(Err(refused)) => return terminal::arguments(&refused),
        Err(failure) => Err(failure),
    };
    match ended {
        Ok(()) => 0,
        Err(failure) => {
            say(&format!("error: {failure}"));
            failure.exit_code()
        }
    }
}

/// Reads arguments. Negative numbers are values, so that they are told which rule they break.
fn parse(arguments: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let mut command = with_negative_numbers(Arguments::command());
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let takes_value = |arg: &clap::Arg| !arg.is_positional() && arg.get_action().takes_values();
    command
        .mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(with_negative_numbers)
}

fn dispatch(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        None => run::run(&args::RunArguments::default()),
        Some(Command::Init(arguments)) => init::init(&arguments),
        Some(Command::Run(arguments)) => run::run(&arguments),
        Some(Command::Bench(arguments)) => bench::bench(*arguments),
        #[cfg(feature = "calibrate")]
        Some(Command::Calibrate(arguments)) => calibrate::calibrate(&arguments),
        Some(Command::Check(arguments)) => check::check(&arguments),
        Some(Command::Compare(arguments)) => compare::compare(&arguments),
        Some(Command::Explain(arguments)) => explain::explain(&arguments),
        #[cfg(feature = "serve")]
        Some(Command::Serve(arguments)) => serve::serve(&arguments),
        Some(Command::Plan(arguments)) => plan::plan(&arguments),
        Some(Command::Trace(arguments)) => trace::trace(&arguments),
        Some(Command::Profile(arguments)) => profile::profile(&arguments),
        Some(Command::Conformance(arguments)) => conformance::conformance(&arguments),
        Some(Command::Validate(arguments)) => validate::validate(&arguments),
        Some(Command::Sweep(arguments)) => sweep::sweep(&arguments),
        Some(Command::Merge(arguments)) => sweep::merge(&arguments),
        Some(Command::Report(arguments)) => report::report(&arguments),
        Some(Command::Schema) => print(&format!("{}\n", crate::sweep::schema())),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "servecast", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Some(Command::Man(arguments)) => man::man(&arguments, Arguments::command()),
    }
}
