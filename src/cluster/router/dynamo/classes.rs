//! Whose turn it is among classes of waiting requests (NVIDIA Dynamo 1.6.1): deficit round robin by tokens that are not
//! cached.

use super::waiting::Line;
use super::{Options, Rejection};
use crate::scenario::{DynamoClass, DynamoConfig, DynamoPolicy, DynamoQueueOrder};

/// The classes, and who is next.
#[derive(Debug, Clone)]
pub(super) struct Classes {
    pub all: Vec<Class>,
    policy: Option<DynamoPolicy>,
    cursor: usize,
    /// The class that was served last, if it has deficit left. It has the next turn, or none before the others.
    served: Option<usize>,
}

/// A class and its waiting requests.
#[derive(Debug, Clone)]
pub(super) struct Class {
    pub config: DynamoClass,
    pub line: Line,
    deficit: u64,
}

impl Class {
    fn new(config: DynamoClass) -> Self {
        Self { line: Line::new(config.queue_policy), config, deficit: 0 }
    }

    /// Whether requests of it ever wait.
    pub(super) fn waits(&self) -> bool {
        self.config.prefill_busy_threshold.is_some()
            || self.config.prefill_busy_threshold_frac.is_some()
    }

    /// Whether a rank with so many prefill tokens booked is busy, in steps of at most so many.
    pub(super) fn is_busy(&self, prefill_tokens: u64, batch: u64) -> bool {
        let absolute = self.config.prefill_busy_threshold.is_some_and(|most| prefill_tokens > most);
        let share = self.config.prefill_busy_threshold_frac;
        absolute || share.is_some_and(|share| prefill_tokens as f64 > share * batch as f64)
    }

    /// Whether it has no waiting room at all.
    pub(super) fn never_waits(&self) -> bool {
        self.limits().into_iter().any(|(_, _, limit)| limit == Some(0))
    }

    /// The limit that what waits has reached.
    pub(super) fn full(&self, workers: u64) -> Option<Rejection> {
        self.limits().into_iter().find_map(|(what, current, limit)| {
            let limit = limit?.saturating_mul(workers);
            let class = &self.config.name;
            (current >= limit).then(|| Rejection::QueueFull {
                class: class.clone(),
                what,
                current,
                limit,
            })
        })
    }

    fn limits(&self) -> [(&'static str, u64, Option<u64>); 3] {
        let (config, held) = (&self.config, self.line.held());
        [
            ("requests", held.requests, config.request_queue_limit_per_worker),
            ("raw_isl_tokens", held.prompt_tokens, config.raw_isl_token_queue_limit_per_worker),
            ("cached_tokens", held.cached_tokens, config.cached_token_queue_limit_per_worker),
        ]
    }
}

impl Classes {
    /// Of a configuration: those of its policy, or one.
    pub(super) fn new(config: &DynamoConfig) -> Self {
        let all = match &config.policy {
            Some(policy) => policy.policy_classes.iter().cloned().map(Class::new).collect(),
            None => vec![Class::new(only(config))],
        };
        Self { all, policy: config.policy.clone(), cursor: 0, served: None }
    }

    /// The class of a request that finds so many tokens uncached.
    pub(super) fn of(&self, options: Option<&Options>, uncached: u64) -> usize {
        let Some(policy) = &self.policy else { return 0 };
        let name = options.and_then(|options| options.class.as_deref());
        let place =
            |is: &dyn Fn(&DynamoClass) -> bool| self.all.iter().position(|class| is(&class.config));
        let explicit = |class: &DynamoClass| {
            class.policy_family.is_none() && Some(class.name.as_str()) == name
        };
        if let Some(explicit) = place(&explicit) {
            return explicit;
        }
        let is_of =
            |class: &DynamoClass, family: &str| class.policy_family.as_deref() == Some(family);
        let family = name.filter(|name| self.all.iter().any(|one| is_of(&one.config, name)));
        let family = family.unwrap_or(&policy.default_policy_family);
        let fitting = policy.uncached_isl_buckets.iter().filter(|one| one.min_tokens <= uncached);
        let bucket = fitting.max_by_key(|one| one.min_tokens).map(|one| one.bucket.as_str());
        let is_it =
            |class: &DynamoClass| is_of(class, family) && class.cache_bucket.as_deref() == bucket;
        place(&is_it).unwrap_or(0)
    }

    /// How many requests wait.
    pub(super) fn waiting(&self) -> u64 {
        self.all.iter().map(|class| class.line.held().requests).sum()
    }

    /// A request of a class was sent that had no need to wait, as no other did.
    pub(super) fn pass(&mut self, class: usize) {
        self.all[class].deficit = 0;
        self.cursor = (class + 1) % self.all.len();
        self.served = None;
    }

    /// The class whose request is sent next, given what the next of each costs that may be sent.
    pub(super) fn next(&mut self, costs: &[Option<u64>]) -> Option<usize> {
        if let Some(class) = self.served.take()
            && costs[class].is_some_and(|cost| cost <= self.all[class].deficit)
        {
            return Some(class);
        }
        let count = self.all.len();
        let ring = (0..count).map(|step| (self.cursor + step) % count);
        let heads = ring.filter_map(|class| Some((class, costs[class]?)));
        for (class, cost) in heads.clone() {
            let one = &mut self.all[class];
            if cost > one.deficit {
                one.deficit = one.deficit.saturating_add(one.config.quantum);
            }
            if cost <= one.deficit {
                return Some(class);
            }
        }
        let rounds = heads.clone().map(|(class, cost)| {
            let one = &self.all[class];
            (cost - one.deficit).div_ceil(one.config.quantum.max(1))
        });
        let rounds = rounds.min()?;
        for (class, _) in heads.clone() {
            let one = &mut self.all[class];
            one.deficit =
                one.deficit.saturating_add(rounds.saturating_mul(one.config.quantum.max(1)));
        }
        heads.clone().find(|&(class, cost)| cost <= self.all[class].deficit).map(|(class, _)| class)
    }

    /// A request of a class was taken out of its line for so much.
    pub(super) fn pay(&mut self, class: usize, cost: u64) {
        self.cursor = (class + 1) % self.all.len();
        let one = &mut self.all[class];
        let is_empty = one.line.held().requests == 0;
        one.deficit = if is_empty { 0 } else { one.deficit.saturating_sub(cost) };
        self.served = (one.deficit > 0).then_some(class);
    }
}

/// The class of all requests where there is no policy.
fn only(config: &DynamoConfig) -> DynamoClass {
    let queue_policy: DynamoQueueOrder = config.router_queue_policy;
    DynamoClass {
        name: "default".to_owned(),
        policy_family: None,
        cache_bucket: None,
        queue_policy,
        quantum: 1,
        prefill_busy_threshold: None,
        prefill_busy_threshold_frac: config.router_queue_threshold,
        request_queue_limit_per_worker: None,
        raw_isl_token_queue_limit_per_worker: None,
        cached_token_queue_limit_per_worker: None,
    }
}
