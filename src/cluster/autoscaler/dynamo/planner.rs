//! The planner between ticks: how many replicas were predicted to be needed, and what caches held last.

use super::budget::Budget;
use super::capacity::{self, Shape};
use super::forward::{Capabilities, ForwardPassMetrics, ForwardTime};
use super::sla::{Beside, Estimated, Estimator};
use super::thresholds;
use crate::scenario::{DynamoPlannerConfig, OptimizationTarget};

/// Replicas of each pool. Of a cluster whose replicas do both there are only those that decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// That prefill.
    pub prefill: u32,
    /// That decode, or do both.
    pub decode: u32,
}

impl Counts {
    pub(super) fn distances(self, other: Self) -> (u64, u64) {
        let prefill = self.prefill.abs_diff(other.prefill);
        (prefill.into(), self.decode.abs_diff(other.decode).into())
    }
}

/// What the replicas of a cluster do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All do the same (`agg`).
    Aggregated(Capabilities),
    /// Some prefill, others decode (`disagg`).
    Disaggregated {
        /// Those that prefill.
        prefill: Capabilities,
        /// Those that decode.
        decode: Capabilities,
    },
}

/// Why a decision is what it is, in the planner's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It does not decide by that.
    Disabled,
    /// No replica has told what it does.
    NoFpmData,
    /// Others than the ready ones have.
    WorkerCountMismatch,
    /// Replicas start or leave.
    ScalingInProgress,
    /// What it goes by is not there.
    InsufficientData,
    /// All is well.
    NoChange,
    /// One less would be too few.
    ScaleDownRefusedConsolidation,
    /// One less, or fewer.
    ScaleDown,
    /// As many go as what is predicted leaves.
    ScaleDownCappedByThroughput,
    /// One more, or more.
    ScaleUp,
    /// The budget lets nothing change.
    GpuBudgetGuardHold,
    /// What there is is brought within the budget.
    GpuBudgetReconcile,
}

impl Reason {
    /// The planner's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::NoFpmData => "no_fpm_data",
            Self::WorkerCountMismatch => "worker_count_mismatch",
            Self::ScalingInProgress => "scaling_in_progress",
            Self::InsufficientData => "insufficient_data",
            Self::NoChange => "no_change",
            Self::ScaleDownRefusedConsolidation => "scale_down_refused_consolidation",
            Self::ScaleDown => "scale_down",
            Self::ScaleDownCappedByThroughput => "scale_down_capped_by_throughput",
            Self::ScaleUp => "scale_up",
            Self::GpuBudgetGuardHold => "gpu_budget_guard_hold",
            Self::GpuBudgetReconcile => "gpu_budget_reconcile",
        }
    }
}

/// What a pool would have, by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// Replicas, if it would change anything.
    replicas: Option<u32>,
    /// Why not, otherwise.
    reason: Reason,
}

impl Wish {
    pub(super) const UNKNOWN: Self = Self::none(Reason::InsufficientData);

    pub(super) const fn none(reason: Reason) -> Self {
        Self { replicas: None, reason }
    }

    pub(super) const fn for_replicas(replicas: u32) -> Self {
        Self { replicas: Some(replicas), reason: Reason::NoChange }
    }
}

/// What replicas tell when the planner looks at their load.
#[derive(Debug, Clone, Copy)]
pub struct LoadTick<'a> {
    /// Replicas that are ready.
    pub ready: Counts,
    /// Whether others start or leave.
    pub is_scaling: bool,
    /// Of each that prefills.
    pub prefill: &'a [ForwardPassMetrics],
    /// Of each that decodes, or does both.
    pub decode: &'a [ForwardPassMetrics],
    /// Prompt tokens of a request, on average.
    pub isl: f64,
    /// Tokens in KV memory of a sequence that decodes, on average.
    pub decode_length: f64,
    /// Prompt tokens that replicas that do both compute in a pass, on average.
    pub prefill_beside: u64,
}

/// What is made of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadDecision {
    /// The replicas there are to be, if it says anything.
    pub target: Option<Counts>,
    /// Why.
    pub reason: Reason,
    /// The longest time to the first token that is estimated, in ms.
    pub ttft_ms: Option<f64>,
    /// The longest time between tokens that is estimated, in ms.
    pub itl_ms: Option<f64>,
}

impl LoadDecision {
    fn none(reason: Reason) -> Self {
        Self { target: None, reason, ttft_ms: None, itl_ms: None }
    }
}

