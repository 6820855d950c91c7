//! How the router is configured.

mod makers;
mod sglang;
mod vllm_router;

use serde::{Deserialize, Serialize};

use super::dynamo::DynamoConfig;
pub use makers::MakersRouter;
pub use sglang::{AssignmentMode, SglangRouterConfig, SglangRouterPolicy};
pub use vllm_router::{VllmRouterConfig, VllmRouterPolicy};

/// Which replica gets a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(remote = "Self", tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum RouterConfig {
    /// Each in turn.
    RoundRobin {},
    /// Any, each as likely as the others.
    Random {},
    /// That with the fewest requests that were sent to it and have not left.
    LeastOutstandingRequests {},
    /// That with the fewest prompt tokens in such requests.
    LeastOutstandingTokens {},
    /// Of two random ones that with fewer such requests.
    PowerOfTwoChoices {},
    /// The one that the first request of its session got.
    SessionSticky {},
    /// The one to which the beginning of its prompt was sent before, as SGLang's model gateway does.
    PrefixAware(PrefixAwareConfig),
    /// The least cost of what of the prompt is not cached and of what is outstanding, in the manner of Dynamo's KV
    /// router 0.4 and simpler than it: engines tell what they cache and evict.
    PrefixExact(PrefixExactConfig),
    /// The least predicted latency, or within limits the least headroom, as llm-d's predicted-latency scorer
    /// does.
    LatencyPredicting(LatencyPredictingConfig),
    /// Where the adapter of the request is; of equal ones the fewest outstanding requests.
    AdapterAffinity(AdapterAffinityConfig),
    /// The least cost by number and ranks of the requests there, as Toppings (`CaraServe`) does.
    RankAware(RankAwareConfig),
    /// The least cost of batches of one adapter and of several, as dLoRA does.
    DloraDispatch(DloraDispatchConfig),
    /// The highest weighted sum of scores, as llm-d's inference scheduler does.
    Weighted(WeightedConfig),
    /// The KV router of Dynamo 1.6.1 with its queue, decision by decision. It is written by its name too.
    #[serde(skip)]
    Dynamo(Box<DynamoConfig>),
    /// A maker's router under its name, with the settings that it has there.
    #[serde(skip)]
    #[cfg_attr(feature = "cli", schemars(!skip, untagged, with = "makers::Named"))]
    Makers(MakersRouter),
}

impl RouterConfig {
    /// Its name as scenarios have it, with the policy where its maker has several: `round_robin`, `sglang cache_aware`.
    ///
    /// # Panics
    /// Never: it is written as a table.
    pub fn title(&self) -> String {
        let written = serde_json::to_value(self).expect("it is written as a table");
        if let Some(kind) = written["type"].as_str() {
            return kind.to_owned();
        }
        let maker = written.as_object().and_then(|table| table.iter().next());
        maker.map_or_else(String::new, |(maker, settings)| match settings["policy"].as_str() {
            Some(policy) => format!("{maker} {policy}"),
            None => maker.clone(),
        })
    }
}

impl Default for RouterConfig {
    fn default() -> Self {
        Self::RoundRobin {}
    }
}

/// A simplified cache-aware policy of `SGLang`'s model gateway, under its names (0.3.2): of replicas that know a
/// prompt the least loaded gets it, not the first one that had it. `sglang` is that router itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PrefixAwareConfig {
    /// Share of a prompt above which it goes where that much of it was sent before.
    pub cache_threshold: f64,
    /// The load is imbalanced when the most and the fewest outstanding requests of a replica differ
    /// by more than this …
    pub balance_abs_threshold: u32,
    /// … and by more than this factor. Requests then go to the shortest queue.
    pub balance_rel_threshold: f64,
    /// Prompt tokens that are remembered for each replica; those sent longest ago are forgotten
    /// first. The gateway counts 2^26 letters, about four to a token.
    pub max_tree_tokens: u32,
    /// Where a prompt goes of which too little was sent before.
    pub on_miss: PrefixMiss,
}

