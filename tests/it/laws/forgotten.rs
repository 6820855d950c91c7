//! A run that keeps no records reports what one with records does: to the last bit while it remembers all
//! requests, within the width of a bin beyond, in one loop as in lanes.

use proptest::prelude::*;

use servecast::cost::Linear;
use servecast::metrics::bench::{BenchSummary, Distribution};
use servecast::metrics::{BenchReport, Recorder};
use servecast::request::Request;
use servecast::resolved::Scenario;
use servecast::rng::mix;
use servecast::scenario::{ScenarioFile, VllmConfig};
use servecast::sim::Simulation;
use servecast::units::{SimDuration, SimTime};
use servecast::workload::Client;

use super::random::{laws, served};
use crate::support::{self, law, micros};

/// What reports ask for; the engine and its requests are random.
fn scenario(report: &str) -> Scenario {
    let text = format!(
        "name = 'x'\n[workload]\nnum_requests = 1\narrivals.type = 'all_at_once'\n\
         lengths = {{ type = 'fixed', input_tokens = 1, output_tokens = 1 }}\n\
         [cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n[report]\n{report}"
    );
    let file: ScenarioFile = toml::from_str(&text).expect("the scenario is TOML");
    Scenario::resolve(file, None).expect("the scenario holds together")
}

fn reports() -> impl Strategy<Value = &'static str> {
    let reports = vec![
        "",
        "streaming = false",
        "goodput = { ttft = 20.0 }",
        "goodput = { e2el = 40.0, ttft = 10.0, tpot = 1.5 }",
        "streaming = false\ngoodput = { e2el = 40.0, ttft = 40.0 }",
    ];
    prop::sample::select(reports)
}

fn near(ours: f64, theirs: f64, bound: f64) -> Result<(), TestCaseError> {
    // Floats add up what whole numbers do.
    let bound = bound.max(1e-9) * theirs.abs() + 1e-9;
    prop_assert!((ours - theirs).abs() <= bound, "{} instead of {}", ours, theirs);
    Ok(())
}

fn spread(ours: &Distribution, theirs: &Distribution) -> Result<(), TestCaseError> {
    prop_assert_eq!(ours.count(), theirs.count());
    near(ours.mean_ms(), theirs.mean_ms(), 0.0)?;
    near(ours.std_dev_ms(), theirs.std_dev_ms(), 1e-6)?;
    near(ours.max_ms(), theirs.max_ms(), 0.0)?;
    near(ours.median_ms(), theirs.median_ms(), 1.0 / 4096.0)?;
    let percentiles = PERCENTILES.into_iter();
    percentiles
        .map(|p| (ours.percentile_ms(p), theirs.percentile_ms(p)))
        .try_for_each(|(ours, theirs)| near(ours, theirs, 1.0 / 4096.0))
}

const PERCENTILES: [f64; 6] = [0.0, 10.0, 50.0, 90.0, 99.0, 100.0];

/// Every figure to the last bit, but for the moments of gaps between tokens: those are of floats around the gap
/// that was counted first, which lanes may count in another order.
fn exactly(summary: &BenchSummary) -> Vec<u64> {
    let ordered = |it: &Distribution| {
        let ends = [it.median_ms(), it.max_ms()];
        ends.into_iter().chain(PERCENTILES.map(|p| it.percentile_ms(p))).collect::<Vec<_>>()
    };
    let of = |it: &Distribution| [vec![it.mean_ms(), it.std_dev_ms()], ordered(it)].concat();
    let goodput = summary.goodput.as_ref();
    let kept = goodput.map_or(Vec::new(), |it| {
        let each = it.attainment_by_metric.iter().map(|(_, share)| *share);
        [it.request_goodput, it.attainment].into_iter().chain(each).collect()
    });
    let all = [summary.duration_s, summary.concurrency, summary.peak_output_tokens_per_s];
    let counts = [
        summary.completed,
        summary.failed,
        summary.input_tokens,
        summary.output_tokens,
        summary.peak_concurrent_requests,
        summary.cache.cached_tokens,
        summary.itl.count(),
        summary.tpot.count(),
    ];
    let latencies = [of(&summary.ttft), of(&summary.tpot), of(&summary.e2e), ordered(&summary.itl)];
    let floats = all.into_iter().chain(kept).chain(latencies.concat());
    counts.into_iter().chain(floats.map(f64::to_bits)).collect()
}

