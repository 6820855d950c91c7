//! `servecast plan`: how many replicas of which layout meet latency SLOs, and at what price.

mod args;
mod figures;

pub(super) use self::args::PlanArguments;

use super::args::Format;
use super::failure::Failure;
use super::run;
use super::terminal::{print, say};
use crate::plan::PlanError;

pub(super) fn plan(arguments: &PlanArguments) -> Result<(), Failure> {
    let study = arguments.question()?.read()?;
    let slos = study.slos.iter().map(ToString::to_string).collect::<Vec<_>>();
    say(&format!("SLOs: {}", slos.join(", ")));
    let dir = arguments.output_dir.as_ref();
    let dir = dir.map(|dir| run::results_dir(dir, arguments.overwrite)).transpose()?;
    if dir.is_some() {
        run::remove_on_interrupt()?;
    }
    let answer = study.answer()?;
    let text = match arguments.format {
        Format::Table => answer.to_string(),
        Format::Json => format!("{:#}\n", answer.json()),
    };
    if let Some(dir) = dir {
        figures::write(&answer, dir)?;
    }
    print(&text)?;
    if answer.winner().is_none() {
        return Err(Failure::Run(anyhow::anyhow!("no layout meets all SLOs")));
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
