//! Replicas of several kinds.

use proptest::prelude::*;
use servecast::metrics::{Recorder, RequestRecord};
use servecast::resolved::Scenario;
use servecast::sim::{Counts, simulation, step_times};
use servecast::workload::Workload;

use super::support::resolve;

/// A scenario with this cluster and requests of two kinds of prompts at this rate.
fn scenario(cluster: &str, rate_per_s: f64) -> String {
    format!(
        "name = 'x'\n[workload]\nnum_requests = 120\n\
         arrivals = {{ type = 'poisson', rate_per_s = {rate_per_s} }}\n\
         [workload.lengths]\ntype = 'sampled'\n\
         input_tokens = {{ type = 'log_normal', median_tokens = 300, sigma = 0.8, max_tokens = 3000 }}\n\
         output_tokens = {{ type = 'log_normal', median_tokens = 40, sigma = 0.8, max_tokens = 400 }}\n\
         [cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n{cluster}"
    )
}

fn group(text: &str) -> String {
    format!("[[cluster.groups]]\n{text}\n")
}

fn linear(base_us: f64) -> String {
    format!(
        "step_time = {{ type = 'linear', base_us = {base_us}, prefill_token_us = 20.0, \
         decode_seq_us = 50.0 }}"
    )
}

fn run_scenario(scenario: &Scenario, in_lanes: bool) -> (Counts, Recorder) {
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(scenario).expect("step times are known");
    let run = simulation(scenario, &costs, workload).expect("it can be built");
    let mut recorder = Recorder::default();
    let counts = if in_lanes { run.run_in_lanes(&mut recorder) } else { run.run(&mut recorder) };
    (counts.expect("no trace is read"), recorder)
}

fn run(text: &str) -> (Counts, Recorder) {
    run_scenario(&resolve(text).expect("the scenario holds together"), false)
}

fn records(text: &str) -> Vec<RequestRecord> {
    run(text).1.requests.into()
}

const ROUTERS: [&str; 3] = ["round_robin", "least_outstanding_tokens", "power_of_two_choices"];

proptest! {
    #![proptest_config(crate::support::random_cases(12))]

    #[test]
    fn equal_groups_fare_as_equal_replicas(
        first in 1u32..4,
        second in 1u32..4,
        rate in 5.0..60.0,
        router in 0usize..3,
    ) {
        let shared = format!("router = {{ type = '{}' }}\n{}", ROUTERS[router], linear(4000.0));
        let whole = format!("replicas = {}\n{shared}", first + second);
        let parts = format!(
            "{shared}\n{}{}",
            group(&format!("replicas = {first}")),
            group(&format!("replicas = {second}\nname = 'others'"))
        );
        prop_assert_eq!(records(&scenario(&whole, rate)), records(&scenario(&parts, rate)));
    }

    #[test]
    fn groups_with_roles_fare_as_counts_of_roles(
        prefills in 1u32..3,
        decodes in 1u32..3,
        rate in 5.0..40.0,
        router in 0usize..3,
    ) {
        let shared = format!("router = {{ type = '{}' }}\n{}", ROUTERS[router], linear(4000.0));
        let transfer = "transfer = { nic_gb_per_s = 5.0, latency_us = 50.0 }";
        let counts = format!(
            "{shared}\ndisaggregation = {{ prefill_replicas = {prefills}, \
             decode_replicas = {decodes}, {transfer} }}"
        );
        let roles = format!(
            "{shared}\ndisaggregation = {{ {transfer} }}\n{}{}",
            group(&format!("replicas = {decodes}\nrole = 'decode'")),
            group(&format!("replicas = {prefills}\nrole = 'prefill'\nnic_gb_per_s = 5.0"))
        );
        let (all, recorder) = run(&scenario(&counts, rate));
        let (of_groups, by_groups) = run(&scenario(&roles, rate));
        prop_assert_eq!(all, of_groups);
        prop_assert_eq!(&recorder.carried, &by_groups.carried);
        prop_assert_eq!(recorder.requests, by_groups.requests);
    }

    #[test]
    fn unequal_groups_fare_in_lanes_as_in_one_loop(
        slow in 1u32..4,
        fast in 1u32..4,
        rate in 5.0..80.0,
        seed in 0u64..1000,
    ) {
        let cluster = format!(
            "{}{}",
            group(&format!("replicas = {slow}\n{}\nengine = {{ type = 'sglang' }}", linear(9000.0))),
            group(&format!("replicas = {fast}\n{}\ntensor_parallel_size = 2", linear(3000.0)))
        );
        let text = format!("seed = {seed}\n{}", scenario(&cluster, rate));
        let scenario = resolve(&text).expect("the scenario holds together");
        let (counts, loop_) = run_scenario(&scenario, false);
        let (lane_counts, lanes) = run_scenario(&scenario, true);
        prop_assert_eq!(counts, lane_counts);
        prop_assert_eq!(loop_.requests, lanes.requests);
    }

    #[test]
    fn mixed_replicas_stand_beside_those_with_a_role(
        mixed in 1u32..3,
        prefills in 1u32..3,
        decodes in 1u32..3,
        rate in 5.0..60.0,
        router in 0usize..3,
    ) {
        let cluster = format!(
            "router = {{ type = '{}' }}\n{}\n\
             disaggregation = {{ transfer = {{ nic_gb_per_s = 5.0 }} }}\n{}{}{}",
            ROUTERS[router],
            linear(4000.0),
            group(&format!("replicas = {prefills}\nrole = 'prefill'")),
            group(&format!("replicas = {mixed}\nrole = 'mixed'")),
            group(&format!("replicas = {decodes}\nrole = 'decode'\ntensor_parallel_size = 4"))
        );
        let (counts, recorder) = run(&scenario(&cluster, rate));
        prop_assert_eq!((counts.arrived, counts.finished), (120, 120));
        for record in &recorder.requests {
            let is_mixed = record.instance.0 < mixed;
            let travelled = record.transfer.as_nanos() > 0;
            prop_assert!(is_mixed || record.instance.0 >= mixed + prefills, "{:?}", record);
            prop_assert_eq!(travelled, !is_mixed, "{:?}", record);
        }
        prop_assert!(recorder.carried.transfers > 0, "some requests went each way");
        prop_assert!(recorder.requests.iter().any(|record| record.instance.0 < mixed));
    }
}

