//! Dynamo's planner as the autoscaler of whole runs.

use proptest::prelude::*;
use servecast::engine::Instance;
use servecast::metrics::{Presence, Recorder, ScaledPool, ScalingReport};
use servecast::resolved::Scenario;
use servecast::sim::{Counts, cluster_priced_by, simulation_on, step_times};
use servecast::workload::Workload;

use super::{resolved, run, scenario, simulation_of};
use crate::support::{Digest, resolve};

/// An autoscaler of at most six replicas by a planner with these settings.
fn planned(planner: &str) -> String {
    format!(
        "engine = {{ type = 'vllm_v1', async_scheduling = false, num_gpu_blocks = 100, max_model_len = 320 }}\n\
         [cluster.autoscaler]\nmax_replicas = 6\nsignal = {{ type = 'dynamo_planner', {planner} }}\n"
    )
}

fn peak(text: &str) -> (u32, u64) {
    let (counts, recorder) = run(text);
    assert_eq!(counts.finished, counts.arrived);
    let report = ScalingReport::new(&recorder, &ScaledPool::of(&resolved(text))[0]);
    (report.serving_peak, report.scale_downs)
}

#[test]
fn thresholds_of_kv_memory_add_replicas_up_to_the_budget_and_take_them_away() {
    // Each answer of 5 steps of 100 ms holds one block of 100; four thousandths of the memory are passed at once.
    let of = |budget: i32| {
        let planner = format!(
            "optimization_target = 'load', decode_scale_up_kv_rate = 0.4, decode_scale_down_kv_rate = 0.1, \
             prefill_scale_up_queue_tokens = 1000, prefill_scale_down_queue_tokens = 0, \
             load_adjustment_interval_seconds = 1, max_gpu_budget = {budget}"
        );
        peak(&scenario(100, 10.0, &planned(&planner)))
    };
    assert_eq!(of(8).0, 6);
    assert_eq!(of(3).0, 3);
}

#[test]
fn latencies_add_replicas_where_all_are_slow() {
    // A step takes 100 ms: no replica keeps 90 ms between tokens, each keeps 200 ms.
    let of = |itl: u32| {
        let planner = format!(
            "optimization_target = 'sla', enable_load_scaling = true, enable_throughput_scaling = false, \
             load_adjustment_interval_seconds = 1, itl_ms = {itl}.0, ttft_ms = 5000.0"
        );
        peak(&scenario(60, 10.0, &planned(&planner))).0
    };
    assert_eq!((of(90), of(200)), (6, 1));
}

#[test]
fn predictions_ask_for_what_a_replica_serves() {
    // Up to 2 sequences decode at a time, a token each in 100 ms: 4 answers of 5 tokens a second. 10 come: three replicas.
    // The planner's own predictor is `arima`.
    for predictor in ["load_predictor = 'constant', ", ""] {
        let planner = format!(
            "optimization_target = 'sla', enable_throughput_scaling = true, {predictor}\
             throughput_adjustment_interval_seconds = 10, itl_ms = 200.0, ttft_ms = 5000.0"
        );
        let text = scenario(1000, 10.0, &planned(&planner))
            .replace("max_model_len = 320", "max_model_len = 320, max_num_seqs = 2");
        assert_eq!(peak(&text).0, 3, "{predictor}");
    }
}

#[test]
fn prefill_and_decode_have_one_planner_and_one_budget() {
    let signal = "autoscaler = { max_replicas = 4, signal = { type = 'dynamo_planner', optimization_target = 'latency', \
                  load_adjustment_interval_seconds = 1, max_gpu_budget = 5 } }";
    let groups = format!(
        "engine = {{ type = 'vllm_v1', num_gpu_blocks = 100, max_model_len = 320 }}\n\
         groups = [{{ role = 'prefill', replicas = 4, {signal} }}, {{ role = 'decode', replicas = 4, {signal} }}]\n\
         disaggregation = {{ transfer = {{ nic_gb_per_s = 10.0 }} }}"
    );
    let text = scenario(400, 40.0, &groups)
        .replace("input_tokens = 10", "input_tokens = 100")
        .replace("output_tokens = 5", "output_tokens = 40");
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 400);
    let pools = ScaledPool::of(&resolved(&text));
    let reports: Vec<_> = pools.iter().map(|pool| ScalingReport::new(&recorder, pool)).collect();
    assert!(reports.iter().all(|report| report.scale_ups > 0), "{reports:?}");
    for (moment, ..) in recorder.presence.changes() {
        let is_there = |id: &usize| recorder.presence.at(*id, moment) == Presence::Up;
        assert!((0..8).filter(is_there).count() <= 5);
    }
}

