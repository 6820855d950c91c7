//! Runs whose every occurrence is known: the numbers are the same with all features and with none.

use servecast::resolved::Scenario;
use servecast::sim::{Simulation, cluster};
use servecast::units::SimDuration;
use servecast::workload::{Client, Workload};

use crate::support::Digest;

fn digest(engine: &str, step_time: &str) -> u64 {
    let text = format!(
        "name = 'golden'\nseed = 11\n[workload]\nnum_requests = 200\n\
         arrivals = {{ type = 'gamma', rate_per_s = 20.0, cv = 1.4 }}\n\
         [workload.lengths]\ntype = 'sampled'\n\
         input_tokens = {{ type = 'log_normal', median_tokens = 300.0, sigma = 0.8, max_tokens = 3000 }}\n\
         output_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 200 }}\n\
         [cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         engine = {{ {engine} }}\nstep_time = {{ {step_time} }}\n"
    );
    let file = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = Scenario::resolve(file, None).expect("the scenario holds together");
    let workload =
        Workload::open(&scenario.workload, scenario.seed, None).expect("the workload opens");
    let cluster = cluster(&scenario).expect("step times are known");
    let client = Client::new(&scenario.workload.client);
    let mut digest = Digest::default();
    let simulation = Simulation::new(workload, client, cluster, SimDuration::ZERO);
    simulation.run(&mut digest).expect("draws do not fail");
    digest.0
}

const LINEAR: &str =
    "type = 'linear', base_us = 4000.0, prefill_token_us = 30.0, decode_seq_us = 90.0";
const ROOFLINE: &str = "type = 'roofline'";

#[test]
fn runs_are_those_of_every_other_build() {
    let vllm = "type = 'vllm_v1', num_gpu_blocks = 600, max_model_len = 4096";
    let speculation = format!(
        "{vllm}, speculation = {{ method = 'eagle', num_speculative_tokens = 3, \
         acceptance = {{ type = 'mean_length', tokens = 2.2 }} }}"
    );
    let sglang = "type = 'sglang', max_total_tokens = 9000, context_length = 4096";
    let sarathi = "type = 'sarathi', num_gpu_blocks = 600, max_model_len = 4096";
    let digests = [
        digest(vllm, ROOFLINE),
        digest(&speculation, LINEAR),
        digest(sglang, ROOFLINE),
        digest(sarathi, LINEAR),
    ];
    let known = [
        4_671_762_922_886_255_095,
        841_980_480_169_143_250,
        14_371_423_962_518_567_372,
        679_161_136_491_176_372,
    ];
    assert_eq!(digests, known, "a change of behaviour, or a difference between builds");
}
