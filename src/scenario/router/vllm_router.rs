//! Settings of vLLM's router (`vllm-router` 0.1.17), under the names and with the defaults of its command line.

use serde::{Deserialize, Serialize};

/// vLLM's router, vllm-router 0.1.17: its settings by their names on its command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct VllmRouterConfig {
    /// How a replica is chosen.
    pub policy: VllmRouterPolicy,
    /// Share of a prompt above which it goes where that much of it was sent before (`cache_aware`).
    pub cache_threshold: f64,
    /// The load is imbalanced when the most and the fewest requests of a replica differ by more than this …
    pub balance_abs_threshold: u64,
    /// … and by more than this factor. Requests then go to the fewest.
    pub balance_rel_threshold: f64,
    /// Attempts of a request, the first one too.
    pub retry_max_retries: u32,
    /// Milliseconds before the second attempt.
    pub retry_initial_backoff_ms: u64,
    /// The most milliseconds before an attempt.
    pub retry_max_backoff_ms: u64,
    /// By how much the wait grows with each attempt.
    pub retry_backoff_multiplier: f64,
    /// By which share of itself it is longer or shorter, at most.
    pub retry_jitter_factor: f64,
    /// Failures in a row that open the circuit breaker of a replica.
    pub cb_failure_threshold: u32,
    /// Successes in a row that close it again.
    pub cb_success_threshold: u32,
    /// Seconds that it stays open.
    pub cb_timeout_duration_secs: u64,
    /// Checks in a row that have to fail until a replica gets no requests.
    pub health_failure_threshold: u32,
    /// Checks in a row that have to succeed until it gets some again.
    pub health_success_threshold: u32,
    /// Seconds that a check may take.
    pub health_check_timeout_secs: u64,
    /// Seconds between checks.
    pub health_check_interval_secs: u64,
    /// Tokens in the bucket that requests take one of until their answers begin. What it has by default is not simulated.
    pub max_concurrent_requests: u64,
    /// Tokens that come into the bucket each second; as many as it holds if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit_tokens_per_second: Option<u64>,
    /// Whether requests may wait for a token: none if 0, else any number, as the queue hands them on at once.
    pub queue_size: u64,
    /// Seconds that one may wait, if the next token is not due before.
    pub queue_timeout_secs: u64,
}

impl VllmRouterConfig {
    /// Tokens in the bucket by default.
    pub const REQUESTS: u64 = 32_768;

    /// Whether requests are limited other than by default, where a bucket takes 32,768 requests at one instant and as many
    /// in each second.
    pub fn limits_requests(&self) -> bool {
        self.max_concurrent_requests != Self::REQUESTS
            || self.rate_limit_tokens_per_second.is_some()
    }
}

impl Default for VllmRouterConfig {
    fn default() -> Self {
        Self {
            policy: VllmRouterPolicy::default(),
            cache_threshold: 0.3,
            balance_abs_threshold: 64,
            balance_rel_threshold: 1.5,
            retry_max_retries: 5,
            retry_initial_backoff_ms: 50,
            retry_max_backoff_ms: 30_000,
            retry_backoff_multiplier: 1.5,
            retry_jitter_factor: 0.2,
            cb_failure_threshold: 10,
            cb_success_threshold: 3,
            cb_timeout_duration_secs: 60,
            health_failure_threshold: 3,
            health_success_threshold: 2,
            health_check_timeout_secs: 5,
            health_check_interval_secs: 60,
            max_concurrent_requests: Self::REQUESTS,
            rate_limit_tokens_per_second: None,
            queue_size: 100,
            queue_timeout_secs: 60,
        }
    }
}

/// The policies of vLLM's router; `kv_aware` is not modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum VllmRouterPolicy {
    /// Each in turn.
    RoundRobin,
    /// Any, each as likely as the others.
    Random,
    /// Of two random ones that with fewer requests.
    PowerOfTwo,
    /// The one to which the most of the beginning of the prompt was sent before, unless the load is imbalanced.
    #[default]
    CacheAware,
    /// By a hash of the session, on a ring.
    ConsistentHash,
    /// The one that the session had before; a new one goes to the fewest sessions.
    StickyLeastLoaded,
}
