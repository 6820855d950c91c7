//! What fails in a run, and when: a schedule, or a process drawn from the seed.

use serde::{Deserialize, Serialize};

/// A fault. Replicas are numbered from 0: mixed ones first, then those that prefill, then those that decode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultConfig {
    /// A replica stops. Its requests are lost; when it is back its KV cache is empty.
    Crash {
        /// Which.
        replica: u32,
        /// When, in seconds.
        at_s: f64,
        /// How long until it serves again, start and loading of weights included, in seconds.
        down_s: f64,
        /// How long until the gateway notices, in seconds: the requests it has lost fail then, and
        /// it gets no others. Until then it gets its share of the requests, which are lost too.
        /// Of a router that finds out by itself: how long connections to it hang until they break.
        #[serde(default)]
        detection_s: f64,
    },
    /// The steps of a replica that are decided in a window take longer.
    Straggler {
        /// Which.
        replica: u32,
        /// The start of the window, in seconds.
        at_s: f64,
        /// The length of the window, in seconds.
        for_s: f64,
        /// How many times as long its device works on them.
        factor: f64,
    },
    /// The NICs of a replica carry less in a window, in both directions.
    SlowLink {
        /// Which.
        replica: u32,
        /// The start of the window, in seconds.
        at_s: f64,
        /// The length of the window, in seconds.
        for_s: f64,
        /// Of its rate, the share that is left.
        share: f64,
    },
    /// A replica loses the prefix cache, but for what its requests hold.
    LostCache {
        /// Which.
        replica: u32,
        /// When, in seconds.
        at_s: f64,
    },
    /// The KV caches on their way from or to a replica are lost; the replicas that decode compute
    /// those prompts again.
    LostTransfers {
        /// Which.
        replica: u32,
        /// When, in seconds.
        at_s: f64,
    },
    /// Faults at random times on each replica on its own.
    Random(RandomFaultConfig),
}

impl FaultConfig {
    /// When it begins and, if it lasts, for how long, in seconds; nothing of faults at random times.
    #[cfg(feature = "serve")]
    pub(crate) fn times_mut(&mut self) -> Option<(&mut f64, Option<&mut f64>)> {
        match self {
            Self::Crash { at_s, down_s: lasts_s, .. }
            | Self::Straggler { at_s, for_s: lasts_s, .. }
            | Self::SlowLink { at_s, for_s: lasts_s, .. } => Some((at_s, Some(lasts_s))),
            Self::LostCache { at_s, .. } | Self::LostTransfers { at_s, .. } => Some((at_s, None)),
            Self::Random(_) => None,
        }
    }
}

/// Faults at random times: exponential from the end of one to the beginning of the next, and from
/// the beginning to the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RandomFaultConfig {
    /// What happens.
    pub fault: RandomFault,
    /// To which replicas; to all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Vec<u32>>,
    /// Mean time until it happens, from the end of the one before, in seconds.
    pub mean_time_between_s: f64,
    /// Mean time until it is over, in seconds; for what lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_duration_s: Option<f64>,
    /// None begins later, in seconds.
    pub until_s: f64,
}

/// What happens at random times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum RandomFault {
    /// The replica stops.
    Crash {
        /// How long until the gateway notices, in seconds.
        #[serde(default)]
        detection_s: f64,
    },
    /// Its steps take longer.
    Straggler {
        /// How many times as long.
        factor: f64,
    },
    /// Its NICs carry less.
    SlowLink {
        /// Of their rate, the share that is left.
        share: f64,
    },
    /// It loses its prefix cache.
    LostCache {},
    /// It loses the KV caches on their way.
    LostTransfers {},
}

impl RandomFault {
    /// The word for it in scenarios.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Crash { .. } => "crash",
            Self::Straggler { .. } => "straggler",
            Self::SlowLink { .. } => "slow_link",
            Self::LostCache {} => "lost_cache",
            Self::LostTransfers {} => "lost_transfers",
        }
    }

    /// Whether it lasts.
    pub const fn lasts(&self) -> bool {
        matches!(self, Self::Crash { .. } | Self::Straggler { .. } | Self::SlowLink { .. })
    }
}

/// What a client does when it gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// How often a request is sent again at most (`max_retries` of `OpenAI`'s client).
    pub max_retries: u32,
    /// Seconds until the first retry; each further one waits twice as long.
    pub backoff_s: f64,
    /// The longest such wait, in seconds.
    pub max_backoff_s: f64,
    /// Whether it also retries when its own time is over, and not only when a replica failed.
    pub on_timeout: bool,
    /// Whether it also retries when the gateway turns a request away (429).
    #[serde(skip_serializing_if = "is_true")]
    pub on_refusal: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_true(flag: &bool) -> bool {
    *flag
}

impl Default for RetryConfig {
    /// `OpenAI`'s Python client (2.x, `openai/_constants.py`), without its jitter.
    fn default() -> Self {
        Self {
            max_retries: 2,
            backoff_s: 0.5,
            max_backoff_s: 8.0,
            on_timeout: true,
            on_refusal: true,
        }
    }
}

/// Users who go away before their answer is complete.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CancellationConfig {
    /// Of all requests, the share whose users go away if they are not answered in time.
    pub share: f64,
    /// Mean seconds that such a user stays, exponentially distributed, from when the request is first
    /// sent.
    pub mean_s: f64,
}
