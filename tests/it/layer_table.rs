//! Layer tables against a measured run: `real-runs/sharegpt-300`, 300 `ShareGPT` requests to
//! vLLM 0.19.0 with Llama-3.1-8B on one RTX PRO 6000 (casys-kaist/LLMServingSim, MIT).
//!
//! Arrivals, lengths and prefix identity are the recorded ones; so are the engine's settings. Time
//! to first token and end-to-end time count from when the engine's loop picks a request up, as the
//! engine stamps it: at the end of the step that runs when it arrives.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use servecast::cost::{CostModel, Coverage, LayerProfile, LayerTable, LayerTableOptions};
use servecast::io::traces::{TraceOptions, open};
use servecast::metrics::{Recorder, StepLog};
use servecast::model::KvDtype;
use servecast::resolved::Scenario;
use servecast::scenario::{Calibration, ScenarioFile, StepTimeConfig};
use servecast::sim::Simulation;
use servecast::units::{SimDuration, SimTime};
use servecast::workload::{Client, TraceRow, Workload};

use crate::support::data;

const SCENARIO: &str = r#"
name = "ShareGPT on RTX PRO 6000"

[trace]
path = "-"

[workload]
arrivals = { type = "trace" }
lengths = { type = "trace" }

[cluster]
model = "meta-llama/Llama-3.1-8B"
gpu = "RTX-PRO-6000"
step_time = { type = "layer_table" }

[cluster.engine]
type = "vllm_v1"
max_num_seqs = 128
max_num_batched_tokens = 2048
"#;

/// One request as the engine stamped it; arrivals are on the client's clock.
#[derive(Debug, Clone, Deserialize)]
struct Stamps {
    input_toks: u32,
    output_toks: u32,
    arrival_time: f64,
    queued_ts: f64,
    first_token_ts: f64,
    last_token_ts: f64,
}

/// Times of requests in seconds, in order of arrival.
#[derive(Debug, Clone, Default)]
struct Latencies {
    ttft: Vec<f64>,
    tpot: Vec<f64>,
    e2e: Vec<f64>,
}

impl Latencies {
    fn push(&mut self, queued: f64, first: f64, last: f64, tokens: u32) {
        self.ttft.push(first - queued);
        self.e2e.push(last - queued);
        self.tpot.push((last - first) / f64::from(tokens.max(2) - 1));
    }

    /// Means over some requests: time to first token, time per output token, end to end.
    fn means(&self, requests: std::ops::Range<usize>) -> [f64; 3] {
        let mean =
            |times: &[f64]| times[requests.clone()].iter().sum::<f64>() / requests.len() as f64;
        [mean(&self.ttft), mean(&self.tpot), mean(&self.e2e)]
    }

    fn quantile(times: &[f64], share: f64) -> f64 {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        times[((times.len() - 1) as f64 * share).round() as usize]
    }
}

struct Run {
    scenario: Scenario,
    rows: Vec<TraceRow>,
    measured: Latencies,
}

impl Run {
    fn read(data: &Path) -> Self {
        let folder = data.join("real-runs/sharegpt-300");
        let dataset = folder.join("sharegpt-llama-3.1-8b-300-sps10.jsonl");
        let rows = open(&dataset, None, &TraceOptions::default()).expect("a readable trace");
        let mut rows: Vec<TraceRow> = rows.collect::<Result<_, _>>().expect("good rows");
        let path = folder.join("RTXPRO6000_Llama-3.1-8B/requests.jsonl");
        let text = fs::read_to_string(path).expect("stamps of the run");
        let stamps = text.lines().map(serde_json::from_str);
        let stamps: Vec<Stamps> = stamps.collect::<Result<_, _>>().expect("good stamps");
        assert_eq!(stamps.len(), rows.len());
        let first = stamps[0].arrival_time;
        let mut measured = Latencies::default();
        for (stamp, row) in stamps.iter().zip(&mut rows) {
            assert_eq!(
                (stamp.input_toks, stamp.output_toks),
                (row.prompt_tokens, row.output_tokens)
            );
            row.arrival = Some(SimTime::from_secs_f64(stamp.arrival_time - first));
            let Stamps { queued_ts, first_token_ts, last_token_ts, output_toks, .. } = *stamp;
            measured.push(queued_ts, first_token_ts, last_token_ts, output_toks);
        }
        let file: ScenarioFile = toml::from_str(SCENARIO).expect("a scenario");
        let scenario = Scenario::resolve(file, None).expect("a scenario that runs");
        Self { scenario, rows, measured }
    }

    /// Runs the requests through the engine of the scenario.
    fn simulate(&self, calibration: Calibration) -> (Latencies, StepLog) {
        let mut scenario = self.scenario.clone();
        if let StepTimeConfig::LayerTable(config) = &mut scenario.groups[0].cluster.step_time {
            config.calibration = calibration;
        }
        let rows = self.rows.clone().into_iter().map(Ok);
        let workload = Workload::open(&scenario.workload, scenario.seed, Some(Box::new(rows)));
        let cluster = servecast::sim::cluster(&scenario).expect("a cluster");
        let client = Client::new(&scenario.workload.client);
        let (mut recorder, mut steps) = (Recorder::default(), StepLog::default());
        Simulation::new(workload.expect("a workload"), client, cluster, SimDuration::ZERO)
            .run(&mut (&mut recorder, &mut steps))
            .expect("a run");
        let mut simulated = Latencies::default();
        for record in &recorder.requests {
            let picked_up = picked_up(&steps, record.queued).as_secs_f64();
            let (first, last) = (record.first_token.as_secs_f64(), record.finish.as_secs_f64());
            simulated.push(picked_up, first, last, record.output_tokens);
        }
        (simulated, steps)
    }
}

