//! `servecast report`: one page of what a command left behind.
//!
//! A page is made of the files of a folder and of nothing else: equal folders give equal bytes. It needs no
//! script and loads nothing. What is not in the files (times of steps, single requests) is not on the page.

mod args;
mod comparison;
#[cfg(feature = "plot")]
mod curves;
mod facts;
mod figures;
mod folder;
mod html;
mod page;
mod plan;
mod run;
mod series;
mod sweep;
mod table;

pub(super) use self::args::ReportArguments;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use self::folder::Kind;
use super::{Failure, replace, run::remove_on_interrupt, say};
use crate::io::output;

/// How a page of servecast says that it is one.
const OWN: &str = "<meta name=\"generator\" content=\"servecast ";

pub(super) fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let kind = Kind::of(folder)?;
    let target = arguments.output.clone().unwrap_or_else(|| folder.join("report.html"));
    check_target(&target, arguments.overwrite)?;
    let page = match kind {
        Kind::Run => run::page(folder)?,
        Kind::Sweep(told) => sweep::page(&told),
        Kind::Plan => plan::page(folder)?,
        Kind::Comparison => comparison::page(folder)?,
    };
    remove_on_interrupt()?;
    replace::replace(&target, |file| Ok(file.write_all(page.html().as_bytes())?))?;
    say(&format!("report in {}", target.display()));
    Ok(())
}

/// A file of somebody else is not replaced unasked.
fn check_target(target: &Path, overwrite: bool) -> Result<(), Failure> {
    /// The mark stands among the first lines.
    const HEAD: u64 = 1024;
    replace::check(target)?;
    let Some(there) = output::occupied(target) else { return Ok(()) };
    let place = target.display();
    let fail = |error: std::io::Error| Failure::input(format!("{place}: {error}"));
    let file = File::open(there).map_err(fail)?;
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head).map_err(fail)?;
    let is_own = String::from_utf8_lossy(&head).contains(OWN);
    if is_own || overwrite {
        return Ok(());
    }
    Err(Failure::input(format!(
        "{place}: is no page of servecast; give another --output, or --overwrite to replace it"
    )))
}
