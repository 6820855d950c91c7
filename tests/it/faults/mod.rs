//! Replicas that crash, stragglers, slow links, lost KV, and clients that do not wait for ever.

mod clients;
mod conditional;
mod handed_over;
mod refused;
mod replicas;
mod soak;
mod soak_wide;
mod transfers;

use servecast::metrics::{BenchReport, Recorder, RequestRecord, Status};
use servecast::resolved::Scenario;
use servecast::sim::{Counts, Observer, Simulation, simulation, step_times};
use servecast::units::SimTime;
use servecast::workload::Workload;

use super::support::resolve;

fn simulation_of(scenario: &Scenario) -> Simulation<Workload> {
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(scenario).expect("step times are known");
    simulation(scenario, &costs, workload).expect("it can be built")
}

/// Runs a scenario.
fn observe(scenario: &Scenario, observer: &mut impl Observer) -> Counts {
    simulation_of(scenario).run(observer).expect("no trace is read")
}

fn resolved(text: &str) -> Scenario {
    resolve(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn run(text: &str) -> (Counts, Recorder) {
    let mut recorder = Recorder::default();
    let counts = observe(&resolved(text), &mut recorder);
    (counts, recorder)
}

/// What the benchmark tool would report of a run.
fn report(text: &str, recorder: &Recorder) -> BenchReport {
    BenchReport::new(recorder, &resolved(text))
}

/// Requests of 10 tokens in and 5 out that arrive together, on replicas that take 100 ms for every step
/// and take requests in turn. A request alone is answered in 500 ms, its tokens 100 ms apart.
fn at_once(requests: u32, replicas: u32, client: &str, faults: &str) -> String {
    format!(
        "name = 'at once'\n[workload]\nnum_requests = {requests}\n\
         arrivals.type = 'all_at_once'\n{client}\n\
         lengths = {{ type = 'fixed', input_tokens = 10, output_tokens = 5 }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\nreplicas = {replicas}\n\
         [cluster.engine]\ntype = 'vllm_v1'\nasync_scheduling = false\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 100000.0\nprefill_token_us = 0.0\n\
         decode_seq_us = 0.0\n{faults}"
    )
}

fn crash(replica: u32, at_s: f64, down_s: f64, detection_s: f64) -> String {
    format!(
        "[[faults]]\ntype = 'crash'\nreplica = {replica}\nat_s = {at_s}\ndown_s = {down_s}\n\
         detection_s = {detection_s}\n"
    )
}

/// Milliseconds, to the nearest one.
fn ms(time: SimTime) -> u64 {
    (time.as_nanos() + 500_000) / 1_000_000
}

/// How a request ended, when it was sent, when its first token came, when it left, and its tokens;
/// times in milliseconds.
fn fate(record: &RequestRecord) -> (Status, u64, u64, u64, u32) {
    let [sent, first, finish] = [record.sent, record.first_token, record.finish].map(ms);
    (record.status, sent, first, finish, record.output_tokens)
}
