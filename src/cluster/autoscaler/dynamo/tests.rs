//! Laws of the planner on random states, then what it decides by hand.

use proptest::prelude::*;

use super::budget::Budget;
use super::*;
use crate::scenario::{DynamoPlannerConfig, LoadPredictor, OptimizationTarget};

/// 4 ms, 40 µs for a prompt token, 80 µs for a sequence, 0.12 µs for a token in KV memory.
struct Law;

impl ForwardTime for Law {
    fn forward_seconds(&self, prefill_tokens: u64, decode_seqs: u64, kv_tokens: u64) -> f64 {
        0.004 + 4e-5 * prefill_tokens as f64 + 8e-5 * decode_seqs as f64 + 1.2e-7 * kv_tokens as f64
    }
}

const LAW: ForwardTimes<'static> = ForwardTimes { prefill: &Law, decode: &Law };

const CAPABILITIES: Capabilities = Capabilities {
    max_num_batched_tokens: 2048,
    max_num_seqs: 64,
    context_length: 8192,
    max_kv_tokens: 60_000,
    num_gpu: 1,
};

fn modes() -> impl Strategy<Value = Mode> {
    let of = |num_gpu| Capabilities { num_gpu, ..CAPABILITIES };
    (any::<bool>(), 1..4_u32, 1..4_u32).prop_map(move |(is_aggregated, prefill, decode)| {
        if is_aggregated {
            Mode::Aggregated(of(decode))
        } else {
            Mode::Disaggregated { prefill: of(prefill), decode: of(decode) }
        }
    })
}

fn configs() -> impl Strategy<Value = DynamoPlannerConfig> {
    use OptimizationTarget::{Latency, Load, Sla, Throughput};
    let target = prop::sample::select(vec![Throughput, Latency, Load, Sla]);
    (target, any::<(bool, bool)>(), 6..30_i32, 1..3_u32, 100..1000_u32, 5..60_u32).prop_map(
        |(optimization_target, (load, throughput), budget, min_endpoint, ttft, itl)| {
            DynamoPlannerConfig {
                optimization_target,
                enable_load_scaling: load,
                enable_throughput_scaling: throughput,
                max_gpu_budget: budget,
                min_endpoint,
                ttft_ms: ttft.into(),
                itl_ms: itl.into(),
                prefill_scale_up_queue_tokens: Some(4000),
                prefill_scale_down_queue_tokens: Some(800),
                decode_scale_up_kv_rate: Some(80.0),
                decode_scale_down_kv_rate: Some(40.0),
                ..DynamoPlannerConfig::default()
            }
        },
    )
}

fn workers() -> impl Strategy<Value = Vec<ForwardPassMetrics>> {
    let worker = (0..64_u32, 0..70_000_u64, 0..4000_u64, 0..10_000_u64).prop_map(
        |(decode_seqs, scheduled_kv_tokens, queued_kv_tokens, queued_prefill_tokens)| {
            ForwardPassMetrics {
                scheduled_prefill_tokens: 500,
                scheduled_prefill_requests: 1,
                decode_seqs,
                scheduled_kv_tokens,
                queued_kv_tokens,
                queued_prefill_tokens,
                queued_prefill_requests: (queued_prefill_tokens / 600) as u32,
            }
        },
    );
    prop::collection::vec(worker, 1..9)
}

fn gpus(mode: Mode, counts: Counts) -> u32 {
    match mode {
        Mode::Aggregated(of) => counts.decode * of.num_gpu,
        Mode::Disaggregated { prefill, decode } => {
            counts.prefill * prefill.num_gpu + counts.decode * decode.num_gpu
        }
    }
}

fn tick<'a>(
    mode: Mode,
    prefill: &'a [ForwardPassMetrics],
    decode: &'a [ForwardPassMetrics],
) -> LoadTick<'a> {
    let is_aggregated = matches!(mode, Mode::Aggregated(_));
    let prefill = if is_aggregated { &[] } else { prefill };
    let ready = Counts { prefill: prefill.len() as u32, decode: decode.len() as u32 };
    LoadTick {
        ready,
        is_scaling: false,
        prefill,
        decode,
        isl: 600.0,
        decode_length: 700.0,
        prefill_beside: 100,
    }
}

fn demands() -> impl Strategy<Value = Demand> {
    (0.0..200.0_f64, 1.0..4000.0_f64, 1.0..400.0_f64, prop::option::of(0.0..1.0_f64))
        .prop_map(|(per_s, isl, osl, hit_rate)| Demand { per_s, isl, osl, hit_rate })
}

