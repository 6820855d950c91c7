//! What of a scenario is known not to be priced, before anything is simulated.

use std::fmt;

use serde::Serialize;

use super::engine::{EngineConfig, SpeculationMethod};
use super::resolve::Scenario;

/// Something that a server spends and a run does not, so that its figures are too good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
        }
    }
}

impl Scenario {
    /// What of it is not priced, each thing once.
    pub fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = Vec::new();
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