/// What is predicted of the next interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Requests per second.
    pub per_s: f64,
    /// Prompt tokens of each.
    pub isl: f64,
    /// Output tokens of each.
    pub osl: f64,
    /// The share of prompt tokens that caches hold, where that is known.
    pub hit_rate: Option<f64>,
}

/// What is made of that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThroughputDecision {
    /// Requests per second of a replica that prefills and of one that decodes, or twice of one that does both.
    pub engine_per_s: [Option<f64>; 2],
    /// The replicas there are to be, if that changes anything and nothing else decides.
    pub target: Option<Counts>,
}

/// How long forward passes take on replicas of both pools.
#[derive(Clone, Copy)]
pub struct ForwardTimes<'a> {
    /// That prefill.
    pub prefill: &'a dyn ForwardTime,
    /// That decode, or do both.
    pub decode: &'a dyn ForwardTime,
}

/// Of the hit rate, the most that is believed.
const HIT_RATE_MAX: f64 = 0.95;

/// A planner with what it remembers.
#[derive(Debug, Clone)]
pub struct Planner {
    config: DynamoPlannerConfig,
    mode: Mode,
    floors: Counts,
    hit_rate: f64,
    accept_length: f64,
}

impl Planner {
    /// One that has seen nothing.
    pub fn new(config: &DynamoPlannerConfig, mode: Mode) -> Self {
        let floors = Counts { prefill: 1, decode: 1 };
        Self { config: *config, mode, floors, hit_rate: 0.0, accept_length: 1.0 }
    }

    /// Tokens that a pass gives for a sequence, at least 1.
    pub fn set_accept_length(&mut self, accept_length: f64) {
        self.accept_length = accept_length.max(1.0);
    }

    /// Replicas that what is predicted asks for, where load decides too.
    pub fn floors(&self) -> Counts {
        self.floors
    }

    /// It looks at the load.
    pub fn look_at_load(&self, tick: &LoadTick<'_>, times: ForwardTimes<'_>) -> LoadDecision {
        if !self.config.scales_by_load() {
            return LoadDecision::none(Reason::Disabled);
        }
        match self.mode {
            Mode::Aggregated(of) => self.aggregated_load(tick, &of, times.decode),
            Mode::Disaggregated { prefill, decode } => {
                self.disaggregated_load(tick, (&prefill, &decode), times)
            }
        }
    }

    fn aggregated_load(
        &self,
        tick: &LoadTick<'_>,
        capabilities: &Capabilities,
        model: &dyn ForwardTime,
    ) -> LoadDecision {
        let (workers, current) = (tick.decode, tick.ready.decode);
        if workers.is_empty() {
            return LoadDecision::none(Reason::NoFpmData);
        }
        if tick.is_scaling {
            return LoadDecision::none(Reason::ScalingInProgress);
        }
        if workers.len() as u32 != current {
            return LoadDecision::none(Reason::WorkerCountMismatch);
        }
        if self.config.optimization_target != OptimizationTarget::Sla {
            let wish = thresholds::aggregated(&self.config, capabilities, workers);
            let Some(wished) = wish.replicas else { return LoadDecision::none(wish.reason) };
            let (decode, reason) = self.guard_one(tick.ready, wished);
            let reason = reason.unwrap_or_else(|| change(current, decode, wished, wished));
            // Here it says so where nothing changes, too.
            let target = Some(Counts { decode, ..tick.ready });
            return LoadDecision { target, ..LoadDecision::none(reason) };
        }
        let estimator = self.estimator(tick, capabilities, model);
        let prefill = estimator.prefill(workers, Beside::Decode);
        let decode = estimator.decode(workers, Beside::Decode);
        let wished = join(current, prefill.wish, decode.wish);
        let floored = if self.config.scales_by_throughput() {
            wished.max(self.floors.decode)
        } else {
            wished
        };
        let (replicas, budget) = self.guard_one(tick.ready, floored.max(self.config.min_endpoint));
        let reasons = [prefill.wish.reason, decode.wish.reason];
        let is_refused = reasons.contains(&Reason::ScaleDownRefusedConsolidation);
        let reason = budget.unwrap_or_else(|| match change(current, replicas, wished, floored) {
            Reason::NoChange if is_refused => Reason::ScaleDownRefusedConsolidation,
            reason => reason,
        });
        let counts = Counts { decode: replicas, ..tick.ready };
        LoadDecision {
            target: (replicas != current).then_some(counts),
            reason,
            ttft_ms: prefill.worst_ms,
            itl_ms: decode.worst_ms,
        }
    }

