//! The settings of Dynamo's KV router, under its names (NVIDIA Dynamo 1.6.1, `KvRouterConfig` and the router policy
//! file).

use serde::{Deserialize, Serialize};

use super::dynamo_conditional::DynamoConditionalDisagg;

/// How Dynamo's KV router weighs what is cached and what is booked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the maker's own switches")]
pub struct DynamoConfig {
    /// What a block counts that the device caches.
    pub overlap_score_credit: f64,
    /// How fast that falls with the prefill tokens that a rank has more than the least loaded one; 0 for not at all.
    pub overlap_score_credit_decay: f64,
    /// What a block of prefill counts beside an active block.
    pub prefill_load_scale: f64,
    /// What a live request counts, in blocks.
    pub decode_active_request_weight: f64,
    /// What a block counts that host memory caches.
    pub host_cache_hit_weight: f64,
    /// What a block counts that a disk caches.
    pub disk_cache_hit_weight: f64,
    /// How evenly workers are drawn, relative to the range of their costs; 0 for the least cost.
    pub router_temperature: f64,
    /// Whether engines tell what they cache; if not, the router guesses it from what it sent.
    pub use_kv_events: bool,
    /// How long a guess holds, in s.
    pub router_ttl_secs: f64,
    /// How long what was sent counts as cached beside what engines tell, in s; not at all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_predicted_ttl_secs: Option<f64>,
    /// Whether active blocks count.
    pub router_track_active_blocks: bool,
    /// Whether blocks of answers count.
    pub router_track_output_blocks: bool,
    /// Whether prefill tokens count.
    pub router_track_prefill_tokens: bool,
    /// Whether blocks that prompts share count once.
    pub router_assume_kv_reuse: bool,
    /// Share of `max_num_batched_tokens` in booked prefill tokens above which a worker is busy, and requests wait while
    /// all are; no request waits if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_queue_threshold: Option<f64>,
    /// Which of the waiting requests is next.
    pub router_queue_policy: DynamoQueueOrder,
    /// Threads that take in events of engines. With more than one, a look-up may credit a worker beyond its cache where
    /// blocks left before their descendants.
    pub router_event_threads: u32,
    /// How long an idle session keeps its worker, in s; sessions have none if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity_ttl_secs: Option<f64>,
    /// The function that chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_selection: Option<DynamoSelection>,
    /// Classes of requests with queues of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<DynamoPolicy>,
    /// Which prompts are computed where they are decoded; none if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditional_disagg: Option<DynamoConditionalDisagg>,
    /// Tokens of a block; those of the engine's, which they have to be, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache_block_size: Option<u32>,
    /// How long events of engines are on their way to the router, in ms.
    pub kv_event_lag_ms: f64,
}

impl Default for DynamoConfig {
    fn default() -> Self {
        Self {
            overlap_score_credit: 1.0,
            overlap_score_credit_decay: 0.0,
            prefill_load_scale: 1.0,
            decode_active_request_weight: 0.0,
            host_cache_hit_weight: 0.75,
            disk_cache_hit_weight: 0.25,
            router_temperature: 0.0,
            use_kv_events: true,
            router_ttl_secs: 120.0,
            router_predicted_ttl_secs: None,
            router_track_active_blocks: true,
            router_track_output_blocks: false,
            router_track_prefill_tokens: true,
            router_assume_kv_reuse: true,
            router_queue_threshold: None,
            router_queue_policy: DynamoQueueOrder::default(),
            router_event_threads: 4,
            session_affinity_ttl_secs: None,
            worker_selection: None,
            policy: None,
            conditional_disagg: None,
            kv_cache_block_size: None,
            kv_event_lag_ms: 0.0,
        }
    }
}

impl DynamoConfig {
    /// Whether requests may wait at the router.
    pub fn holds_requests(&self) -> bool {
        self.router_queue_threshold.is_some() || self.policy.is_some()
    }

