//! Several models in one cluster: each fares as if it were alone, and what makes no sense is refused.

mod apart;
mod refused;
mod report;

use servecast::metrics::Recorder;
use servecast::request::Request;
use servecast::resolved::Scenario;
use servecast::sim::{Counts, Requests, simulation, step_times};
use servecast::workload::Workload;

/// The first model, which `cluster.model` names.
const LARGE: &str = "meta-llama/Llama-3.1-70B";
const SMALL: &str = "meta-llama/Llama-3.1-8B";

const WORKLOAD: &str = "name = 'x'\n[workload]\nnum_requests = 80\n\
    arrivals = { type = 'poisson', rate_per_s = 30.0 }\n\
    content = { type = 'system_prompt', groups = 5, prefix_tokens = 200 }\n\
    [workload.lengths]\ntype = 'sampled'\n\
    input_tokens = { type = 'log_normal', median_tokens = 200, sigma = 0.8, max_tokens = 3000 }\n\
    output_tokens = { type = 'log_normal', median_tokens = 30, sigma = 0.8, max_tokens = 300 }\n";

/// Half of the requests ask for each model; those for the small one are short.
const CLASSES: &str = "[[workload.classes]]\nname = 'large'\nshare = 0.5\n\
    [[workload.classes]]\nname = 'small'\nshare = 0.5\nmodel = 'meta-llama/Llama-3.1-8B'\n\
    input_tokens = { type = 'uniform', min_tokens = 10, max_tokens = 400 }\n\
    output_tokens = { type = 'fixed', tokens = 20 }\n";

const CLUSTER: &str = "[cluster]\nmodel = 'meta-llama/Llama-3.1-70B'\ngpu = 'H100-SXM5-80GB'\n\
    tensor_parallel_size = 4\n\
    step_time = { type = 'linear', base_us = 9000.0, prefill_token_us = 60.0, decode_seq_us = 90.0 }\n";

const LARGE_GROUP: &str = "[[cluster.groups]]\nreplicas = 2\n";
const SMALL_GROUP: &str = "[[cluster.groups]]\nreplicas = 3\nmodel = 'meta-llama/Llama-3.1-8B'\ntensor_parallel_size = 1\n";

/// The requests of a scenario, in order.
fn requests(scenario: &Scenario) -> Vec<Request> {
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    workload.collect::<Result<_, _>>().expect("no trace is read")
}

fn run(scenario: &Scenario, requests: Vec<Request>) -> (Counts, Recorder) {
    let costs = step_times(scenario).expect("step times are known");
    let source = Requests(requests.into_iter());
    let run = simulation(scenario, &costs, source).expect("it can be built");
    let mut recorder = Recorder::default();
    (run.run_in_lanes(&mut recorder).expect("a list has no errors"), recorder)
}
