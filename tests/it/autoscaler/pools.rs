//! Groups of replicas that are scaled apart.

use proptest::prelude::*;
use servecast::metrics::{Presence, Recorder, ScaledPool, ScalingReport};
use servecast::units::SimTime;

use super::{resolved, run, scenario, simulation_of};

const SIGNAL: &str = "interval_s = 0.5, stabilisation_down_s = 0.0, signal = { type = \
                      'outstanding_per_replica', target = 2.0 }";

#[test]
fn a_group_is_scaled_and_the_other_is_not() {
    let groups = format!(
        "groups = [{{ name = 'fixed', replicas = 1 }}, {{ name = 'scaled', gpu = 'L40S', replicas = 3, \
         autoscaler = {{ max_replicas = 3, {SIGNAL} }} }}]"
    );
    let text = scenario(40, 20.0, &groups);
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 40);
    let pools = ScaledPool::of(&resolved(&text));
    let [pool] = pools.as_slice() else { panic!("one is scaled: {pools:?}") };
    assert_eq!((pool.group.as_deref(), pool.replicas.clone()), (Some("scaled"), 1..4));
    let report = ScalingReport::new(&recorder, pool);
    assert_eq!(report.serving_peak, 3);
    assert!(report.scale_downs > 0, "{report:?}");
    let end = recorder.observed();
    let fixed = recorder.presence.time(0, end, |presence| presence == Presence::Up);
    assert_eq!(fixed, end - SimTime::ZERO);
    let csv = recorder.scaling_csv(&pools);
    assert!(csv.starts_with("group,time_s,"), "{csv}");
    assert!(csv.lines().skip(1).all(|row| row.starts_with("scaled,")), "{csv}");
}

#[test]
fn prefill_and_decode_follow_signals_of_their_own() {
    // A prompt is a step of 100 ms, an answer 20: four decode replicas keep up with one that prefills.
    let groups = "groups = [\
         { role = 'prefill', replicas = 4, autoscaler = { max_replicas = 4, interval_s = 0.5, \
           signal = { type = 'waiting_per_replica', target = 20.0 } } }, \
         { role = 'decode', replicas = 4, engine = { type = 'vllm_v1', num_gpu_blocks = 40, max_model_len = 320 }, \
           autoscaler = { max_replicas = 4, interval_s = 0.5, \
           signal = { type = 'kv_usage', target = 0.2 } } }]\n\
         disaggregation = { transfer = { nic_gb_per_s = 10.0 } }";
    let text = scenario(60, 10.0, groups).replace("output_tokens = 5", "output_tokens = 20");
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 60);
    let pools = ScaledPool::of(&resolved(&text));
    let peaks = pools.iter().map(|pool| ScalingReport::new(&recorder, pool).serving_peak);
    assert_eq!(peaks.collect::<Vec<_>>(), [1, 4]);
}

/// How long the one replica that is added loads its weights from a place that gives 10 GiB/s, over NICs of so
/// many GB/s; and the bytes of these.
fn loading(nic_gb_per_s: f64, faults: &str) -> (f64, f64) {
    let groups = format!(
        "groups = [{{ role = 'prefill', replicas = 1 }}, {{ role = 'decode', replicas = 2, \
         autoscaler = {{ max_replicas = 2, weights_source_gib_per_s = 10.0, interval_s = 0.5, \
         signal = {{ type = 'outstanding_per_replica', target = 2.0 }} }} }}]\n\
         disaggregation = {{ transfer = {{ nic_gb_per_s = {nic_gb_per_s} }} }}"
    );
    let text = format!("{}{faults}", scenario(400, 10.0, &groups));
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 400);
    let scenario = resolved(&text);
    let pools = ScaledPool::of(&scenario);
    let bytes = scenario.groups[1].model.weight_bytes_of_rank(1, 1).0;
    (ScalingReport::new(&recorder, &pools[0]).loading_s, bytes as f64)
}

#[test]
fn weights_from_one_place_come_no_faster_than_the_nics_of_a_replica() {
    for nic in [1.0, 4.0, 50.0] {
        let (loading_s, bytes) = loading(nic, "");
        let expected_s = bytes / f64::min(nic * 1e9, 10.0 * 1_073_741_824.0);
        assert!((loading_s - expected_s).abs() < 1e-6, "{nic} GB/s: {loading_s}, {expected_s}");
    }
}

