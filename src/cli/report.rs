//! `servecast report`: one page of what a command left behind.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::Failure;
use super::replace;
use super::run::remove_on_interrupt;
use super::terminal::{listener, say};
use crate::io::output;
use crate::report::{self, Leavings, ReportError};

/// `servecast report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast report runs/my-scenario\n  \
    servecast report out/rates --output rates.html")]
pub(super) struct ReportArguments {
    /// Folder that run, bench, sweep, merge, plan or compare wrote
    folder: PathBuf,
    /// The page; report.html in that folder if absent
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that was not made by servecast
    #[arg(long)]
    overwrite: bool,
}

pub(super) fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    let leavings = Leavings::open(&arguments.folder, &listener())?;
    let own = || arguments.folder.join("report.html");
    let target = arguments.output.clone().unwrap_or_else(own);
    check_target(&target, arguments.overwrite)?;
    let page = leavings.page(&listener())?;
    remove_on_interrupt()?;
    replace::replace(&target, |file| Ok(file.write_all(page.as_bytes())?))?;
    say(&format!("report in {}", target.display()));
    Ok(())
}

/// A file of somebody else is not replaced unasked.
fn check_target(target: &Path, overwrite: bool) -> Result<(), Failure> {
    replace::check(target)?;
    let Some(there) = output::occupied(target) else { return Ok(()) };
    let place = target.display();
    let is_own = report::is_page(&there);
    if is_own.map_err(|error| Failure::input(format!("{place}: {error}")))? || overwrite {
        return Ok(());
    }
    Err(Failure::input(format!(
        "{place}: was not made by servecast; choose another --output, or replace it with --overwrite"
    )))
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Sweep(error) => error.into(),
            error => Self::Input(error.into()),
        }
    }
}