#[test]
fn each_group_takes_its_own_time() {
    let cluster = format!(
        "router = {{ type = 'round_robin' }}\n{}{}",
        group(&format!("replicas = 1\nname = 'slow'\n{}", linear(20_000.0))),
        group(&format!("replicas = 1\nname = 'fast'\n{}", linear(5000.0)))
    );
    let text = scenario(&cluster, 0.01).replace("median_tokens = 40", "median_tokens = 20");
    for (index, record) in records(&text).iter().enumerate() {
        assert_eq!(record.instance.index(), index % 2, "in turn");
        // Alone: a step for the prompt, one for each other token.
        let base = [20.0, 5.0][index % 2];
        let steps = f64::from(record.output_tokens);
        let prompt = f64::from(record.prompt_tokens) * 0.02;
        let expected = steps * base + prompt + (steps - 1.0) * 0.05;
        let took = (record.finish - record.sent).as_millis_f64();
        assert!((took - expected).abs() < 1e-6, "{took} ms instead of {expected} ms");
    }
}

#[test]
fn a_group_has_the_memory_of_its_gpu() {
    let cluster = format!(
        "{}{}{}",
        group("replicas = 2"),
        group("replicas = 1\ngpu = 'H200-SXM-141GB'"),
        group("replicas = 1\ntensor_parallel_size = 2")
    );
    let scenario = resolve(&scenario(&cluster, 1.0)).expect("the scenario holds together");
    let blocks: Vec<u32> = scenario
        .groups
        .iter()
        .map(|group| match &group.cluster.engine {
            servecast::scenario::EngineConfig::VllmV1(vllm) => vllm.num_gpu_blocks.unwrap(),
            _ => 0,
        })
        .collect();
    assert!(blocks[1] > blocks[0] && blocks[2] > blocks[0], "{blocks:?}");
    assert_eq!((scenario.gpus(), scenario.replicas()), (5, 4));
    let names: Vec<String> =
        scenario.groups.iter().map(servecast::resolved::ReplicaGroup::name).collect();
    assert_eq!(names, ["H100-SXM5-80GB TP1", "H200-SXM-141GB TP1", "H100-SXM5-80GB TP2"]);
}