/// When an engine's loop notices what came at `queued`: at once while no step runs, else at its end.
fn picked_up(steps: &StepLog, queued: SimTime) -> SimTime {
    let next = steps.steps.partition_point(|step| step.start + step.duration < queued);
    match steps.steps.get(next) {
        Some(step) if step.scheduled < queued => step.start + step.duration,
        _ => queued,
    }
}

/// The table that the scenario is priced by.
fn table(scenario: &Scenario) -> LayerTable {
    let text = scenario.first().step_time_profile.as_deref().expect("the profile is shipped");
    let profile = LayerProfile::parse(text).expect("a shipped profile is valid");
    let options = LayerTableOptions {
        tensor_parallel_size: 1,
        kv_cache_dtype: KvDtype::Auto,
        expert_gpus: None,
        all_reduce: None,
        calibration: Calibration::default(),
    };
    LayerTable::new(&profile, &scenario.first().model, &options).expect("the profile of this model")
}

fn errors(measured: [f64; 3], simulated: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|metric| (simulated[metric] / measured[metric] - 1.0) * 100.0)
}

fn print(title: &str, measured: [f64; 3], simulated: [f64; 3]) {
    println!("{title}\n             measured ms  simulated ms    error %");
    let errors = errors(measured, simulated);
    for (metric, name) in ["mean TTFT", "mean TPOT", "mean E2E "].iter().enumerate() {
        let [real, ours] = [measured[metric] * 1e3, simulated[metric] * 1e3];
        println!("  {name} {real:13.3} {ours:13.3} {:+10.2}", errors[metric]);
    }
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn the_shipped_tables_predict_the_measured_run_without_a_fitted_constant() {
    let data = data();
    let run = Run::read(&data);
    let (simulated, steps) = run.simulate(Calibration::default());
    let all = 0..run.rows.len();
    let [measured, ours] = [run.measured.means(all.clone()), simulated.means(all)];
    print("profile only, all requests", measured, ours);
    for share in [0.5, 0.9, 0.99] {
        let at = |latencies: &Latencies| {
            [&latencies.ttft, &latencies.tpot, &latencies.e2e]
                .map(|times| Latencies::quantile(times, share))
        };
        let [ttft, tpot, e2e] = errors(at(&run.measured), at(&simulated));
        println!("  p{:<3} TTFT {ttft:+.2} %  TPOT {tpot:+.2} %  E2E {e2e:+.2} %", share * 100.0);
    }
    let table = table(&run.scenario);
    let outside = steps
        .steps
        .iter()
        .filter(|step| table.coverage(&step.shape) == Coverage::Extrapolated)
        .count();
    println!("  {outside} of {} steps lie outside the measured grid", steps.steps.len());
    let [ttft, tpot, e2e] = errors(measured, ours).map(f64::abs);
    assert!(ttft <= 4.5 && tpot <= 1.1 && e2e <= 2.0, "{ttft:.2} {tpot:.2} {e2e:.2}");
}

/// Fits the two host constants to some requests: the point of a grid with the smallest mean error,
/// without sign, of their times per output token and end to end. Waiting adds up what steps are off
/// by, so times to first token would weigh most where they say least about a step.
fn fit(run: &Run, requests: std::ops::Range<usize>) -> Calibration {
    let miss = |calibration: Calibration| {
        let (simulated, _) = run.simulate(calibration);
        let pairs = [(&simulated.tpot, &run.measured.tpot), (&simulated.e2e, &run.measured.e2e)];
        let error =
            |index: usize| pairs.iter().map(move |(s, m)| (s[index] / m[index] - 1.0).abs());
        requests.clone().flat_map(error).sum::<f64>()
    };
    let grid = (0..=10).flat_map(|step| (0..=10).map(move |prefill| (step, prefill)));
    let fits = grid.map(|(step, prefill)| {
        let calibration = Calibration {
            per_step_us: f64::from(step) * 50.0,
            per_prefill_step_us: f64::from(prefill) * 500.0,
            ..Calibration::default()
        };
        (miss(calibration), calibration)
    });
    let best = fits.min_by(|a, b| a.0.total_cmp(&b.0));
    best.expect("a grid has points").1
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn two_host_constants_fitted_to_the_first_half_predict_the_second() {
    let data = data();
    let run = Run::read(&data);
    let half = run.rows.len() / 2;
    let calibration = fit(&run, 0..half);
    println!(
        "fitted: per_step_us = {}, per_prefill_step_us = {}",
        calibration.per_step_us, calibration.per_prefill_step_us
    );
    let (simulated, _) = run.simulate(calibration);
    print("fitted half", run.measured.means(0..half), simulated.means(0..half));
    let rest = half..run.rows.len();
    let [measured, ours] = [run.measured.means(rest.clone()), simulated.means(rest)];
    print("the other half", measured, ours);
    let [ttft, tpot, e2e] = errors(measured, ours).map(f64::abs);
    assert!(ttft <= 1.5 && tpot <= 0.5 && e2e <= 0.5, "{ttft:.2} {tpot:.2} {e2e:.2}");
}
