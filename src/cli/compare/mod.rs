//! `servecast compare`: is one scenario better than another, or is it chance?

mod args;
mod contestant;
mod files;
mod findings;
mod json;
mod runs;
mod text;

pub(super) use self::args::CompareArguments;
pub(super) use self::findings::title;

use self::findings::Findings;
use self::runs::Runs;
use super::args::Format;
use super::run::{remove_on_interrupt, results_dir};
use super::{Failure, print, say};
use crate::io::rundir::RunDir;

pub(super) fn compare(arguments: &CompareArguments) -> Result<(), Failure> {
    let contestants = contestant::read(arguments)?;
    let target = arguments.output_dir.as_ref();
    let mut dir = target.map(|target| results_dir(target, arguments.overwrite)).transpose()?;
    if dir.is_some() {
        remove_on_interrupt()?;
    }
    for contestant in &contestants {
        let other: Vec<&str> = contestant.other_requests().collect();
        if !other.is_empty() && !arguments.independent {
            say(&format!(
                "warning: {} has other requests than A ({}): pairs share the seed and not the requests",
                contestant.letter,
                other.join(", ")
            ));
        }
    }
    let runs = Runs::new(&contestants, arguments)?;
    let findings = Findings::new(&contestants, &runs);
    if let Some(dir) = &mut dir {
        files::write(dir, &contestants, &runs, &findings).map_err(Failure::Run)?;
    }
    let text = match arguments.format {
        Format::Table => text::text(&contestants, &runs, &findings),
        Format::Json => format!("{:#}\n", json::value(&contestants, &runs, &findings)),
    };
    let target = dir.map(RunDir::commit).transpose();
    let target = target.map_err(|error| Failure::Run(error.into()))?;
    print(&text)?;
    if let Some(target) = target {
        say(&format!("results in {}", target.display()));
    }
    Ok(())
}