    fn disaggregated_load(
        &self,
        tick: &LoadTick<'_>,
        capabilities: (&Capabilities, &Capabilities),
        times: ForwardTimes<'_>,
    ) -> LoadDecision {
        let ready = tick.ready;
        if tick.prefill.is_empty() && tick.decode.is_empty() {
            return LoadDecision::none(Reason::NoFpmData);
        }
        if tick.is_scaling {
            return LoadDecision::none(Reason::ScalingInProgress);
        }
        let is_other = |workers: &[_], ready| !workers.is_empty() && workers.len() as u32 != ready;
        if is_other(tick.prefill, ready.prefill) || is_other(tick.decode, ready.decode) {
            return LoadDecision::none(Reason::WorkerCountMismatch);
        }
        let is_sla = self.config.optimization_target == OptimizationTarget::Sla;
        let prefill = (!tick.prefill.is_empty()).then(|| {
            if is_sla {
                let estimator = self.estimator(tick, capabilities.0, times.prefill);
                estimator.prefill(tick.prefill, Beside::Nothing)
            } else {
                let wish = thresholds::prefill(&self.config, capabilities.0, tick.prefill);
                Estimated { wish, worst_ms: None }
            }
        });
        let decode = (!tick.decode.is_empty()).then(|| {
            if is_sla {
                let estimator = self.estimator(tick, capabilities.1, times.decode);
                estimator.decode(tick.decode, Beside::Nothing)
            } else {
                let wish = thresholds::decode(&self.config, capabilities.1, tick.decode);
                Estimated { wish, worst_ms: None }
            }
        });
        let wish = |of: Option<Estimated>| of.and_then(|of| of.wish.replicas);
        let wished = Counts {
            prefill: wish(prefill).unwrap_or(ready.prefill),
            decode: wish(decode).unwrap_or(ready.decode),
        };
        let floored = if self.config.scales_by_throughput() {
            Counts {
                prefill: wished.prefill.max(self.floors.prefill),
                decode: wished.decode.max(self.floors.decode),
            }
        } else {
            wished
        };
        let least = self.config.min_endpoint;
        let raised =
            Counts { prefill: floored.prefill.max(least), decode: floored.decode.max(least) };
        let proposed =
            if floored == wished { raised } else { self.budget().fit_ceiling(ready, raised) };
        let (target, budget) = self.budget().guard(ready, proposed);
        let reason = budget.unwrap_or_else(|| {
            let of_prefill = change(ready.prefill, target.prefill, wished.prefill, floored.prefill);
            let of_decode = change(ready.decode, target.decode, wished.decode, floored.decode);
            let own = [prefill, decode].into_iter().flatten().map(|of| of.wish.reason);
            let own = own.into_iter().find(|&reason| reason != Reason::NoChange);
            let joined = of_prefill.max(of_decode);
            if target == ready { own.unwrap_or(joined) } else { joined }
        });
        LoadDecision {
            target: (target != ready).then_some(target),
            reason,
            ttft_ms: prefill.and_then(|of| of.worst_ms),
            itl_ms: decode.and_then(|of| of.worst_ms),
        }
    }

    /// It looks at what is predicted.
    pub fn look_at_demand(
        &mut self,
        ready: Counts,
        demand: &Demand,
        times: ForwardTimes<'_>,
    ) -> ThroughputDecision {
        if !self.config.scales_by_throughput() {
            return ThroughputDecision { engine_per_s: [None; 2], target: None };
        }
        let hit_rate = demand.hit_rate.filter(|rate| rate.is_finite());
        if let Some(rate) = hit_rate {
            self.hit_rate = rate.clamp(0.0, HIT_RATE_MAX);
        }
        let shape = Shape {
            isl: demand.isl.ceil() as u64,
            osl: (demand.osl.ceil() as u64).max(1),
            hit_rate: hit_rate.map_or(0.0, |rate| rate.clamp(0.0, HIT_RATE_MAX)),
            accept_length: self.accept_length,
        };
        let config = &self.config;
        // Of requests without tokens there is no rate.
        let is_known = demand.isl > 0.0 && demand.osl > 0.0;
        let engine_per_s = match &self.mode {
            _ if !is_known => [None; 2],
            Mode::Aggregated(of) => [capacity::aggregated(config, of, times.decode, shape); 2],
            Mode::Disaggregated { prefill, decode } => [
                capacity::prefill(config, prefill, times.prefill, shape),
                capacity::decode(config, decode, times.decode, shape),
            ],
        };
        let wished = match engine_per_s {
            [Some(prefill), Some(decode)] => Counts {
                prefill: self.wanted(demand.per_s / prefill, ready.prefill),
                decode: self.wanted(demand.per_s / decode, ready.decode),
            },
            // What cannot be estimated moves nothing.
            _ => Counts {
                prefill: ready.prefill.max(config.min_endpoint),
                decode: ready.decode.max(config.min_endpoint),
            },
        };
        let target = self.decide(ready, wished);
        ThroughputDecision { engine_per_s, target }
    }

