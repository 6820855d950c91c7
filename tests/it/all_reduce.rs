//! All-reduces over the host bus: what is assumed of a host is told, and what is known of it is taken.

use servecast::cost::{CostModel, StepShape};
use servecast::profiles;
use servecast::resolved::{Caveat, Scenario};
use servecast::sim::step_times;

use crate::support::resolve;

fn scenario(gpu: &str, gpus: u32, cluster: &str) -> Result<Scenario, String> {
    resolve(&format!(
        "name = 'bus'
         [workload]
         num_requests = 1
         arrivals = {{ type = 'all_at_once' }}
         lengths = {{ type = 'fixed', input_tokens = 1000, output_tokens = 10 }}
         [cluster]
         model = 'meta-llama/Llama-3.1-8B'
         gpu = '{gpu}'
         tensor_parallel_size = {gpus}
         {cluster}"
    ))
}

/// Seconds of the prefill of a prompt.
fn prefill(scenario: &Scenario) -> f64 {
    let mut shape = StepShape::default();
    shape.add_prefill(2048, 0, true);
    let costs = step_times(scenario).expect("step times are known");
    costs[0].step_duration(&shape).as_secs_f64()
}

const KINDS: [&str; 2] = ["", "step_time = { type = 'roofline' }"];

/// Over `PCIe` more GPUs may make a prefill slower; but no host is assumed on which a ring moves less than a
/// sixth of what its bus does.
#[test]
fn no_layout_of_any_gpu_waits_longer_for_its_all_reduces_than_a_slow_ring_takes() {
    // 32 layers, two all-reduces of 2048 rows of 4096 elements of two bytes.
    let (calls, message) = (32.0 * 2.0, 2048.0 * 4096.0 * 2.0);
    for gpu in profiles::gpus().map(|gpu| &gpu.spec) {
        for kind in KINDS {
            let kind = format!("{kind}\nengine = {{ type = 'vllm_v1', max_model_len = 2048 }}");
            let Ok(alone) = scenario(&gpu.name, 1, &kind) else { continue };
            let alone = prefill(&alone);
            for gpus in [2, 4, 8] {
                let Ok(layout) = scenario(&gpu.name, gpus, &kind) else { continue };
                let moved = message * 2.0 * f64::from(gpus - 1) / f64::from(gpus);
                // Where GPUs reach their host by another way, PCIe 5 is what joins those that no link does.
                let ring = calls * (50e-6 + moved / (gpu.pcie_gb_s.min(64.0) * 1e9 / 6.0));
                let secs = prefill(&layout);
                assert!(secs < alone + ring, "{} {gpus}, {kind}: {secs} {alone} {ring}", gpu.name);
            }
        }
    }
}

/// Twice as many GPUs halve the rate at worst, unless only the host bus joins so many, and no ring moves more
/// than the link does.
#[test]
fn more_gpus_reduce_more_slowly_but_without_a_cliff() {
    for gpu in profiles::gpus().map(|gpu| &gpu.spec) {
        for few in [2, 4] {
            let [some, more] = [few, 2 * few].map(|gpus| gpu.all_reduce(gpus));
            let told = format!("{}: {some:?}, {more:?}", gpu.name);
            assert!(more.latency_us >= 0.99 * some.latency_us, "{told}");
            let crosses = !gpu.reduces_over_pcie(few) && gpu.reduces_over_pcie(2 * few);
            let least = if crosses { 0.05 } else { 0.45 };
            assert!(more.bandwidth_gb_s > least * some.bandwidth_gb_s, "{told}");
            let moved = some.bandwidth_gb_s * 2.0 * f64::from(few - 1) / f64::from(few);
            assert!(moved < gpu.link_gb_s.max(gpu.pcie_gb_s), "{told}");
        }
    }
}

#[test]
fn what_is_assumed_of_a_host_is_told_and_what_is_known_is_not() {
    let told = |gpu: &str, gpus: u32, cluster: &str| {
        let caveats = scenario(gpu, gpus, cluster).unwrap().caveats();
        caveats.iter().any(|caveat| matches!(caveat, Caveat::UnknownBus { .. }))
    };
    for kind in KINDS {
        assert!(told("L40S", 2, kind) && told("L40S", 4, kind), "{kind}");
        assert!(!told("L40S", 1, kind) && !told("H100-SXM5-80GB", 8, kind), "{kind}");
        // A bridge joins two of these, and an SXM board four of those.
        assert!(!told("A40", 2, kind) && told("A40", 4, kind), "{kind}");
        assert!(!told("H100-SXM5-64GB", 4, kind) && told("H100-SXM5-64GB", 8, kind), "{kind}");
    }
    assert!(!told("L40S", 4, "all_reduce = { gb_per_s = 6.0, latency_us = 20.0 }"));
    let fitted = "step_time = { type = 'roofline', calibration = { all_reduce = 1.2 } }";
    assert!(!told("L40S", 4, fitted));
    assert!(!told("L40S", 4, "step_time = { type = 'roofline', communication = 'ignored' }"));
    // The profile has all-reduces, those of the host on which it was made.
    let of_layers = |own: &str| {
        let cluster = format!("step_time = {{ type = 'layer_table'{own} }}");
        told("RTX-PRO-6000", 2, &cluster)
    };
    assert!(of_layers(""));
    assert!(!of_layers(", all_reduce_gb_s = 20.0, all_reduce_latency_us = 9.0"));
}

#[test]
fn the_host_s_own_all_reduces_are_taken_by_every_cost_model_that_has_any() {
    for kind in KINDS {
        let secs = |gb_per_s: f64| {
            let own = format!("all_reduce = {{ gb_per_s = {gb_per_s}, latency_us = 10.0 }}");
            prefill(&scenario("L40S", 4, &format!("{kind}\n{own}")).unwrap())
        };
        // 32 layers, two all-reduces of 2048 rows of 4096 elements of two bytes.
        let moved = 32.0 * 2.0 * 2048.0 * 4096.0 * 2.0;
        let expected = moved / 1e9 - moved / 2e9;
        assert!(((secs(1.0) - secs(2.0)) / expected - 1.0).abs() < 0.02, "{kind}");
        assert!(secs(1.0) > secs(6.0) && secs(6.0) > secs(24.0), "{kind}");
    }
}

#[test]
fn all_reduces_that_nothing_takes_are_refused() {
    let own = "all_reduce = { gb_per_s = 6.0, latency_us = 20.0 }";
    for (cluster, problem) in [
        (
            "step_time = { type = 'linear', base_us = 1.0, prefill_token_us = 1.0, decode_seq_us = 1.0 }",
            "cluster.all_reduce: has no effect where step_time holds whole steps",
        ),
        (
            "step_time = { type = 'roofline', communication = 'ignored' }",
            "cluster.all_reduce: has no effect with step_time.communication",
        ),
    ] {
        let refused = scenario("L40S", 2, &format!("{cluster}\n{own}")).unwrap_err();
        assert!(refused.contains(problem), "{refused}");
    }
    for bad in ["gb_per_s = 0.0, latency_us = 1.0", "gb_per_s = 1.0, latency_us = -1.0"] {
        let refused = scenario("L40S", 2, &format!("all_reduce = {{ {bad} }}")).unwrap_err();
        assert!(refused.contains("cluster.all_reduce."), "{refused}");
    }
}
