//! `servecast plan`: how many replicas of which layout keep promised latencies, and at what price.

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
use super::{Failure, print};

pub(super) fn plan(arguments: &PlanArguments) -> Result<(), Failure> {
    let study = Study::new(arguments)?;
    let answer = if arguments.rate { study.rates()? } else { study.sizes()? };
    let text = match arguments.format {
        Format::Table => answer.text(),
        Format::Json => format!("{:#}\n", answer.json()),
    };
    if let Some(dir) = &arguments.output_dir {
        figures::write(&answer, dir, arguments.overwrite)?;
    }
    print(&text)?;
    if answer.winner().is_none() {
        return Err(Failure::Run(anyhow::anyhow!("no layout keeps all promises")));
    }
    Ok(())
}
