//! `servecast sweep` and `servecast merge`: many runs of a scenario, on one machine or several.
//!
//! Every run has a key, a hash of all it depends on ([`key`]), and goes to a journal as soon as it has
//! ended ([`journal`]); what a journal holds is not simulated again. When all runs have ended, the table
//! of results is made of them in the order of the plan, so that it has the same bytes however often the
//! sweep was interrupted and on however many machines it ran.

mod args;
mod folder;
mod journal;
mod key;
mod merge;
mod report;
mod runs;
mod study;
mod table;
mod told;

pub(super) use args::{MergeArguments, SweepArguments};
pub(super) use merge::merge;
pub(super) use study::SweepTable;
pub(super) use told::{Told, ToldPoint};

use std::io::IsTerminal;

use self::folder::{Folder, Manifest};
use self::journal::Entry;
use self::report::Report;
use self::runs::Runs;
use super::args::Format;
use super::{Failure, print, run, say};
use crate::load::Loaded;
use crate::metrics::Losses;
use crate::sim::Counts;
use crate::study::CUT_ANSWERS;

pub(super) fn sweep(arguments: &SweepArguments) -> Result<(), Failure> {
    let report = Report::new(&arguments.report)?;
    let study = study::read(arguments)?;
    let runs = Runs::new(study);
    let manifest = runs.manifest(arguments.shard)?;
    let (folder, journal, known) = Folder::open(&arguments.output_dir, &manifest)?;
    run::remove_on_interrupt()?;
    let shows_progress = std::io::stderr().is_terminal();
    let done = runs.complete(&manifest, &journal, &known, shows_progress)?;
    let reused = done.reused;
    finish(&folder, &manifest, &done.entries, &report)?;
    say(&format!(
        "{} runs, {reused} of them known before; results in {}",
        done.entries.len(),
        arguments.output_dir.display()
    ));
    verdict(&done.entries, done.any_resolved)
}

/// Writes the table of results and prints what the points have in common.
fn finish(
    folder: &Folder,
    manifest: &Manifest,
    entries: &[Entry],
    report: &Report,
) -> Result<(), Failure> {
    folder.write_results(&table::columns(manifest, entries)?)?;
    let text = match report.format {
        Format::Table => report.text(manifest, entries)?,
        Format::Json => report.json(manifest, entries)?,
    };
    print(&text)
}

/// A sweep of which every run failed has failed; where none had a scenario, its input is bad.
fn verdict(entries: &[Entry], any_resolved: bool) -> Result<(), Failure> {
    let stuck =
        entries.iter().filter(|entry| entry.figure("stuck").is_some_and(|stuck| stuck > 0.0));
    let stuck = stuck.count();
    if stuck > 0 {
        say(&format!(
            "warning: in {stuck} of {} runs some requests could never be served (column `stuck`)",
            entries.len()
        ));
    }
    let is_cut = |entry: &&Entry| entry.figure(CUT_ANSWERS).is_some_and(|cut| cut > 0.0);
    let cut = entries.iter().filter(is_cut).count();
    if cut > 0 {
        say(&format!(
            "warning: in {cut} of {} runs answers were cut at the engine's longest sequence (column \
             `{CUT_ANSWERS}`)",
            entries.len()
        ));
    }
    let (lossy, silent) = losses(entries);
    if lossy > 0 {
        say(&format!(
            "warning: in {lossy} of {} runs 1 % of the requests or more were not answered (columns \
             `arrived`, `finished`); latencies are of those that were",
            entries.len()
        ));
    }
    if silent > 0 && silent == entries.len() {
        return Err(Failure::Run(anyhow::anyhow!("no request of any run was answered")));
    }
    let errors = || entries.iter().filter_map(Entry::error);
    let failed = errors().count();
    match errors().next() {
        Some(error) if failed == entries.len() => {
            let told = anyhow::anyhow!("all {failed} runs failed: {error}");
            Err(if any_resolved { Failure::Run(told) } else { Failure::Input(told) })
        }
        Some(_) => {
            say(&format!("warning: {failed} of {} runs failed (column `error`)", entries.len()));
            Ok(())
        }
        None => Ok(()),
    }
}

/// How many runs lost a notable share of their requests, and how many all of them.
fn losses(entries: &[Entry]) -> (usize, usize) {
    let count = |entry: &Entry, name| entry.figure(name).map(|count| count as u64);
    let counts = entries.iter().filter_map(|entry| {
        let (arrived, finished) = (count(entry, "arrived")?, count(entry, "finished")?);
        Some(Counts { arrived, finished, ..Counts::default() })
    });
    let losses: Vec<Losses> = counts.filter_map(|counts| Losses::of(&counts)).collect();
    (losses.len(), losses.iter().filter(|losses| losses.is_total()).count())
}
