//! Replicas that come and go with the load.

mod forecasts;
mod gateway;
mod laws;
mod own_rule;
mod planner;
mod pools;
mod refused;
mod runs;

use servecast::metrics::Recorder;
use servecast::resolved::Scenario;
use servecast::sim::{Counts, Simulation, simulation, step_times};
use servecast::workload::Workload;

use super::support::resolve;

fn resolved(text: &str) -> Scenario {
    resolve(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn simulation_of(scenario: &Scenario) -> Simulation<Workload> {
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(scenario).expect("step times are known");
    simulation(scenario, &costs, workload).expect("it can be built")
}

fn run(text: &str) -> (Counts, Recorder) {
    let mut recorder = Recorder::default();
    let counts = simulation_of(&resolved(text)).run(&mut recorder).expect("no trace is read");
    (counts, recorder)
}

/// Requests of 10 tokens in and 5 out, `rate` a second, on replicas that take 100 ms for every step: each
/// is answered in 500 ms.
fn scenario(requests: u32, rate: f64, cluster: &str) -> String {
    format!(
        "name = 'scaled'\n[workload]\nnum_requests = {requests}\n\
         arrivals = {{ type = 'constant', rate_per_s = {rate} }}\n\
         lengths = {{ type = 'fixed', input_tokens = 10, output_tokens = 5 }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n\
         router = {{ type = 'least_outstanding_requests' }}\n{cluster}\n[cluster.step_time]\n\
         type = 'linear'\nbase_us = 100000.0\nprefill_token_us = 0.0\ndecode_seq_us = 0.0\n"
    )
}

/// An autoscaler of at most so many replicas, with further settings.
fn autoscaler(max: u32, rest: &str) -> String {
    format!(
        "engine = {{ type = 'vllm_v1', async_scheduling = false }}\n[cluster.autoscaler]\n\
         max_replicas = {max}\nsignal = {{ type = 'outstanding_per_replica', target = 2.0 }}\n\
         interval_s = 1.0\nstabilisation_down_s = 0.0\n{rest}\n"
    )
}