impl Default for PrefixAwareConfig {
    fn default() -> Self {
        Self {
            cache_threshold: 0.3,
            balance_abs_threshold: 64,
            balance_rel_threshold: 1.5,
            max_tree_tokens: 1 << 24,
            on_miss: PrefixMiss::default(),
        }
    }
}

/// The cost function of Dynamo's KV router, under its names (0.4, `components/router`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PrefixExactConfig {
    /// What a prompt token that is not cached costs, beside one of outstanding requests
    /// (`--kv-overlap-score-weight`). 0 looks at the load alone.
    pub overlap_score_weight: f64,
    /// How old the router's knowledge of caches may be, in ms; 0 for that of the moment.
    pub event_interval_ms: f64,
}

impl Default for PrefixExactConfig {
    fn default() -> Self {
        Self { overlap_score_weight: 1.0, event_interval_ms: 0.0 }
    }
}

/// The predicted-latency scorer of llm-d (0.7, `architecture/advanced/latency-predictor`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LatencyPredictingConfig {
    /// Weight of the time to the first token (`ttftWeight`).
    pub ttft_weight: f64,
    /// Weight of the time per further token (`tpotWeight`).
    pub tpot_weight: f64,
    /// Time to the first token that a request may take, in ms; no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo_ttft_ms: Option<f64>,
    /// Time per further token that a request may take, in ms; no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo_tpot_ms: Option<f64>,
    /// How old the running requests and the caches may be that the router knows of, in ms; 0 for those of
    /// the moment.
    pub signal_interval_ms: f64,
}

impl Default for LatencyPredictingConfig {
    fn default() -> Self {
        Self {
            ttft_weight: 0.8,
            tpot_weight: 0.2,
            slo_ttft_ms: None,
            slo_tpot_ms: None,
            signal_interval_ms: 50.0,
        }
    }
}

/// Where a prompt goes of which too little was sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PrefixMiss {
    /// To the fewest outstanding requests, as in the gateway's 0.3.2.
    #[default]
    ShortestQueue,
    /// To the replica for which the fewest tokens are remembered, as in the first versions of
    /// `sgl-router`.
    SmallestTree,
}

/// The scorers of llm-d's inference scheduler and their weights
/// (llm-d-router of 2026, `pkg/epp/config/loader/defaults.go`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct WeightedConfig {
    /// Weight of a short queue (`queue-scorer`).
    pub queue_weight: f64,
    /// Weight of free KV memory (`kv-cache-utilization-scorer`).
    pub kv_utilization_weight: f64,
    /// Weight of the share of the prompt that was sent there before (`prefix-cache-scorer`).
    pub prefix_weight: f64,
    /// Weight of few running requests (`running-requests-size-scorer`).
    pub running_requests_weight: f64,
    /// Weight of an empty queue, which counts half (`load-aware-scorer`).
    pub load_aware_weight: f64,
    /// Weight of few requests that were sent there and have not left (`active-request-scorer`).
    pub active_request_weight: f64,
    /// Weight of few prompt tokens of those (`token-load-scorer`).
    pub token_load_weight: f64,
    /// Weight of having got the last prompt of which nobody knew the beginning long ago (`no-hit-lru-scorer`).
    pub no_hit_lru_weight: f64,
    /// How old queues and KV memory may be that the router knows of, in ms; 0 for those of the
    /// moment (`--refresh-metrics-interval`).
    pub signal_interval_ms: f64,
    /// Blocks of 16 prompt tokens that are remembered for each replica (`lruCapacityPerServer`).
    pub lru_capacity_per_server: u32,
}