#[test]
fn planners_that_cannot_be_are_refused_by_name() {
    let path = "cluster.autoscaler";
    let of = |planner: &str, rest: &str| {
        resolve(&scenario(10, 1.0, &format!("{}{rest}", planned(planner))))
            .expect_err("it is refused")
    };
    for (planner, rest, message) in [
        (
            "optimization_target = 'sla', load_predictor = 'prophet'",
            "",
            format!(
                "{path}.signal.load_predictor: `prophet` is not modelled; name arima, constant or kalman"
            ),
        ),
        (
            "optimization_target = 'sla', enable_throughput_scaling = false",
            "",
            format!(
                "{path}.signal: enable_load_scaling or enable_throughput_scaling, or both, must be true"
            ),
        ),
        (
            "optimization_target = 'sla', enable_load_scaling = true, load_predictor = 'kalman', \
             throughput_adjustment_interval_seconds = 12",
            "",
            format!(
                "{path}.signal.throughput_adjustment_interval_seconds: must be at least 1, and with both ways of \
                 scaling a multiple above 5, got 12"
            ),
        ),
        (
            "min_endpoint = 2",
            "",
            format!("{path}.min_replicas: must be min_endpoint of the planner, 2, got 1"),
        ),
        (
            "max_gpu_budget = 0",
            "",
            format!(
                "{path}.signal.max_gpu_budget: must be negative, or at least 1, the GPUs of min_endpoint replicas, \
                 got 0"
            ),
        ),
        (
            "min_gpu_budget = 9",
            "",
            format!("{path}.signal.min_gpu_budget: must be at most max_gpu_budget, 8, got 9"),
        ),
        (
            "optimization_target = 'sla', enable_load_scaling = true, load_scaling_down_sensitivity = 101",
            "",
            format!("{path}.signal.load_scaling_down_sensitivity: must be at most 100, got 101"),
        ),
        (
            "",
            "interval_s = 10.0\n",
            format!(
                "{path}.interval_s: the planner has times and margins of its own; leave it out"
            ),
        ),
        (
            "",
            "max_added = 1\n",
            format!(
                "{path}.max_added: the planner moves by one replica, or by up to max_throughput_scaling_replicas"
            ),
        ),
    ] {
        assert_eq!(of(planner, rest), message);
    }
    let message = of("optimization_target = 'load'", "");
    assert!(message.contains("prefill_scale_up_queue_tokens: target `load` needs it"), "{message}");
    let message = of("namespace = 'x'", "");
    assert!(message.contains("unknown field `namespace`"), "{message}");
    let engine = scenario(10, 1.0, &planned("")).replace(
        "type = 'vllm_v1', async_scheduling = false, num_gpu_blocks",
        "type = 'vllm_v0', num_gpu_blocks",
    );
    let message = resolve(&engine).expect_err("it is refused");
    assert!(message.contains("only the engines vllm_v1 and sglang"), "{message}");
}

