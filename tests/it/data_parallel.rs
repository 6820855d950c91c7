//! Scenarios with data-parallel ranks: what they derive, what they refuse, and how they fare.

use proptest::prelude::*;

use servecast::metrics::{ClusterReport, Recorder, ReplicaKind};
use servecast::profiles;
use servecast::resolved::{KvSource, Scenario};
use servecast::sim::{Counts, simulation, step_times};
use servecast::workload::Workload;

use crate::support::resolve;

fn scenario_of(model: &str, cluster: &str) -> Result<Scenario, String> {
    resolve(&format!(
        "name = 'ranks'
         [workload]
         num_requests = 300
         arrivals = {{ type = 'poisson', rate_per_s = 30.0 }}
         [workload.lengths]
         type = 'sampled'
         input_tokens = {{ type = 'uniform', min_tokens = 10, max_tokens = 2000 }}
         output_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 60 }}
         [cluster]
         model = '{model}'
         gpu = 'H200'
         {cluster}"
    ))
}

fn scenario(cluster: &str) -> Result<Scenario, String> {
    scenario_of("Qwen/Qwen3-30B-A3B", cluster)
}

fn run(scenario: &Scenario, in_lanes: bool) -> (Counts, Recorder) {
    let workload = Workload::open(&scenario.workload, scenario.seed, None);
    let costs = step_times(scenario).expect("step times are known");
    let run = simulation(scenario, &costs, workload.expect("it opens")).expect("it is built");
    let mut recorder = Recorder::default();
    let counts = if in_lanes { run.run_in_lanes(&mut recorder) } else { run.run(&mut recorder) };
    (counts.expect("no trace is read"), recorder)
}

/// From the first token to the last, in s, of all requests together.
fn decode_s(recorder: &Recorder) -> f64 {
    let spent = |r: &servecast::metrics::RequestRecord| (r.finish - r.first_token).as_secs_f64();
    recorder.requests.iter().map(spent).sum()
}

const EIGHT: &str = "data_parallel_size = 8\nexpert_parallel = {}";

#[test]
fn ranks_have_gpus_and_attention_each_and_a_share_of_the_experts() {
    let eight = scenario(EIGHT).unwrap();
    assert_eq!(eight.gpus(), 8);
    assert_eq!(ReplicaKind::of(&eight)[0].gpus, 8);
    assert_eq!(eight.first().name(), "H200-SXM-141GB TP1×DP8");
    let KvSource::Derived(kv) = eight.first().kv else { panic!("blocks are derived") };
    let model = profiles::model("Qwen3-30B-A3B").unwrap();
    // 48 layers of 128 experts of 3 matrices of 2048 by 768, 2 bytes each.
    let experts = 48 * 128 * 3 * 2048 * 768 * 2;
    // Sines and cosines of 40,960 positions of 128 elements.
    let positions = 40_960 * 128 * 2;
    assert_eq!(kv.weights.0, model.weight_bytes(1).0 - experts + experts / 8 + positions);
    let parallel = eight.first().cluster.expert_parallel.expect("it is given");
    assert_eq!(parallel.size, Some(8));
    let way = parallel.exchange.expect("it is filled in");
    let measured = &eight.first().gpu.efficiency.all_gather;
    let eight_gpus = measured.iter().find(|entry| entry.gpus == 8).expect("H200 was measured");
    assert_eq!(way.latency_us.to_bits(), eight_gpus.latency_us.to_bits());
    assert_eq!(Scenario::resolve(eight.written(), None).unwrap().written(), eight.written());
}

