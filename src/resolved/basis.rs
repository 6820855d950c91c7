//! What the figures of replicas rest on, beside what a scenario states.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{KvSource, Quantity, ReplicaGroup, ServerClass};
use crate::cost::StepTime;
use crate::profiles;
use crate::scenario::{
    EngineConfig, HandoverProtocol, HostConfig, ServerHost, ServerHostConfig, StepTimeConfig,
};

pub use crate::cost::StepTimeSource;

/// What the figures of replicas of one kind rest on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Basis {
    /// Where their step times come from.
    pub step_times: StepTimeSource,
    /// What is known of their servers beside the kernels.
    pub servers: ServerBasis,
    /// What their host takes.
    pub host: HostBasis,
    /// Where the size of their KV memory comes from.
    pub kv_memory: KvBasis,
    /// How they hand KV caches over or take them, where they do.
    pub hand_over: Option<HandoverProtocol>,
}

impl Basis {
    /// Of replicas whose steps are priced by this.
    pub fn of(group: &ReplicaGroup, cost: &StepTime) -> Self {
        Self {
            step_times: cost.source(),
            servers: ServerBasis::of(group),
            host: HostBasis::of(group),
            kv_memory: KvBasis::of(group),
            hand_over: group.handover,
        }
    }
}

/// What is known of servers beside their kernels.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServerBasis {
    /// Nothing was measured of them: they are like those of published runs.
    Expected {
        /// Their class.
        class: ServerClass,
        /// Measured over simulated figures of typical servers: 5 % of servers are below the first number, 5 % above
        /// the second.
        interval_90: BTreeMap<Quantity, [f64; 2]>,
    },
    /// A calibration gives their parameters.
    Calibrated,
    /// The scenario states factors of their step times.
    Stated,
    /// Steps take what the source of step times says.
    AsMeasured,
}

impl ServerBasis {
    fn of(group: &ReplicaGroup) -> Self {
        if let Some(class) = group.class {
            return Self::expected(class);
        }
        let calibration = match &group.cluster.step_time {
            StepTimeConfig::Auto { calibration, .. } => *calibration,
            StepTimeConfig::OperatorTable { calibration, .. }
            | StepTimeConfig::Roofline { calibration, .. } => Some(*calibration),
            StepTimeConfig::LayerTable(config) => Some(config.calibration),
            StepTimeConfig::StepTable { .. } | StepTimeConfig::Linear { .. } => None,
        };
        if calibration.is_none_or(|calibration| calibration.is_neutral()) {
            return Self::AsMeasured;
        }
        if group.is_calibrated { Self::Calibrated } else { Self::Stated }
    }

    fn expected(class: ServerClass) -> Self {
        let quantities = [Quantity::Throughput, Quantity::Ttft, Quantity::TailTtft, Quantity::Tpot];
        let ratios = quantities.into_iter();
        let ratios = ratios.filter_map(|one| Some((one, class.prior().ratios(one)?)));
        Self::Expected { class, interval_90: ratios.collect() }
    }
}

impl fmt::Display for ServerBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected { class, interval_90 } => {
                write!(f, "not measured; 90 % of {}", class.servers())?;
                let told = [(Quantity::Tpot, "mean TPOT"), (Quantity::Ttft, "mean TTFT")];
                let told = told.into_iter().filter_map(|(one, name)| {
                    let [low, high] = interval_90.get(&one)?;
                    Some(format!("{low:.2} to {high:.2} times the {name}"))
                });
                let told = told.collect::<Vec<_>>().join(" and ");
                write!(f, " have {told} of a typical one")
            }
            Self::Calibrated => f.write_str("calibrated"),
            Self::Stated => f.write_str("factors of step times that are set in the scenario"),
            Self::AsMeasured => f.write_str("not calibrated against a run"),
        }
    }
}

/// What the host of a server takes beside its GPUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostBasis {
    /// What the processes of an engine were measured to take.
    Measured {
        /// The engine with its version.
        engine: String,
        /// How many times as long this CPU takes as that one.
        cpu: f64,
        /// How many times as long its idle threads take to wake, on top.
        wakes: f64,
        /// Whether the benchmark client is one of them.
        client: bool,
    },
    /// Times that the scenario states.
    Stated,
    /// Nothing.
    Free,
}

impl HostBasis {
    /// Of replicas of one kind.
    pub fn of(group: &ReplicaGroup) -> Self {
        let cluster = &group.cluster;
        let host = cluster.host.as_ref().and_then(ServerHost::processes);
        let profile = host.and_then(|host| profiles::host(host.profile?.name()));
        if let (Some(host), Some(profile)) = (host, profile) {
            let engine = profile.version.clone();
            let (cpu, wakes, client) = (host.cpu, host.wakes, host.client);
            return Self::Measured { engine, cpu, wakes, client };
        }
        let is_stated = *cluster.engine.host() != HostConfig::default()
            || cluster.api_delay_ms + cluster.api_per_request_ms > 0.0;
        if is_stated { Self::Stated } else { Self::Free }
    }
}

impl fmt::Display for HostBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measured { engine, cpu, wakes, client } => {
                let client = if *client { " and its client" } else { "" };
                write!(f, "the processes of {engine}{client} on a CPU ")?;
                if cpu.to_bits() == 1.0_f64.to_bits() {
                    f.write_str("as fast as the one they were measured on")?;
                } else {
                    write!(f, "that takes {cpu} times as long as the one they were measured on")?;
                }
                if wakes.to_bits() == ServerHostConfig::WAKES.to_bits() {
                    return Ok(());
                }
                write!(f, ", whose idle threads take {wakes} times as long to wake, on top")
            }
            Self::Stated => f.write_str("the times that the scenario states"),
            Self::Free => f.write_str("costs nothing"),
        }
    }
}

/// Where the size of KV memory comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum KvBasis {
    /// From the memory that weights and activations leave.
    Derived {
        /// The share of GPU memory that the engine may use.
        share: f64,
        /// The engine's flag for that.
        flag: &'static str,
    },
    /// The scenario gives it.
    Given,
}

impl KvBasis {
    fn of(group: &ReplicaGroup) -> Self {
        if group.kv == KvSource::Given {
            return Self::Given;
        }
        let (share, flag) = match &group.cluster.engine {
            EngineConfig::Sglang(sglang) => (sglang.mem_fraction_static, "mem_fraction_static"),
            _ => (group.cluster.gpu_memory_utilization, "gpu_memory_utilization"),
        };
        Self::Derived { share: share.unwrap_or(1.0), flag }
    }
}

impl fmt::Display for KvBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Derived { share, flag } => {
                write!(f, "derived from the model and GPU memory at {flag} {share}, an estimate")
            }
            Self::Given => f.write_str("given by the scenario"),
        }
    }
}
