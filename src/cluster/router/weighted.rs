//! The highest weighted sum of scores, as in llm-d's inference scheduler (llm-d-router of 2026,
//! `pkg/epp/framework/plugins/scheduling/scorer/{queuedepth,kvcacheutilization,prefix}`, weights of
//! `pkg/epp/config/loader/defaults.go`, picker `maxscore`).
//!
//! Scores lie between 0 and 1. *Queue:* (longest − own) / (longest − shortest) of the waiting requests,
//! 1 for all where queues are equal. *KV utilisation:* 1 − the share of the KV blocks that requests
//! hold. *Prefix:* the share of the prompt whose beginning was sent to the instance before. Instances
//! with equal sums take turns.
//!
//! Queue and utilisation are what engines reported last. Reports of all engines are taken with the
//! first request that finds the last ones `signal_interval_ms` old, where a scraper would take them at
//! fixed times: after a pause they are fresher here.
//!
//! Otherwise than there: prompts are compared token by token, not block by block.

use super::prefix_index::PrefixIndex;
use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::scenario::WeightedConfig;
use crate::units::SimDuration;

/// The highest weighted sum of queue, KV utilisation and prefix scores.
#[derive(Debug, Clone)]
pub struct Weighted {
    config: WeightedConfig,
    sent: PrefixIndex,
    best: Vec<InstanceId>,
    /// How often sums were equal.
    ties: usize,
}

impl Weighted {
    /// A gateway that has sent nothing.
    pub fn new(config: WeightedConfig) -> Self {
        let sent = PrefixIndex::new(config.max_tree_tokens);
        Self { config, sent, best: Vec::new(), ties: 0 }
    }

    fn reads_signals(&self) -> bool {
        self.config.queue_weight > 0.0 || self.config.kv_utilization_weight > 0.0
    }

    fn reads_prefixes(&self) -> bool {
        self.config.prefix_weight > 0.0
    }

    fn score(&self, id: InstanceId, view: &ClusterView<'_>, queues: (u32, u32)) -> f64 {
        let mut sum = 0.0;
        if self.reads_signals() {
            let load = view.signals[id.index()];
            sum += self.config.queue_weight * queue_score(load.waiting, queues);
            sum += self.config.kv_utilization_weight * (1.0 - load.kv_utilization());
        }
        if self.reads_prefixes() {
            sum += self.config.prefix_weight * self.sent.match_rate(id);
        }
        sum
    }
}

/// The shortest and the longest queue.
fn queues(view: &ClusterView<'_>) -> (u32, u32) {
    let reports = || (0..).map(InstanceId).zip(view.signals).filter(|(id, _)| view.is_up(*id));
    let waiting = || reports().map(|(_, load)| load.waiting);
    (waiting().min().unwrap_or_default(), waiting().max().unwrap_or_default())
}

fn queue_score(waiting: u32, (shortest, longest): (u32, u32)) -> f64 {
    if shortest == longest {
        return 1.0;
    }
    f64::from(longest - waiting) / f64::from(longest - shortest)
}

impl Route for Weighted {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        if self.reads_prefixes() {
            self.sent.read(request, view.instances);
        }
        let queues = queues(view);
        let mut highest = f64::NEG_INFINITY;
        for id in view.up() {
            let score = self.score(id, view, queues);
            if score > highest {
                highest = score;
                self.best.clear();
            }
            if score >= highest {
                self.best.push(id);
            }
        }
        let chosen = self.best[self.ties % self.best.len()];
        if self.best.len() > 1 {
            self.ties += 1;
        }
        if self.reads_prefixes() {
            self.sent.insert(chosen);
        }
        chosen
    }

    fn needs(&self) -> Needs {
        let interval = SimDuration::from_secs_f64(self.config.signal_interval_ms / 1e3);
        Needs { signals: self.reads_signals().then_some(interval), ..Needs::NOTHING }
    }
}
