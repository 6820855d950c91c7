//! A run of any size, timed: what a request costs and how much memory the whole takes.
//!
//! `scale [--engine vllm_v1|sglang] [--instances N] [--requests N]`: Poisson arrivals of 512 prompt
//! and 128 answer tokens at about 70 % of what the instances serve, sent round robin, with a record
//! of every request and the summary (`README.md` beside this file).

use std::time::Instant;

use servecast::metrics::{BenchReport, Recorder};
use servecast::scenario::{Scenario, ScenarioFile};
use servecast::sim::{Simulation, cluster};
use servecast::units::SimDuration;
use servecast::workload::{Client, Workload};

/// 70 % of the 61 requests per second that one instance serves.
const RATE_PER_S: f64 = 43.0;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str, default: &str| {
        let at = arguments.iter().position(|argument| argument == flag);
        at.and_then(|at| arguments.get(at + 1)).map_or(default.to_owned(), String::clone)
    };
    let number = |flag, default| value(flag, default).parse::<u32>().expect("a number");
    let (engine, instances) = (value("--engine", "vllm_v1"), number("--instances", "1"));
    let requests = number("--requests", "10000");
    let rate = RATE_PER_S * f64::from(instances);
    let text = format!(
        "name = 'scale'\n\
         [cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         replicas = {instances}\nengine = {{ type = '{engine}' }}\n\
         [workload]\nnum_requests = {requests}\n\
         arrivals = {{ type = 'poisson', rate_per_s = {rate:?} }}\n\
         lengths = {{ type = 'fixed', input_tokens = 512, output_tokens = 128 }}\n"
    );
    let file: ScenarioFile = toml::from_str(&text).expect("the scenario is TOML");
    let scenario = Scenario::resolve(file, None).expect("the scenario holds together");

    #[expect(clippy::disallowed_methods, reason = "how long the run takes is the result")]
    let started = Instant::now();
    let report = run(&scenario);
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(report.summary.completed, u64::from(requests));
    let per_request = seconds * 1e6 / f64::from(requests);
    #[expect(clippy::print_stdout, reason = "the result")]
    {
        println!(
            "{engine} {instances} instances {requests} requests: {seconds:.3} s, \
             {per_request:.2} us per request, {:.0} MB at most",
            peak_megabytes()
        );
    }
}

fn run(scenario: &Scenario) -> BenchReport {
    let file = &scenario.file;
    let workload = Workload::open(&file.workload, file.seed, None).expect("the workload opens");
    let cluster = cluster(scenario).expect("step times are known");
    let client = Client::new(&file.workload.client);
    let mut recorder = Recorder::for_instances(file.cluster.replicas);
    Simulation::new(workload, client, cluster, SimDuration::ZERO)
        .run(&mut recorder)
        .expect("no trace is read");
    BenchReport::new(&recorder, file)
}

/// The most memory that this process has had, where the system tells.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kibibytes.map_or(f64::NAN, |kibibytes| kibibytes * 1024.0 / 1e6)
}