#[test]
fn a_resolved_scenario_with_groups_is_read_again_to_the_same_run() {
    let cluster = format!(
        "engine = {{ type = 'vllm_v1', max_num_seqs = 8 }}\n\
         disaggregation = {{ transfer = {{ nic_gb_per_s = 5.0 }} }}\n{}{}{}",
        group("replicas = 1\nrole = 'decode'\ngpu = 'H200-SXM-141GB'\nnic_gb_per_s = 25.0"),
        group("replicas = 2\nrole = 'prefill'"),
        group("replicas = 1\nname = 'all'\nengine = { type = 'sglang' }")
    );
    let first = resolve(&scenario(&cluster, 20.0)).expect("the scenario holds together");
    let written = toml::to_string(&first.written()).expect("it can be written");
    let again = resolve(&written).expect("it holds together again");
    assert_eq!(first.written(), again.written());
    assert_eq!(run_scenario(&first, false).1.requests, run_scenario(&again, false).1.requests);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let transfer = "disaggregation = { transfer = { nic_gb_per_s = 5.0 } }\n";
    let (prefill, decode) =
        (group("replicas = 1\nrole = 'prefill'"), group("replicas = 1\nrole = 'decode'"));
    let wrong = [
        (group("replicas = 0"), "cluster.groups[0].replicas"),
        (format!("replicas = 3\n{}", group("replicas = 2")), "cluster.replicas"),
        (
            group("replicas = 1") + &group("replicas = 1\ngpu = 'H900'"),
            "cluster.groups[1].gpu: `H900`",
        ),
        (
            group("replicas = 1\nengine = { type = 'vllm_v1', block_size = 0 }"),
            "cluster.groups[0].engine.block_size",
        ),
        (
            format!("engine = {{ type = 'vllm_v1', block_size = 0 }}\n{}", group("replicas = 1")),
            "cluster.engine.block_size",
        ),
        (group("replicas = 1") + &group("replicas = 1\ngpu = 'L4'"), "cluster.groups[1]"),
        (prefill.clone(), "cluster.groups[0].role: `prefill` needs cluster.disaggregation"),
        (decode.clone(), "cluster.groups[0].role: `decode` needs cluster.disaggregation"),
        (format!("{transfer}{prefill}"), "cluster.groups: with cluster.disaggregation one must"),
        (format!("{transfer}{decode}"), "role `prefill`"),
        (
            format!(
                "disaggregation = {{ prefill_replicas = 1, transfer = {{ nic_gb_per_s = 5.0 }} }}\n\
                 {prefill}{decode}"
            ),
            "cluster.disaggregation.prefill_replicas: must be absent",
        ),
        (
            format!(
                "{transfer}{prefill}{}",
                group("replicas = 1\nrole = 'decode'\nkv_cache_dtype = 'fp8'")
            ),
            "same engine, block_size or page_size, and kv_cache_dtype",
        ),
        (
            format!(
                "{transfer}{prefill}{}",
                group("replicas = 1\nrole = 'decode'\nengine = { type = 'sglang' }")
            ),
            "same engine, block_size or page_size",
        ),
        (group("replicas = 1\nnic_gb_per_s = 3.0"), "cluster.groups[0].nic_gb_per_s"),
        (
            format!(
                "{transfer}{prefill}{}",
                group("replicas = 1\nrole = 'decode'\nnic_gb_per_s = 1e-12")
            ),
            "cluster.groups[1].nic_gb_per_s: must be a finite rate of 1 byte/s at least",
        ),
        (
            format!(
                "{}{}{}",
                transfer.replace("transfer", "protocol = { type = 'blocking' }, transfer"),
                group("replicas = 1\nrole = 'prefill'\nengine = { type = 'vllm_v0' }"),
                group(
                    "replicas = 1\nrole = 'decode'\n\
                     engine = { type = 'vllm_v0', enable_chunked_prefill = true }"
                )
            ),
            "cluster.groups[1].engine.enable_chunked_prefill: chunks of prompts",
        ),
        (
            format!("api_delay_ms = 1e300\n{}", group("replicas = 1")),
            "cluster.api_delay_ms: must be",
        ),
    ];
    for (cluster, expected) in wrong {
        let error = resolve(&scenario(&cluster, 1.0)).expect_err(expected);
        assert!(error.contains(expected), "`{expected}` is not in: {error}");
        assert_eq!(error.lines().count(), 1, "one line for one mistake: {error}");
    }
}

#[test]
fn a_group_inherits_what_its_engine_knows() {
    let cluster = format!(
        "gpu_memory_utilization = 0.8\n{}{}",
        group("replicas = 1"),
        group("replicas = 1\nengine = { type = 'sglang' }")
    );
    let resolved = resolve(&scenario(&cluster, 1.0)).expect("the scenario holds together");
    let shares: Vec<Option<f64>> =
        resolved.groups.iter().map(|group| group.cluster.gpu_memory_utilization).collect();
    assert_eq!(shares, [Some(0.8), None]);
    // An engine that no group has is not judged.
    let unused = "engine = { type = 'vllm_v1', block_size = 0 }\n";
    let own = group("replicas = 1\nengine = { type = 'sglang' }");
    resolve(&scenario(&format!("{unused}{own}"), 1.0)).expect("it is not used");
}

#[test]
fn faults_are_judged_by_the_replicas_that_they_strike() {
    let cluster = format!(
        "disaggregation = {{ transfer = {{ nic_gb_per_s = 50.0 }} }}\n{}{}{}",
        group("replicas = 2"),
        group("replicas = 1\nrole = 'prefill'\nnic_gb_per_s = 1e-8"),
        group("replicas = 1\nrole = 'decode'")
    );
    let fault = |kind: &str, replica: u32, rest: &str| {
        let fault =
            format!("[[faults]]\ntype = '{kind}'\nreplica = {replica}\nat_s = 1.0\n{rest}\n");
        resolve(&format!("{}\n{fault}", scenario(&cluster, 1.0)))
    };
    let slow = "for_s = 1.0\nshare = 0.05";
    let error = fault("slow_link", 2, slow).expect_err("10 bytes/s are slowed to half a byte");
    assert!(error.contains("a NIC carries 1 byte/s at least"), "{error}");
    fault("slow_link", 3, slow).expect("50 GB/s are enough");
    let error = fault("lost_transfers", 1, "").expect_err("a mixed replica transfers nothing");
    assert!(error.contains("mixed replicas have no part in transfers"), "{error}");
    let error = fault("crash", 4, "down_s = 1.0").expect_err("there are four");
    assert!(error.contains("below the 4 replicas"), "{error}");
}
