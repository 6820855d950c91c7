//! The runs of a sweep that have ended, and the table of them: one row per run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::Value;

use super::error::SweepError;
use super::folder::{JOURNAL, Manifest};
use super::journal::{self, Entry};
use super::plan::{Plan, Point, Points, Shard};
use crate::io::results::{Cells, NamedCells};
use crate::load::{Listener, Note};
use crate::metrics::{Losses, WarningKind};
use crate::sim::Counts;
use crate::study::CUT_ANSWERS;

/// The runs of a sweep that have ended.
#[derive(Debug)]
pub struct Results {
    pub(super) manifest: Manifest,
    pub(super) points: Points,
    /// By point and number of the seed.
    pub(super) entries: Vec<Entry>,
    reused: u32,
    any_loaded: bool,
}

impl Results {
    pub(super) fn new(manifest: Manifest, entries: Vec<Entry>) -> Result<Self, SweepError> {
        let points = manifest.plan.points()?;
        Ok(Self { manifest, points, entries, reused: 0, any_loaded: true })
    }

    /// The same of runs of which so many were known before, and whether any scenario of them could be loaded.
    pub(super) fn of_runs(self, reused: u32, any_loaded: bool) -> Self {
        Self { reused, any_loaded, ..self }
    }

    /// Reads the folder of a sweep or of a part of one; nothing where it holds none.
    ///
    /// # Errors
    /// When its files cannot be read, or are not those of a sweep.
    pub fn read(folder: &Path, listener: &Listener) -> Result<Option<Self>, SweepError> {
        let Some(manifest) = Manifest::read(folder)? else { return Ok(None) };
        let latest = journal::latest(&folder.join(JOURNAL), &manifest.sweep, listener)?;
        Self::new(manifest, latest.into_values().collect()).map(Some)
    }

    /// The title of the scenario.
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// The version of servecast that computed them.
    pub fn version(&self) -> &str {
        &self.manifest.servecast
    }

    /// What is varied.
    pub fn plan(&self) -> &Plan {
        &self.manifest.plan
    }

    /// Which part of the sweep they are of; all of it if absent.
    pub fn shard(&self) -> Option<Shard> {
        self.manifest.shard
    }

    /// The runs, by point and number of the seed.
    pub fn runs(&self) -> &[Entry] {
        &self.entries
    }

    /// How many runs the whole sweep has.
    pub fn planned(&self) -> u32 {
        self.points.count() * self.manifest.plan.seeds
    }

    /// How many of the runs had been simulated before.
    pub fn reused(&self) -> u32 {
        self.reused
    }

    /// What to know before the figures are believed.
    pub fn warnings(&self) -> Vec<Note> {
        let of = self.entries.len();
        let count = |is: &dyn Fn(&Entry) -> bool| self.entries.iter().filter(|one| is(one)).count();
        let has = |entry: &Entry, name| entry.figure(name).is_some_and(|count| count > 0.0);
        let stuck = count(&|entry| has(entry, "stuck"));
        let cut = count(&|entry| has(entry, CUT_ANSWERS));
        let lossy = self.losses().count();
        let failed = count(&|entry| entry.error().is_some());
        let mut texts = Vec::new();
        if stuck > 0 {
            texts.push(format!(
                "in {stuck} of {of} runs some requests could never be served (column `stuck`)"
            ));
        }
        if cut > 0 {
            texts.push(format!(
                "in {cut} of {of} runs answers were cut at the engine's longest sequence (column `{CUT_ANSWERS}`)"
            ));
        }
        if lossy > 0 {
            texts.push(format!(
                "in {lossy} of {of} runs 1 % of the requests or more were not answered (columns `arrived`, \
                 `finished`); latencies are of those that were"
            ));
        }
        if failed > 0 && failed < of {
            texts.push(format!("{failed} of {of} runs failed (column `error`)"));
        }
        let (alike, points) = (self.points_alike(), self.by_point().count());
        if alike > 0 {
            texts.push(format!(
                "at {alike} of {points} points each seed gave the same figures, as of a trace that is replayed, or where \
                 nothing is drawn: ± 0 says nothing of other traffic (of a trace, `servecast compare` sends resampled stretches)"
            ));
        }
        texts.extend(self.warnings_of_runs(lossy > 0));
        texts.into_iter().map(Note::Warning).collect()
    }

    /// The runs of each point.
    fn by_point(&self) -> impl Iterator<Item = &[Entry]> {
        self.entries.chunk_by(|one, next| one.point == next.point)
    }

    /// How many points have several runs, all with the same figures.
    fn points_alike(&self) -> usize {
        let is_alike = |runs: &&[Entry]| {
            let [first, others @ ..] = runs else { return false };
            let is_same = |other: &Entry| other.outcome == first.outcome;
            !others.is_empty() && first.error().is_none() && others.iter().all(is_same)
        };
        self.by_point().filter(is_alike).count()
    }