#[test]
fn ranks_that_cannot_be_are_refused_by_name() {
    let path = "cluster.data_parallel_size";
    let exchange = "cluster.expert_parallel.exchange";
    let sigma = "cluster.expert_parallel.imbalance_sigma";
    let linear = "step_time = { type = 'linear', base_us = 1.0, prefill_token_us = 1.0, \
                  decode_seq_us = 1.0 }";
    for (cluster, at, problem) in [
        ("data_parallel_size = 0".to_owned(), path, "must be from 1 to 256, got 0"),
        ("data_parallel_size = 2".to_owned(), "cluster.expert_parallel", "must be given"),
        (format!("{EIGHT}\nengine.type = 'sarathi'"), path, "ranks of sarathi are not modelled"),
        (format!("{EIGHT}\npipeline_parallel_size = 2"), path, "of several stages"),
        (format!("{EIGHT}\nstep_time.type = 'step_table'"), path, "a step_table"),
        (format!("{EIGHT}\nrouter.type = 'latency_predicting'"), path, "routers that foresee"),
        (format!("{EIGHT}\nkv_tiers = {{ host = {{ memory_gib = 100.0 }} }}"), path, "kv_tiers"),
        (
            format!("{EIGHT}\nengine = {{ type = 'vllm_v1', prefill_schedule_interval = 2 }}"),
            path,
            "prefill_schedule_interval",
        ),
        (
            format!("{EIGHT}\ndisaggregation = {{ prefill_replicas = 1, decode_replicas = 1, \
                 transfer = {{ nic_gb_per_s = 50.0, latency_us = 10.0 }} }}"),
            path,
            "only prefill or decode",
        ),
        (
            "data_parallel_size = 4\nexpert_parallel = { size = 2 }".to_owned(),
            "cluster.expert_parallel.size",
            "tensor_parallel_size × data_parallel_size (4)",
        ),
        (
            "data_parallel_size = 16\nexpert_parallel = {}".to_owned(),
            exchange,
            "do not fit in a node of 8",
        ),
        (
            "expert_parallel = { exchange = { latency_us = 1.0, gb_per_s = 1.0 } }".to_owned(),
            exchange,
            "has no effect with data_parallel_size 1",
        ),
        (
            "data_parallel_size = 2\nexpert_parallel = { exchange = { latency_us = 1.0, gb_per_s = \
             0.0 } }"
                .to_owned(),
            "cluster.expert_parallel.exchange.gb_per_s",
            "got 0",
        ),
        (
            "tensor_parallel_size = 4\nexpert_parallel = { imbalance_sigma = 0.5 }".to_owned(),
            sigma,
            "has no effect with imbalance 1",
        ),
        (
            "tensor_parallel_size = 4\npipeline_parallel_size = 2\nexpert_parallel = { imbalance = 1.5, \
             imbalance_sigma = 0.5 }"
                .to_owned(),
            sigma,
            "drawn imbalances of several stages",
        ),
        (
            format!("data_parallel_size = 2\nexpert_parallel = {{}}\n{linear}"),
            "cluster.expert_parallel",
            "times of whole steps",
        ),
    ] {
        let told = scenario(&cluster).unwrap_err();
        assert!(told.contains(at), "{cluster}: {told}");
        assert!(told.contains(problem), "{cluster}: {told}");
    }
    let dense = scenario_of("Qwen/Qwen3-8B", "data_parallel_size = 2").unwrap_err();
    assert!(dense.contains("Qwen/Qwen3-8B has no experts"), "{dense}");
    scenario(&format!("data_parallel_size = 2\n{linear}")).unwrap();
}

#[test]
fn lanes_and_one_loop_tell_the_same_of_replicas_with_ranks() {
    for engine in ["", "engine.type = 'sglang'"] {
        let set = "replicas = 2\ndata_parallel_size = 4
             expert_parallel = { imbalance = 1.4, imbalance_sigma = 0.7 }";
        let scenario = scenario(&format!("{set}\n{engine}")).unwrap();
        let ((counts, one), (lane_counts, lanes)) = (run(&scenario, false), run(&scenario, true));
        assert_eq!(counts, lane_counts);
        assert_eq!(counts.finished, 300);
        assert_eq!(one.requests, lanes.requests);
        assert_eq!(one.replicas, lanes.replicas);
        let report = ClusterReport::new(&one, &ReplicaKind::of(&scenario));
        let ranks = report.replicas[0].data_parallel.expect("it has ranks");
        assert_eq!(ranks.ranks, 4);
        assert!(ranks.waiting > 0.0 && ranks.waiting <= ranks.waiting_max, "{ranks:?}");
        assert!(ranks.tokens_max_over_mean >= 1.0);
        assert!(report.text().contains("ranks waiting for slowest"), "{}", report.text());
    }
}

#[test]
fn slower_ways_to_experts_and_busier_gpus_take_longer() {
    let decode = |set: &str| {
        let scenario = scenario(&format!("data_parallel_size = 4\nexpert_parallel = {{ {set} }}"));
        decode_s(&run(&scenario.unwrap(), true).1)
    };
    let plain = decode("");
    assert!(decode("imbalance = 2.0") > plain);
    let slow = "exchange = { type = 'all_gather', latency_us = 100.0, gb_per_s = 10.0 }";
    assert!(decode(slow) > 1.2 * plain);
    let sent = "exchange = { type = 'all_to_all', latency_us = 100.0, gb_per_s = 10.0 }";
    assert!(decode(sent) > 1.2 * plain);
    let drawn = decode("imbalance = 2.0, imbalance_sigma = 0.5");
    assert!((drawn / decode("imbalance = 2.0") - 1.0).abs() < 0.05, "the mean is kept");
    assert_ne!(drawn.to_bits(), decode("imbalance = 2.0").to_bits());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn ranks_of_any_size_answer_everybody(
        ranks in 1_u32..9, seqs in 1_u32..40, is_async in any::<bool>(), blocks in 260_u32..900,
    ) {
        let scenario = scenario(&format!(
            "data_parallel_size = {ranks}\nexpert_parallel = {{ imbalance = {} }}
             engine = {{ type = 'vllm_v1', max_num_seqs = {seqs}, async_scheduling = {is_async}, \
             num_gpu_blocks = {blocks}, max_model_len = 4096 }}",
            1.0
        ))
        .unwrap();
        let (counts, _) = run(&scenario, true);
        prop_assert_eq!(counts.finished, 300);
    }
}
