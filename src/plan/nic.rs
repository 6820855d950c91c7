//! The network of layouts that have prefill and decode apart.

use std::fmt;

use serde::Serialize;
use toml::Value;

use super::PlanError;
use super::error::asked;
use super::layouts::kinds;
use super::question::{LayoutKind, Plan};
use crate::plain::shown;

/// What NICs carry in each direction where prefill and decode are apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Nic {
    /// In GB/s (10⁹ bytes).
    pub gb_per_s: f64,
    /// Who says so.
    pub from: NicSource,
}

/// Who says what NICs carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NicSource {
    /// The scenario, of each replica.
    Scenario,
    /// The question, of each GPU.
    Question,
    /// Nobody: so much is taken of each GPU.
    Nobody,
}

impl Nic {
    /// Where nobody says what they carry: 400 Gbit/s for each GPU.
    const UNSTATED_GB_PER_S: f64 = 50.0;

    /// For a plan; refused where the question says what is not asked.
    pub(super) fn of(question: &Plan) -> Result<Self, PlanError> {
        const FLAG: &str = "--nic-gb-per-s";
        let transfer = question.draft.get(&["cluster", "disaggregation", "transfer"]);
        let stated = transfer.map(|transfer| transfer.get("nic_gb_per_s"));
        match (stated, question.nic_gb_per_s) {
            (Some(_), Some(_)) => {
                let problem = "the scenario says what NICs carry \
                               (cluster.disaggregation.transfer.nic_gb_per_s); change it there, or leave this out";
                Err(asked(FLAG, problem))
            }
            (Some(stated), None) => {
                let whole = |value: &Value| value.as_integer().map(|whole| whole as f64);
                let number = stated.and_then(|value| value.as_float().or_else(|| whole(value)));
                // What is no number is refused with the scenario.
                Ok(Self { gb_per_s: number.unwrap_or_default(), from: NicSource::Scenario })
            }
            (None, Some(_)) if !kinds(question)?.contains(&LayoutKind::Disaggregated) => {
                let problem = "no layout has prefill and decode apart; add disaggregated to --layout, \
                               or leave this out";
                Err(asked(FLAG, problem))
            }
            (None, Some(gb_per_s)) => Ok(Self { gb_per_s, from: NicSource::Question }),
            (None, None) => Ok(Self { gb_per_s: Self::UNSTATED_GB_PER_S, from: NicSource::Nobody }),
        }
    }

    /// Of a replica with so many GPUs, where that is not what the scenario says.
    pub(super) fn of_replica(self, gpus: i64) -> Option<f64> {
        (self.from != NicSource::Scenario).then_some(self.gb_per_s * gpus as f64)
    }
}

impl fmt::Display for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GB/s each way for each ", shown(self.gb_per_s))?;
        f.write_str(match self.from {
            NicSource::Scenario => "replica, as the scenario says",
            NicSource::Question => "GPU, as asked",
            NicSource::Nobody => "GPU, assumed (state yours in cluster.disaggregation.transfer)",
        })
    }
}
