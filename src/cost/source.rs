//! Where step times come from, for those who weigh what they rest on.

use std::fmt;

use serde::Serialize;

/// Where step times come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepTimeSource {
    /// Kernels that were measured one by one.
    OperatorTable {
        /// The engine whose kernels they are.
        engine: String,
        /// Its version.
        version: String,
        /// The GPU that they were measured on.
        measured_on: String,
        /// What was not measured and is taken from the roofline.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        not_measured: Vec<String>,
    },
    /// Layers of a model that were measured one by one.
    LayerTable {
        /// The engine whose layers they are.
        engine: String,
        /// Its version.
        version: String,
        /// Who measured them.
        source: String,
    },
    /// Whole steps that were measured.
    StepTable {
        /// The engine whose steps they are.
        engine: String,
        /// Its version.
        version: String,
        /// Who measured them.
        source: String,
    },
    /// The rates of a data sheet and the share of them that kernels reach.
    Roofline {
        /// The GPU.
        gpu: String,
        /// The GPU whose kernels were looked at.
        kernels_of: String,
        /// Where the shares come from.
        source: String,
    },
    /// An affine law, which a scenario states.
    Linear,
    /// A model of the library's user.
    Custom,
}

impl StepTimeSource {
    /// The GPU whose kernels stand in for those of the simulated one, if they do.
    pub fn stand_in(&self) -> Option<&str> {
        match self {
            Self::Roofline { gpu, kernels_of, .. } if gpu != kernels_of => Some(kernels_of),
            _ => None,
        }
    }
}

impl fmt::Display for StepTimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OperatorTable { engine, version, measured_on, not_measured } => {
                write!(f, "kernels of {engine} {version}, measured on {measured_on}")?;
                match &not_measured[..] {
                    [] => Ok(()),
                    gaps => write!(f, "; from the roofline: {}", gaps.join(", ")),
                }
            }
            Self::LayerTable { engine, version, source } => {
                write!(f, "layers of this model on {engine} {version}, measured ({source})")
            }
            Self::StepTable { engine, version, source } => {
                write!(f, "whole steps of this model on {engine} {version}, measured ({source})")
            }
            Self::Roofline { gpu, source, .. } => match self.stand_in() {
                Some(other) => write!(
                    f,
                    "roofline with the efficiency of {other}'s kernels in place of {gpu}'s"
                ),
                None => write!(f, "roofline with the efficiency of its own kernels: {source}"),
            },
            Self::Linear => f.write_str("the affine law that the scenario states"),
            Self::Custom => f.write_str("a cost model of your own"),
        }
    }
}
