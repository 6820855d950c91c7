//! How the gateway holds requests back, and which it sends first.

use serde::{Deserialize, Serialize};

/// What the gateway does with requests that replicas have no place for, and with those that come too
/// fast.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GatewayConfig {
    /// Requests that were sent to a replica and have not left it, at most. Where all replicas that
    /// are up have so many, requests wait at the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_outstanding_per_replica: Option<u32>,
    /// Requests that wait at the gateway at most; those that come beyond are turned away. With 0 nobody
    /// waits: who comes when no replica has a place is turned away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<u32>,
    /// Turns a request away that has waited at the gateway for so long, in ms; classes may have
    /// deadlines of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<f64>,
    /// Which of the waiting requests is sent first.
    pub order: GatewayOrder,
    /// How fast requests may come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimitConfig>,
}

impl GatewayConfig {
    /// Whether requests may wait at the gateway.
    pub fn holds_requests(&self) -> bool {
        let waits = |limit: &RateLimitConfig| limit.over == OverRate::Wait;
        self.max_outstanding_per_replica.is_some() || self.rate_limit.as_ref().is_some_and(waits)
    }
}

/// Which of the waiting requests is sent first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum GatewayOrder {
    /// The one that came first.
    Fcfs {},
    /// That of the first priority, as the engine in use reads priorities (vLLM: smaller first; SGLang:
    /// larger first), then the one that came first.
    Priority {},
    /// The first of the tenant that has been served least: Virtual Token Counter (Sheng et al.,
    /// "Fairness in Serving Large Language Models", OSDI 2024).
    Vtc {
        /// What a prompt token counts.
        #[serde(default = "input_weight")]
        input_weight: f64,
        /// What a token of an answer counts, once it has come out.
        #[serde(default = "output_weight")]
        output_weight: f64,
    },
    /// Deficit round robin over tenants by prompt tokens (Shreedhar and Varghese, 1996).
    Drr {
        /// Prompt tokens that a tenant may send each time its turn comes.
        #[serde(default = "quantum_tokens")]
        quantum_tokens: u32,
    },
}

impl Default for GatewayOrder {
    fn default() -> Self {
        Self::Fcfs {}
    }
}

impl GatewayOrder {
    /// What prompt and answer tokens count by default, as in the paper's evaluation.
    pub const VTC_WEIGHTS: (f64, f64) = (1.0, 2.0);

    /// Its name in files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fcfs {} => "fcfs",
            Self::Priority {} => "priority",
            Self::Vtc { .. } => "vtc",
            Self::Drr { .. } => "drr",
        }
    }

    /// Whether tenants are told apart.
    pub const fn is_by_tenant(&self) -> bool {
        matches!(self, Self::Vtc { .. } | Self::Drr { .. })
    }
}

fn input_weight() -> f64 {
    GatewayOrder::VTC_WEIGHTS.0
}

fn output_weight() -> f64 {
    GatewayOrder::VTC_WEIGHTS.1
}

fn quantum_tokens() -> u32 {
    512
}

/// Token buckets: of requests, of prompt tokens, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RateLimitConfig {
    /// Requests per second in the long run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<f64>,
    /// Requests that a full bucket lets through at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Prompt tokens per second in the long run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_per_s: Option<f64>,
    /// Prompt tokens that a full bucket lets through at once; one longer prompt passes when it is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_prompt_tokens: Option<u32>,
    /// What becomes of requests that come too fast.
    #[serde(default)]
    pub over: OverRate,
    /// Whose buckets.
    #[serde(default)]
    pub per: RateScope,
}

/// What becomes of requests beyond a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OverRate {
    /// They are turned away (429), as Envoy's local rate limit does.
    #[default]
    Refuse,
    /// They wait at the gateway, as with nginx's `limit_req` without `nodelay`.
    Wait,
}

/// Whose requests share a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RateScope {
    /// All requests.
    #[default]
    Gateway,
    /// Those of one tenant.
    Tenant,
}
