//! What of a scenario is known to be wrong, or not known to be right, before anything is simulated.

use std::fmt;

use serde::Serialize;

use super::Scenario;
use crate::scenario::{EngineConfig, SpeculationMethod};

/// Something to know of figures before they are trusted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Caveat {
    /// Drafts of speculative decoding are verified, and nothing is taken for making them.
    FreeDrafts {
        /// Where they come from.
        method: SpeculationMethod,
        /// Drafts per step.
        num_speculative_tokens: u32,
    },
    /// The calibration missed the runs that it was fitted to.
    PoorFit {
        /// Root mean square of its residuals, in standard deviations of the noise between repetitions.
        misfit: f64,
    },
    /// The calibration found a value that nobody expected, so that the parameter may stand for something else.
    FarParameter {
        /// The setting.
        path: String,
        /// The value found.
        value: f64,
        /// The value expected.
        centre: f64,
        /// How far off that is, in spreads of what was expected.
        spreads: f64,
    },
    /// The calibration was made on other servers than are simulated.
    OtherCalibration {
        /// What differs.
        what: &'static str,
        /// What it was made on.
        calibrated: String,
        /// What is simulated.
        simulated: String,
    },
    /// The calibration does not say which servers it was made on.
    UnknownCalibration,
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FreeDrafts { method, num_speculative_tokens: drafts } => {
                let what = match method {
                    SpeculationMethod::Eagle => {
                        "the draft head's compute and weights cost nothing here, so TPOT is too low"
                    }
                    SpeculationMethod::Ngram => {
                        "the lookup of drafts costs nothing here, so TPOT is slightly too low"
                    }
                };
                write!(f, "speculation with {drafts} drafts a step: {what}")
            }
            Self::PoorFit { misfit } => write!(
                f,
                "the calibration does not fit: it misses its own runs by {misfit:.1} times the noise \
                 between repetitions"
            ),
            Self::FarParameter { path, value, centre, spreads } => write!(
                f,
                "the calibration sets {path} to {value:.4}, {spreads:.0} spreads from the {centre} that \
                 was expected: it may make up for something else"
            ),
            Self::OtherCalibration { what, calibrated, simulated } => write!(
                f,
                "the calibration was made on another {what}: {calibrated}, not {simulated}"
            ),
            Self::UnknownCalibration => f.write_str(
                "the calibration does not say which model, GPU and engine it was made on; calibrate \
                 anew, or add [made_on]",
            ),
        }
    }
}

impl Scenario {
    /// The same scenario with what its calibration is doubted for.
    #[must_use]
    pub fn with_doubts(mut self, doubts: Vec<Caveat>) -> Self {
        self.doubts = doubts;
        self
    }

    /// What is to be known of its figures, each thing once.
    pub fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = self.doubts.clone();
        for group in &self.groups {
            let EngineConfig::VllmV1(vllm) = &group.cluster.engine else { continue };
            let Some(speculation) = &vllm.speculation else { continue };
            let caveat = Caveat::FreeDrafts {
                method: speculation.method,
                num_speculative_tokens: speculation.num_speculative_tokens,
            };
            if !caveats.contains(&caveat) {
                caveats.push(caveat);
            }
        }
        caveats
    }
}
