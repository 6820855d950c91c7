//! Scenarios that are checked together, and the suite of the project.

use super::golden::Golden;
use super::outcome::Outcome;
use crate::load;
use crate::plain::matches;
use crate::study::{Case, Figures, Policies, StudyError};
use crate::threads;

/// The scenarios of the project's suite, by the names of their files.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../checks/", $name, ".toml")))),*]
    };
}

const FILES: [(&str, &str); 24] = files![
    "autoscaler",
    "burst",
    "chunked-prefill",
    "closed-loop",
    "data-parallel",
    "disaggregation-sglang",
    "disaggregation-vllm",
    "faults",
    "gateway-fairness",
    "groups",
    "kv-tiers",
    "long-prompts",
    "lora",
    "pipeline-parallel",
    "preemption",
    "prefix-sharing",
    "priorities",
    "router-load",
    "router-prefixes",
    "router-sessions",
    "saturation",
    "sglang",
    "sglang-retraction",
    "speculation",
];

const GOLDEN: &str = include_str!("../../checks/golden.toml");

/// A scenario of a suite.
#[derive(Debug)]
pub struct Member {
    /// Its name, by which its figures are recorded.
    pub name: String,
    /// The scenario.
    pub case: Case,
}

/// Scenarios with their recorded figures.
#[derive(Debug)]
pub struct Suite {
    /// The scenarios.
    pub members: Vec<Member>,
    /// What is recorded of them.
    pub golden: Golden,
    /// Scenarios of which figures are recorded, and which are not there any more.
    pub forgotten: Vec<String>,
}

/// A scenario under certain policies: its figures, or why they are not for it.
type Run = Result<Figures, String>;

impl Suite {
    /// The suite of the project: small scenarios of everything that a policy may meet.
    ///
    /// # Panics
    /// When a file of the suite is broken, which tests would have found.
    pub fn built_in() -> Self {
        let member = |(name, text): (&str, &str)| {
            let case = load::from_text(text).and_then(|draft| draft.resolve()?.case());
            let case = case.unwrap_or_else(|error| panic!("checks/{name}.toml: {error}"));
            Member { name: name.to_owned(), case }
        };
        let golden = Golden::parse(GOLDEN);
        let golden = golden.unwrap_or_else(|error| panic!("checks/golden.toml: {error}"));
        Self::new(FILES.into_iter().map(member).collect(), golden)
    }

    /// These scenarios with what is recorded of them.
    pub(super) fn new(members: Vec<Member>, golden: Golden) -> Self {
        let is_gone = |name: &&String| members.iter().all(|member| member.name != **name);
        let forgotten = golden.figures.keys().filter(is_gone).cloned().collect();
        Self { members, golden, forgotten }
    }

    /// Those of its scenarios whose names are like a pattern, in which `*` stands for any letters and `?` for one.
    #[must_use]
    pub fn like(self, pattern: &str) -> Self {
        self.only(|name| matches(pattern, name))
    }

    /// Those of its scenarios whose names do.
    #[must_use]
    pub fn only(mut self, does: impl Fn(&str) -> bool) -> Self {
        self.members.retain(|member| does(&member.name));
        self.forgotten.retain(|name| does(name));
        self
    }

    /// Simulates every scenario with these policies and compares with what is recorded.
    ///
    /// # Errors
    /// When a scenario cannot be simulated.
    pub fn check(&self, policies: &Policies<'_>) -> Result<Vec<Outcome>, StudyError> {
        Ok(self.judge(self.run(policies)?))
    }

    /// Records the figures of its scenarios as they are with the project's policies, forgets those of scenarios that
    /// are not there any more, and says how figures stood to those recorded before.
    ///
    /// # Errors
    /// When a scenario cannot be simulated.
    ///
    /// # Panics
    /// Never: the project's policies refuse nothing.
    pub fn record(&mut self) -> Result<Vec<Outcome>, StudyError> {
        let runs = self.run(&Policies::shipped())?;
        let outcomes = self.judge(runs.clone());
        for (member, run) in self.members.iter().zip(runs) {
            let figures = run.expect("the project's policies refuse nothing");
            self.golden.record(&member.name, &figures);
        }
        for name in &self.forgotten {
            self.golden.figures.remove(name);
        }
        Ok(outcomes)
    }

    fn judge(&self, runs: Vec<Run>) -> Vec<Outcome> {
        let outcomes = self.members.iter().zip(runs).map(|(member, run)| {
            let scenario = member.name.clone();
            let (deviations, left_out) = match run {
                Ok(figures) => (self.golden.deviations(&scenario, &figures), None),
                Err(reason) => (Some(Vec::new()), Some(reason)),
            };
            let is_unrecorded = deviations.is_none();
            let deviations = deviations.unwrap_or_default();
            Outcome { scenario, deviations, left_out, is_unrecorded }
        });
        outcomes.collect()
    }

    fn run(&self, policies: &Policies<'_>) -> Result<Vec<Run>, StudyError> {
        let runs = threads::map(&self.members, |member| figures(&member.case, policies));
        runs.into_iter().collect()
    }
}

fn figures(case: &Case, policies: &Policies<'_>) -> Result<Run, StudyError> {
    match policies.applied(&case.scenario, case.cluster()?) {
        Ok(cluster) => Ok(Ok(Figures::new(&case.scenario, &case.run_on(cluster)?))),
        Err(reason) => Ok(Err(reason)),
    }
}
