//! What of a scenario is known to be wrong, or not known to be right, before anything is simulated.

use std::fmt;

use serde::Serialize;

use super::{Demand, DemandFigure, ReplicaGroup, Scenario, drafting};
use crate::model::Format;
use crate::plain::{grouped, rounded};
use crate::profiles;
use crate::scenario::{Calibration, EngineConfig, SpeculationMethod, StepTimeConfig};

/// Something to know of figures before they are trusted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Caveat {
    /// Drafts of speculative decoding are verified, and nothing is taken for making them.
    FreeDrafts {
        /// Where they come from, if it is told.
        #[serde(skip_serializing_if = "Option::is_none")]
        method: Option<SpeculationMethod>,
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
    /// Requests may be longer than the context that the model was made for.
    LongContext {
        /// The engine's name for what is asked for.
        key: &'static str,
        /// What the scenario asks for.
        max_model_len: u32,
        /// The model's own limit.
        max_position: u32,
    },
    /// What GPUs that only the host bus joins take for an all-reduce was not measured on this host.
    UnknownBus {
        /// The GPU.
        gpu: String,
        /// GPUs that share every matrix.
        gpus: u32,
        /// The rate of an all-reduce that is assumed, in 10⁹ B/s; absent where it is that of a layer profile.
        #[serde(skip_serializing_if = "Option::is_none")]
        assumed_gb_s: Option<f64>,
        /// The rate on the slowest host that was measured.
        slowest_gb_s: f64,
        /// The rate on the fastest.
        fastest_gb_s: f64,
    },
    /// The run asks more of its replicas than the runs did that the calibration was fitted to.
    BeyondCalibration {
        /// The figure.
        what: DemandFigure,
        /// The least that was fitted.
        least: f64,
        /// The most.
        most: f64,
        /// That of the run.
        simulated: f64,
    },
    /// All-reduces take what they take on typical servers, as no run of the calibration had any.
    TypicalAllReduces {
        /// Times what they take alone.
        factor: f64,
    },
    /// The calibration does not say which servers it was made on.
    UnknownCalibration,
    /// The catalogue has no checkpoint of the name that is asked for, but the model.
    OtherCheckpoint {
        /// The name.
        asked: String,
        /// The model that stands for it.
        model: String,
        /// The number format that it is taken in.
        #[serde(skip_serializing_if = "Option::is_none")]
        format: Option<Format>,
    },
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FreeDrafts { method, num_speculative_tokens: drafts } => {
                let what = match method {
                    None => {
                        "where they come from is not told (`method`), so that making them costs nothing here and \
                         TPOT is too low"
                    }
                    Some(method) if method.is_looked_up() => {
                        "the lookup of drafts costs nothing here (`lookup_us`), so TPOT is slightly too low"
                    }
                    Some(_) => {
                        "a `linear` law has no time for making them, so TPOT is too low"
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
            Self::UnknownBus { gpu, gpus, assumed_gb_s, slowest_gb_s, fastest_gb_s } => {
                let assumed = assumed_gb_s.map_or_else(
                    || "are assumed to be those of the profile's host".to_owned(),
                    |rate| format!("are assumed to reach {rate:.1} GB/s"),
                );
                write!(
                    f,
                    "all-reduces over {gpus} {gpu} on PCIe {assumed}; measured hosts reach \
                     {slowest_gb_s:.1} to {fastest_gb_s:.1} GB/s: measure yours (algbw of nccl-tests' \
                     all_reduce_perf) and set cluster.all_reduce"
                )
            }
            Self::LongContext { key, max_model_len, max_position } => write!(
                f,
                "{key} = {max_model_len} is more than the {max_position} tokens that the model was made for: \
                 engines refuse it. Where its RoPE is scaled, as by YaRN, its config.json must name the scaled length \
                 in max_position_embeddings"
            ),
            Self::BeyondCalibration { what, least, most, simulated } => {
                let [least, most, simulated] = [least, most, simulated].map(|it| figure(*what, *it));
                let fitted =
                    if least == most { most } else { format!("{least} to {most}") };
                write!(
                    f,
                    "the calibration was fitted on {fitted} {what}, and here there are {simulated}: \
                     what it says there is extrapolated"
                )
            }
            Self::TypicalAllReduces { factor } => write!(
                f,
                "no run of the calibration had all-reduces: they take {factor} times what they take alone, as on a typical server"
            ),
            Self::UnknownCalibration => f.write_str(
                "the calibration does not say which model, GPU and engine it was made on; calibrate \
                 anew, or add [made_on]",
            ),
            Self::OtherCheckpoint { asked, model, format } => {
                write!(f, "the catalogue has no checkpoint `{asked}`: {model}")?;
                if let Some(format) = format {
                    write!(f, " with weights in {}", format.name())?;
                }
                f.write_str(" stands for it; the path of its config.json says more")
            }
        }
    }
}

/// A figure of what runs ask: tokens are whole, rates have three digits.
fn figure(what: DemandFigure, value: f64) -> String {
    match what {
        DemandFigure::RequestsPerSPerReplica => rounded(value),
        DemandFigure::PromptTokens | DemandFigure::OutputTokens => grouped(value.round() as u64),
    }
}

impl Scenario {
    /// The same with all-reduces as on typical servers, in groups that have some. Beside it the caveats about them.
    pub(crate) fn with_typical_all_reduces(mut self) -> (Self, Vec<Caveat>) {
        let mut caveats = Vec::new();
        for group in &mut self.groups {
            let cluster = &mut group.cluster;
            let is_alone = cluster.tensor_parallel_size.max(cluster.data_parallel_size) == 1;
            let is_silent = is_alone || cluster.step_time.ignores_communication();
            let factor = group.server_class.map_or(1.0, |class| class.prior().factors.all_reduce);
            if is_silent || factor <= 1.0 {
                continue;
            }
            if let Some(calibration) = cluster.step_time.calibration_mut() {
                calibration.all_reduce = factor;
                group.assumes_all_reduces = true;
                let caveat = Caveat::TypicalAllReduces { factor };
                if !caveats.contains(&caveat) {
                    caveats.push(caveat);
                }
            }
        }
        (self, caveats)
    }

    /// The same scenario, whose parameters are those of a calibration, with what that is doubted for and what its
    /// runs asked of their replicas, where that is known.
    #[must_use]
    pub fn calibrated_with(mut self, doubts: Vec<Caveat>, demand: Option<Demand>) -> Self {
        self.doubts = doubts;
        self.fitted_demand = demand;
        for group in &mut self.groups {
            group.is_calibrated = true;
        }
        self
    }

    /// What is to be known of its figures, each thing once.
    pub fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = self.doubts.clone();
        for group in &self.groups {
            let told = [other_checkpoint(group), unknown_bus(group), long_context(group)];
            for caveat in told.into_iter().flatten() {
                if !caveats.contains(&caveat) {
                    caveats.push(caveat);
                }
            }
            let Some(speculation) = group.speculation() else { continue };
            if !drafting::is_free(&group.cluster) {
                continue;
            }
            let caveat = Caveat::FreeDrafts {
                method: speculation.method,
                num_speculative_tokens: speculation.drafts,
            };
            if !caveats.contains(&caveat) {
                caveats.push(caveat);
            }
        }
        caveats
    }
}