proptest! {
    #[test]
    fn nothing_is_decided_over_the_budget_or_under_the_least(
        mode in modes(),
        config in configs(),
        ticks in prop::collection::vec((workers(), workers(), prop::option::of(demands())), 1..6),
    ) {
        let mut planner = Planner::new(&config, mode);
        for (prefill, decode, demand) in &ticks {
            let tick = tick(mode, prefill, decode);
            let least = |counts: Counts| match mode {
                Mode::Aggregated(_) => counts.decode,
                Mode::Disaggregated { .. } => counts.prefill.min(counts.decode),
            };
            let throughput = demand.and_then(|demand| {
                planner.look_at_demand(tick.ready, &demand, LAW).target
            });
            let load = planner.look_at_load(&tick, LAW).target;
            // What there is may be over or under both; where no exchange fits it stays.
            let fits = gpus(mode, tick.ready) <= config.max_gpu_budget as u32;
            for target in [throughput, load].into_iter().flatten().filter(|_| fits) {
                let is_unfit = target == Counts::default() || target.decode == 0;
                prop_assert!(gpus(mode, target) <= config.max_gpu_budget as u32);
                prop_assert!(is_unfit || least(target) >= config.min_endpoint, "{:?}", target);
            }
        }
    }

    #[test]
    fn load_moves_by_one_where_nothing_is_predicted(
        mode in modes(),
        config in configs(),
        prefill in workers(),
        decode in workers(),
    ) {
        let config = DynamoPlannerConfig {
            enable_throughput_scaling: false,
            max_gpu_budget: -1,
            min_endpoint: 1,
            ..config
        };
        let tick = tick(mode, &prefill, &decode);
        let decision = Planner::new(&config, mode).look_at_load(&tick, LAW);
        if let Some(target) = decision.target {
            prop_assert!(target.prefill.abs_diff(tick.ready.prefill) <= 1);
            prop_assert!(target.decode.abs_diff(tick.ready.decode) <= 1);
        }
    }

    #[test]
    fn more_load_never_asks_for_fewer(
        mode in modes(),
        config in configs(),
        prefill in workers(),
        decode in workers(),
        more in (0..64_u32, 0..20_000_u64, 0..4000_u64, 0..10_000_u64),
        which in any::<prop::sample::Index>(),
    ) {
        let config = DynamoPlannerConfig {
            enable_load_scaling: true,
            enable_throughput_scaling: false,
            max_gpu_budget: -1,
            min_endpoint: 1,
            ..config
        };
        let loaded = |workers: &[ForwardPassMetrics]| {
            let mut workers = workers.to_vec();
            let place = which.index(workers.len());
            let worker = &mut workers[place];
            worker.decode_seqs += more.0;
            worker.scheduled_kv_tokens += more.1;
            worker.queued_kv_tokens += more.2;
            worker.queued_prefill_tokens += more.3;
            workers
        };
        let planner = Planner::new(&config, mode);
        let target = |prefill: &[ForwardPassMetrics], decode: &[ForwardPassMetrics]| {
            let tick = tick(mode, prefill, decode);
            planner.look_at_load(&tick, LAW).target.unwrap_or(tick.ready)
        };
        let before = target(&prefill, &decode);
        let after = target(&loaded(&prefill), &loaded(&decode));
        prop_assert!(after.prefill >= before.prefill && after.decode >= before.decode);
    }

    #[test]
    fn more_requests_never_ask_for_fewer(
        mode in modes(),
        config in configs(),
        ready in (1..9_u32, 1..9_u32),
        demand in demands(),
        more in 0.0..100.0_f64,
    ) {
        let config = DynamoPlannerConfig {
            optimization_target: OptimizationTarget::Sla,
            enable_load_scaling: false,
            enable_throughput_scaling: true,
            max_gpu_budget: -1,
            ..config
        };
        let ready = Counts { prefill: ready.0, decode: ready.1 };
        let target = |demand: Demand| {
            let decision = Planner::new(&config, mode).look_at_demand(ready, &demand, LAW);
            decision.target.unwrap_or(ready)
        };
        let (before, after) =
            (target(demand), target(Demand { per_s: demand.per_s + more, ..demand }));
        prop_assert!(after.prefill >= before.prefill && after.decode >= before.decode);
        let step = config.max_throughput_scaling_replicas;
        prop_assert!(after.decode.abs_diff(ready.decode) <= step);
    }

    #[test]
    fn what_is_left_of_a_proposal_goes_its_way(
        current in (1..12_u32, 1..12_u32),
        proposed in (1..12_u32, 1..12_u32),
        gpus in (1..5_u32, 1..5_u32),
        (min, max) in (-1..30_i64, -1..50_i64),
    ) {
        let counts = |(prefill, decode)| Counts { prefill, decode };
        let floor = Counts { prefill: 1, decode: 1 };
        let budget = Budget { min: min.min(max), max, gpus: counts(gpus), floor };
        let (current, proposed) = (counts(current), counts(proposed));
        let (target, reason) = budget.guard(current, proposed);
        if reason == Some(Reason::GpuBudgetReconcile) {
            return Ok(());
        }
        let is_between = |current: u32, target: u32, proposed: u32| {
            (current.min(proposed)..=current.max(proposed)).contains(&target)
        };
        prop_assert!(is_between(current.prefill, target.prefill, proposed.prefill));
        prop_assert!(is_between(current.decode, target.decode, proposed.decode));
        let total = i64::from(target.prefill * gpus.0 + target.decode * gpus.1);
        prop_assert!(max < 0 || total <= max);
    }

    #[test]
    fn constant_predictions_are_the_last_value(values in prop::collection::vec(0.0..1e6_f64, 1..20)) {
        let config = DynamoPlannerConfig {
            load_predictor: LoadPredictor::Constant,
            ..DynamoPlannerConfig::default()
        };
        let mut predictor = Predictor::new(&config);
        for value in values {
            predictor.see(value);
            prop_assert_eq!(predictor.forecast().to_bits(), value.to_bits());
        }
    }

    #[test]
    fn a_filter_follows_a_line(start in 10.0..1000.0_f64, slope in 0.0..50.0_f64) {
        let config = DynamoPlannerConfig {
            load_predictor: LoadPredictor::Kalman,
            ..DynamoPlannerConfig::default()
        };
        let mut predictor = Predictor::new(&config);
        (0..200).for_each(|step| predictor.see(start + slope * f64::from(step)));
        let next = start + slope * 200.0;
        // A line is what it assumes, so that what it began with is forgotten.
        prop_assert!((predictor.forecast() - next).abs() < 1e-3 * next, "{} {next}", predictor.forecast());
    }
}

