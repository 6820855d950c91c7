//! Parts of a sweep become the whole.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::path::{Path, PathBuf};

use super::error::SweepError;
use super::folder::{Folder, JOURNAL, Manifest};
use super::journal::{self, Entry};
use super::plan::Shard;
use super::results::Results;
use crate::load::Listener;

/// Runs by point and number of the seed, with the folder that they come from.
type Found = BTreeMap<(u32, u32), (Entry, PathBuf)>;

/// What becomes of a sweep of which runs are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// It is refused.
    #[default]
    Refused,
    /// What there is is joined.
    LeftOut,
}

/// Joins the folders of parts of a sweep to one folder, with the tables of all runs.
///
/// # Errors
/// When folders are not of one sweep, tell different results of a run, lack runs, or the folder for the whole
/// holds something else or cannot be written.
pub fn merge(
    parts: &[PathBuf],
    into: &Path,
    missing: Missing,
    listener: &Listener,
) -> Result<Results, SweepError> {
    let mut whole: Option<(Manifest, &PathBuf)> = None;
    let mut found = Found::new();
    let mut shards = Vec::new();
    for part in parts {
        let mut manifest = manifest_of(part)?;
        shards.extend(manifest.shard.take());
        match &whole {
            None => whole = Some((manifest.clone(), part)),
            Some((known, first)) if *known != manifest => {
                return Err(SweepError::Parts(format!(
                    "{} is of another sweep than {}: {}",
                    part.display(),
                    first.display(),
                    difference(known, &manifest)
                )));
            }
            Some(_) => {}
        }
        take(&mut found, part, &manifest.sweep, listener)?;
    }
    let Some((manifest, _)) = whole else {
        return Err(SweepError::Parts("no parts to merge".to_owned()));
    };
    let total = manifest.plan.points()?.count() * manifest.plan.seeds;
    if found.len() < total as usize && missing == Missing::Refused {
        return Err(incomplete(&manifest, &found, total, &shards));
    }
    if found.is_empty() {
        return Err(SweepError::NoRuns);
    }
    let (folder, journal, known) = Folder::open(into, &manifest, listener)?;
    let entries: Vec<Entry> = found.into_values().map(|(entry, _)| entry).collect();
    for entry in entries.iter().filter(|entry| !known.is_told(entry)) {
        journal.append(entry)?;
    }
    let results = Results::new(manifest, entries)?;
    folder.write_results(&results.columns())?;
    Ok(results)
}

fn manifest_of(part: &Path) -> Result<Manifest, SweepError> {
    let manifest = Manifest::read(part)?;
    let manifest = manifest.ok_or_else(|| SweepError::folder(part, "holds no sweep"))?;
    let own = env!("CARGO_PKG_VERSION");
    if manifest.servecast != own {
        let version = &manifest.servecast;
        let problem = format!("was computed by servecast {version}, this is {own}");
        return Err(SweepError::folder(part, problem));
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
fn take(
    found: &mut Found,
    part: &Path,
    sweep: &str,
    listener: &Listener,
) -> Result<(), SweepError> {
    for (run, entry) in journal::latest(&part.join(JOURNAL), sweep, listener)? {
        match found.entry(run) {
            Place::Vacant(place) => drop(place.insert((entry, part.to_owned()))),
            Place::Occupied(place) => {
                let (before, first) = place.get();
                if before.scenario != entry.scenario || before.outcome != entry.outcome {
                    return Err(SweepError::Parts(format!(
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
fn incomplete(manifest: &Manifest, found: &Found, total: u32, shards: &[Shard]) -> SweepError {
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
    SweepError::Parts(format!(
        "{count} of {total} runs are missing, the first of them point {}, seed {}{}; compute them, \
         or join what there is with --partial",
        first / seeds,
        first % seeds + 1,
        part.unwrap_or_default()
    ))
}
