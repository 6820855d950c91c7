//! How step times are configured.

use serde::{Deserialize, Serialize};

use super::calibration::Calibration;

/// How long steps take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum StepTimeConfig {
    /// The best that there is for the model and the GPU: the operator table of the GPU, else the
    /// roofline.
    Auto {
        /// The version of the engine that is served, as `0.15.1`: the table of the version nearest
        /// below is taken. The newest if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        engine_version: Option<String>,
        /// How tokens are drawn.
        #[serde(default)]
        sampler: Sampler,
        /// Whether all-reduces between GPUs take time.
        #[serde(default)]
        communication: Communication,
        /// Factors and constants of this machine; what is expected of such servers if absent, unless
        /// [`ClusterConfig::host`](super::ClusterConfig::host) is `"none"`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calibration: Option<Calibration>,
        /// Whether somebody chose the kernels of a mixture of experts for this model on this GPU, as vendors
        /// do in the recipes of `InferenceX`; the engine chooses them if not. It decides what is expected of a
        /// server without a calibration, but for MXFP4 experts and GPUs of other vendors than NVIDIA.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tuned: bool,
    },
    /// From measured times of single operators on the GPU.
    OperatorTable {
        /// The table, as `servecast profile list` names it; the one that `auto` takes if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        /// The version of the engine that is served, where `profile` is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        engine_version: Option<String>,
        /// How tokens are drawn.
        #[serde(default)]
        sampler: Sampler,
        /// Whether all-reduces between GPUs take time.
        #[serde(default)]
        communication: Communication,
        /// Factors and constants of this machine.
        #[serde(default, skip_serializing_if = "Calibration::is_neutral")]
        calibration: Calibration,
    },
    /// From the shapes of the model and the figures of the GPU, with measured kernel efficiencies.
    Roofline {
        /// How tokens are drawn.
        #[serde(default)]
        sampler: Sampler,
        /// Whether all-reduces between GPUs take time.
        #[serde(default)]
        communication: Communication,
        /// Factors and constants of this machine.
        #[serde(default, skip_serializing_if = "Calibration::is_neutral")]
        calibration: Calibration,
    },
    /// From the times of each operator of a layer, measured with this model on this GPU.
    LayerTable(LayerTableConfig),
    /// From the times of whole steps, measured with this model on this GPU.
    StepTable {
        /// A shipped profile by name, or a file. By default the shipped one of this model, GPU and
        /// tensor parallel size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// An affine law.
    Linear {
        /// Every step, in µs.
        base_us: f64,
        /// Every prompt token computed, in µs.
        prefill_token_us: f64,
        /// Every sequence that decodes, in µs.
        decode_seq_us: f64,
        /// Every step that prefills, in µs, in place of `base_us`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prefill_base_us: Option<f64>,
        /// Every sequence that prefills, in µs; below 0 where its first token takes less than the others.
        #[serde(default, skip_serializing_if = "is_zero")]
        prefill_seq_us: f64,
        /// Every token of the contexts as they are after the step, in µs.
        #[serde(default, skip_serializing_if = "is_zero")]
        context_token_us: f64,
    },
}

impl StepTimeConfig {
    /// Factors and constants of the machine, where whole steps were not measured.
    pub(crate) fn calibration_mut(&mut self) -> Option<&mut Calibration> {
        match self {
            Self::Auto { calibration, .. } => Some(calibration.get_or_insert_default()),
            Self::OperatorTable { calibration, .. } | Self::Roofline { calibration, .. } => {
                Some(calibration)
            }
            Self::LayerTable(config) => Some(&mut config.calibration),
            Self::StepTable { .. } | Self::Linear { .. } => None,
        }
    }

    /// Whether somebody chose kernels for the model on the GPU.
    pub(crate) fn is_tuned(&self) -> bool {
        matches!(self, Self::Auto { tuned: true, .. })
    }

    /// Whether what GPUs send each other takes no time.
    pub(crate) fn ignores_communication(&self) -> bool {
        match self {
            Self::Auto { communication, .. }
            | Self::OperatorTable { communication, .. }
            | Self::Roofline { communication, .. } => *communication == Communication::Ignored,
            Self::LayerTable(_) | Self::StepTable { .. } | Self::Linear { .. } => false,
        }
    }

    /// The table of kernels, layers or steps that times are read from, by its name; nothing where they are from none.
    pub(crate) fn table(&self) -> Option<&str> {
        match self {
            Self::OperatorTable { profile, .. } | Self::StepTable { profile } => profile.as_deref(),
            Self::LayerTable(config) => config.profile.as_deref(),
            Self::Auto { .. } | Self::Roofline { .. } | Self::Linear { .. } => None,
        }
    }

    /// Whether a profile is a file of the user's own.
    pub(crate) fn is_file(name: &str) -> bool {
        std::path::Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"))
    }

    /// The name of the file that holds the measured step times, where that is one of the user's own.
    pub fn file_mut(&mut self) -> Option<&mut String> {
        let profile = match self {
            Self::OperatorTable { profile, .. }
            | Self::StepTable { profile }
            | Self::LayerTable(LayerTableConfig { profile, .. }) => profile.as_mut(),
            Self::Auto { .. } | Self::Roofline { .. } | Self::Linear { .. } => None,
        };
        profile.filter(|name| Self::is_file(name))
    }
}

impl Default for StepTimeConfig {
    fn default() -> Self {
        Self::Auto {
            engine_version: None,
            sampler: Sampler::default(),
            communication: Communication::default(),
            calibration: None,
            tuned: false,
        }
    }
}

/// How tokens are drawn from the logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    /// The largest logit, or a draw without limits: no measurable time.
    #[default]
    Greedy,
    /// Top-p or top-k, which sorts the vocabulary in `PyTorch`: 52 µs and 17 µs per row
    /// at 128,000 entries (fitted to vLLM 0.15.1 on H100).
    TopPTopK,
}

/// Whether all-reduces take time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Communication {
    /// Two all-reduces per layer.
    #[default]
    Counted,
    /// Free: a lower bound.
    Ignored,
}

/// Step times from a layer profile.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LayerTableConfig {
    /// A shipped profile by name, or a file. By default the shipped one of this model, GPU and
    /// tensor parallel size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Fixed time of an all-reduce on this host, in µs. By default that of the host on which the
    /// profile was validated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_reduce_latency_us: Option<f64>,
    /// Rate at which an all-reduce moves its bytes on this host, in 10⁹ B/s. By default as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_reduce_gb_s: Option<f64>,
    /// Whether the GPUs of a replica hold whole experts each (vLLM's `--enable-expert-parallel`).
    pub enable_expert_parallel: bool,
    /// Factors and constants of this machine.
    #[serde(skip_serializing_if = "Calibration::is_neutral")]
    pub calibration: Calibration,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
