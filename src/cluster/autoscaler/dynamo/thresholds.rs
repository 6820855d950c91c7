//! Decisions by fixed thresholds: one replica more where one is over, one less where all are under.

use super::forward::{Capabilities, ForwardPassMetrics};
use super::planner::{Reason, Wish};
use crate::scenario::{DynamoPlannerConfig, OptimizationTarget};

/// Where there is one more, and one less.
#[derive(Debug, Clone, Copy)]
struct Thresholds {
    up: Bound,
    down: Bound,
}

/// A value, and whether it is itself on the side that counts.
#[derive(Debug, Clone, Copy)]
enum Bound {
    /// The value too.
    From(f64),
    /// Not the value.
    Beyond(f64),
}

impl Bound {
    fn value(self) -> f64 {
        match self {
            Self::From(value) | Self::Beyond(value) => value,
        }
    }

    fn is_over(self, value: f64) -> bool {
        match self {
            Self::From(bound) => value >= bound,
            Self::Beyond(bound) => value > bound,
        }
    }

    fn is_under(self, value: f64) -> bool {
        match self {
            Self::From(bound) => value <= bound,
            Self::Beyond(bound) => value < bound,
        }
    }
}

/// Of replicas that prefill: the prompt tokens that wait, of the longest context.
pub(super) fn prefill(
    config: &DynamoPlannerConfig,
    capabilities: &Capabilities,
    workers: &[ForwardPassMetrics],
) -> Wish {
    let context = f64::from(capabilities.context_length);
    let (thresholds, unit) = match config.optimization_target {
        OptimizationTarget::Latency => {
            (Thresholds { up: Bound::From(0.1), down: Bound::From(0.0) }, context)
        }
        OptimizationTarget::Load => {
            let given =
                config.prefill_scale_up_queue_tokens.zip(config.prefill_scale_down_queue_tokens);
            let Some((up, down)) = given else { return Wish::UNKNOWN };
            (Thresholds { up: Bound::From(up.into()), down: Bound::From(down.into()) }, 1.0)
        }
        OptimizationTarget::Throughput | OptimizationTarget::Sla => {
            (Thresholds { up: Bound::From(1.0), down: Bound::Beyond(0.1) }, context)
        }
    };
    decide(
        thresholds,
        workers.iter().map(|worker| worker.queued_prefill_tokens as f64 / unit),
        config,
    )
}

/// Of replicas that decode: the tokens in KV memory and those that wait for it, of what it holds.
pub(super) fn decode(
    config: &DynamoPlannerConfig,
    capabilities: &Capabilities,
    workers: &[ForwardPassMetrics],
) -> Wish {
    let kv_tokens =
        |worker: &ForwardPassMetrics| worker.scheduled_kv_tokens + worker.queued_kv_tokens;
    by_kv(config, capabilities, workers.iter().map(kv_tokens))
}

/// Of replicas that do both: the same with the prompt tokens that wait.
pub(super) fn aggregated(
    config: &DynamoPlannerConfig,
    capabilities: &Capabilities,
    workers: &[ForwardPassMetrics],
) -> Wish {
    let kv_tokens = |worker: &ForwardPassMetrics| {
        worker.scheduled_kv_tokens + worker.queued_kv_tokens + worker.queued_prefill_tokens
    };
    by_kv(config, capabilities, workers.iter().map(kv_tokens))
}

fn by_kv(
    config: &DynamoPlannerConfig,
    capabilities: &Capabilities,
    kv_tokens: impl Iterator<Item = u64>,
) -> Wish {
    let thresholds = match config.optimization_target {
        OptimizationTarget::Latency => {
            Thresholds { up: Bound::Beyond(0.4), down: Bound::Beyond(0.1) }
        }
        OptimizationTarget::Load => {
            let given = config.decode_scale_up_kv_rate.zip(config.decode_scale_down_kv_rate);
            let Some((up, down)) = given else { return Wish::UNKNOWN };
            Thresholds { up: Bound::From(up / 100.0), down: Bound::From(down / 100.0) }
        }
        OptimizationTarget::Throughput | OptimizationTarget::Sla => {
            Thresholds { up: Bound::Beyond(1.0), down: Bound::Beyond(0.6) }
        }
    };
    let max = capabilities.max_kv_tokens as f64;
    decide(thresholds, kv_tokens.map(|tokens| tokens as f64 / max), config)
}

fn decide(
    thresholds: Thresholds,
    values: impl Iterator<Item = f64>,
    config: &DynamoPlannerConfig,
) -> Wish {
    let values: Vec<f64> = values.collect();
    let replicas = values.len() as u32;
    if values.iter().any(|&value| thresholds.up.is_over(value)) {
        return Wish::for_replicas(replicas.saturating_add(1));
    }
    if replicas > 1 && values.iter().all(|&value| thresholds.down.is_under(value)) {
        let most = values.iter().fold(0.0, |most: f64, &value| most.max(value));
        let of_the_rest = most * f64::from(replicas) / f64::from(replicas - 1);
        let stays = of_the_rest >= thresholds.up.value();
        return Wish::for_replicas(
            if stays { replicas } else { replicas - 1 }.max(config.min_endpoint),
        );
    }
    Wish::none(Reason::NoChange)
}