#[test]
fn settings_of_a_planner_that_decide_nothing_are_refused_by_name() {
    let of = |planner: &str| resolve(&scenario(10, 1.0, &planned(planner))).map(|_| ());
    let (load, demand) = ("enable_load_scaling = true", "enable_throughput_scaling = false");
    let target = "has no effect with optimization_target";
    for (planner, key, why) in [
        (
            "itl_ms = 30.0",
            "itl_ms",
            format!("{target} `throughput`; leave it out, or set that to `sla`"),
        ),
        (
            "optimization_target = 'latency', ttft_ms = 300.0",
            "ttft_ms",
            format!("{target} `latency`; leave it out, or set that to `sla`"),
        ),
        (
            "load_predictor = 'kalman'",
            "load_predictor",
            format!("{target} `throughput`; leave it out, or set that to `sla`"),
        ),
        (
            "optimization_target = 'latency', prefill_scale_up_queue_tokens = 100",
            "prefill_scale_up_queue_tokens",
            format!("{target} `latency`; leave it out, or set that to `load`"),
        ),
        (
            "optimization_target = 'sla', load_scaling_down_sensitivity = 70",
            "load_scaling_down_sensitivity",
            "has no effect without enable_load_scaling; leave it out, or set that to true"
                .to_owned(),
        ),
        (
            "optimization_target = 'sla', load_adjustment_interval_seconds = 2",
            "load_adjustment_interval_seconds",
            "has no effect without enable_load_scaling; leave it out, or set that to true"
                .to_owned(),
        ),
        (
            &format!(
                "optimization_target = 'sla', {load}, {demand}, max_throughput_scaling_replicas = 2"
            ),
            "max_throughput_scaling_replicas",
            "has no effect without enable_throughput_scaling; leave it out, or set that to true"
                .to_owned(),
        ),
        (
            "optimization_target = 'sla', kalman_r = 5.0",
            "kalman_r",
            "has no effect with load_predictor `arima`; leave it out, or set that to `kalman`"
                .to_owned(),
        ),
        (
            "optimization_target = 'sla', load_predictor = 'constant', load_predictor_log1p = true",
            "load_predictor_log1p",
            "has no effect with load_predictor `constant`; leave it out, or set that to `arima`"
                .to_owned(),
        ),
    ] {
        let path = format!("cluster.autoscaler.signal.{key}");
        assert_eq!(of(planner), Err(format!("{path}: {why}")), "{planner}");
    }
    // What they are where nothing is said may be written, as a scenario with all defaults has it.
    for planner in [
        "ttft_ms = 500.0, kalman_r = 10.0, load_adjustment_interval_seconds = 2",
        "optimization_target = 'sla', load_predictor = 'kalman', kalman_r = 5.0, load_predictor_log1p = true",
        "optimization_target = 'sla', ttft_ms = 300.0, max_throughput_scaling_replicas = 2",
    ] {
        assert_eq!(of(planner), Ok(()), "{planner}");
    }
}

#[test]
fn a_planner_has_all_groups_or_none() {
    let signal = |rest: &str| {
        format!("autoscaler = {{ max_replicas = 2, signal = {{ type = 'dynamo_planner'{rest} }} }}")
    };
    let of = |groups: &str| {
        let transfer = "disaggregation = { transfer = { nic_gb_per_s = 1.0 } }";
        let cluster = format!("groups = [{groups}]\n{transfer}");
        resolve(&scenario(10, 1.0, &cluster)).map(|_| ()).expect_err("it is refused")
    };
    let (same, other) = (signal(""), signal(", max_gpu_budget = 7"));
    let message = of(&format!(
        "{{ role = 'prefill', replicas = 2, {same} }}, {{ role = 'decode', replicas = 2, {other} }}"
    ));
    assert!(message.contains("its settings must be the same in each"), "{message}");
    let message = of(&format!(
        "{{ role = 'prefill', replicas = 2, {same} }}, {{ role = 'decode', replicas = 2 }}"
    ));
    assert!(message.contains("one that prefills and one that decodes"), "{message}");
}

/// A run whose engines decide every step on its own.
fn step_by_step(scenario: &Scenario) -> (Counts, Recorder) {
    let costs = step_times(scenario).expect("step times are known");
    let mut cluster = cluster_priced_by(scenario, &costs).expect("it can be built");
    cluster.instances = cluster.instances.into_iter().map(Instance::step_by_step).collect();
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let mut recorder = Recorder::default();
    let run = simulation_on(scenario, cluster, workload).expect("nothing comes before");
    (run.run(&mut recorder).expect("no trace is read"), recorder)
}

fn planners() -> impl Strategy<Value = String> {
    let target = prop_oneof![
        Just("optimization_target = 'throughput'".to_owned()),
        Just("optimization_target = 'latency'".to_owned()),
        (1_u32..40, 100_u32..2000).prop_map(|(percent, tokens)| format!(
            "optimization_target = 'load', decode_scale_up_kv_rate = {}.0, decode_scale_down_kv_rate = {percent}.0, \
             prefill_scale_up_queue_tokens = {}, prefill_scale_down_queue_tokens = {tokens}",
            2 * percent,
            2 * tokens
        )),
        (any::<bool>(), 20_u32..60, 50_u32..2000, any::<bool>()).prop_map(
            |(load, itl, ttft, is_kalman)| format!(
                "optimization_target = 'sla', {}, itl_ms = {itl}.0, ttft_ms = {ttft}.0, \
                 throughput_adjustment_interval_seconds = 2, load_predictor = '{}'",
                if load { "enable_load_scaling = true, load_adjustment_interval_seconds = 1" } else { "enable_load_scaling = false" },
                if is_kalman { "kalman" } else { "constant" }
            )
        ),
    ];
    (target, 2_u32..9).prop_map(|(target, budget)| {
        let looks =
            if target.contains("'sla'") { "" } else { ", load_adjustment_interval_seconds = 1" };
        format!("{target}{looks}, max_gpu_budget = {budget}")
    })
}

