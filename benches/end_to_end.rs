//! A whole run: Poisson arrivals of 512 prompt and 128 answer tokens at about 70 % of what one
//! H100 serves of Llama-3.1-8B under vLLM's defaults, every request recorded, and the summary.
//!
//! `10000` is the size for instruction counts (`README.md` beside this file).

use std::time::Duration;

use criterion::{
    BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};

use servecast::metrics::bench::{BenchInput, BenchRequest, BenchSummary, Outcome, TokenGaps};
use servecast::metrics::{Recorder, RequestRecord, Status};
use servecast::resolved::Scenario;
use servecast::scenario::ScenarioFile;
use servecast::sim::{Simulation, cluster};
use servecast::units::{SimDuration, SimTime};
use servecast::workload::{Client, Workload};

/// 70 % of the 61 requests per second that come out when all arrive at once.
const RATE_PER_S: f64 = 43.0;

fn scenario(requests: u32, async_scheduling: bool) -> Scenario {
    let text = format!(
        "name = 'Llama on one H100'\n\
         [cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         engine = {{ type = 'vllm_v1', async_scheduling = {async_scheduling} }}\n\
         [workload]\nnum_requests = {requests}\n\
         arrivals = {{ type = 'poisson', rate_per_s = {RATE_PER_S:?} }}\n\
         lengths = {{ type = 'fixed', input_tokens = 512, output_tokens = 128 }}\n"
    );
    let file: ScenarioFile = toml::from_str(&text).expect("the scenario is TOML");
    Scenario::resolve(file, None).expect("the scenario holds together")
}

fn run(scenario: &Scenario) -> (BenchSummary, u64) {
    let workload =
        Workload::open(&scenario.workload, scenario.seed, None).expect("the workload opens");
    let cluster = cluster(scenario).expect("step times are known");
    let client = Client::new(&scenario.workload.client);
    let simulation = Simulation::new(workload, client, cluster, SimDuration::ZERO);
    let mut recorder = Recorder::default();
    let counts = simulation.run(&mut recorder).expect("no trace is read");
    assert_eq!(counts.finished, counts.arrived);
    let steps = recorder.steps;
    (summary(&recorder), steps)
}

fn summary(recorder: &Recorder) -> BenchSummary {
    let peak = recorder.tokens_by_second.peak();
    let gaps = TokenGaps::Weighted(recorder.gaps.sample());
    let requests = recorder.requests.iter().map(request).collect();
    let duration = (recorder.end - SimTime::ZERO).as_secs_f64();
    BenchSummary::new(BenchInput::new(duration, requests, gaps, peak as f64), None)
}

fn request(record: &RequestRecord) -> BenchRequest {
    let is_answered = record.status == Status::Finished;
    BenchRequest {
        start_s: record.sent.as_secs_f64(),
        ttft_s: record.ttft().as_secs_f64(),
        latency_s: record.e2e().as_secs_f64(),
        prompt_tokens: record.prompt_tokens,
        output_tokens: record.output_tokens,
        cached_tokens: record.cached_tokens,
        outcome: if is_answered { Outcome::Succeeded } else { Outcome::Failed },
    }
}

fn end_to_end(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("end_to_end");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100));
    for (name, async_scheduling) in [("async", true), ("sync", false)] {
        for requests in [10_000, 1_000_000] {
            let scenario = scenario(requests, async_scheduling);
            group.throughput(Throughput::Elements(requests.into()));
            group.bench_function(BenchmarkId::new(name, requests), |bencher| {
                bencher.iter(|| run(&scenario));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, end_to_end);
criterion_main!(benches);
