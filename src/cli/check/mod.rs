//! `servecast check`: is anything different from what was recorded, and is it worse?

mod args;
mod folder;
mod report;

pub(super) use self::args::CheckArguments;

use super::args::Format;
use super::{Failure, print, print_text, say};
use crate::check::{Outcome, Policies, Suite};
use crate::plain::matches;

pub(super) fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let filter = arguments.filter.as_deref().unwrap_or("*");
    let read = match &arguments.folder {
        Some(folder) => folder::read(folder, arguments.update)?,
        None => Suite::built_in(),
    };
    let mut forgotten = forgotten(&read);
    forgotten.retain(|name| matches(filter, name));
    let mut suite = read.only(|name| matches(filter, name));
    if suite.members.is_empty() {
        return Err(Failure::input(format!("--filter {filter}: no scenario has such a name")));
    }
    if let (true, Some(folder)) = (arguments.update, &arguments.folder) {
        folder::check(folder)?;
    }
    let outcomes =
        if arguments.update { suite.record()? } else { suite.check(&Policies::shipped())? };
    match arguments.format {
        Format::Table => print_text(&report::text(&outcomes, &forgotten))?,
        Format::Json => print(&format!("{:#}\n", report::json(&outcomes, &forgotten)))?,
    }
    if let (true, Some(folder)) = (arguments.update, &arguments.folder) {
        for name in &forgotten {
            suite.golden.figures.remove(name);
        }
        let path = folder::write(folder, &suite.golden)?;
        say(&format!("recorded {} scenarios in {}", suite.members.len(), path.display()));
        return Ok(());
    }
    verdict(&outcomes, &forgotten, arguments)
}

/// Scenarios of which figures are recorded, and which are not there any more.
fn forgotten(suite: &Suite) -> Vec<String> {
    let is_there = |name: &String| suite.members.iter().any(|member| member.name == *name);
    suite.golden.figures.keys().filter(|name| !is_there(name)).cloned().collect()
}

fn verdict(
    outcomes: &[Outcome],
    forgotten: &[String],
    arguments: &CheckArguments,
) -> Result<(), Failure> {
    let is_exact = arguments.exact;
    let fails = |outcome: &&Outcome| {
        if is_exact { !outcome.is_unchanged() } else { !outcome.passes() }
    };
    let failed = outcomes.iter().filter(fails).count() + forgotten.len();
    if failed == 0 {
        return Ok(());
    }
    let all = outcomes.len() + forgotten.len();
    let what = if is_exact { "are not as recorded" } else { "fail" };
    let folder = arguments.folder.as_ref().map_or("checks".into(), |path| path.to_string_lossy());
    Err(Failure::Run(anyhow::anyhow!(
        "{failed} of {all} scenarios {what}; if that is meant, record them anew: servecast check {folder} --update"
    )))
}
