//! What scenarios with tiers refuse, and what they fill in.

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
    ];
    for (cluster, problem) in cases {
        let error = resolve(&scenario(&cluster)).expect_err(problem);
        assert!(error.contains(problem), "{error:?} does not say {problem:?}");
    }
}

#[test]
fn the_bus_is_that_of_all_gpus_of_a_replica() {
    let cluster = "tensor_parallel_size = 2\nkv_tiers = { host = { memory_gib = 1.0 } }";
    let scenario = resolve(&scenario(cluster)).expect("it holds together");
    let tiers = scenario.file.cluster.kv_tiers.expect("it has tiers");
    assert_eq!(tiers.pcie_gb_per_s, Some(2.0 * scenario.first().gpu.pcie_gb_s));
}