    /// Share of `max_num_batched_tokens` in booked prefill tokens above which a replica that prefills is busy, for
    /// prompts that may be computed elsewhere.
    pub fn prefill_busy_threshold(&self) -> Option<f64> {
        let own = self.conditional_disagg.and_then(|rules| rules.prefill_busy_threshold);
        own.or(self.router_queue_threshold)
    }

    /// The first setting that is out of its range, with the rule it breaks.
    ///
    /// # Errors
    /// When there is one.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let at_least_0 = [
            ("overlap_score_credit", Some(self.overlap_score_credit)),
            ("overlap_score_credit_decay", Some(self.overlap_score_credit_decay)),
            ("prefill_load_scale", Some(self.prefill_load_scale)),
            ("decode_active_request_weight", Some(self.decode_active_request_weight)),
            ("router_temperature", Some(self.router_temperature)),
            ("router_queue_threshold", self.router_queue_threshold),
        ];
        let ranges = at_least_0.map(|(key, value)| (key, value, f64::MAX));
        let shares = [
            ("host_cache_hit_weight", Some(self.host_cache_hit_weight), 1.0),
            ("disk_cache_hit_weight", Some(self.disk_cache_hit_weight), 1.0),
        ];
        let times = [
            ("router_ttl_secs", Some(self.router_ttl_secs), MOST_SECS),
            ("router_predicted_ttl_secs", self.router_predicted_ttl_secs, MOST_SECS),
            ("session_affinity_ttl_secs", self.session_affinity_ttl_secs, MOST_SECS),
            ("kv_event_lag_ms", Some(self.kv_event_lag_ms), MOST_SECS),
        ];
        for (key, value, most) in ranges.into_iter().chain(shares).chain(times) {
            let value = value.unwrap_or(0.0);
            if !(0.0..=most).contains(&value) {
                let most =
                    if most < f64::MAX { format!(" and at most {most}") } else { String::new() };
                return Err((key, format!("must be at least 0{most}, got {value}")));
            }
        }
        if self.router_event_threads == 0 {
            return Err(("router_event_threads", "must be at least 1, got 0".to_owned()));
        }
        if self.router_predicted_ttl_secs.is_some() && !self.use_kv_events {
            return Err(("router_predicted_ttl_secs", "needs use_kv_events".to_owned()));
        }
        if let Some(DynamoSelection::TwoTier(tiers)) = &self.worker_selection {
            for value in [tiers.cache_threshold, tiers.balance_rel_threshold] {
                if !(0.0..=f64::MAX).contains(&value) {
                    let rule = format!("must have thresholds of at least 0, got {value}");
                    return Err(("worker_selection", rule));
                }
            }
        }
        if let Some(rules) = &self.conditional_disagg {
            rules.check(self)?;
        }
        self.policy
            .as_ref()
            .map_or(Ok(()), |policy| policy.check().map_err(|rule| ("policy", rule)))
    }
}

/// As many seconds as are in a hundred years: longer than any run.
const MOST_SECS: f64 = 3.2e9;

/// Which of the waiting requests is next; those of a higher strict priority come before all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DynamoQueueOrder {
    /// The one that came first; a unit of priority is worth a second.
    #[default]
    Fcfs,
    /// The one that came last; a unit of priority is worth a second.
    Lcfs,
    /// The one with the most priority for each token that is not cached.
    Wspt,
}

/// The function that chooses a worker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "type", deny_unknown_fields)]
pub enum DynamoSelection {
    /// The least cost.
    #[serde(rename = "dynamo-default-cost-fn")]
    Default {},
    /// Where most is cached, or where the fewest requests are.
    #[serde(rename = "dynamo-two-tier-cost-fn")]
    TwoTier(DynamoTwoTier),
}