proptest! {
    #![proptest_config(crate::support::random_cases(60))]

    #[test]
    fn clusters_with_a_planner_keep_the_laws(
        planner in planners(), requests in 1_u32..120, rate in 1.0..40.0_f64, is_sglang: bool,
        most in 1_u32..5, parts: bool, provisioning in 0.0..2.0_f64,
    ) {
        let engine = if is_sglang {
            "{ type = 'sglang', max_total_tokens = 900, context_length = 320 }"
        } else {
            "{ type = 'vllm_v1', num_gpu_blocks = 60, max_model_len = 320, max_num_seqs = 8 }"
        };
        let scaler = format!(
            "autoscaler = {{ max_replicas = {most}, provisioning_s = {provisioning}, \
             signal = {{ type = 'dynamo_planner', {planner} }} }}"
        );
        let cluster = if parts {
            format!(
                "groups = [{{ role = 'prefill', replicas = {most}, {scaler} }}, \
                 {{ role = 'decode', replicas = {most}, {scaler} }}]\n\
                 disaggregation = {{ transfer = {{ nic_gb_per_s = 10.0 }} }}"
            )
        } else {
            scaler
        };
        let text = scenario(requests, rate, &format!("engine = {engine}\n{cluster}"))
            .replace("base_us = 100000.0", "base_us = 20000.0")
            .replace("input_tokens = 10", "input_tokens = 100")
            .replace("output_tokens = 5", "output_tokens = 30");
        let scenario = resolved(&text);
        let mut seen = (Digest::default(), Recorder::default());
        let counts = simulation_of(&scenario).run(&mut seen).expect("no trace is read");
        prop_assert_eq!(counts.finished, u64::from(requests));
        let (digest, recorder) = seen;
        let pools = ScaledPool::of(&scenario);
        let config = scenario.groups[0].cluster.autoscaler.expect("it has one");
        let budget = config.signal.dynamo_planner().expect("it has a planner").max_gpu_budget;
        for (moment, ..) in recorder.presence.changes() {
            let is_there = |id: &u32| matches!(
                recorder.presence.at(*id as usize, moment),
                Presence::Up | Presence::Provisioning | Presence::Loading
            );
            let there = pools.iter().map(|pool| pool.replicas.clone().filter(is_there).count());
            let there: Vec<_> = there.collect();
            prop_assert!(there.iter().all(|count| (1..=most as usize).contains(count)));
            prop_assert!(there.iter().sum::<usize>() <= budget as usize, "{there:?} at {moment}");
        }
        // What replicas tell does not hang on how their steps are simulated.
        let (by_steps, single) = step_by_step(&scenario);
        prop_assert_eq!(by_steps, counts);
        prop_assert_eq!(&single.requests, &recorder.requests);
        prop_assert_eq!(single.scaling_csv(&pools), recorder.scaling_csv(&pools));
        let mut again = Digest::default();
        let same = simulation_of(&scenario).run(&mut again).expect("no trace is read");
        prop_assert_eq!((same, again), (counts, digest));
    }

    #[test]
    fn a_planner_with_no_room_is_the_static_cluster(
        planner in planners(), requests in 1_u32..80, rate in 1.0..40.0_f64,
    ) {
        let of = |cluster: &str| {
            let text = scenario(requests, rate, &format!(
                "engine = {{ type = 'vllm_v1', num_gpu_blocks = 60, max_model_len = 320 }}\n{cluster}"
            ));
            let mut recorder = Recorder::default();
            let counts = simulation_of(&resolved(&text)).run(&mut recorder);
            (counts.expect("no trace is read"), recorder)
        };
        let (counts, scaled) = of(&format!(
            "autoscaler = {{ max_replicas = 1, signal = {{ type = 'dynamo_planner', {planner} }} }}"
        ));
        let (expected, fixed) = of("replicas = 1");
        prop_assert_eq!(counts, expected);
        prop_assert_eq!(scaled.requests, fixed.requests);
        prop_assert_eq!(scaled.steps, fixed.steps);
    }
}
