//! How a workload is configured: when requests arrive, how long they are, what they share.
//!
//! Rates are requests per second, lengths are tokens, times are seconds; each key names its unit.
//! The processes named after a tool draw what that tool draws from the same seed
//! ([`crate::scenario::WorkloadConfig::tool_seed`]); the others draw from the run's own streams.

mod adapter_counts;
mod classes;
mod lengths;
mod validate;
mod warm_up;

use serde::{Deserialize, Serialize};

use super::faults::{CancellationConfig, RetryConfig};
use super::lora::AdapterMix;
use crate::units::SimTime;

pub use adapter_counts::{AdapterCountsConfig, AdapterStreams, EarlyStopConfig};
pub use classes::{ClassConfig, models, tenants};
pub use lengths::{
    GroupDistribution, LengthConfig, PrefixRepetitionConfig, RowOrder, SglangRandomConfig,
    SharedPrefixConfig, SonnetConfig, TokenDistribution, Vllm2024RandomConfig, VllmRandomConfig,
};
pub use warm_up::WarmUpConfig;

/// Requests to serve: arrivals × lengths × content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkloadConfig {
    /// How many requests (with `sessions`: how many conversations). Not needed where a trace or a
    /// data set brings its own number, or where `duration_s` ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_requests: Option<u32>,
    /// No request arrives after this many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// The `--seed` of the benchmark tool whose draws are repeated; the run's seed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_seed: Option<u32>,
    /// When requests arrive.
    pub arrivals: ArrivalConfig,
    /// How long prompts and answers are.
    pub lengths: LengthConfig,
    /// Answers that end before the tokens that `lengths` gives them, which then are the limit that the
    /// client asks for; the others run to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub early_stop: Vec<EarlyStopConfig>,
    /// What prompts share.
    #[serde(default)]
    pub content: ContentConfig,
    /// The LoRA adapters that requests use; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapters: Option<AdapterMix>,
    /// Kinds of requests: whose they are, how urgent, their SLOs; all alike if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassConfig>,
    /// Makes every request the first turn of a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionConfig>,
    /// What the same servers are sent before the requests that count; nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUpConfig>,
    /// How the client sends.
    #[serde(default)]
    pub client: ClientConfig,
}

impl WorkloadConfig {
    /// Whether prompts may begin with the same tokens, as far as is known before anything is read.
    pub fn may_share_prefixes(&self) -> bool {
        use LengthConfig::{Fixed, List, Sampled, SglangRandom};
        let repeats = self.sessions.is_some() || self.warm_up.is_some();
        let lengths = &self.lengths;
        match self.content {
            ContentConfig::SystemPrompt { share, .. } if share > 0.0 => true,
            ContentConfig::Unique {} => repeats,
            ContentConfig::AsGiven {} | ContentConfig::SystemPrompt { .. } => {
                let is_drawn = matches!(
                    lengths,
                    Fixed { .. } | Sampled { .. } | List { .. } | SglangRandom(_)
                );
                repeats || !is_drawn
            }
        }
    }

    /// So many requests at once, of a token each: for requests that are not drawn, and for the rest of a workload.
    pub(crate) fn at_once(num_requests: Option<u32>) -> Self {
        Self {
            num_requests,
            duration_s: None,
            tool_seed: None,
            arrivals: ArrivalConfig::AllAtOnce {},
            lengths: LengthConfig::Fixed { input_tokens: 1, output_tokens: 1 },
            early_stop: Vec::new(),
            content: ContentConfig::default(),
            adapters: None,
            classes: Vec::new(),
            sessions: None,
            warm_up: None,
            client: ClientConfig::default(),
        }
    }
}