    /// So many replicas, as far as one prediction may go.
    fn wanted(&self, replicas: f64, ready: u32) -> u32 {
        let step = self.config.max_throughput_scaling_replicas;
        let least = self.config.min_endpoint;
        let wanted = (replicas.ceil() as u32).max(least);
        wanted.clamp(ready.saturating_sub(step), ready.saturating_add(step)).max(least)
    }

    fn decide(&mut self, ready: Counts, wished: Counts) -> Option<Counts> {
        let target = match self.mode {
            Mode::Aggregated(_) => {
                let budget = self.budget();
                let (ready, wished) = (alone(ready), alone(wished));
                let (fitted, _) = budget.ceiling().guard(ready, wished);
                if self.config.scales_by_load() {
                    self.floors.decode = fitted.decode;
                    return None;
                }
                budget.guard(ready, fitted).0
            }
            Mode::Disaggregated { .. } => {
                let budget = self.budget();
                let fitted = budget.fit_ceiling(ready, wished);
                if self.config.scales_by_load() {
                    self.floors = fitted;
                    return None;
                }
                budget.guard(ready, fitted).0
            }
        };
        let target = match self.mode {
            Mode::Aggregated(_) => Counts { prefill: ready.prefill, ..target },
            Mode::Disaggregated { .. } => target,
        };
        (target != ready).then_some(target)
    }

    fn guard_one(&self, ready: Counts, replicas: u32) -> (u32, Option<Reason>) {
        let proposed = Counts { prefill: 0, decode: replicas };
        let (counts, reason) = self.budget().guard(alone(ready), proposed);
        (counts.decode, reason)
    }

    fn budget(&self) -> Budget {
        let least = self.config.min_endpoint;
        let (gpus, floor) = match self.mode {
            Mode::Aggregated(of) => {
                (Counts { prefill: 0, decode: of.num_gpu }, Counts { prefill: 0, decode: least })
            }
            Mode::Disaggregated { prefill, decode } => (
                Counts { prefill: prefill.num_gpu, decode: decode.num_gpu },
                Counts { prefill: least, decode: least },
            ),
        };
        let (min, max) = (self.config.min_gpu_budget.into(), self.config.max_gpu_budget.into());
        Budget { min, max, gpus, floor }
    }

    fn estimator<'a>(
        &'a self,
        tick: &LoadTick<'_>,
        capabilities: &'a Capabilities,
        model: &'a dyn ForwardTime,
    ) -> Estimator<'a> {
        Estimator {
            config: &self.config,
            capabilities,
            model,
            isl: tick.isl,
            decode_length: tick.decode_length,
            prefill_beside: match self.mode {
                Mode::Aggregated(_) => tick.prefill_beside,
                Mode::Disaggregated { .. } => 0,
            },
            hit_rate: self.hit_rate,
            accept_length: self.accept_length,
        }
    }
}

/// Only those that do both.
fn alone(counts: Counts) -> Counts {
    Counts { prefill: 0, ..counts }
}

/// What replicas that do both are to be: more where either asks for more, fewer where both can do with fewer.
fn join(current: u32, prefill: Wish, decode: Wish) -> u32 {
    let is_unknown = prefill.reason == Reason::InsufficientData;
    match (prefill.replicas, decode.replicas) {
        (Some(prefill), _) if prefill > current => prefill,
        (_, Some(decode)) if decode > current => decode,
        (Some(prefill), Some(decode)) => prefill.max(decode),
        (None, Some(decode)) if is_unknown => decode,
        _ => current,
    }
}

/// What becomes of a pool whose own wish was raised to what is predicted and then limited.
fn change(current: u32, target: u32, wished: u32, floored: u32) -> Reason {
    let is_capped = floored > wished && wished < current;
    if target > current {
        Reason::ScaleUp
    } else if is_capped {
        Reason::ScaleDownCappedByThroughput
    } else if target < current {
        Reason::ScaleDown
    } else {
        Reason::NoChange
    }
}
