//! `servecast plan`: how many replicas of which layout meet latency SLOs, and at what price.

mod args;
mod figures;

pub(super) use self::args::PlanArguments;

use std::sync::Arc;

use super::args::Format;
use super::failure::Failure;
use super::progress::RunBar;
use super::run;
use super::terminal::{print, say};
use crate::plan::PlanError;

pub(super) fn plan(arguments: &PlanArguments) -> Result<(), Failure> {
    let bar = Arc::new(RunBar::unless(arguments.output.quiet));
    let study = arguments.question(bar.listener())?.read()?;
    let dir = arguments.output.output_dir.as_ref();
    let dir = dir.map(|dir| run::results_dir(dir, arguments.output.overwrite)).transpose()?;
    if dir.is_some() {
        run::remove_on_interrupt()?;
    }
    let answer = study.answer();
    bar.finish();
    let answer = answer?;
    let text = match arguments.output.format {
        Format::Table => answer.to_string(),
        Format::Json => format!("{:#}\n", answer.json()),
    };
    let target = dir.map(|dir| figures::write(&answer, dir)).transpose()?;
    print(&text)?;
    if let Some(target) = target {
        say(&format!("results in {}", target.display()));
    }
    if answer.winner().is_none() {
        return Err(Failure::Run(anyhow::anyhow!(answer.nothing())));
    }
    Ok(())
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Load(error) => error.into(),
            other => Self::Input(other.into()),
        }
    }
}