    /// What runs are warned of, once for each kind: how many points, and what is said of the first of them. Caveats are
    /// told once each. What figures tell of answers that were cut, and of losses, is not told again.
    fn warnings_of_runs(&self, tells_losses: bool) -> Vec<String> {
        let mut topics: BTreeMap<_, (BTreeSet<u32>, &Entry, &str)> = BTreeMap::new();
        for entry in &self.entries {
            for warning in &entry.warnings {
                let first = || (BTreeSet::new(), entry, warning.text.as_str());
                topics.entry(warning.topic()).or_insert_with(first).0.insert(entry.point);
            }
        }
        let is_told = |kind: WarningKind| match kind {
            WarningKind::Cut => true,
            WarningKind::Losses => tells_losses,
            _ => false,
        };
        topics.retain(|(kind, _), _| !is_told(*kind));
        let points = self.by_point().count();
        let has_seeds = self.manifest.plan.seeds > 1;
        let line = |(concerned, first, text): (BTreeSet<u32>, &Entry, &str)| {
            let (count, point, seed) = (concerned.len(), first.point, first.seed_number);
            let seed = if has_seeds { format!(", run {seed}") } else { String::new() };
            format!("{count} of {points} points; the first is point {point}{seed}: {text}")
        };
        topics.into_values().map(line).collect()
    }

    /// Whether the sweep says anything.
    ///
    /// # Errors
    /// When every run failed, or none answered a request.
    pub fn verdict(&self) -> Result<(), SweepError> {
        let runs = self.entries.len();
        let silent = self.losses().filter(Losses::is_total).count();
        if silent > 0 && silent == runs {
            return Err(SweepError::Unanswered);
        }
        let mut errors = self.entries.iter().map(Entry::error);
        match errors.next() {
            Some(Some(error)) if errors.all(|error| error.is_some()) => {
                let (error, any_loaded) = (error.to_owned(), self.any_loaded);
                Err(SweepError::AllFailed { runs, error, any_loaded })
            }
            _ => Ok(()),
        }
    }

    /// Of each run that lost a notable share of its requests.
    fn losses(&self) -> impl Iterator<Item = Losses> {
        let count = |entry: &Entry, name| entry.figure(name).map(|count| count as u64);
        let counts = self.entries.iter().filter_map(move |entry| {
            let (arrived, finished) = (count(entry, "arrived")?, count(entry, "finished")?);
            Some(Counts { arrived, finished, ..Counts::default() })
        });
        counts.filter_map(|counts| Losses::of(&counts))
    }

    /// The figures that any run has, in the order in which the runs tell them.
    pub fn figures(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for figures in self.entries.iter().filter_map(Entry::figures) {
            for (place, (name, _)) in figures.iter().enumerate() {
                // Most runs have the same.
                let is_known = names.get(place).is_some_and(|known| known == name);
                if !is_known && !names.iter().any(|known| known == name) {
                    names.push(name.to_owned());
                }
            }
        }
        names
    }

    /// The columns of the table: which run, what was varied, its figures, and why it failed.
    pub fn columns(&self) -> Vec<NamedCells> {
        let Self { entries, manifest, .. } = self;
        let of_run: Vec<Point> = entries.iter().map(|entry| self.points.get(entry.point)).collect();
        let integers = |of: fn(&Entry) -> i64| {
            Cells::Integers(entries.iter().map(|entry| Some(of(entry))).collect())
        };
        let mut columns = vec![("point".to_owned(), integers(|entry| entry.point.into()))];
        let variants = &manifest.plan.variants;
        if variants.len() > 1 {
            let names = of_run.iter().map(|point| Some(variants[point.variant].clone()));
            columns.push(("variant".to_owned(), Cells::Texts(names.collect())));
        }
        columns.push(("seed_number".to_owned(), integers(|entry| entry.seed_number.into())));
        columns.push(("seed".to_owned(), integers(|entry| entry.seed.cast_signed())));
        let keys = entries.iter().map(|entry| Some(entry.scenario.clone()));
        columns.push(("scenario".to_owned(), Cells::Texts(keys.collect())));
        for (place, axis) in manifest.plan.axes.iter().enumerate() {
            let values: Vec<&Value> = of_run.iter().map(|point| &point.settings[place].1).collect();
            columns.push((axis.path.clone(), settings(&values)));
        }
        for name in self.figures() {
            let values = entries.iter().map(|entry| entry.figure(&name)).collect();
            columns.push((name, Cells::Numbers(values)));
        }
        let errors = entries.iter().map(|entry| entry.error().map(str::to_owned));
        columns.push(("error".to_owned(), Cells::Texts(errors.collect())));
        columns
    }
}

/// A value as people read it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value as a number, if it is one.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|number| number as f64))
}

/// The cells of settings: numbers, if all are.
fn settings(values: &[&Value]) -> Cells {
    let integer = |value: &&Value| value.as_integer();
    let all = |is: fn(&Value) -> bool| values.iter().all(|value| is(value));
    if all(Value::is_integer) {
        Cells::Integers(values.iter().map(integer).collect())
    } else if all(|value| number(value).is_some()) {
        Cells::Numbers(values.iter().map(|value| number(value)).collect())
    } else if all(Value::is_bool) {
        Cells::Booleans(values.iter().map(|value| value.as_bool()).collect())
    } else {
        Cells::Texts(values.iter().map(|value| Some(text(value))).collect())
    }
}
