//! What a check finds.

use serde_json::{Value, json};

/// How a figure stands to the recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Worse by more than its tolerance.
    Worse,
    /// Worse, within its tolerance.
    WorseWithinTolerance,
    /// Better.
    Better,
    /// Another, where no way is better.
    Changed,
    /// Another number of requests: nothing else can be compared.
    OtherRequests,
    /// Recorded, and not there any more.
    Gone,
    /// There, and not recorded.
    New,
}

impl Standing {
    /// Whether it fails the check.
    pub fn fails(self) -> bool {
        matches!(self, Self::Worse | Self::OtherRequests | Self::Gone)
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::WorseWithinTolerance => "worse, within tolerance",
            Self::Better => "better",
            Self::Changed => "changed",
            Self::OtherRequests => "other requests",
            Self::Gone => "gone",
            Self::New => "new",
        }
    }
}

/// A figure that is not as recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Deviation {
    /// Its name.
    pub figure: String,
    /// As recorded.
    pub golden: Option<f64>,
    /// As simulated.
    pub now: Option<f64>,
    /// How much worse it may be, relative to the recorded one.
    pub tolerance: f64,
    /// What that makes it.
    pub standing: Standing,
}

impl Deviation {
    /// The difference relative to the recorded figure; `None` where that is 0 or one of the two is absent.
    pub fn relative(&self) -> Option<f64> {
        let (golden, now) = (self.golden?, self.now?);
        (golden != 0.0).then(|| (now - golden) / golden.abs())
    }
}

/// What was found of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Its name.
    pub scenario: String,
    /// Figures that are not as recorded, in the order of their names.
    pub deviations: Vec<Deviation>,
    /// Why the policies are not for it, if they are not.
    pub left_out: Option<String>,
    /// Whether nothing is recorded of it.
    pub is_unrecorded: bool,
}

impl Outcome {
    /// The figures that fail.
    pub fn failures(&self) -> impl Iterator<Item = &Deviation> {
        self.deviations.iter().filter(|found| found.standing.fails())
    }

    /// Whether nothing is worse than its tolerance allows.
    pub fn passes(&self) -> bool {
        !self.is_unrecorded && self.failures().next().is_none()
    }

    /// Whether everything is as recorded, bit by bit.
    pub fn is_unchanged(&self) -> bool {
        !self.is_unrecorded && self.deviations.is_empty()
    }
}

/// Outcomes as JSON, with the scenarios that are recorded and not there any more.
pub fn json(outcomes: &[Outcome], forgotten: &[String]) -> Value {
    let scenarios = outcomes.iter().map(|outcome| {
        let found = outcome.deviations.iter().map(|found| {
            json!({
                "figure": found.figure,
                "recorded": found.golden,
                "now": found.now,
                "relative": found.relative(),
                "tolerance": found.tolerance.is_finite().then_some(found.tolerance),
                "standing": found.standing.name(),
                "fails": found.standing.fails(),
            })
        });
        json!({
            "scenario": outcome.scenario,
            "passes": outcome.passes(),
            "unchanged": outcome.is_unchanged(),
            "unrecorded": outcome.is_unrecorded,
            "left_out": outcome.left_out,
            "deviations": found.collect::<Vec<_>>(),
        })
    });
    json!({
        "servecast": env!("CARGO_PKG_VERSION"),
        "scenarios": scenarios.collect::<Vec<_>>(),
        "recorded_and_gone": forgotten,
    })
}
