//! `servecast plan`: how many replicas of which layout meet latency SLOs, and at what price.

mod answer;
mod args;
mod checks;
mod figures;
mod fronts;
mod hunt;
mod json;
mod layouts;
mod limits;
mod outcome;
mod prices;
mod rates;
mod sizes;
mod study;
mod table;
mod text;

pub(super) use self::args::PlanArguments;

use self::study::Study;
use super::args::Format;
use super::{Failure, print, run};

pub(super) fn plan(arguments: &PlanArguments) -> Result<(), Failure> {
    let study = Study::new(arguments)?;
    let dir = arguments.output_dir.as_ref();
    let dir = dir.map(|dir| run::results_dir(dir, arguments.overwrite)).transpose()?;
    if dir.is_some() {
        run::remove_on_interrupt()?;
    }
    let answer = if arguments.rate { study.rates()? } else { study.sizes()? };
    let text = match arguments.format {
        Format::Table => answer.text(),
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
