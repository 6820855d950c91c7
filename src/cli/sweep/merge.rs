//! `servecast merge`: parts of a sweep become the whole.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::path::{Path, PathBuf};

use super::args::MergeArguments;
use super::folder::{Folder, JOURNAL, Manifest};
use super::journal::{self, Entry};
use super::report::Report;
use super::{finish, table, verdict};
use crate::cli::{Failure, run, say};
use crate::sweep::Shard;

/// Runs by point and number of the seed, with the folder that they come from.
type Found = BTreeMap<(u32, u32), (Entry, PathBuf)>;

pub(in crate::cli) fn merge(arguments: &MergeArguments) -> Result<(), Failure> {
    let report = Report::new(&arguments.report)?;
    let mut whole: Option<(Manifest, &PathBuf)> = None;
    let mut found = Found::new();
    let mut shards = Vec::new();
    for part in &arguments.parts {
        let mut manifest = manifest_of(part)?;
        shards.extend(manifest.shard.take());
        match &whole {
            None => whole = Some((manifest.clone(), part)),
            Some((known, first)) if *known != manifest => {
                return Err(Failure::input(format!(
                    "{} is of another sweep than {}: {}",
                    part.display(),
                    first.display(),
                    difference(known, &manifest)
                )));
            }
            Some(_) => {}
        }
        take(&mut found, part, &manifest.sweep)?;
    }
    let Some((manifest, _)) = whole else { return Err(Failure::input("no parts to merge")) };
    let total = table::points(&manifest)?.count() * manifest.plan.seeds;
    if found.len() < total as usize && !arguments.partial {
        return Err(incomplete(&manifest, &found, total, &shards));
    }
    if found.is_empty() {
        return Err(Failure::Run(anyhow::anyhow!("no run of the sweep has ended in any part")));
    }
    let (folder, journal, known) = Folder::open(&arguments.output_dir, &manifest)?;
    run::remove_on_interrupt()?;
    let entries: Vec<Entry> = found.into_values().map(|(entry, _)| entry).collect();
    for entry in entries.iter().filter(|entry| !known.is_told(entry)) {
        journal.append(entry)?;
    }
    finish(&folder, &manifest, &entries, &report)?;
    let (runs, out) = (entries.len(), arguments.output_dir.display());
    say(&format!("{runs} of {total} runs; results in {out}"));
    verdict(&entries, true)
}

fn manifest_of(part: &Path) -> Result<Manifest, Failure> {
    let place = part.display();
    let manifest = Manifest::read(part)?;
    let manifest = manifest.ok_or_else(|| Failure::input(format!("{place}: holds no sweep")))?;
    let own = env!("CARGO_PKG_VERSION");
    if manifest.servecast != own {
        let version = &manifest.servecast;
        return Err(Failure::input(format!(
            "{place}: was computed by servecast {version}, this is {own}"
        )));
    }
    Ok(manifest)
}

fn difference(one: &Manifest, other: &Manifest) -> String {
    if one.plan != other.plan {
        return "other settings are varied, or over other values".to_owned();
    }
    "the scenario, or a file that it reads, is not the same".to_owned()
}

/// Takes the runs of a part; what two parts tell of one run must agree.
fn take(found: &mut Found, part: &Path, sweep: &str) -> Result<(), Failure> {
    for (run, entry) in journal::latest(&part.join(JOURNAL), sweep)? {
        match found.entry(run) {
            Place::Vacant(place) => drop(place.insert((entry, part.to_owned()))),
            Place::Occupied(place) => {
                let (before, first) = place.get();
                if before.scenario != entry.scenario || before.outcome != entry.outcome {
                    return Err(Failure::input(format!(
                        "point {}, seed {}: {} and {} have different results of it",
                        run.0,
                        run.1,
                        first.display(),
                        part.display()
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Which runs are missing, by their part where that is known.
fn incomplete(manifest: &Manifest, found: &Found, total: u32, shards: &[Shard]) -> Failure {
    let seeds = manifest.plan.seeds;
    let mut missing = (0..total).filter(|run| !found.contains_key(&(run / seeds, run % seeds + 1)));
    let count = total as usize - found.len();
    let first = missing.next().unwrap_or_default();
    let of = shards.first().map(|shard| shard.count);
    let part = of.filter(|of| shards.iter().all(|shard| shard.count == *of)).map(|of| {
        let index = first % of + 1;
        let is_given = shards.iter().any(|shard| shard.index == index);
        let state = if is_given { "has not ended" } else { "is not among the folders" };
        format!(" (part {index}/{of}, which {state})")
    });
    Failure::input(format!(
        "{count} of {total} runs are missing, the first of them point {}, seed {}{}; compute them, \
         or join what there is with --partial",
        first / seeds,
        first % seeds + 1,
        part.unwrap_or_default()
    ))
}
