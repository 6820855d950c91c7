//! How the number of replicas follows the load.
//!
//! Rule, tolerance and stabilisation are those of Kubernetes' horizontal pod autoscaler
//! (`autoscaling/v2`), and so are the defaults of the times.

use serde::{Deserialize, Serialize};

use super::DynamoPlannerConfig;

/// A controller that starts and drains replicas.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AutoscalerConfig {
    /// Replicas that serve or start, at least; 0 where requests wait at the gateway.
    #[serde(default = "one")]
    pub min_replicas: u32,
    /// The same, at most.
    pub max_replicas: u32,
    /// Replicas that serve when the run begins; `min_replicas` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_replicas: Option<u32>,
    /// What it looks at.
    pub signal: SignalConfig,
    /// Of the target, how far the signal may be off before anything is changed.
    #[serde(default = "tolerance")]
    pub tolerance: f64,
    /// How often it looks, in seconds.
    #[serde(default = "quarter_minute")]
    pub interval_s: f64,
    /// It goes up to the least that was recommended in so many seconds.
    #[serde(default)]
    pub stabilisation_up_s: f64,
    /// It goes down to the most that was recommended in so many seconds.
    #[serde(default = "five_minutes")]
    pub stabilisation_down_s: f64,
    /// Replicas added at a time, at most; any number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_added: Option<u32>,
    /// Replicas removed at a time, at most; any number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_removed: Option<u32>,
    /// From the order of a replica until it begins to load weights, in seconds.
    #[serde(default)]
    pub provisioning_s: f64,
    /// How fast a replica loads its weights, in GiB/s; not limited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_gib_per_s: Option<f64>,
    /// What the place that weights are loaded from gives to all replicas together, in GiB/s, over the NICs
    /// of those that have some; not limited if absent. Without both rates loading takes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_source_gib_per_s: Option<f64>,
}

impl AutoscalerConfig {
    /// How far the signal may be off where nothing is said.
    pub const TOLERANCE: f64 = 0.1;

    /// Replicas that serve when the run begins.
    pub fn initial(&self) -> u32 {
        self.initial_replicas.unwrap_or(self.min_replicas)
    }

    /// The same at the pace of who decides: a planner looks when it says, and what it decides is done.
    pub(crate) fn paced(&self) -> Self {
        let Some(planner) = self.signal.dynamo_planner() else { return *self };
        Self {
            interval_s: planner.interval_seconds().into(),
            stabilisation_up_s: 0.0,
            stabilisation_down_s: 0.0,
            ..*self
        }
    }
}

/// What an autoscaler looks at, with its target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SignalConfig {
    /// Requests that were sent to a replica and have not left it, as the gateway counts them.
    OutstandingPerReplica {
        /// So many of a replica.
        target: f64,
    },
    /// Requests that wait at the gateway.
    GatewayQueuePerReplica {
        /// So many for a replica.
        target: f64,
    },
    /// Requests that wait at the gateway or were sent to a replica and have not left it.
    ConcurrencyPerReplica {
        /// So many for a replica.
        target: f64,
    },
    /// Requests that wait in the queue of a replica.
    WaitingPerReplica {
        /// So many of a replica.
        target: f64,
    },
    /// The share of the KV blocks that requests hold.
    KvUsage {
        /// Such a share.
        target: f64,
    },
    /// The share of the last interval in which a replica had a step under way.
    Utilisation {
        /// Such a share.
        target: f64,
    },
    /// The share of the requests that ended in the last interval and kept their limits: one replica
    /// more where too few did, one less where enough kept a part of the limits.
    SloHeadroom {
        /// The longest time to the first token, in ms.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttft_ms: Option<f64>,
        /// The longest time per further token, in ms.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tpot_ms: Option<f64>,
        /// Such a share of the requests.
        target: f64,
        /// That part of the limits.
        #[serde(default = "half")]
        spare: f64,
    },
    /// What replicas have to do and what is predicted to come, as Dynamo's planner looks at it. It decides by itself, for all
    /// replicas of the cluster together.
    DynamoPlanner(DynamoPlannerConfig),
}

impl SignalConfig {
    /// The word for it in scenarios.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::OutstandingPerReplica { .. } => "outstanding_per_replica",
            Self::GatewayQueuePerReplica { .. } => "gateway_queue_per_replica",
            Self::ConcurrencyPerReplica { .. } => "concurrency_per_replica",
            Self::WaitingPerReplica { .. } => "waiting_per_replica",
            Self::KvUsage { .. } => "kv_usage",
            Self::Utilisation { .. } => "utilisation",
            Self::SloHeadroom { .. } => "slo_headroom",
            Self::DynamoPlanner(_) => "dynamo_planner",
        }
    }

    /// Whether it counts requests that wait at the gateway.
    pub const fn counts_gateway(&self) -> bool {
        matches!(self, Self::GatewayQueuePerReplica { .. } | Self::ConcurrencyPerReplica { .. })
    }

    /// The planner, if that decides.
    pub const fn dynamo_planner(&self) -> Option<&DynamoPlannerConfig> {
        if let Self::DynamoPlanner(config) = self { Some(config) } else { None }
    }

    /// What it should be, if it has one value to keep to.
    pub const fn target(&self) -> Option<f64> {
        match *self {
            Self::DynamoPlanner(_) => None,
            Self::OutstandingPerReplica { target }
            | Self::GatewayQueuePerReplica { target }
            | Self::ConcurrencyPerReplica { target }
            | Self::WaitingPerReplica { target }
            | Self::KvUsage { target }
            | Self::Utilisation { target }
            | Self::SloHeadroom { target, .. } => Some(target),
        }
    }
}

fn one() -> u32 {
    1
}

fn tolerance() -> f64 {
    AutoscalerConfig::TOLERANCE
}

fn quarter_minute() -> f64 {
    15.0
}

fn five_minutes() -> f64 {
    300.0
}

fn half() -> f64 {
    0.5
}
