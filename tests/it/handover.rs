//! What the hand-over of KV caches changes on both sides.

use servecast::engine::scheduler::Load;
use servecast::ids::InstanceId;
use servecast::sim::{Observer, Occurrence, simulation, step_times};
use servecast::units::SimTime;
use servecast::workload::Workload;

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
    let scenario = resolve(&text).expect("the scenario holds together");
    let file = &scenario.file;
    let workload = Workload::open(&file.workload, file.seed, None).expect("it opens");
    let costs = step_times(&scenario).expect("step times are known");
    let run = simulation(&scenario, &costs, workload).expect("it can be built");
    let mut seen = Lingering::default();
    run.run(&mut seen).expect("no trace is read");
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