impl Default for WeightedConfig {
    fn default() -> Self {
        Self {
            queue_weight: 2.0,
            kv_utilization_weight: 2.0,
            prefix_weight: 3.0,
            running_requests_weight: 0.0,
            load_aware_weight: 0.0,
            active_request_weight: 0.0,
            token_load_weight: 0.0,
            no_hit_lru_weight: 0.0,
            signal_interval_ms: 50.0,
            lru_capacity_per_server: 31_250,
        }
    }
}

/// Which replica is near an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AdapterAffinityConfig {
    /// How the router knows where an adapter is.
    pub knowledge: AdapterKnowledge,
    /// A replica with more outstanding requests than the fewest and so many counts as one without the
    /// adapter; no bound if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_excess_requests: Option<u32>,
}

/// How a router knows where adapters are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AdapterKnowledge {
    /// Engines report what their slots and their host memory hold.
    Reported {
        /// How old a report may be, in ms; 0 for those of the moment.
        #[serde(default = "signal_interval_ms")]
        interval_ms: f64,
    },
    /// The gateway remembers what it sent.
    Sent {
        /// Adapters remembered for each replica, those it was asked for last.
        #[serde(default = "remembered")]
        adapters: u32,
    },
}

impl Default for AdapterKnowledge {
    fn default() -> Self {
        Self::Reported { interval_ms: signal_interval_ms() }
    }
}

fn signal_interval_ms() -> f64 {
    50.0
}

/// As many as `SGLang` has slots unless told otherwise.
fn remembered() -> u32 {
    8
}

/// Rank-aware scheduling of Toppings (`CaraServe`, arXiv 2401.11240, algorithm 1).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RankAwareConfig {
    /// The law of decode steps.
    pub kernel: RankKernel,
    /// α of that law, in ms; as measured for the kernel if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha_ms: Option<f64>,
    /// β of that law, in ms; as measured for the kernel if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta_ms: Option<f64>,
    /// What a decode step may take, in ms.
    pub slo_ms: f64,
    /// The mean length of answers, in tokens.
    pub mean_output_tokens: f64,
    /// How old the running requests may be that the router knows of, in ms; 0 for those of the moment.
    pub signal_interval_ms: f64,
}

impl RankAwareConfig {
    /// α, in ms.
    pub fn alpha_ms(&self) -> f64 {
        self.alpha_ms.unwrap_or(self.kernel.measured_ms().0)
    }

    /// β, in ms.
    pub fn beta_ms(&self) -> f64 {
        self.beta_ms.unwrap_or(self.kernel.measured_ms().1)
    }
}

impl Default for RankAwareConfig {
    /// Limit and mean answer of `SGLang-dLoRA`, `rank_aware_scheduler.py`.
    fn default() -> Self {
        Self {
            kernel: RankKernel::default(),
            alpha_ms: None,
            beta_ms: None,
            slo_ms: 300.0,
            mean_output_tokens: 200.0,
            signal_interval_ms: signal_interval_ms(),
        }
    }
}

/// How a decode step grows with n requests of ranks up to r.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RankKernel {
    /// α · √(n · r) + β: `SGLang`'s chunked kernels.
    #[default]
    Csgmv,
    /// α · n · r + β.
    Triton,
}

impl RankKernel {
    /// α and β in ms, measured with Llama-2-7B on an RTX 4090 (`SGLang-dLoRA`,
    /// `rank_aware_scheduler.py`).
    pub const fn measured_ms(self) -> (f64, f64) {
        match self {
            Self::Csgmv => (0.0329, 17.55),
            Self::Triton => (0.00226, 17.99),
        }
    }
}

/// The dispatch of dLoRA (dLoRA-artifact, `vllm/engine/engine_manager.py`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DloraDispatchConfig {
    /// Requests in a batch (`max_num_seqs`).
    pub batch_size: u32,
    /// What a batch of one adapter costs, beside one of several (`merge_speed_ratio`).
    pub merged_cost: f64,
}

impl Default for DloraDispatchConfig {
    fn default() -> Self {
        Self { batch_size: 16, merged_cost: 0.6 }
    }
}
