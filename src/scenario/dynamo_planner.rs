//! The settings of Dynamo's planner, under its names and with its defaults.
//!
//! After `PlannerConfig` of Dynamo 1.6.1. Left out: whatever names a deployment (environment, namespaces, ports, Prometheus),
//! power budgets, and how the performance model learns: here it is the cost model of the replicas.

use serde::{Deserialize, Serialize};

/// What the planner scales by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct DynamoPlannerConfig {
    /// Fixed thresholds, those that are given, or latencies.
    pub optimization_target: OptimizationTarget,
    /// Whether it goes by what replicas have to do now. Always, where the target is not `sla`.
    pub enable_load_scaling: bool,
    /// Whether it goes by what is predicted to come. Never, where the target is not `sla`.
    pub enable_throughput_scaling: bool,
    /// The longest time to the first token, in ms.
    pub ttft_ms: f64,
    /// The longest time between tokens, in ms.
    pub itl_ms: f64,
    /// How often it looks at what replicas have to do, in seconds.
    pub load_adjustment_interval_seconds: u32,
    /// How often it predicts what comes, in seconds.
    pub throughput_adjustment_interval_seconds: u32,
    /// Replicas of a kind that one prediction adds or takes away, at most.
    pub max_throughput_scaling_replicas: u32,
    /// GPUs of all replicas, at most; any number if negative.
    pub max_gpu_budget: i32,
    /// GPUs of all replicas, at least; no bound if negative.
    pub min_gpu_budget: i32,
    /// Replicas of each kind, at least.
    pub min_endpoint: u32,
    /// Of the latencies, what those that would be left may use up before one replica goes, in percent.
    pub load_scaling_down_sensitivity: u32,
    /// Target `load`: prompt tokens that wait at a replica from which on there is one more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_scale_up_queue_tokens: Option<u32>,
    /// Target `load`: prompt tokens that wait at a replica up to which there is one less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_scale_down_queue_tokens: Option<u32>,
    /// Target `load`: the share of a replica's KV memory from which on there is one more, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_scale_up_kv_rate: Option<f64>,
    /// Target `load`: the share of a replica's KV memory up to which there is one less, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_scale_down_kv_rate: Option<f64>,
    /// How it predicts requests and their lengths.
    pub load_predictor: LoadPredictor,
    /// Whether it predicts the logarithm of them (of 1 + x).
    pub load_predictor_log1p: bool,
    /// `kalman`: variance by which the level moves in an interval.
    pub kalman_q_level: f64,
    /// `kalman`: variance by which the trend moves in an interval.
    pub kalman_q_trend: f64,
    /// `kalman`: variance of what is seen.
    pub kalman_r: f64,
    /// `kalman`: intervals that are seen before it predicts other than the last one.
    pub kalman_min_points: u32,
}

/// What the planner goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OptimizationTarget {
    /// Fixed thresholds of queue and KV memory, for full replicas.
    #[default]
    Throughput,
    /// Fixed thresholds of queue and KV memory, for short queues.
    Latency,
    /// Thresholds that are given.
    Load,
    /// `ttft_ms` and `itl_ms`.
    Sla,
}

impl OptimizationTarget {
    /// The word for it in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Load => "load",
            Self::Sla => "sla",
        }
    }
}

/// How the next interval is predicted from those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadPredictor {
    /// As the last one.
    Constant,
    /// By an ARIMA model, whose order is searched for once five intervals are there.
    #[default]
    Arima,
    /// By a Kalman filter of level and trend.
    Kalman,
    /// By Prophet. Not modelled.
    Prophet,
}

impl LoadPredictor {
    /// The word for it in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Arima => "arima",
            Self::Kalman => "kalman",
            Self::Prophet => "prophet",
        }
    }
}

impl Default for DynamoPlannerConfig {
    fn default() -> Self {
        Self {
            optimization_target: OptimizationTarget::default(),
            enable_load_scaling: false,
            enable_throughput_scaling: true,
            ttft_ms: 500.0,
            itl_ms: 50.0,
            load_adjustment_interval_seconds: 5,
            throughput_adjustment_interval_seconds: 180,
            max_throughput_scaling_replicas: 8,
            max_gpu_budget: 8,
            min_gpu_budget: -1,
            min_endpoint: 1,
            load_scaling_down_sensitivity: 80,
            prefill_scale_up_queue_tokens: None,
            prefill_scale_down_queue_tokens: None,
            decode_scale_up_kv_rate: None,
            decode_scale_down_kv_rate: None,
            load_predictor: LoadPredictor::default(),
            load_predictor_log1p: false,
            kalman_q_level: 1.0,
            kalman_q_trend: 0.1,
            kalman_r: 10.0,
            kalman_min_points: 5,
        }
    }
}

impl DynamoPlannerConfig {
    /// How often it looks at anything, in seconds.
    pub fn interval_seconds(&self) -> u32 {
        if self.scales_by_load() {
            self.load_adjustment_interval_seconds
        } else {
            self.throughput_adjustment_interval_seconds
        }
    }

    /// Whether decisions go by what replicas have to do.
    pub fn scales_by_load(&self) -> bool {
        self.optimization_target != OptimizationTarget::Sla || self.enable_load_scaling
    }

    /// Whether decisions go by what is predicted to come.
    pub fn scales_by_throughput(&self) -> bool {
        self.optimization_target == OptimizationTarget::Sla && self.enable_throughput_scaling
    }
}