/// When the fewest requests decide, and when what is cached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DynamoTwoTier {
    /// Share of the prompt that has to be cached somewhere.
    pub cache_threshold: f64,
    /// The load is imbalanced when the most and the fewest requests of a rank differ by more than this …
    pub balance_abs_threshold: u64,
    /// … and by more than this factor.
    pub balance_rel_threshold: f64,
}

impl Default for DynamoTwoTier {
    fn default() -> Self {
        Self { cache_threshold: 0.5, balance_abs_threshold: 32, balance_rel_threshold: 1.1 }
    }
}

/// Classes of requests, by family and by what is not cached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DynamoPolicy {
    /// The family of requests that name none, or none that there is.
    pub default_policy_family: String,
    /// Buckets by tokens that are not cached.
    pub uncached_isl_buckets: Vec<DynamoBucket>,
    /// The classes, one for each family and bucket; others are chosen by name.
    pub policy_classes: Vec<DynamoClass>,
}

impl DynamoPolicy {
    fn check(&self) -> Result<(), String> {
        let classes = &self.policy_classes;
        if classes.is_empty() {
            return Err("must have a class".to_owned());
        }
        for class in classes {
            let name = &class.name;
            if class.quantum == 0 {
                return Err(format!("class \"{name}\": quantum must be at least 1, got 0"));
            }
            if class.queue_policy == DynamoQueueOrder::Lcfs {
                return Err(format!("class \"{name}\": queue_policy must be fcfs or wspt"));
            }
            if class.policy_family.is_some() != class.cache_bucket.is_some() {
                let rule = "policy_family and cache_bucket go together";
                return Err(format!("class \"{name}\": {rule}"));
            }
            let share = class.prefill_busy_threshold_frac.unwrap_or(0.0);
            if !(0.0..=f64::MAX).contains(&share) {
                let rule = "prefill_busy_threshold_frac must be at least 0";
                return Err(format!("class \"{name}\": {rule}, got {share}"));
            }
            if classes.iter().filter(|one| one.name == *name).count() > 1 {
                return Err(format!("must not have two classes of the name \"{name}\""));
            }
        }
        if !self.uncached_isl_buckets.iter().any(|bucket| bucket.min_tokens == 0) {
            return Err("uncached_isl_buckets must have one from 0 tokens on".to_owned());
        }
        let mut families: Vec<_> =
            classes.iter().filter_map(|class| class.policy_family.as_deref()).collect();
        families.push(&self.default_policy_family);
        for family in families {
            for bucket in &self.uncached_isl_buckets {
                let bucket = bucket.bucket.as_str();
                let is_it = |class: &&DynamoClass| {
                    class.policy_family.as_deref() == Some(family)
                        && class.cache_bucket.as_deref() == Some(bucket)
                };
                let count = classes.iter().filter(is_it).count();
                if count != 1 {
                    return Err(format!(
                        "must have one class of family \"{family}\" and bucket \"{bucket}\", has {count}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Requests with at least so many tokens that are not cached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DynamoBucket {
    /// The fewest of them.
    pub min_tokens: u64,
    /// The bucket's name.
    pub bucket: String,
}

/// A class with a queue of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DynamoClass {
    /// Its name.
    pub name: String,
    /// The family it is of; none for a class that is chosen by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_family: Option<String>,
    /// The bucket it is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bucket: Option<String>,
    /// Which of its requests is next.
    #[serde(default)]
    pub queue_policy: DynamoQueueOrder,
    /// Tokens it may send in a round.
    pub quantum: u64,
    /// Prefill tokens of a rank above which it is busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_busy_threshold: Option<u64>,
    /// The same as a share of `max_num_batched_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_busy_threshold_frac: Option<f64>,
    /// Requests that may wait, for each worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_queue_limit_per_worker: Option<u64>,
    /// Prompt tokens that may wait, for each worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_isl_token_queue_limit_per_worker: Option<u64>,
    /// Cached tokens that may wait, for each worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_token_queue_limit_per_worker: Option<u64>,
}