fn compare(
    (bounded, ours): (&Recorder, &BenchSummary),
    (kept, theirs): (&Recorder, &BenchSummary),
) -> Result<(), TestCaseError> {
    let counts = |it: &BenchSummary| {
        let tokens = (it.input_tokens, it.output_tokens, it.cache.clone());
        (it.completed, it.failed, tokens, it.goodput.clone())
    };
    prop_assert_eq!(counts(ours), counts(theirs));
    let work = |it: &Recorder| (it.preemptions(), it.answered(), it.parts(), it.steps, it.end);
    prop_assert_eq!(work(bounded), work(kept));
    if !bounded.folded().expect("some were forgotten").shifts_seconds() {
        prop_assert_eq!(ours.peak_concurrent_requests, theirs.peak_concurrent_requests);
        let peak = |it: &BenchSummary| it.peak_output_tokens_per_s.to_bits();
        prop_assert_eq!(peak(ours), peak(theirs));
    }
    near(ours.concurrency, theirs.concurrency, 0.0)?;
    spread(&ours.ttft, &theirs.ttft)?;
    spread(&ours.tpot, &theirs.tpot)?;
    spread(&ours.e2e, &theirs.e2e)?;
    spread(&ours.itl, &theirs.itl)
}

/// Requests on replicas that they go to in turn, and what is asked of them.
struct Served<'a> {
    scenario: &'a Scenario,
    engine: &'a VllmConfig,
    law: Linear,
    replicas: u32,
    requests: &'a [Request],
}

impl Served<'_> {
    fn run(&self, mut recorder: Recorder, lanes: bool) -> (Recorder, BenchSummary) {
        let cluster = support::cluster(self.replicas, self.engine, self.law);
        let requests = servecast::sim::Requests(self.requests.iter().cloned());
        let client = Client::new(&self.scenario.workload.client);
        let run = Simulation::new(requests, client, cluster, SimDuration::ZERO);
        let counts = if lanes { run.run_in_lanes(&mut recorder) } else { run.run(&mut recorder) };
        counts.expect("no trace is read");
        let summary = BenchReport::new(&recorder, self.scenario).summary;
        (recorder, summary)
    }

    /// Where so many requests are remembered, figures are those of all records.
    fn compare(&self, limit: u32) -> Result<(), TestCaseError> {
        let count = self.requests.len() as u32;
        let figures = |limit| Recorder::of_figures(self.scenario).remembering(limit);
        let (kept, theirs) = self.run(Recorder::of(self.scenario), false);
        for lanes in [false, true] {
            let (all, ours) = self.run(figures(count), lanes);
            prop_assert_eq!(&all.requests, &kept.requests);
            prop_assert_eq!(exactly(&ours), exactly(&theirs));
        }
        let [one, lanes] = [false, true].map(|lanes| self.run(figures(limit), lanes));
        compare((&one.0, &one.1), (&kept, &theirs))?;
        compare((&lanes.0, &lanes.1), (&kept, &theirs))?;
        prop_assert_eq!(exactly(&one.1), exactly(&lanes.1));
        Ok(())
    }
}

proptest! {
    #![proptest_config(crate::support::random_cases(150))]

    #[test]
    fn what_is_forgotten_is_in_the_figures(
        (engine, requests) in served(), law in laws(), report in reports(), replicas in 1_u32..4,
        share in 0.0..1.0,
    ) {
        let (scenario, engine) = (&scenario(report), &engine);
        let served = Served { scenario, engine, law, replicas, requests: &requests };
        served.compare((share * requests.len() as f64) as u32)?;
    }
}

/// Lanes go on in rounds, and leave what they note to be counted meanwhile.
#[test]
fn what_lanes_set_aside_is_in_the_figures() {
    let scenario = &scenario("goodput = { e2el = 40.0, ttft = 10.0, tpot = 1.5 }");
    let request = |index: u64| {
        let [prompt, output] = [mix(index) % 120, mix(index + 7) % 90].map(|tokens| tokens as u32);
        Request::new(SimTime::ZERO + micros(700 * index), 1 + prompt, 1 + output)
    };
    let requests: Vec<Request> = (0..2000).map(request).collect();
    let engine = &VllmConfig {
        num_gpu_blocks: Some(1025),
        max_num_batched_tokens: Some(512),
        max_num_seqs: Some(16),
        max_model_len: Some(256),
        ..VllmConfig::default()
    };
    // One replica is saturated, three are not.
    for replicas in [1, 3] {
        let served =
            Served { scenario, engine, law: law(400, 3, 20), replicas, requests: &requests };
        served.compare(100).unwrap();
    }
}