#[test]
fn a_filter_takes_the_last_value_until_it_has_seen_enough() {
    let config = DynamoPlannerConfig {
        load_predictor: LoadPredictor::Kalman,
        ..DynamoPlannerConfig::default()
    };
    let mut predictor = Predictor::new(&config);
    let mut next = Vec::new();
    for value in [0.0, 10.0, 20.0, 30.0, 40.0, 50.0] {
        predictor.see(value);
        next.push(predictor.forecast().round());
    }
    // The zero before all others does not count; four points follow, then the line goes on.
    assert_eq!(next, [0.0, 10.0, 20.0, 30.0, 40.0, 60.0]);
}

#[test]
fn one_more_at_a_full_budget_needs_one_less() {
    let counts = |prefill, decode| Counts { prefill, decode };
    let budget = Budget { min: -1, max: 8, gpus: counts(1, 1), floor: counts(1, 1) };
    let hold = Some(Reason::GpuBudgetGuardHold);
    assert_eq!(budget.guard(counts(3, 5), counts(4, 5)), (counts(3, 5), hold));
    assert_eq!(budget.guard(counts(3, 5), counts(4, 4)), (counts(4, 4), None));
    // Four more and one less: one of each.
    assert_eq!(budget.guard(counts(3, 5), counts(7, 4)), (counts(4, 4), None));
    // Below it, 4 + 8 = 12 become 8: floor(4·8/12) = 2 is fewer than there are, so nothing moves.
    assert_eq!(budget.guard(counts(3, 4), counts(4, 8)), (counts(3, 4), hold));
}

#[test]
fn a_model_takes_the_last_value_until_five_are_there_and_one_that_never_changes() {
    let mut predictor = Predictor::new(&DynamoPlannerConfig::default());
    let next: Vec<f64> = [0.0, 10.0, 20.0, 30.0, 10.0]
        .into_iter()
        .map(|value| {
            predictor.see(value);
            predictor.forecast()
        })
        .collect();
    assert_eq!(next, [0.0, 10.0, 20.0, 30.0, 10.0]);
    predictor.see(20.0);
    let next = predictor.forecast();
    assert!((10.0..20.0).contains(&next), "it goes back to the mean: {next}");
    let mut constant = Predictor::new(&DynamoPlannerConfig::default());
    (0..9).for_each(|_| constant.see(40.0));
    assert_eq!(constant.forecast().to_bits(), 40.0_f64.to_bits());
}
