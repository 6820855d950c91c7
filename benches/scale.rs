//! A run of any size, timed: what a request costs and how much memory the whole takes.
//!
//! `scale [--engine vllm_v1|sglang] [--router TYPE] [--groups N] [--instances N] [--requests N]`: Poisson arrivals of 512 prompt
//! and 128 answer tokens at about 70 % of what the instances serve, sent round robin unless told otherwise, with a record
//! of every request and the summary (`README.md` beside this file). With `--figures` no records of many
//! requests are kept. With `--groups` prompts share their first 384 tokens with those of their group.
//!
//! `scale --trace FILE [--copies N] [--rate-scale X] …` replays a trace instead, N times one after the
//! other, each time with hash ids of its own. The file is read before the clock starts.
//!
//! `scale --router TYPE --against TYPE [--rounds N] …` runs the same requests with both routers in turn, N times each, and prints
//! the least time of each, how much of the prompts each found cached, and the ratio.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use servecast::io::traces::{self, TraceOptions};
use servecast::metrics::{BenchReport, Recorder};
use servecast::resolved::Scenario;
use servecast::scenario::ScenarioFile;
use servecast::sim::{Simulation, cluster};
use servecast::units::SimDuration;
use servecast::workload::{Client, TraceRow, TraceRows, Workload};

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
    let router = value("--router", "round_robin");
    let trace = value("--trace", "");
    let rows: Arc<[TraceRow]> = if trace.is_empty() { [].into() } else { read(Path::new(&trace)) };
    let copies = number("--copies", "1");
    let (requests, workload) = if rows.is_empty() {
        let requests = number("--requests", "10000");
        let groups = number("--groups", "0");
        (requests, poisson(requests, RATE_PER_S * f64::from(instances), groups))
    } else {
        let rate_scale = value("--rate-scale", "1.0").parse().expect("a factor");
        (rows.len() as u32 * copies, replay(&trace, rate_scale))
    };
    let routed_by = |router: &str| {
        let named = match router {
            "dynamo" | "sglang" | "vllm_router" => format!("{router} = {{}}"),
            typed => format!("type = '{typed}'"),
        };
        let text = format!(
            "name = 'scale'\n\
             [cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
             replicas = {instances}\nengine = {{ type = '{engine}' }}\n\
             router = {{ {named} }}\n{workload}"
        );
        let file: ScenarioFile = toml::from_str(&text).expect("the scenario is TOML");
        Scenario::resolve(file, None).expect("the scenario holds together")
    };
    let timed = |scenario: &Scenario| {
        #[expect(clippy::disallowed_methods, reason = "how long the run takes is the result")]
        let started = Instant::now();
        let recorder = if arguments.iter().any(|argument| argument == "--figures") {
            Recorder::of_figures(scenario)
        } else {
            Recorder::of(scenario)
        };
        let rows = (!rows.is_empty()).then(|| repeated(Arc::clone(&rows), copies));
        let report = run(scenario, rows, recorder);
        assert_eq!(report.summary.completed, u64::from(requests));
        (started.elapsed().as_secs_f64(), report)
    };
    let against = value("--against", "");
    if !against.is_empty() {
        let names = [router, against];
        let scenarios = [0, 1].map(|place: usize| routed_by(&names[place]));
        let mut least = [f64::INFINITY; 2];
        let mut cached = [0.0; 2];
        for _ in 0..number("--rounds", "3") {
            for place in [0, 1] {
                let (seconds, report) = timed(&scenarios[place]);
                least[place] = least[place].min(seconds);
                cached[place] = share_cached(&report);
            }
        }
        #[expect(clippy::print_stdout, reason = "the result")]
        {
            println!(
                "{engine} {instances} instances {requests} requests: {} {:.3} s, {:.3} cached; {} {:.3} s, {:.3} cached; \
                 ratio {:.2}; {:.0} MB at most",
                names[0],
                least[0],
                cached[0],
                names[1],
                least[1],
                cached[1],
                least[0] / least[1],
                peak_megabytes()
            );
        }
        return;
    }
    let (seconds, report) = timed(&routed_by(&router));
    let per_request = seconds * 1e6 / f64::from(requests);
    #[expect(clippy::print_stdout, reason = "the result")]
    {
        println!(
            "{engine} {instances} instances {requests} requests: {seconds:.3} s, \
             {per_request:.2} us per request, {:.0} requests/s, {:.0} MB at most",
            1e6 / per_request,
            peak_megabytes()
        );
        let summary = &report.summary;
        println!(
            "{:.0} s simulated, {:.1} requests inside on average, {:.3} of the prompts cached",
            summary.duration_s,
            summary.concurrency,
            share_cached(&report)
        );
    }
}

fn share_cached(report: &BenchReport) -> f64 {
    let cache = &report.summary.cache;
    cache.cached_tokens as f64 / cache.prompt_tokens as f64
}

fn poisson(requests: u32, rate_per_s: f64, groups: u32) -> String {
    let lengths = match requests.checked_div(groups) {
        None => "type = 'fixed', input_tokens = 512, output_tokens = 128".to_owned(),
        Some(prompts) => format!(
            "type = 'generated_shared_prefix', groups = {groups}, prompts_per_group = {prompts}, \
             system_prompt_tokens = 384, question_tokens = 128, output_tokens = 128"
        ),
    };
    format!(
        "[workload]\nnum_requests = {requests}\n\
         arrivals = {{ type = 'poisson', rate_per_s = {rate_per_s:?} }}\n\
         lengths = {{ {lengths} }}\n"
    )
}

fn replay(path: &str, rate_scale: f64) -> String {
    format!(
        "[workload]\narrivals = {{ type = 'trace', rate_scale = {rate_scale:?} }}\n\
         lengths = {{ type = 'trace' }}\n[trace]\npath = {path:?}\n"
    )
}

fn read(path: &Path) -> Arc<[TraceRow]> {
    let reader = traces::open(path, None, &TraceOptions::default()).expect("a trace");
    reader.into_rows().map(|row| row.expect("a row of a trace")).collect()
}

/// The rows again and again, each time later and with other hash ids.
fn repeated(rows: Arc<[TraceRow]>, copies: u32) -> TraceRows {
    let span = rows.iter().filter_map(|row| row.arrival).max().expect("the rows have times");
    let ids = 1 + rows.iter().flat_map(|row| &row.hash_ids).max().expect("they have hash ids");
    let copy = move |copy: u32| {
        let rows = Arc::clone(&rows);
        let later = SimDuration::from_nanos(span.as_nanos() * u64::from(copy));
        (0..rows.len()).map(move |index| {
            let row = &rows[index];
            let other = |id: &u64| id + ids * u64::from(copy);
            Ok(TraceRow {
                arrival: row.arrival.map(|at| at + later),
                hash_ids: row.hash_ids.iter().map(other).collect(),
                class: None,
                adapter: None,
                ..*row
            })
        })
    };
    Box::new((0..copies).flat_map(copy))
}

fn run(scenario: &Scenario, rows: Option<TraceRows>, mut recorder: Recorder) -> BenchReport {
    let workload =
        Workload::open(&scenario.workload, scenario.seed, rows).expect("the workload opens");
    let cluster = cluster(scenario).expect("step times are known");
    let client = Client::new(&scenario.workload.client);
    Simulation::new(workload, client, cluster, SimDuration::ZERO)
        .run_in_lanes(&mut recorder)
        .expect("no trace is read");
    BenchReport::new(&recorder, scenario)
}

/// The most memory that this process has had, where the system tells.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kibibytes.map_or(f64::NAN, |kibibytes| kibibytes * 1024.0 / 1e6)
}