/// When requests arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ArrivalConfig {
    /// All at time zero, as both tools do with `--request-rate inf`.
    AllAtOnce {},
    /// Evenly spaced, the first after one gap.
    Constant {
        /// Requests per second.
        rate_per_s: f64,
    },
    /// Exponential gaps.
    Poisson {
        /// Mean requests per second.
        rate_per_s: f64,
    },
    /// Gamma gaps: burstier than Poisson with `cv` above 1, smoother below.
    Gamma {
        /// Mean requests per second.
        rate_per_s: f64,
        /// Coefficient of variation of the gaps.
        cv: f64,
    },
    /// Weibull gaps: heavy-tailed with `shape` below 1, Poisson at 1, smoother above.
    Weibull {
        /// Mean requests per second.
        rate_per_s: f64,
        /// Shape of the gaps.
        shape: f64,
    },
    /// Exponential gaps at a rate that goes up and down like a sine, lowest at the start of the run.
    Sine {
        /// Mean requests per second.
        rate_per_s: f64,
        /// How far the rate goes from its mean, as a share of that.
        amplitude: f64,
        /// From one low to the next, in seconds.
        period_s: f64,
    },
    /// The gaps that `sglang.bench_serving` sleeps, the first request at zero.
    Sglang {
        /// `--request-rate`.
        rate_per_s: f64,
    },
    /// The send times of `vllm bench serve`, the last request at requests / rate exactly.
    Vllm {
        /// `--request-rate`; absent with `ramp_up`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_per_s: Option<f64>,
        /// `--burstiness`: 1 is Poisson, smaller is burstier, infinity is constant.
        #[serde(default = "one")]
        burstiness: f64,
        /// `--ramp-up-strategy` and its rates, instead of a rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ramp_up: Option<RampUpConfig>,
    },
    /// The gaps of vLLM's `benchmark_serving.py` of 2024: exponential, the first request at zero.
    #[serde(rename = "vllm_2024")]
    Vllm2024 {
        /// `--request-rate`.
        rate_per_s: f64,
    },
    /// Those of each adapter by how often it is called; for `adapters.popularity` of type `as_given`.
    AdapterCounts(AdapterCountsConfig),
    /// The times of a recorded trace.
    Trace(TraceArrivalConfig),
}

/// A rate that changes from the first request to the last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RampUpConfig {
    /// How the rate grows over the requests.
    pub strategy: RampUp,
    /// Requests per second at the first request.
    pub start_rate_per_s: f64,
    /// Requests per second at the last request.
    pub end_rate_per_s: f64,
}

/// How a rate grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RampUp {
    /// By equal differences.
    Linear,
    /// By equal ratios.
    Exponential,
}

/// How the times of a trace are replayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TraceArrivalConfig {
    /// Plays the trace this many times as fast.
    pub rate_scale: f64,
    /// Scales the trace to this mean rate instead; reads it to the end first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Keeps only rows from this time of the trace on, which becomes time zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_start_s: Option<f64>,
    /// Keeps only rows before this time of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_end_s: Option<f64>,
    /// Spreads each row evenly over this many seconds of the trace, to undo coarse time stamps
    /// (Mooncake: 3).
    pub jitter_s: f64,
    /// Sends every row this many times.
    pub copies: u32,
    /// What the copies of a row share.
    pub copy_content: CopyContent,
    /// How rows out of order are put in order.
    pub sort: RowSort,
}

impl Default for TraceArrivalConfig {
    fn default() -> Self {
        Self {
            rate_scale: 1.0,
            rate_per_s: None,
            window_start_s: None,
            window_end_s: None,
            jitter_s: 0.0,
            copies: 1,
            copy_content: CopyContent::Fresh,
            sort: RowSort::Window,
        }
    }
}

/// What the copies of a trace's row share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CopyContent {
    /// Each copy of the trace has tokens of its own.
    #[default]
    Fresh,
    /// The copies repeat the tokens of the trace.
    Shared,
}

/// How rows out of order are put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RowSort {
    /// Within the last few thousand rows, in constant memory; an error beyond.
    #[default]
    Window,
    /// Over the whole trace, in memory.
    WholeTrace,
}

