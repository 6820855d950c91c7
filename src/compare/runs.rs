//! The runs of a comparison: every scenario with every seed, in rounds.

use serde::{Deserialize, Serialize};

use super::contestant::Contestant;
use super::question::{Compare, CompareError};
use super::{Basis, Difference, Draws, Pairing, Rounds};
use crate::load::{Cases, Listener, LoadError, Note, Origin, Progress};
use crate::metrics::{RequestRecord, Status};
use crate::problem::Problem;
use crate::profiles;
use crate::study::{CUT_ANSWERS, Figures, LOSSES};
use crate::units::SimDuration;

/// Figures that are judged where none are named, if every run has them; losses where a run has some.
const HEADLINES: [&str; 8] = [
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
    "mean_e2el_ms",
    "p99_e2el_ms",
    "output_throughput",
    "slo_attainment",
];

/// Seeds of a scenario are so many apart from those of the one before, where they share none.
const APART: u32 = 1_000_000;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct One {
    /// Its figures.
    pub figures: Figures,
    /// Of the first seed: TTFT, TPOT and E2E of the finished requests, in seconds.
    pub latencies: Option<[Vec<f64>; 3]>,
    /// Whether its requests are a stretch that was resampled from a trace.
    #[serde(default)]
    pub is_resampled: bool,
}

/// A run that a comparison wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Which of the scenarios, the baseline being 0.
    pub of: usize,
    /// The number of its seed, from 1.
    pub seed_number: u32,
    /// Whether it gives the latencies of its requests too.
    pub keeps_latencies: bool,
}

/// Does runs, and gives what came of each, in their order.
pub(super) type Does<'a> = dyn Fn(&[Wanted]) -> Result<Vec<One>, LoadError> + 'a;

/// All runs.
#[derive(Debug)]
pub struct Runs {
    /// Of each scenario, by number of the seed.
    pub of: Vec<Vec<One>>,
    /// The figures that are judged.
    pub judged: Vec<String>,
    /// How many seeds there may be.
    pub rounds: Rounds,
    /// What intervals rest on.
    pub basis: Basis,
}

impl Runs {
    /// Whether every run of a scenario gave the same figures, whatever its seed.
    pub(super) fn is_without_chance(&self) -> bool {
        self.of.iter().all(|of| of.iter().all(|one| one.figures == of[0].figures))
    }

    /// Whether requests are stretches that were resampled from a trace.
    pub fn are_resampled(&self) -> bool {
        self.of.iter().flatten().any(|one| one.is_resampled)
    }

    /// Simulates all scenarios until their differences are known.
    pub(super) fn new(
        all: &[Contestant],
        question: &Compare,
        does: &Does<'_>,
    ) -> Result<Self, CompareError> {
        let [first, most] = question.seeds.map(|seeds| seeds as usize);
        let mut runs = Self {
            of: all.iter().map(|_| Vec::new()).collect(),
            judged: Vec::new(),
            rounds: Rounds { first, most, within: question.within },
            basis: Basis {
                pairing: question.pairing,
                draws: Draws::Requests,
                confidence: question.confidence,
                first,
            },
        };
        let listener = &question.listener;
        // One run each tells which figures there are, before all others are waited for.
        runs.simulate(all.len(), (does, listener), 1)?;
        runs.check_names(&question.metrics)?;
        if runs.are_resampled() {
            runs.basis.draws = Draws::Stretches;
        }
        let mut seeds = first;
        loop {
            runs.simulate(all.len(), (does, listener), seeds)?;
            // What some runs lose, the first may not have lost.
            runs.judged = runs.check_names(&question.metrics)?;
            let there = seeds;
            let found: Vec<Difference> = (1..all.len())
                .flat_map(|other| runs.judged.iter().map(move |name| (other, name)))
                .filter_map(|(other, name)| runs.difference(other, name))
                .collect();
            // More draws of a trace tell no more of other traces.
            if runs.basis.draws == Draws::Requests {
                seeds = runs.rounds.seeds(there, &found);
            }
            if seeds == there {
                runs.check_losses(all, listener)?;
                return Ok(runs);
            }
        }
    }

    /// Seeds of each scenario.
    pub fn seeds(&self) -> usize {
        self.of[0].len()
    }

    /// The names of all figures of the baseline's first run.
    pub(super) fn figures(&self) -> impl Iterator<Item = &str> {
        self.of[0][0].figures.iter().map(|(name, _)| name)
    }

    /// The difference of a figure between a scenario and the baseline, if every run has the figure.
    pub fn difference(&self, other: usize, name: &str) -> Option<Difference> {
        Some(Difference::new(&self.values(0, name)?, &self.values(other, name)?, self.basis))
    }

    /// A figure of every run of a scenario, if every run has it.
    pub fn values(&self, of: usize, name: &str) -> Option<Vec<f64>> {
        let values = self.of[of].iter().map(|one| one.figures.get(name));
        values.collect::<Option<Vec<f64>>>().filter(|values| values.iter().all(|x| x.is_finite()))
    }

    /// The number of the seed of a scenario that a run has.
    pub fn seed_number(&self, of: usize, place: usize) -> u32 {
        let own = match self.basis.pairing {
            Pairing::Paired => 0,
            Pairing::Independent => of as u32 * APART,
        };
        own + place as u32 + 1
    }

