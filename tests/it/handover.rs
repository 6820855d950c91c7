//! What the hand-over of KV caches changes on both sides.

use proptest::prelude::*;
use servecast::engine::Instance;
use servecast::engine::scheduler::Load;
use servecast::ids::{InstanceId, RequestId};
use servecast::metrics::{Recorder, Status, TransferReport};
use servecast::model::KvDtype;
use servecast::profiles;
use servecast::resolved::Scenario;
use servecast::sim::Simulation;
use servecast::sim::{Counts, Observer, Occurrence, cluster_priced_by, simulation, step_times};
use servecast::units::{SimDuration, SimTime};
use servecast::workload::{Client, Workload};

use super::support::resolve;

/// The most blocks of an instance that lingered behind those who left.
#[derive(Debug, Default)]
struct Lingering([u32; 2]);

impl Observer for Lingering {
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        let mut see = |instance: InstanceId, load: Load| {
            let most = &mut self.0[instance.index()];
            *most = load.kv_blocks_lingering.max(*most);
        };
        match what {
            Occurrence::Dropped(instance, _, load) | Occurrence::Planned(instance, _, load) => {
                see(instance, load);
            }
            _ => {}
        }
    }
}

fn resolved(text: &str) -> Scenario {
    resolve(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn observe(text: &str, observer: &mut impl Observer) -> Counts {
    let scenario = resolved(text);
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(&scenario).expect("step times are known");
    let run = simulation(&scenario, &costs, workload).expect("it can be built");
    run.run(observer).expect("no trace is read")
}

/// Requests that are cancelled while they decode, on one replica that prefills and one that decodes.
fn lingering(engine: &str) -> [u32; 2] {
    let text = format!(
        "name = 'cancelled'\n[workload]\nnum_requests = 40\n\
         arrivals = {{ type = 'poisson', rate_per_s = 20.0 }}\n\
         lengths = {{ type = 'fixed', input_tokens = 300, output_tokens = 400 }}\n\
         client.cancellations = {{ share = 1.0, mean_s = 1.0 }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n\
         [cluster.disaggregation]\nprefill_replicas = 1\ndecode_replicas = 1\n\
         transfer = {{ nic_gb_per_s = 10.0 }}\n\
         [cluster.engine]\ntype = 'vllm_v1'\n{engine}\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 10000.0\nprefill_token_us = 20.0\n\
         decode_seq_us = 50.0\n"
    );
    let mut seen = Lingering::default();
    observe(&text, &mut seen);
    seen.0
}

#[test]
fn a_decode_replica_frees_no_block_that_a_step_in_flight_may_write_to() {
    let [_, decode] = lingering("async_scheduling = true");
    assert!(decode >= 19, "the 19 blocks of a prompt wait for a step to end: {decode}");
    assert_eq!(lingering("async_scheduling = false")[1], 0, "no step is in flight between steps");
}

#[test]
fn a_prefill_replica_keeps_blocks_until_they_are_fetched() {
    for flag in ["true", "false"] {
        let [prefill, _] = lingering(&format!("async_scheduling = {flag}"));
        assert!(prefill >= 19, "the 19 blocks of a prompt are fetched: {prefill}");
    }
}

/// One prompt of 1,024 tokens, computed in steps of 512 that take 100 ms, on one replica that prefills; its KV
/// travels in `travels_ms` where nothing else holds it up.
fn alone(engine: &str, granularity: &str, travels_ms: f64) -> String {
    let rate = kv_bytes(1024) / travels_ms / 1e6;
    let flags = match engine {
        "vllm_v1" => "max_num_batched_tokens = 512\nasync_scheduling = false",
        _ => "chunked_prefill_size = 512\ndisable_overlap_schedule = true",
    };
    format!(
        "name = 'alone'\n[workload]\nnum_requests = 1\narrivals.type = 'all_at_once'\n\
         lengths = {{ type = 'fixed', input_tokens = 1024, output_tokens = 3 }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n\
         [cluster.disaggregation]\nprefill_replicas = 1\ndecode_replicas = 1\n\
         protocol = {{ type = 'reserve' }}\n\
         transfer = {{ nic_gb_per_s = {rate}, granularity = '{granularity}' }}\n\
         [cluster.engine]\ntype = '{engine}'\n{flags}\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 100000.0\nprefill_token_us = 0.0\n\
         decode_seq_us = 0.0\n"
    )
}

fn kv_bytes(tokens: u64) -> f64 {
    let model = profiles::model("Qwen/Qwen3-8B").expect("it is in the catalogue");
    (tokens * model.kv_bytes_per_token(1, KvDtype::default())) as f64
}

/// How long the KV of the one request travels after and before its prompt is computed, in ms.
fn exposed_and_early(text: &str) -> (f64, Option<f64>) {
    let mut recorder = Recorder::default();
    let counts = observe(text, &mut recorder);
    assert_eq!(counts.finished, 1);
    let record = recorder.requests[0];
    assert_eq!(record.breakdown().expect("it left").total(), record.e2e());
    let early = recorder.carried.early_of(RequestId(0)).map(SimDuration::as_millis_f64);
    let report = TransferReport::new(&recorder, &[1e9; 2]).expect("a KV cache travelled");
    let exposed = record.transfer.as_millis_f64();
    assert_eq!(report.exposed_mean_ms, early.map(|_| exposed));
    assert!((report.mean_ms - exposed - early.unwrap_or_default()).abs() < 1e-9);
    is_about(recorder.carried.bytes as f64, kv_bytes(1024));
    (exposed, early)
}

fn is_about(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-3, "{found} instead of {expected}");
}

#[test]
fn what_is_sent_while_it_is_computed_is_not_exposed() {
    for engine in ["vllm_v1", "sglang"] {
        // On a fast network: 40 ms in all.
        let (whole, early) = exposed_and_early(&alone(engine, "whole", 40.0));
        is_about(whole, 40.0);
        assert_eq!(early, None, "nothing is sent before");
        // The first of two steps is sent during the second.
        let (chunks, early) = exposed_and_early(&alone(engine, "chunk_wise", 40.0));
        is_about(chunks, 20.0);
        is_about(early.expect("it began before"), 100.0);
        // Of 36 layers of the second step the last is left. The first group is five layers, computed after
        // 5/36 of the first step.
        let (layers, early) = exposed_and_early(&alone(engine, "layer_wise", 40.0));
        is_about(layers, 20.0 / 36.0);
        is_about(early.expect("it began before"), 200.0 - 100.0 * 5.0 / 36.0);
    }
}

#[test]
fn a_slow_network_is_exposed_for_what_it_has_not_carried() {
    for engine in ["vllm_v1", "sglang"] {
        // 400 ms in all, of which a step of 100 ms hides 100 ms.
        is_about(exposed_and_early(&alone(engine, "chunk_wise", 400.0)).0, 300.0);
        // It flows from the end of the first group to the end without a break.
        let flows = 200.0 - 100.0 * 5.0 / 36.0;
        is_about(exposed_and_early(&alone(engine, "layer_wise", 400.0)).0, 400.0 - flows);
    }
}

#[test]
fn parts_of_kv_caches_need_memory_on_the_decode_side_before() {
    for granularity in ["chunk_wise", "layer_wise"] {
        let text = alone("vllm_v1", granularity, 40.0).replace("'reserve'", "'pull'");
        let error = resolve(&text).expect_err("nobody has set memory aside");
        let rule = "cluster.disaggregation.transfer.granularity: ";
        assert!(error.contains(rule) && error.contains("`pull`"), "{error}");
    }
}

/// Random requests, some with beginnings in common, where KV caches are sent in parts and memory is short.
fn busy(seed: u64, sizes: [u32; 3], nic: f64, rate: f64, granularity: &str) -> String {
    let [prefills, decodes, blocks] = sizes;
    let engine = if seed.is_multiple_of(2) {
        format!(
            "type = 'vllm_v1'\nnum_gpu_blocks = {blocks}\nmax_model_len = 900\n\
             max_num_batched_tokens = 256\nasync_scheduling = {}",
            seed.is_multiple_of(3)
        )
    } else {
        format!(
            "type = 'sglang'\nmax_total_tokens = {}\ncontext_length = 900\npage_size = {}\n\
             chunked_prefill_size = 128\ndisable_overlap_schedule = {}",
            (blocks + 30) * 16,
            if seed.is_multiple_of(5) { 16 } else { 1 },
            seed.is_multiple_of(3)
        )
    };
    format!(
        "name = 'busy'\nseed = {seed}\n[workload]\nnum_requests = 120\n\
         arrivals = {{ type = 'poisson', rate_per_s = {rate} }}\n\
         lengths = {{ type = 'prefix_repetition', prefixes = 5, prefix_tokens = 200, \
         suffix_tokens = 300, output_tokens = 40 }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n\
         [cluster.disaggregation]\nprefill_replicas = {prefills}\n\
         decode_replicas = {decodes}\nprotocol = {{ type = 'reserve' }}\n\
         transfer = {{ nic_gb_per_s = {nic}, latency_us = 50.0, granularity = '{granularity}' }}\n\
         [cluster.engine]\n{engine}\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 5000.0\nprefill_token_us = 20.0\n\
         decode_seq_us = 50.0\n"
    )
}

/// The same run on engines that decide every step on its own.
fn step_by_step(text: &str) -> (Counts, Recorder) {
    let scenario = resolved(text);
    let costs = step_times(&scenario).expect("step times are known");
    let mut cluster = cluster_priced_by(&scenario, &costs).expect("it can be built");
    cluster.instances = cluster.instances.into_iter().map(Instance::step_by_step).collect();
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let mut recorder = Recorder::default();
    let client = Client::new(&scenario.workload.client);
    let run = Simulation::new(workload, client, cluster, SimDuration::ZERO);
    (run.run(&mut recorder).expect("no trace is read"), recorder)
}

proptest! {
    #![proptest_config(crate::support::random_cases(60))]

    #[test]
    fn nothing_is_lost_where_kv_caches_are_sent_in_parts(
        seed in 0_u64..1000, prefills in 1_u32..4, decodes in 1_u32..4, blocks in 60_u32..300,
        nic in 0.05_f64..50.0, rate in 5.0_f64..200.0,
    ) {
        let run = |granularity| {
            let text = busy(seed, [prefills, decodes, blocks], nic, rate, granularity);
            // Debug builds watch the laws: requests, blocks, tokens.
            let mut recorder = Recorder::default();
            let counts = observe(&text, &mut recorder);
            let (by_steps, single) = step_by_step(&text);
            assert_eq!((counts, &recorder.requests), (by_steps, &single.requests), "{text}");
            assert_eq!(counts.finished, 120, "{text}");
            for record in &recorder.requests {
                let parts = record.breakdown().expect("it left");
                assert_eq!((parts.total(), record.status), (record.e2e(), Status::Finished));
            }
            recorder
        };
        for granularity in ["whole", "chunk_wise", "layer_wise"] {
            let recorder = run(granularity);
            prop_assert!(recorder.carried.bytes as f64 <= 120.0 * kv_bytes(512));
            prop_assert_eq!(recorder.carried.transfers, 120);
        }
    }
}