/// What prompts share, as far as prefix caches can tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ContentConfig {
    /// What the trace or data set says: its hash ids or shared prefixes, else nothing.
    AsGiven {},
    /// Nothing, whatever the trace or data set says.
    Unique {},
    /// One of several system prompts, put before the prompt's own tokens.
    SystemPrompt {
        /// How many system prompts there are.
        groups: u32,
        /// Tokens of a system prompt, on top of the prompt's own length.
        prefix_tokens: u32,
        /// The part of the requests that have one, drawn from a stream of its own. The others begin
        /// with as many tokens that nobody shares.
        #[serde(default = "one")]
        share: f64,
        /// How often each is used.
        #[serde(default)]
        popularity: Popularity,
    },
}

impl Default for ContentConfig {
    fn default() -> Self {
        Self::AsGiven {}
    }
}

/// How often each of several things is used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Popularity {
    /// Equally often, drawn.
    Uniform {},
    /// In turn.
    RoundRobin {},
    /// The k-th in proportion to k^-exponent, drawn.
    Zipf {
        /// The exponent, above 0.
        exponent: f64,
    },
}

impl Default for Popularity {
    fn default() -> Self {
        Self::Uniform {}
    }
}

/// Conversations: each turn's prompt is the whole history and a new message. The next turn is
/// sent `think_time` after the last answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionConfig {
    /// Turns of a conversation at least.
    pub turns_min: u32,
    /// Turns of a conversation at most; every number between is equally likely.
    pub turns_max: u32,
    /// Tokens of the message that a later turn adds; the first turn's prompt is of `lengths`.
    pub message_tokens: TokenDistribution,
    /// Tokens of the answer of a later turn.
    pub output_tokens: TokenDistribution,
    /// From an answer to the next message.
    #[serde(default)]
    pub think_time: ThinkTime,
    /// Ends a conversation before a turn whose prompt and answer would be longer than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens_max: Option<u32>,
}

/// How long a user thinks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ThinkTime {
    /// Always the same.
    Constant {
        /// Seconds.
        time_s: f64,
    },
    /// Exponentially distributed.
    Exponential {
        /// Mean seconds.
        mean_s: f64,
    },
}

impl Default for ThinkTime {
    fn default() -> Self {
        Self::Constant { time_s: 0.0 }
    }
}

/// How the client sends the requests that have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ClientConfig {
    /// Requests in flight at most (`--max-concurrency`); requests that arrive meanwhile wait at
    /// the client, first come, first sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// Seconds from an answer until its place in flight may be used again.
    pub think_time_s: f64,
    /// Local ports, where every request opens a connection of its own; without end if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<PortsConfig>,
    /// Stops after this many seconds, as load generators with a fixed time do: requests without a
    /// whole answer by then are left unfinished and count in no latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_after_s: Option<f64>,
    /// Gives a request up that is not answered in full so many seconds after it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// Gives a request up whose first token has not come so many seconds after it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_timeout_s: Option<f64>,
    /// Sends requests again that were not answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<RetryConfig>,
    /// Users who go away before their answer is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancellations: Option<CancellationConfig>,
}

/// The local ports of a client that opens a connection for every request. A request that finds none free
/// fails at once and is never sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PortsConfig {
    /// How many there are.
    pub count: u32,
    /// Seconds from the end of a connection until its port may be used again.
    pub time_wait_s: f64,
}

impl Default for PortsConfig {
    /// Linux: `net.ipv4.ip_local_port_range` of 32768 to 60999, and `TCP_TIMEWAIT_LEN` (Linux 6.1,
    /// `include/net/tcp.h`).
    fn default() -> Self {
        Self { count: 28_232, time_wait_s: 60.0 }
    }
}

impl ClientConfig {
    /// When it stops; never, if it waits for the last answer.
    pub fn stops_at(&self) -> SimTime {
        self.stop_after_s.map_or(SimTime::MAX, SimTime::from_secs_f64)
    }

    /// Whether it may give a request up, or send one again.
    pub fn may_give_up(&self) -> bool {
        self.timeout_s.is_some()
            || self.first_token_timeout_s.is_some()
            || self.cancellations.is_some()
            || self.retries.is_some()
    }
}

fn one() -> f64 {
    1.0
}
