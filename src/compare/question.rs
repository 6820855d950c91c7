//! What a comparison is asked, and what it answers.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::contestant::{self, Contestant};
use super::findings::Findings;
use super::runs::{self, One, Runs, Wanted};
use super::{Pairing, json, text};
use crate::io::results::{Cells, NamedCells};
use crate::load::{Cases, Draft, Listener, LoadError, Note, Origin, Progress};
use crate::plain::shown;
use crate::problem::Problem;
use crate::rng::Seed;
use crate::threads;

/// With fewer seeds Student's t is so wide that nothing is ever found.
const SEEDS_MIN: u32 = 3;
const SEEDS_MAX: u32 = 100_000;

/// Why scenarios cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A scenario, or what is asked of it, breaks rules.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There is nothing to compare.
    #[error("{0}: no request of any seed was answered; there are no latencies to compare")]
    NoAnswer(char),
}

/// A question: do scenarios differ from the first, or is it chance?
///
/// ```
/// use servecast::Compare;
///
/// let scenario = || servecast::load::built_in().with("workload.num_requests", 50);
/// let mut compare = Compare::new(vec![scenario()?, scenario()?.with("cluster.replicas", 2)?]);
/// compare.seeds = [3, 3];
/// let compared = compare.read()?.run()?;
/// let ttft = compared.difference(1, "mean_ttft_ms").expect("requests were answered");
/// println!("{:.0} ms ± {:.0} ms", ttft.difference(), ttft.half_width);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Compare {
    /// The scenarios, the baseline first; all get its seed.
    pub drafts: Vec<Draft>,
    /// Seeds of the first round, and at most.
    pub seeds: [u32; 2],
    /// How often an interval holds the truth, 0.5 to 0.9999.
    pub confidence: f64,
    /// Seeds are added until every interval is within so much of the baseline's mean on either side.
    pub within: f64,
    /// Figures to judge, by name; those of latency and throughput if empty.
    pub metrics: Vec<String>,
    /// Whether scenarios share their seeds, and so their requests.
    pub pairing: Pairing,
    /// Whether every seed plays a trace as it was recorded, instead of a stretch resampled from it. Differences then have
    /// no intervals where nothing else is drawn.
    pub point: bool,
    /// Who hears of notes.
    pub listener: Listener,
}

impl Compare {
    /// A comparison of scenarios with the first of them.
    pub fn new(drafts: Vec<Draft>) -> Self {
        Self {
            drafts,
            seeds: [10, 100],
            confidence: 0.95,
            within: 0.02,
            metrics: Vec::new(),
            pairing: Pairing::Paired,
            point: false,
            listener: Listener::default(),
        }
    }

    /// Resolves the scenarios and finds in which settings they differ.
    ///
    /// # Errors
    /// When a rule is broken, by a scenario or by the question.
    pub fn read(self) -> Result<Contest, CompareError> {
        self.check()?;
        let contestants = contestant::read(&self.drafts, &self.listener)?;
        runs::check_asked(&self.metrics, &contestants)?;
        for contestant in &contestants {
            let other: Vec<&str> = contestant.other_requests().collect();
            if !other.is_empty() && self.pairing == Pairing::Paired {
                self.listener.tell(&Note::Warning(format!(
                    "{} has other requests than A ({}): pairs share the seed and not the requests",
                    contestant.letter,
                    other.join(", ")
                )));
            }
        }
        let cases = Cases::told(&self.listener);
        Ok(Contest { question: self, contestants, cases, ended: AtomicUsize::default() })
    }

    fn check(&self) -> Result<(), LoadError> {
        let refused = |flag, rule: String| Err(Origin::Argument(flag).fail(Problem::new("", rule)));
        let [first, most] = self.seeds;
        if first < SEEDS_MIN {
            let rule = format!("an interval takes at least {SEEDS_MIN} seeds, got {first}");
            return refused("--seeds", rule);
        }
        if most < first || most > SEEDS_MAX {
            return refused(
                "--seeds",
                format!("MAX must be from {first} to {SEEDS_MAX}, got {most}"),
            );
        }
        if !(0.5..=0.9999).contains(&self.confidence) {
            let rule = format!("must be within 0.5 and 0.9999, got {}", shown(self.confidence));
            return refused("--confidence", rule);
        }
        if !(self.within > 0.0 && self.within.is_finite()) {
            let rule = format!("must be more than 0, got {}", shown(self.within));
            return refused("--within", rule);
        }
        Ok(())
    }
}

/// Scenarios that can be compared.
#[derive(Debug)]
pub struct Contest {
    pub(super) question: Compare,
    /// The scenarios, the baseline first.
    pub contestants: Vec<Contestant>,
    cases: Cases,
    ended: AtomicUsize,
}

impl Contest {
    /// Simulates all scenarios with as many seeds as it takes.
    ///
    /// # Errors
    /// When a run fails, a figure is not in every run, or nothing was answered.
    pub fn run(self) -> Result<Compared, CompareError> {
        let runs = Runs::new(&self.contestants, &self.question, &|wanted| self.some(wanted))?;
        Ok(self.found(runs))
    }