/// Whether another checkpoint stands for the one that these replicas serve.
fn other_checkpoint(group: &ReplicaGroup) -> Option<Caveat> {
    let asked = &group.cluster.model;
    if profiles::model(asked).is_some() {
        return None;
    }
    // A local model has the name of its file.
    let found = profiles::stand_in(asked).filter(|found| found.model.name == group.model.name)?;
    Some(Caveat::OtherCheckpoint {
        asked: asked.clone(),
        model: found.model.name,
        format: group.cluster.quantization.or(found.format),
    })
}

/// Whether these replicas take longer requests than their model was made for.
fn long_context(group: &ReplicaGroup) -> Option<Caveat> {
    let max_model_len = group.settings.max_model_len();
    let max_position = match group.cluster.engine {
        EngineConfig::Sglang(_) => group.model.max_position_sglang,
        _ => group.model.max_position,
    };
    let key = group.cluster.engine.context_key();
    let caveat = Caveat::LongContext { key, max_model_len, max_position };
    (max_model_len > max_position).then_some(caveat)
}

/// Whether the step times of these replicas hang on an all-reduce that nobody measured on their host.
fn unknown_bus(group: &ReplicaGroup) -> Option<Caveat> {
    let cluster = &group.cluster;
    let gpus = cluster.tensor_parallel_size;
    if !group.gpu.reduces_over_pcie(gpus) || cluster.all_reduce.is_some() {
        return None;
    }
    let is_fitted = |calibration: &Calibration| {
        calibration.all_reduce.to_bits() != Calibration::default().all_reduce.to_bits()
    };
    let assumes = match &cluster.step_time {
        config if config.ignores_communication() => false,
        _ if group.class.is_some() || group.assumes_all_reduces => true,
        StepTimeConfig::Auto { calibration, .. } => !calibration.is_some_and(|it| is_fitted(&it)),
        StepTimeConfig::OperatorTable { calibration, .. }
        | StepTimeConfig::Roofline { calibration, .. } => !is_fitted(calibration),
        // Its all-reduces are of the host on which it was validated.
        StepTimeConfig::LayerTable(config) => {
            config.all_reduce_gb_s.is_none() && !is_fitted(&config.calibration)
        }
        StepTimeConfig::StepTable { .. } | StepTimeConfig::Linear { .. } => false,
    };
    let is_layer_table = matches!(cluster.step_time, StepTimeConfig::LayerTable(_));
    let known = group.gpu.pcie_all_reduce(gpus);
    assumes.then(|| Caveat::UnknownBus {
        gpu: group.gpu.name.clone(),
        gpus,
        assumed_gb_s: (!is_layer_table).then_some(known.assumed.bandwidth_gb_s),
        slowest_gb_s: known.slowest_gb_s,
        fastest_gb_s: known.fastest_gb_s,
    })
}
