//! Settings of SGLang's router (`sglang-router` 0.3.2), under the names and with the defaults of its command line.

use serde::{Deserialize, Serialize};

/// `SGLang`'s router, sglang-router 0.3.2 in HTTP mode: its settings by their names on its command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SglangRouterConfig {
    /// How a replica is chosen.
    pub policy: SglangRouterPolicy,
    /// How the replica that prefills is chosen; as `policy` says if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_policy: Option<SglangRouterPolicy>,
    /// How the replica that decodes is chosen; as `policy` says if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_policy: Option<SglangRouterPolicy>,
    /// Share of a prompt above which it goes where that much of it was sent before (`cache_aware`).
    pub cache_threshold: f64,
    /// The load is imbalanced when the most and the fewest requests of a replica differ by more than this …
    pub balance_abs_threshold: u64,
    /// … and by more than this factor. Requests then go to the fewest.
    pub balance_rel_threshold: f64,
    /// Seconds between evictions from the tree of prompts.
    pub eviction_interval_secs: u64,
    /// Characters of prompts that an eviction leaves each replica in the tree.
    pub max_tree_size: u64,
    /// Where a key goes that comes for the first time (`manual`).
    pub assignment_mode: AssignmentMode,
    /// Seconds after which a key that does not come is forgotten (`manual`).
    pub max_idle_secs: u64,
    /// Seconds over which lengths of prompts are known, and between adjustments to them (`bucket`).
    pub bucket_adjust_interval_secs: u64,
    /// Seconds between polls of how many tokens engines hold (`power_of_two`).
    pub worker_startup_check_interval: u64,
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
    /// Tokens in the bucket that requests take one of; no bucket if -1.
    pub max_concurrent_requests: i64,
    /// Tokens that come into the bucket each second; as many as it holds if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit_tokens_per_second: Option<u64>,
    /// Whether requests may wait for a token: none if 0, else any number, as the queue hands them on at once.
    pub queue_size: u64,
    /// Seconds that one may wait, if the next token is not due before.
    pub queue_timeout_secs: u64,
}

impl Default for SglangRouterConfig {
    fn default() -> Self {
        Self {
            policy: SglangRouterPolicy::default(),
            prefill_policy: None,
            decode_policy: None,
            cache_threshold: 0.3,
            balance_abs_threshold: 64,
            balance_rel_threshold: 1.5,
            eviction_interval_secs: 60,
            max_tree_size: 1 << 26,
            assignment_mode: AssignmentMode::default(),
            max_idle_secs: 14_400,
            bucket_adjust_interval_secs: 5,
            worker_startup_check_interval: 30,
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
            max_concurrent_requests: -1,
            rate_limit_tokens_per_second: None,
            queue_size: 100,
            queue_timeout_secs: 60,
        }
    }
}

impl SglangRouterConfig {
    /// How the replica is chosen that prefills.
    pub fn of_prefills(&self) -> SglangRouterPolicy {
        self.prefill_policy.unwrap_or(self.policy)
    }

    /// How the replica is chosen that decodes.
    pub fn of_decodes(&self) -> SglangRouterPolicy {
        self.decode_policy.unwrap_or(self.policy)
    }
}

/// The policies of `SGLang`'s router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SglangRouterPolicy {
    /// Each in turn.
    RoundRobin,
    /// Any, each as likely as the others.
    Random,
    /// Of two random ones that whose engine holds fewer tokens; that with fewer requests where none are known.
    PowerOfTwo,
    /// The one to which the beginning of the prompt was sent first, unless the load is imbalanced.
    #[default]
    CacheAware,
    /// The one that the key of the request had before.
    Manual,
    /// By a hash of the key of the request.
    ConsistentHashing,
    /// By a hash of the prompt's tokens, which the HTTP mode does not have: it finds no replica.
    PrefixHash,
    /// By the length of the prompt; of replicas that prefill only.
    Bucket,
}

/// Where `manual` sends a key that comes for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AssignmentMode {
    /// Anywhere.
    #[default]
    Random,
    /// To the fewest requests; of equal ones to any.
    MinLoad,
    /// To the fewest keys that have requests; of equal ones to any.
    MinGroup,
}
