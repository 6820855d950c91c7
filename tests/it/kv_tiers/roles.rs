//! Tiers of replicas of several kinds, and of replicas that prefill for others.

use servecast::metrics::{Recorder, ScaledPool, TierReport};
use servecast::sim::{Counts, simulation, step_times};
use servecast::units::SimDuration;
use servecast::workload::Workload;

use crate::support::resolve;

/// Prompts of 640 common tokens and one more, a second apart; 5 ms a step and 1 ms a token.
fn run(cluster: &str) -> (Counts, Recorder) {
    let text = format!(
        "name = 'roles'\n[workload]\nnum_requests = 4\n\
         arrivals = {{ type = 'constant', rate_per_s = 0.5 }}\n\
         lengths = {{ type = 'generated_shared_prefix', groups = 1, prompts_per_group = 4, \
         system_prompt_tokens = 640, question_tokens = 1, output_tokens = 3, separator_tokens = 0 }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n\
         engine = {{ type = 'vllm_v1', async_scheduling = false }}\n{cluster}\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 5000.0\nprefill_token_us = 1000.0\n\
         decode_seq_us = 0.0\n"
    );
    let scenario = resolve(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(ScaledPool::of(&scenario).is_empty());
    let costs = step_times(&scenario).expect("step times are known");
    let workload = Workload::open(&scenario.workload, scenario.seed, None);
    let run = simulation(&scenario, &costs, workload.expect("it opens")).expect("it can be built");
    let mut recorder = Recorder::default();
    let counts = run.run(&mut recorder).expect("no trace is read");
    for record in &recorder.requests {
        let parts = record.breakdown().expect("it is answered");
        assert_eq!(parts.total(), record.e2e());
    }
    (counts, recorder)
}

const POOL: &str =
    "kv_tiers = { chunk_tokens = 64, pool = { memory_gib = 1.0, nic_gb_per_s = 10.0 } }";

#[test]
fn a_replica_that_prefills_fetches_what_another_one_has_written() {
    for protocol in ["pull", "reserve"] {
        let parts = format!(
            "disaggregation = {{ prefill_replicas = 2, decode_replicas = 1, protocol = {{ type = \
             '{protocol}' }}, transfer = {{ nic_gb_per_s = 10.0 }} }}\n{POOL}"
        );
        let (counts, recorder) = run(&parts);
        assert_eq!(counts.finished, 4);
        // The second one's replica has computed nothing; the third and fourth find what theirs have.
        let cached: Vec<u32> = recorder.requests.iter().map(|it| it.cached_tokens).collect();
        assert_eq!(cached, [0, 640, 640, 640], "{protocol}");
        let report = TierReport::of_first(&recorder, 2);
        assert_eq!((report.loads, report.prompt_tokens.pool), (1, 640), "{protocol}");
        assert_eq!(report.prompt_tokens.gpu, 2 * 640, "{protocol}");
        assert_eq!(report.prompt_tokens.total(), 4 * 641, "{protocol}");
        assert!(report.load_mean_ms > 0.0, "{report:?}");
        // The first one's ten chunks go up; the decode replica moves nothing.
        assert_eq!(report.moved_bytes["host_to_pool"], report.moved_bytes["pool_to_gpu"]);
        assert_eq!(recorder.tiers.of(2).moved.iter().sum::<u64>(), 0, "{protocol}");
        // What it waited for its load is time in queues; `transfer` is the way to the decode side.
        let second = recorder.requests[1].breakdown().expect("it is answered");
        assert!(second.queued.as_millis_f64() >= report.load_mean_ms, "{second:?}");
    }
}

#[test]
fn what_goes_to_the_pool_and_to_the_decode_side_shares_the_nic() {
    // The first prompt, 641 tokens. Its KV goes to the decode side in 41 blocks of 16 tokens, 656 tokens of
    // 147,456 bytes, at 9.437184 GB/s (640 tokens in 10 ms): 10.25 ms alone. Its ten whole chunks take 1 ms to host
    // memory, and 10 ms to the pool alone. From 1 ms on both have half of the NIC: 9.25 ms are left of the
    // transfer, which take 18.5 ms.
    for (pool, transfer_us) in [("host", 10_250), ("pool", 19_500)] {
        let tiers = match pool {
            "host" => "host = { memory_gib = 1.0 }",
            _ => "pool = { memory_gib = 1.0, nic_gb_per_s = 9.437184 }",
        };
        let parts = format!(
            "disaggregation = {{ prefill_replicas = 1, decode_replicas = 1, transfer = {{ \
             nic_gb_per_s = 9.437184 }} }}\n\
             kv_tiers = {{ chunk_tokens = 64, pcie_gb_per_s = 94.37184, {tiers} }}"
        );
        let (_, recorder) = run(&parts);
        let transfer = recorder.requests[0].breakdown().expect("it is answered").transfer;
        assert_eq!(transfer, SimDuration::from_micros(transfer_us), "{pool}");
    }
}

#[test]
fn groups_of_different_gpus_share_a_pool() {
    let groups = format!("groups = [{{ replicas = 1 }}, {{ replicas = 1, gpu = 'L40S' }}]\n{POOL}");
    let (counts, recorder) = run(&groups);
    assert_eq!(counts.finished, 4);
    let cached: Vec<u32> = recorder.requests.iter().map(|it| it.cached_tokens).collect();
    assert_eq!(cached, [0, 640, 640, 640]);
    assert_eq!(TierReport::new(&recorder).prompt_tokens.pool, 640);
}

#[test]
fn chunks_of_groups_have_sizes_of_their_own() {
    let groups = "groups = [{ replicas = 1 }, { replicas = 1, kv_cache_dtype = 'fp8' }]\n\
                  kv_tiers = { chunk_tokens = 64, host = { memory_gib = 1.0 } }";
    let (_, recorder) = run(groups);
    let [whole, half] = [0, 1].map(|id| recorder.tiers.of(id).moved.iter().sum::<u64>());
    assert_eq!(whole, 2 * half);
    assert!(half > 0, "both write what they compute");
}
