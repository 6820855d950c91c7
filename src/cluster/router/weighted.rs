//! The highest weighted sum of scores, as in llm-d's router (520af478, 2026-05-17,
//! `pkg/epp/framework/plugins/scheduling/scorer`, weights of `pkg/epp/config/loader/defaults.go`, picker `maxscore`).
//!
//! Scores lie between 0 and 1:
//!
//! * `queue-scorer`: (longest − own) / (longest − shortest) of the waiting requests, 1 for all where queues are equal
//! * `running-requests-size-scorer`: the same of the running requests
//! * `kv-cache-utilization-scorer`: 1 − the share of the KV blocks that requests hold
//! * `load-aware-scorer`: 0.5 where nothing waits, less the more does
//! * `prefix-cache-scorer`: the share of the prompt's blocks that were sent to the instance before (`block_index.rs`)
//! * `active-request-scorer`, `token-load-scorer`: what the router itself has sent and not got back
//! * `no-hit-lru-scorer`: who got a prompt longest ago of which nobody knew the beginning (`cold_order.rs`)
//!
//! Of instances with equal sums any is chosen, each as likely as the others.
//!
//! Queues, running requests and utilisation are what engines reported last. Reports of all engines are taken with the
//! first request that finds the last ones `signal_interval_ms` old, where a scraper would take them at
//! fixed times: after a pause they are fresher here.
//!
//! Otherwise than there: a block is always 16 tokens, whatever the letters of the text and the blocks of the engines, and each instance is
//! remembered for a number of blocks that is given, not for as many as its engine says that it has.

use rand::RngExt;

use super::block_index::BlockIndex;
use super::cold_order::ColdOrder;
use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::engine::scheduler::Load;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::rng::Stream;
use crate::scenario::WeightedConfig;
use crate::units::SimDuration;

/// Tokens in flight from which on `token-load-scorer` gives 0.
const TOKENS_IN_FLIGHT_MAX: u64 = 1 << 22;
/// Waiting requests from which on `load-aware-scorer` gives 0.
const WAITING_MAX: u32 = 128;

/// The highest weighted sum of scores.
#[derive(Debug, Clone)]
pub struct Weighted {
    config: WeightedConfig,
    sent: BlockIndex,
    cold: ColdOrder,
    best: Vec<InstanceId>,
    stream: Stream,
}

/// The least and the most of something among the candidates.
#[derive(Debug, Clone, Copy)]
struct Range {
    least: u32,
    most: u32,
}

impl Range {
    fn of(values: impl Iterator<Item = u32>) -> Self {
        let none = Self { least: u32::MAX, most: 0 };
        values.fold(none, |range, value| Self {
            least: range.least.min(value),
            most: range.most.max(value),
        })
    }

    /// 1 for the least and 0 for the most; 1 where all are equal.
    fn score(self, value: u32) -> f64 {
        if self.least >= self.most {
            return 1.0;
        }
        f64::from(self.most - value) / f64::from(self.most - self.least)
    }
}

/// What scores of one request are relative to.
#[derive(Debug, Clone, Copy)]
struct Ranges {
    waiting: Range,
    running: Range,
    in_flight: Range,
}

impl Ranges {
    fn of(view: &ClusterView<'_>) -> Self {
        let signals = |of: fn(&Load) -> u32| {
            Range::of(view.up().filter_map(|id| view.signals.get(id.index())).map(of))
        };
        let in_flight = view.up().filter_map(|id| view.outstanding.get(id.index()));
        Self {
            waiting: signals(|load| load.waiting),
            running: signals(|load| load.running),
            in_flight: Range::of(in_flight.map(|sent| sent.requests)),
        }
    }
}

impl Weighted {
    /// A gateway that has sent nothing, and draws from a stream.
    pub fn new(config: WeightedConfig, stream: Stream) -> Self {
        Self {
            config,
            sent: BlockIndex::new(config.lru_capacity_per_server),
            cold: ColdOrder::default(),
            best: Vec::new(),
            stream,
        }
    }

    fn reads_signals(&self) -> bool {
        let config = &self.config;
        let weights = [
            config.queue_weight,
            config.kv_utilization_weight,
            config.running_requests_weight,
            config.load_aware_weight,
        ];
        weights.iter().any(|weight| *weight > 0.0)
    }

    fn reads_outstanding(&self) -> bool {
        self.config.active_request_weight > 0.0 || self.config.token_load_weight > 0.0
    }

    fn reads_cold_order(&self) -> bool {
        self.config.no_hit_lru_weight > 0.0
    }

    fn reads_prefixes(&self) -> bool {
        self.config.prefix_weight > 0.0 || self.reads_cold_order()
    }

    fn score(&self, id: InstanceId, view: &ClusterView<'_>, ranges: &Ranges) -> f64 {
        let config = &self.config;
        let mut sum = 0.0;
        if self.reads_signals() {
            let load = view.signals[id.index()];
            sum += config.queue_weight * ranges.waiting.score(load.waiting);
            sum += config.running_requests_weight * ranges.running.score(load.running);
            sum += config.kv_utilization_weight * (1.0 - load.kv_utilization());
            let waiting = f64::from(load.waiting.min(WAITING_MAX)) / f64::from(WAITING_MAX);
            sum += config.load_aware_weight * 0.5 * (1.0 - waiting);
        }
        if self.reads_outstanding() {
            let sent = view.outstanding[id.index()];
            let most = ranges.in_flight.most.max(1);
            // None in flight is the most that gets the whole score.
            let idle = f64::from(most - sent.requests) / f64::from(most);
            sum += config.active_request_weight * idle;
            let tokens = sent.prompt_tokens.min(TOKENS_IN_FLIGHT_MAX);
            sum += config.token_load_weight * (1.0 - tokens as f64 / TOKENS_IN_FLIGHT_MAX as f64);
        }
        if self.reads_prefixes() {
            sum += config.prefix_weight * self.sent.match_rate(id);
        }
        if self.reads_cold_order() {
            sum += config.no_hit_lru_weight * self.cold.score(id);
        }
        sum
    }
}

impl Route for Weighted {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        if self.reads_prefixes() {
            self.sent.read(request, view.instances);
        }
        if self.reads_cold_order() {
            let is_known = view.up().any(|id| self.sent.match_rate(id) > 0.0);
            self.cold.read(view.up(), view.instances, is_known);
        }
        let ranges = Ranges::of(view);
        let mut highest = f64::NEG_INFINITY;
        for id in view.up() {
            let score = self.score(id, view, &ranges);
            if score > highest {
                highest = score;
                self.best.clear();
            }
            if score >= highest {
                self.best.push(id);
            }
        }
        let chosen = match self.best.as_slice() {
            [only] => *only,
            several => several[self.stream.random_range(0..several.len())],
        };
        if self.reads_prefixes() {
            self.sent.insert(chosen);
        }
        if self.reads_cold_order() {
            self.cold.send(chosen);
        }
        chosen
    }

    fn needs(&self) -> Needs {
        let interval = SimDuration::from_secs_f64(self.config.signal_interval_ms / 1e3);
        Needs {
            signals: self.reads_signals().then_some(interval),
            outstanding: self.reads_outstanding(),
            ..Needs::NOTHING
        }
    }
}