    /// The same where runs are done elsewhere, each as [`some`](Self::some) does it.
    ///
    /// # Errors
    /// As [`run`](Self::run), and what comes from elsewhere.
    ///
    /// # Panics
    /// When it gives fewer runs than are wanted, or more.
    pub fn run_elsewhere(
        self,
        does: impl Fn(&[Wanted]) -> Result<Vec<One>, LoadError>,
    ) -> Result<Compared, CompareError> {
        let runs = Runs::new(&self.contestants, &self.question, &does)?;
        Ok(self.found(runs))
    }

    /// Does some of the runs, on as many threads as there are.
    ///
    /// # Errors
    /// When a run fails.
    ///
    /// # Panics
    /// When there is no such scenario.
    pub fn some(&self, wanted: &[Wanted]) -> Result<Vec<One>, LoadError> {
        let told = (&self.cases, &self.question);
        let one = |wanted: &Wanted| {
            let one = runs::run(&self.contestants[wanted.of], told, *wanted)?;
            let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
            let progress = Progress { ended, of: None, now: String::new() };
            self.question.listener.tell(&Note::Progress(progress));
            Ok(one)
        };
        threads::map(wanted, one).into_iter().collect()
    }

    fn found(self, runs: Runs) -> Compared {
        let findings = Findings::new(&self.contestants, &runs);
        Compared { contestants: self.contestants, runs, findings }
    }
}

/// What is compared, and how many runs that takes, as in `A  round robin with B  sticky sessions: 10 to 100 seeds each, 20
/// to 200 runs`.
impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Scenarios that are named.
        const NAMED: usize = 3;
        f.write_str("comparing ")?;
        for (place, one) in self.contestants.iter().take(NAMED).enumerate() {
            let before = ["", " with ", ", "][place.min(2)];
            write!(f, "{before}{}  {}", one.letter, one.name())?;
        }
        let all = self.contestants.len();
        if all > NAMED {
            write!(f, " and {} more", all - NAMED)?;
        }
        let [first, most] = self.question.seeds.map(|seeds| seeds as usize);
        if first == most {
            write!(f, ": {first} seeds each, {} runs", first * all)
        } else {
            write!(f, ": {first} to {most} seeds each, {} to {} runs", first * all, most * all)
        }
    }
}

/// What a comparison found. [`Display`](fmt::Display) gives it in words, [`json`](Self::json) as `compare.json`.
#[derive(Debug)]
pub struct Compared {
    /// The scenarios, the baseline first.
    pub contestants: Vec<Contestant>,
    /// The runs.
    pub runs: Runs,
    /// What they show.
    pub findings: Findings,
}

impl Compared {
    /// The seed that those of all runs are drawn from.
    pub fn seed(&self) -> Seed {
        self.contestants[0].file.seed
    }

    /// The difference of a figure between the scenario at a place and the baseline, if every run has it.
    pub fn difference(&self, other: usize, figure: &str) -> Option<super::Difference> {
        self.runs.difference(other, figure)
    }

    /// All of it: the content of `compare.json`.
    pub fn json(&self) -> Value {
        json::value(&self.contestants, &self.runs, &self.findings)
    }

    /// The figures of every run, a row for each: which scenario, by its letter, and which seed.
    pub fn columns(&self) -> Vec<NamedCells> {
        let names = self.runs.of[0][0].figures.iter().map(|(name, _)| name.to_owned());
        let rows = || {
            let all = self.contestants.iter().zip(&self.runs.of).enumerate();
            all.flat_map(|(of, (contestant, each))| {
                let rows = each.iter().enumerate();
                rows.map(move |(place, one)| (of, contestant.letter, place, one))
            })
        };
        let letters = rows().map(|(_, letter, ..)| Some(letter.to_string()));
        let numbers = rows().map(|(of, _, place, _)| Some(self.runs.seed_number(of, place).into()));
        let mut columns = vec![
            ("scenario".to_owned(), Cells::Texts(letters.collect())),
            ("seed_number".to_owned(), Cells::Integers(numbers.collect())),
        ];
        columns.extend(names.map(|name| {
            let values = rows().map(|(.., one)| one.figures.get(&name)).collect();
            (name, Cells::Numbers(values))
        }));
        columns
    }

    /// The figures of every run as CSV, a row for each: the content of `seeds.csv`.
    pub fn seeds_csv(&self) -> String {
        let names: Vec<&str> = self.runs.of[0][0].figures.iter().map(|(name, _)| name).collect();
        let mut rows = vec![format!("scenario,seed_number,{}\n", names.join(","))];
        for (of, (contestant, each)) in self.contestants.iter().zip(&self.runs.of).enumerate() {
            for (place, one) in each.iter().enumerate() {
                let values = names.iter().map(|name| {
                    one.figures.get(name).map(|value| value.to_string()).unwrap_or_default()
                });
                let values = values.collect::<Vec<_>>().join(",");
                let number = self.runs.seed_number(of, place);
                rows.push(format!("{},{number},{values}\n", contestant.letter));
            }
        }
        rows.concat()
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::text(&self.contestants, &self.runs, &self.findings))
    }
}