#[test]
fn a_replica_whose_nics_are_slow_for_a_while_serves_as_much_later() {
    // It begins in the first 1.5 s and takes 4 s. Slow NICs carry a quarter: of the time from 2 s to 3 s three
    // quarters are lost. Where they are slow from the start, it comes up sooner than it looked then.
    let slow = |from_s: f64, until_s: f64| {
        format!(
            "[[faults]]\ntype = 'slow_link'\nreplica = 2\nat_s = {from_s}\nfor_s = {}\n\
             share = 0.25\n",
            until_s - from_s
        )
    };
    let [never, later, all_along] =
        [String::new(), slow(2.0, 3.0), slow(0.0, 1e3)].map(|faults| loading(4.0, &faults).0);
    assert!((later - never - 0.75).abs() < 1e-6, "{later} and {never}");
    assert!((all_along - 4.0 * never).abs() < 1e-6, "{all_along} and {never}");
    let begins_s = 3.0 - (loading(4.0, &slow(0.0, 3.0)).0 - never) / 0.75;
    let look_s = (begins_s / 0.5).round() * 0.5;
    assert!(begins_s < 1.5 && (begins_s - look_s).abs() < 1e-6, "it begins at {begins_s}");
}

#[test]
fn a_machine_that_takes_the_place_of_a_slow_one_is_not_slow() {
    // Traffic rises and falls, so that the second decode replica comes more than once.
    let of = |faults: &str| {
        let groups = format!(
            "groups = [{{ role = 'prefill', replicas = 1 }}, {{ role = 'decode', replicas = 2, \
             autoscaler = {{ max_replicas = 2, weights_source_gib_per_s = 10.0, {SIGNAL} }} }}]\n\
             disaggregation = {{ transfer = {{ nic_gb_per_s = 4.0 }} }}"
        );
        let waves = "{ type = 'sine', rate_per_s = 5.0, amplitude = 0.99, period_s = 60.0 }";
        let text = scenario(900, 5.0, &groups);
        let text = text.replace("{ type = 'constant', rate_per_s = 5 }", waves) + faults;
        let (_, recorder) = run(&text);
        let report = ScalingReport::new(&recorder, &ScaledPool::of(&resolved(&text))[0]);
        (report.scale_ups, report.loading_s)
    };
    let slow =
        "[[faults]]\ntype = 'slow_link'\nreplica = 2\nat_s = 0.0\nfor_s = 1e4\nshare = 0.25\n";
    let ((ups, loading_s), (slow_ups, slow_loading_s)) = (of(""), of(slow));
    assert!(ups > 4 && slow_ups > 4, "{ups} and {slow_ups}");
    // Longer than without the fault, as the first machine is slow: by 3 in 5 at most, as there are five and more. If all
    // were slow, it would be four times as long.
    assert!(slow_loading_s > loading_s, "{slow_loading_s} and {loading_s}");
    assert!(slow_loading_s < 1.7 * loading_s, "{slow_loading_s} and {loading_s}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn pools_with_no_room_between_their_bounds_are_the_static_cluster(
        requests in 1_u32..80, rate in 1.0..40.0_f64, prefills in 1_u32..4, decodes in 1_u32..4,
        interval in 0.05..1.0_f64, limit in 1_u32..6, is_sglang: bool, signal in 0_usize..3,
    ) {
        let signal = ["type = 'kv_usage', target = 0.3", "type = 'waiting_per_replica', target = 1.0",
            "type = 'slo_headroom', ttft_ms = 300.0, target = 0.9"][signal];
        let of = |is_scaled: bool| {
            let scaler = |replicas: u32| {
                let scaler = format!(
                    ", autoscaler = {{ min_replicas = {replicas}, max_replicas = {replicas}, \
                     interval_s = {interval}, signal = {{ {signal} }} }}"
                );
                if is_scaled { scaler } else { String::new() }
            };
            let engine = if is_sglang {
                "{ type = 'sglang', max_total_tokens = 2000, context_length = 320 }"
            } else {
                "{ type = 'vllm_v1', num_gpu_blocks = 60, max_model_len = 320 }"
            };
            let groups = format!(
                "groups = [{{ role = 'prefill', replicas = {prefills}{} }}, \
                 {{ role = 'decode', replicas = {decodes}{} }}]\nengine = {engine}\n\
                 gateway = {{ max_outstanding_per_replica = {limit} }}\n\
                 disaggregation = {{ transfer = {{ nic_gb_per_s = 1.0 }} }}",
                scaler(prefills), scaler(decodes),
            );
            let scenario = resolved(&scenario(requests, rate, &groups));
            let mut recorder = Recorder::default();
            let counts = simulation_of(&scenario).run_in_lanes(&mut recorder);
            (counts.expect("no trace is read"), recorder)
        };
        let (counts, scaled) = of(true);
        let (expected, fixed) = of(false);
        prop_assert_eq!(counts, expected);
        prop_assert_eq!(scaled.requests, fixed.requests);
        prop_assert_eq!(scaled.replicas, fixed.replicas);
        prop_assert_eq!(scaled.steps, fixed.steps);
    }
}
