//! `servecast compare`: is one scenario better than another, or is it chance?

mod args;
mod files;

pub(super) use self::args::CompareArguments;

use std::sync::Arc;

use super::args::Format;
use super::failure::Failure;
use super::progress::RunBar;
use super::run::{remove_on_interrupt, results_dir};
use super::terminal::{print, say};
use crate::compare::CompareError;
use crate::io::rundir::RunDir;

pub(super) fn compare(arguments: &CompareArguments) -> Result<(), Failure> {
    let bar = Arc::new(RunBar::unless(arguments.quiet));
    let contest = arguments.question(bar.listener())?.read()?;
    if !arguments.quiet {
        say(&contest.to_string());
    }
    let target = arguments.output_dir.as_ref();
    let mut dir = target.map(|target| results_dir(target, arguments.overwrite)).transpose()?;
    if dir.is_some() {
        remove_on_interrupt()?;
    }
    let compared = contest.run();
    bar.finish();
    let compared = compared?;
    if let Some(dir) = &mut dir {
        files::write(dir, &compared).map_err(Failure::Run)?;
    }
    let text = match arguments.format {
        Format::Table => compared.to_string(),
        Format::Json => format!("{:#}\n", compared.json()),
    };
    let target = dir.map(RunDir::commit).transpose();
    let target = target.map_err(|error| Failure::Run(error.into()))?;
    print(&text)?;
    if let Some(target) = target {
        say(&format!("results in {}", target.display()));
    }
    Ok(())
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        match error {
            CompareError::Load(error) => error.into(),
            other @ CompareError::NoAnswer(_) => Self::Run(other.into()),
        }
    }
}