    /// Simulates the seeds up to this many that are missing.
    fn simulate(
        &mut self,
        scenarios: usize,
        (does, listener): (&Does<'_>, &Listener),
        seeds: usize,
    ) -> Result<(), LoadError> {
        let there = self.seeds();
        let now = String::new();
        let (ended, of) = (there * scenarios, Some(seeds * scenarios));
        listener.tell(&Note::Progress(Progress { ended, of, now }));
        let places = (there..seeds).flat_map(|place| (0..scenarios).map(move |of| (of, place)));
        let wanted = places.map(|(of, place)| {
            let (seed_number, keeps_latencies) = (self.seed_number(of, place), place == 0);
            Wanted { of, seed_number, keeps_latencies }
        });
        let wanted: Vec<Wanted> = wanted.collect();
        let done = does(&wanted)?;
        assert_eq!(done.len(), wanted.len(), "what came of each run that was wanted");
        for (wanted, one) in wanted.into_iter().zip(done) {
            self.of[wanted.of].push(one);
        }
        Ok(())
    }

    /// The figures to judge: those that were asked for, or the usual ones.
    fn check_names(&self, asked: &[String]) -> Result<Vec<String>, LoadError> {
        let in_all = |name: &str| (0..self.of.len()).all(|of| self.values(of, name).is_some());
        if let Some(name) = asked.iter().find(|name| !in_all(name)) {
            let known: Vec<&str> = self.figures().collect();
            return Err(unknown(name, &known));
        }
        if !asked.is_empty() {
            let mut names: Vec<String> = Vec::new();
            for name in asked {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            return Ok(names);
        }
        let runs = || self.of.iter().flatten();
        let is_lost = |name: &&str| runs().any(|one| one.figures.get(name) != Some(0.0));
        let usual = HEADLINES.into_iter().chain(LOSSES.into_iter().filter(is_lost));
        Ok(usual.filter(|name| in_all(name)).map(str::to_owned).collect())
    }

    /// Warns of requests without an answer.
    ///
    /// # Errors
    /// When a scenario answers none in any run: there is nothing to compare.
    fn check_losses(
        &self,
        contestants: &[Contestant],
        listener: &Listener,
    ) -> Result<(), CompareError> {
        for (contestant, runs) in contestants.iter().zip(&self.of) {
            if runs.iter().all(|one| one.figures.get("finished") == Some(0.0)) {
                return Err(CompareError::NoAnswer(contestant.letter));
            }
        }
        let all = self.of.iter().flatten();
        let is_lossy = |one: &&One| one.figures.get("finished") != one.figures.get("arrived");
        let (lossy, count) = (all.clone().filter(is_lossy).count(), all.clone().count());
        if lossy > 0 {
            listener.tell(&Note::Warning(format!(
                "in {lossy} of {count} runs not all requests were answered in full; latencies are of \
                 those that were"
            )));
        }
        let is_cut = |one: &&One| one.figures.get(CUT_ANSWERS).is_some_and(|cut| cut > 0.0);
        let cut = all.filter(is_cut).count();
        if cut > 0 {
            listener.tell(&Note::Warning(format!(
                "in {cut} of {count} runs answers were cut at the engine's longest sequence"
            )));
        }
        Ok(())
    }
}

/// Refuses names of figures that no run of some scenario can have, before there are any runs.
///
/// # Errors
/// When one is asked for.
pub(super) fn check_asked(asked: &[String], contestants: &[Contestant]) -> Result<(), LoadError> {
    for contestant in contestants {
        let classes = &contestant.file.workload.classes;
        let classes: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        let names = Figures::names().chain(Figures::names_of_classes(&classes));
        let known: Vec<String> = names.collect();
        if let Some(name) = asked.iter().find(|name| !known.contains(name)) {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            return Err(unknown(name, &known));
        }
    }
    Ok(())
}

/// Refuses the name of a figure, beside those that there are.
fn unknown(name: &str, known: &[&str]) -> LoadError {
    // `ttft` is a word of several figures, of which the first is the mean.
    let word = name.to_lowercase();
    let has_it = |known: &&&str| known.split('_').any(|one| one == word);
    let near = profiles::closest(name, known.iter().copied());
    let near = near.or_else(|| known.iter().find(has_it).copied());
    let what = format!("{name}: is not a figure that every run has");
    let problem = match near {
        None => Problem::new("", format!("{what}, such as {}", known.join(", "))),
        near => Problem::new("", what).or_near(near).with_hint("`compare.json` names all"),
    };
    Origin::Argument("--metric").fail(problem)
}

/// One of the runs.
pub(super) fn run(
    contestant: &Contestant,
    (cases, question): (&Cases, &Compare),
    wanted: Wanted,
) -> Result<One, LoadError> {
    let number = wanted.seed_number;
    let draft = contestant.draft.reseeded(number)?;
    let (case, is_resampled) = if question.point {
        (cases.of_draft(&draft)?, false)
    } else {
        // Of one number the same blocks in all scenarios.
        let mut stream = contestant.draft.seed().stream("stretch", u64::from(number));
        cases.of_stretch(&draft, &mut stream)?
    };
    let run = case.run()?;
    if run.counts.stuck > 0 {
        question.listener.tell(&Note::Warning(format!(
            "{}: {} requests of seed {number} could never be served",
            contestant.letter, run.counts.stuck
        )));
    }
    let latencies = wanted.keeps_latencies.then(|| latencies(&run.recorder.seen()));
    Ok(One { figures: Figures::new(&case.scenario, &run), latencies, is_resampled })
}

/// TTFT, TPOT and E2E of the finished requests, in seconds.
fn latencies(requests: &[RequestRecord]) -> [Vec<f64>; 3] {
    let finished = || requests.iter().filter(|request| request.status == Status::Finished);
    let seconds = |span: SimDuration| span.as_secs_f64();
    [
        finished().map(|request| seconds(request.ttft())).collect(),
        finished().filter_map(RequestRecord::tpot).map(seconds).collect(),
        finished().map(|request| seconds(request.e2e())).collect(),
    ]
}
