//! `servecast man`: pages of the manual, made of the help texts.

use clap::{Args, Command};

use super::failure::Failure;
use super::terminal::print;
use crate::problem::Problem;
use crate::profiles::closest;

/// What a page is of, in its last line.
const SOURCE: &str = concat!("servecast ", env!("CARGO_PKG_VERSION"));

/// `servecast man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast man | man -l -\n  \
    servecast man profile import | man -l -\n  \
    servecast man > ~/.local/share/man/man1/servecast.1")]
pub(super) struct ManArguments {
    /// The command to describe, as in `profile import`; the program itself if absent
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

/// The page of a command of a program.
pub(super) fn man(arguments: &ManArguments, program: Command) -> Result<(), Failure> {
    let mut page = Vec::new();
    let manual = clap_mangen::Man::new(command(program, &arguments.words)?);
    let rendered = manual.source(SOURCE).manual("servecast").render(&mut page);
    rendered.map_err(|error| Failure::Run(error.into()))?;
    let page = String::from_utf8_lossy(&page).replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n");
    print(&page)
}

/// The command of these words, which knows the names of those above it.
fn command(program: Command, words: &[String]) -> Result<Command, Failure> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut found = &program;
    for word in words {
        found = found.find_subcommand(word).ok_or_else(|| unknown(found, word))?;
    }
    Ok(found.clone())
}

fn unknown(above: &Command, word: &str) -> Failure {
    let name = above.get_bin_name().unwrap_or("servecast");
    let near = closest(word, above.get_subcommands().map(Command::get_name));
    let rule = format!("`{name}` has no command `{word}`");
    let problem = Problem::new("man", rule).or_near(near);
    problem.with_hint(&format!("`{name} --help` lists its commands")).into()
}
