//! What scenarios with tiers refuse, and what they fill in.

use servecast::resolved::Scenario;
use servecast::scenario::ClusterConfig;

use crate::support::resolve;

fn scenario(cluster: &str) -> String {
    format!(
        "name = 'x'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n{cluster}\n\
         [workload]\nnum_requests = 1\narrivals.type = 'all_at_once'\n\
         lengths = {{ type = 'fixed', input_tokens = 10, output_tokens = 10 }}"
    )
}

#[test]
fn what_is_not_modelled_is_refused_by_name() {
    let host = "kv_tiers = { host = { memory_gib = 1.0 } }";
    let cases = [
        (
            format!("engine = {{ type = 'sglang' }}\n{host}"),
            "cluster.kv_tiers: HiCache, the tiers of `sglang`, is not modelled",
        ),
        (format!("engine = {{ type = 'orca' }}\n{host}"), "cluster.kv_tiers: only `vllm_v1`"),
        (
            format!("engine = {{ type = 'vllm_v1', enable_prefix_caching = false }}\n{host}"),
            "cluster.engine.enable_prefix_caching: cluster.kv_tiers needs prefix caching",
        ),
        (
            "kv_tiers = { host = { memory_gib = 0.03 } }".to_owned(),
            "cluster.kv_tiers.host.memory_gib: must have room for a chunk of 256 tokens, 0.031250 GiB, got 0.03",
        ),
        (
            "kv_tiers = { host = { memory_gib = 1.0 }, pool = { memory_gib = 0.0, nic_gb_per_s = 1.0 } }"
                .to_owned(),
            "cluster.kv_tiers.pool.memory_gib: must have room for a chunk",
        ),
        (
            "kv_tiers = { pool = { memory_gib = 1.0, nic_gb_per_s = 1.0 } }\n[[cluster.groups]]\n\
             replicas = 2\n[[cluster.groups]]\nreplicas = 2\ntensor_parallel_size = 2"
                .to_owned(),
            "cluster.kv_tiers.pool: groups that share a pool must have the same tensor_parallel_size",
        ),
        (
            format!(
                "{host}\n[[cluster.groups]]\nreplicas = 2\n[[cluster.groups]]\nreplicas = 2\n\
                 engine = {{ type = 'sglang' }}"
            ),
            "cluster.kv_tiers: HiCache, the tiers of `sglang`, is not modelled",
        ),
        ("kv_tiers = {}".to_owned(), "cluster.kv_tiers: needs a `host`, a `disk` or a `pool`"),
        (
            "kv_tiers = { chunk_tokens = 100, host = { memory_gib = 1.0 } }".to_owned(),
            "cluster.kv_tiers.chunk_tokens: must be a multiple of cluster.engine.block_size (16), got 100",
        ),
        (
            "kv_tiers = { host = { memory_gib = -1.0 } }".to_owned(),
            "cluster.kv_tiers.host.memory_gib: must be a finite number of at least 0, got -1",
        ),
        (
            "kv_tiers = { fetch = { min_tokens = 0 }, host = { memory_gib = 1.0 } }".to_owned(),
            "cluster.kv_tiers.fetch.min_tokens: must be at least 1, got 0",
        ),
        (
            "kv_tiers = { pool = { memory_gib = 1.0 } }".to_owned(),
            "cluster.kv_tiers.pool.nic_gb_per_s: must be given where replicas hand no KV caches over",
        ),
        (
            "kv_tiers = { pool = { memory_gib = 1.0, nic_gb_per_s = 0.0 } }".to_owned(),
            "cluster.kv_tiers.pool.nic_gb_per_s: must be a finite rate",
        ),
        (
            format!("{}\n{}", apart(50.0), pool("nic_gb_per_s = 25.0")),
            "cluster.kv_tiers.pool.nic_gb_per_s: must be absent, or 50 as that of replicas that prefill: \
             what they hand over and the pool share their NICs, got 25",
        ),
    ];
    for (cluster, problem) in cases {
        let error = resolve(&scenario(&cluster)).expect_err(problem);
        assert!(error.contains(problem), "{error:?} does not say {problem:?}");
    }
}

fn apart(nic_gb_per_s: f64) -> String {
    format!(
        "disaggregation = {{ prefill_replicas = 1, decode_replicas = 1, transfer = {{ \
         nic_gb_per_s = {nic_gb_per_s} }} }}"
    )
}

fn pool(nic: &str) -> String {
    format!("kv_tiers = {{ pool = {{ memory_gib = 1.0, {nic} }} }}")
}

#[test]
fn a_replica_that_prefills_reaches_the_pool_over_the_nics_that_it_hands_over_with() {
    let nics = |cluster: &str| {
        let scenario = resolve(&scenario(cluster)).unwrap_or_else(|error| panic!("{error}"));
        let pool = |cluster: &ClusterConfig| cluster.kv_tiers.and_then(|tiers| tiers.pool);
        let nics: Vec<Option<f64>> = scenario
            .groups
            .iter()
            .map(|group| pool(&group.cluster).and_then(|pool| pool.nic_gb_per_s))
            .collect();
        // What is written out can be read again.
        let again = Scenario::resolve(scenario.written(), None).expect("it is what it was");
        assert_eq!(again.written(), scenario.written());
        nics
    };
    for stated in ["", "nic_gb_per_s = 50.0"] {
        let cluster = format!("{}\n{}", apart(50.0), pool(stated));
        assert_eq!(nics(&cluster), [Some(50.0), None], "{stated}");
    }
    // With groups each has its own; mixed replicas have those of `transfer`.
    let transfer = "disaggregation = { transfer = { nic_gb_per_s = 25.0 } }";
    let groups = "[[cluster.groups]]\nreplicas = 1\n\
                  [[cluster.groups]]\nreplicas = 1\nrole = 'prefill'\nnic_gb_per_s = 50.0\n\
                  [[cluster.groups]]\nreplicas = 1\nrole = 'prefill'\nnic_gb_per_s = 12.5\n\
                  [[cluster.groups]]\nreplicas = 1\nrole = 'decode'";
    let cluster = format!("{transfer}\n{}\n{groups}", pool(""));
    assert_eq!(nics(&cluster), [Some(25.0), Some(50.0), Some(12.5), None]);
}

#[test]
fn the_bus_is_that_of_all_gpus_of_a_replica() {
    let cluster = "tensor_parallel_size = 2\nkv_tiers = { host = { memory_gib = 1.0 } }";
    let scenario = resolve(&scenario(cluster)).expect("it holds together");
    let tiers = scenario.kv_tiers().expect("it has tiers");
    assert_eq!(tiers.pcie_gb_per_s, Some(2.0 * scenario.first().gpu.pcie_gb_s));
}
