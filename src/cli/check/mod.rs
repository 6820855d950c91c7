//! `servecast check`: is anything different from what was recorded, and is it worse?

mod args;
mod report;

use std::io::Write;

pub(super) use self::args::CheckArguments;

use super::args::Format;
use super::failure::Failure;
use super::replace;
use super::terminal::{listener, print, print_text, say};
use crate::check::{self, GOLDEN_FILE, Outcome, Policies, Purpose, Suite};

pub(super) fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let filter = arguments.filter.as_deref().unwrap_or("*");
    let purpose = if arguments.update { Purpose::Record } else { Purpose::Check };
    let suite = match &arguments.folder {
        Some(folder) => check::folder(folder, purpose, &listener())?,
        None => Suite::built_in(),
    };
    let mut suite = suite.like(filter);
    if suite.members.is_empty() {
        return Err(Failure::input(format!("--filter {filter}: no scenario has such a name")));
    }
    let recorded = arguments.folder.as_ref().filter(|_| arguments.update);
    let recorded = recorded.map(|folder| folder.join(GOLDEN_FILE));
    recorded.iter().try_for_each(|path| replace::check(path))?;
    let outcomes =
        if arguments.update { suite.record()? } else { suite.check(&Policies::shipped())? };
    match arguments.format {
        Format::Table => print_text(&report::text(&outcomes, &suite.forgotten))?,
        Format::Json => print(&format!("{:#}\n", check::json(&outcomes, &suite.forgotten)))?,
    }
    let Some(path) = &recorded else { return verdict(&outcomes, &suite.forgotten, arguments) };
    let text = suite.golden.text();
    replace::replace(path, |file| Ok(file.write_all(text.as_bytes())?))?;
    say(&format!("recorded {} scenarios in {}", suite.members.len(), path.display()));
    Ok(())
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
