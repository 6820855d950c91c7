//! What is to be found.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// What is expected of a parameter before any run is seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Expected {
    /// A factor: its logarithm lies around ln(`centre`) with the standard deviation `spread`.
    Factor {
        /// The likeliest value, above 0.
        centre: f64,
        /// Standard deviation of its logarithm: 0.2 is about 20 %.
        spread: f64,
    },
    /// An amount of its own unit, at least 0, around `centre` with the standard deviation `spread`.
    Amount {
        /// The likeliest value.
        centre: f64,
        /// Standard deviation.
        spread: f64,
    },
}

impl Expected {
    pub(super) fn check(self) -> Result<(), String> {
        let (spread, is_centre_ok) = match self {
            Self::Factor { centre, spread } => (spread, centre > 0.0),
            Self::Amount { centre, spread } => (spread, centre >= 0.0),
        };
        if !is_centre_ok {
            return Err(format!("the centre must be positive, got {}", self.centre()));
        }
        if spread > 0.0 {
            Ok(())
        } else {
            Err(format!("the spread must be positive, got {spread}"))
        }
    }

    /// The value `position` standard deviations from the centre.
    pub fn value(self, position: f64) -> f64 {
        match self {
            Self::Factor { centre, spread } => centre * (position * spread).exp(),
            Self::Amount { centre, spread } => (centre + position * spread).max(0.0),
        }
    }

    /// The likeliest value.
    pub const fn centre(self) -> f64 {
        match self {
            Self::Factor { centre, .. } | Self::Amount { centre, .. } => centre,
        }
    }

    /// How many standard deviations a value lies from the centre.
    pub fn position(self, value: f64) -> f64 {
        match self {
            Self::Factor { centre, spread } => (value / centre).ln() / spread,
            Self::Amount { centre, spread } => (value - centre) / spread,
        }
    }
}

/// A number to be found: a setting of the scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// The path of the setting, such as `cluster.api_delay_ms`.
    pub path: String,
    /// What the names of the runs contain that have it; all have it if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<String>,
    /// What is expected of it.
    #[serde(flatten)]
    pub expected: Expected,
}

impl Parameter {
    /// A factor of what is known: about 1, within a share of `spread`.
    pub fn factor(path: impl Into<String>, spread: f64) -> Self {
        Self { path: path.into(), runs: None, expected: Expected::Factor { centre: 1.0, spread } }
    }

    /// An amount of which nothing is known but that it is about as large as `spread` at most.
    pub fn amount(path: impl Into<String>, spread: f64) -> Self {
        Self { path: path.into(), runs: None, expected: Expected::Amount { centre: 0.0, spread } }
    }

    /// Whether a run of this name has it.
    pub fn concerns(&self, run: &str) -> bool {
        self.runs.as_ref().is_none_or(|part| run.contains(part))
    }

    /// Its path, and whose it is where not all runs have it.
    pub fn title(&self) -> String {
        match &self.runs {
            None => self.path.clone(),
            Some(runs) => format!("{} ({runs})", self.path),
        }
    }
}

/// `PATH=CENTRE*/SPREAD`, a factor, or `PATH=CENTRE+-SPREAD`, an amount.
impl FromStr for Parameter {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let wrong = |rule: &str| Problem::new("", rule);
        let Some((path, expected)) = text.split_once('=') else {
            return Err(wrong("write PATH=CENTRE*/SPREAD or PATH=CENTRE+-SPREAD"));
        };
        let number = |text: &str| {
            let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| wrong(&format!("`{}` is not a number", text.trim())))
        };
        let expected = if let Some((centre, spread)) = expected.split_once("*/") {
            Expected::Factor { centre: number(centre)?, spread: number(spread)? }
        } else if let Some((centre, spread)) = expected.split_once("+-") {
            Expected::Amount { centre: number(centre)?, spread: number(spread)? }
        } else {
            return Err(wrong("write the expectation as CENTRE*/SPREAD or CENTRE+-SPREAD"));
        };
        expected.check().map_err(|rule| wrong(&rule))?;
        Ok(Self { path: path.trim().to_owned(), runs: None, expected })
    }
}
