//! Laws of clusters that scale, on random ones. Debug builds watch every run.

use proptest::prelude::*;
use servecast::metrics::{Presence, Recorder, ScaledPool};
use servecast::scenario::SignalConfig;

use super::{resolved, simulation_of};
use crate::support::Digest;

const ROUTERS: [&str; 5] =
    ["round_robin", "random", "least_outstanding_requests", "power_of_two_choices", "prefix_aware"];

fn signals() -> impl Strategy<Value = String> {
    prop_oneof![
        (0.5..20.0_f64)
            .prop_map(|target| format!("type = 'outstanding_per_replica', target = {target}")),
        (0.1..5.0_f64)
            .prop_map(|target| format!("type = 'waiting_per_replica', target = {target}")),
        (0.05..1.0_f64).prop_map(|target| format!("type = 'kv_usage', target = {target}")),
        (0.05..1.0_f64).prop_map(|target| format!("type = 'utilisation', target = {target}")),
        (50.0..2000.0_f64, 0.5..1.0_f64).prop_map(|(limit, target)| format!(
            "type = 'slo_headroom', ttft_ms = {limit}, tpot_ms = 60.0, target = {target}"
        )),
    ]
}

fn engines() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{ type = 'vllm_v1', num_gpu_blocks = 60, max_model_len = 320, max_num_seqs = 8 }",
        "{ type = 'vllm_v1', num_gpu_blocks = 60, max_model_len = 320, async_scheduling = false }",
        "{ type = 'sglang', max_total_tokens = 900, context_length = 320 }",
        "{ type = 'vllm_v0', num_gpu_blocks = 60, max_model_len = 320 }",
        "{ type = 'static_batching', kv_tokens = 2000, max_model_len = 320, batch_size = 4, \
         batch_timeout_ms = 200 }",
    ])
}

fn text(engine: &str, router: usize, requests: u32, rate: f64, cluster: &str) -> String {
    format!(
        "name = 'random'\nseed = {requests}\n[workload]\nnum_requests = {requests}\n\
         arrivals = {{ type = 'gamma', rate_per_s = {rate}, cv = 3.0 }}\n\
         lengths = {{ type = 'sampled', input_tokens = {{ type = 'uniform', min_tokens = 5, \
         max_tokens = 180 }}, output_tokens = {{ type = 'uniform', min_tokens = 1, \
         max_tokens = 60 }} }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\nrouter = {{ type = '{}' }}\n\
         engine = {engine}\n{cluster}\n[cluster.step_time]\ntype = 'linear'\nbase_us = 20000.0\n\
         prefill_token_us = 20.0\ndecode_seq_us = 50.0\n",
        ROUTERS[router]
    )
}

proptest! {
    #![proptest_config(crate::support::random_cases(150))]

    #[test]
    fn clusters_that_scale_keep_the_laws(
        signal in signals(), engine in engines(), router in 0..ROUTERS.len(),
        requests in 1_u32..120, rate in 1.0..40.0_f64, min in 1_u32..3, more in 0_u32..4,
        interval in 0.05..3.0_f64, window in 0.0..4.0_f64, provisioning in 0.0..4.0_f64,
        source in prop::option::of(2.0..40.0_f64),
    ) {
        let down = if window < interval { 0.0 } else { window };
        let source = source.map_or(String::new(), |rate| {
            format!(", weights_source_gib_per_s = {rate}, weights_gib_per_s = 10.0")
        });
        let cluster = format!(
            "autoscaler = {{ min_replicas = {min}, max_replicas = {}, signal = {{ {signal} }}, \
             interval_s = {interval}, stabilisation_down_s = {down}, \
             provisioning_s = {provisioning}{source} }}",
            min + more
        );
        let scenario = resolved(&text(engine, router, requests, rate, &cluster));
        let mut seen = (Digest::default(), Recorder::default());
        let counts = simulation_of(&scenario).run(&mut seen).expect("no trace is read");
        prop_assert_eq!(counts.finished, u64::from(requests));
        let (digest, recorder) = seen;
        for (moment, ..) in recorder.presence.changes() {
            let is_there = |id: &usize| matches!(
                recorder.presence.at(*id, moment),
                Presence::Up | Presence::Provisioning | Presence::Loading
            );
            let there = (0..(min + more) as usize).filter(is_there).count() as u32;
            prop_assert!((min..=min + more).contains(&there), "{} at {}", there, moment);
        }
        let config = scenario.first().cluster.autoscaler.expect("it has one");
        let pools = ScaledPool::of(&scenario);
        let mut again = Digest::default();
        let same = simulation_of(&scenario).run(&mut again).expect("no trace is read");
        prop_assert_eq!((same, again), (counts, digest));
        // On any number of threads.
        let mut threads = Recorder::default();
        simulation_of(&scenario).run_in_lanes(&mut threads).expect("no trace is read");
        prop_assert_eq!(&threads.requests, &recorder.requests);
        prop_assert_eq!(threads.scaling_csv(&pools), recorder.scaling_csv(&pools));
        if matches!(config.signal, SignalConfig::Utilisation { .. }) {
            let shares = recorder.scaling_csv(&pools);
            let shares = shares.lines().skip(1).filter_map(|row| row.split(',').nth(7));
            let shares = shares.filter_map(|share| share.parse::<f64>().ok());
            prop_assert!(shares.into_iter().all(|share| (0.0..=1.0 + 1e-9).contains(&share)));
        }
    }

    #[test]
    fn with_no_room_between_the_bounds_it_is_the_static_cluster(
        signal in signals(), engine in engines(), router in 0..ROUTERS.len(),
        requests in 1_u32..120, rate in 1.0..40.0_f64, replicas in 1_u32..5,
        interval in 0.01..1.0_f64,
    ) {
        let scaled = format!(
            "autoscaler = {{ min_replicas = {replicas}, max_replicas = {replicas}, \
             signal = {{ {signal} }}, interval_s = {interval} }}"
        );
        let of = |cluster: &str| {
            let scenario = resolved(&text(engine, router, requests, rate, cluster));
            let mut recorder = Recorder::default();
            let counts = simulation_of(&scenario).run_in_lanes(&mut recorder);
            (counts.expect("no trace is read"), recorder)
        };
        let (counts, scaled) = of(&scaled);
        let (expected, fixed) = of(&format!("replicas = {replicas}"));
        prop_assert_eq!(counts, expected);
        prop_assert_eq!(scaled.requests, fixed.requests);
        prop_assert_eq!(scaled.replicas, fixed.replicas);
        prop_assert_eq!(scaled.steps, fixed.steps);
    }
}
