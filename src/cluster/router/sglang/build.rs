//! Policies from the settings of their makers.

use super::backoff::Backoff;
use super::balance::Balance;
use super::bucket::Bucket;
use super::cache_aware::{self, CacheAware};
use super::checks::{Asks, Checks};
use super::consistent_hashing::ConsistentHashing;
use super::known::Known;
use super::manual::Manual;
use super::policy::Policy;
use super::power_of_two::PowerOfTwo;
use super::prefix_hash::PrefixHash;
use super::random::Random;
use super::round_robin::RoundRobin;
use super::text::Text;
use super::{breaker, health};
use crate::cluster::router::vllm_router;
use crate::scenario::{SglangRouterConfig, SglangRouterPolicy, VllmRouterConfig, VllmRouterPolicy};
use crate::units::SimDuration;

/// What the policies of a router have to know beside its settings.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// By worker, where it is.
    pub(crate) urls: Vec<String>,
    /// Whether workers report the name of their model.
    pub(crate) has_names: bool,
    /// Whether some workers prefill and others decode.
    pub(crate) is_apart: bool,
    /// Characters of a label of a text.
    pub(crate) label: u32,
    /// Where the counter of uses stands.
    pub(crate) uses: u64,
}

/// A policy of `SGLang`'s router, which no worker is told of yet.
pub(crate) fn sglang<T: Text>(
    policy: SglangRouterPolicy,
    config: &SglangRouterConfig,
    site: &Site,
) -> Policy<T> {
    let balance = Balance {
        absolute: config.balance_abs_threshold,
        relative: config.balance_rel_threshold as f32,
    };
    match policy {
        SglangRouterPolicy::RoundRobin => Policy::RoundRobin(RoundRobin::default()),
        SglangRouterPolicy::Random => Policy::Random(Random),
        SglangRouterPolicy::PowerOfTwo => Policy::PowerOfTwo(PowerOfTwo::default()),
        SglangRouterPolicy::PrefixHash => Policy::PrefixHash(PrefixHash),
        SglangRouterPolicy::CacheAware => {
            let threshold = config.cache_threshold as f32;
            let rules = cache_aware::Rules { threshold, balance, remembers: !site.is_apart };
            Policy::CacheAware(Box::new(CacheAware::new(rules, site.uses)))
        }
        SglangRouterPolicy::Manual => Policy::Manual(Manual::new(config.assignment_mode)),
        SglangRouterPolicy::ConsistentHashing => Policy::ConsistentHashing(if site.has_names {
            ConsistentHashing::Modulo
        } else {
            ConsistentHashing::ring(site.urls.clone())
        }),
        SglangRouterPolicy::Bucket => {
            let interval = seconds(config.bucket_adjust_interval_secs);
            Policy::Bucket(Bucket::new(balance, interval, site.label))
        }
    }
}

/// A policy of vLLM's router, which no worker is told of yet.
pub(crate) fn vllm<T: Text>(config: &VllmRouterConfig, site: &Site) -> Policy<T> {
    let balance = Balance {
        absolute: config.balance_abs_threshold,
        relative: config.balance_rel_threshold as f32,
    };
    let urls = || site.urls.clone();
    match config.policy {
        VllmRouterPolicy::RoundRobin => Policy::RoundRobin(RoundRobin::default()),
        VllmRouterPolicy::Random => Policy::Random(Random),
        VllmRouterPolicy::PowerOfTwo => Policy::PowerOfTwo(PowerOfTwo::default()),
        VllmRouterPolicy::CacheAware => {
            let policy = vllm_router::cache_aware::CacheAware::new(config.cache_threshold, balance);
            Policy::VllmCacheAware(Box::new(policy))
        }
        VllmRouterPolicy::ConsistentHash => {
            Policy::ConsistentHash(vllm_router::consistent_hash::ConsistentHash::new(urls()))
        }
        VllmRouterPolicy::StickyLeastLoaded => Policy::StickyLeastLoaded(
            vllm_router::sticky_least_loaded::StickyLeastLoaded::new(urls()),
        ),
    }
}

/// Whether the router counts the requests in flight of each worker.
pub(crate) fn counts_loads(policy: SglangRouterPolicy, is_apart: bool) -> bool {
    is_apart || matches!(policy, SglangRouterPolicy::CacheAware | SglangRouterPolicy::Manual)
}

/// The same of vLLM's.
pub(crate) fn vllm_counts_loads(policy: VllmRouterPolicy) -> bool {
    matches!(policy, VllmRouterPolicy::CacheAware | VllmRouterPolicy::PowerOfTwo)
}

/// How requests are tried again.
pub(crate) fn backoff(config: &SglangRouterConfig) -> Backoff {
    Backoff {
        attempts: config.retry_max_retries,
        initial_ms: config.retry_initial_backoff_ms,
        max_ms: config.retry_max_backoff_ms,
        multiplier: config.retry_backoff_multiplier as f32,
        jitter: config.retry_jitter_factor as f32,
    }
}

/// The same of vLLM's.
pub(crate) fn vllm_backoff(config: &VllmRouterConfig) -> Backoff {
    Backoff {
        attempts: config.retry_max_retries,
        initial_ms: config.retry_initial_backoff_ms,
        max_ms: config.retry_max_backoff_ms,
        multiplier: config.retry_backoff_multiplier as f32,
        jitter: config.retry_jitter_factor as f32,
    }
}

/// When breakers open and close.
pub(crate) fn breaker(config: &SglangRouterConfig) -> breaker::Rules {
    breaker::Rules {
        failures: config.cb_failure_threshold,
        successes: config.cb_success_threshold,
        timeout: seconds(config.cb_timeout_duration_secs),
    }
}

/// The same of vLLM's.
pub(crate) fn vllm_breaker(config: &VllmRouterConfig) -> breaker::Rules {
    breaker::Rules {
        failures: config.cb_failure_threshold,
        successes: config.cb_success_threshold,
        timeout: seconds(config.cb_timeout_duration_secs),
    }
}

/// How many checks make a worker healthy or not.
pub(crate) fn health(config: &SglangRouterConfig) -> health::Rules {
    health::Rules {
        failures: config.health_failure_threshold,
        successes: config.health_success_threshold,
    }
}

/// The same of vLLM's.
pub(crate) fn vllm_health(config: &VllmRouterConfig) -> health::Rules {
    health::Rules {
        failures: config.health_failure_threshold,
        successes: config.health_success_threshold,
    }
}

/// What a router of `SGLang` in a simulation knows before it has workers, of which it asks how they are.
pub(super) fn known(config: &SglangRouterConfig) -> Known {
    let interval = seconds(config.health_check_interval_secs);
    let timeout = seconds(config.health_check_timeout_secs);
    Known::new(breaker(config), health(config), Checks::new(Asks::Together, interval, timeout))
}

/// The same of vLLM's.
pub(super) fn vllm_known(config: &VllmRouterConfig) -> Known {
    let interval = seconds(config.health_check_interval_secs);
    let timeout = seconds(config.health_check_timeout_secs);
    Known::new(
        vllm_breaker(config),
        vllm_health(config),
        Checks::new(Asks::InTurn, interval, timeout),
    )
}

/// Thirty years at most, so that times add up.
pub(crate) fn seconds(secs: u64) -> SimDuration {
    SimDuration::from_millis(secs.min(1_000_000_000) * 1000)
}
