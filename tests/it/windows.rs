//! Layers with a sliding window in whole runs.

use servecast::engine::Instance;
use servecast::metrics::{Recorder, StepLog};
use servecast::resolved::Scenario;
use servecast::scenario::ScenarioFile;
use servecast::sim::Simulation;
use servecast::units::SimDuration;
use servecast::workload::{Client, Workload};

/// Keys that a token of a prefill visits in layers of gpt-oss with its window of 128 tokens.
const KEYS: u64 = 128 + 512;

fn run(engine: &str, step_by_step: bool) -> (Recorder, StepLog) {
    let pairs = "[3000, 40], [300, 70], [900, 5], ".repeat(7);
    let text = format!(
        "name = 'windows'
         [workload]
         num_requests = 21
         arrivals = {{ type = 'constant', rate_per_s = 20.0 }}
         lengths = {{ type = 'list', pairs = [{pairs}] }}
         [cluster]
         model = 'gpt-oss-20b'
         gpu = 'H100'
         engine = {{ type = '{engine}' }}"
    );
    let file: ScenarioFile = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = Scenario::resolve(file, None).unwrap_or_else(|error| panic!("{error}"));
    let mut cluster = servecast::sim::cluster(&scenario).expect("a cluster");
    if step_by_step {
        cluster.instances = cluster.instances.into_iter().map(Instance::step_by_step).collect();
    }
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("a workload");
    let client = Client::new(&scenario.workload.client);
    let (mut recorder, mut steps) = (Recorder::default(), StepLog::default());
    Simulation::new(workload, client, cluster, SimDuration::ZERO)
        .run(&mut (&mut recorder, &mut steps))
        .expect("a run");
    (recorder, steps)
}

#[test]
fn every_prefill_counts_what_its_windows_visit() {
    for engine in ["vllm_v1", "sglang"] {
        let (_, log) = run(engine, false);
        let prefills: Vec<_> =
            log.steps.iter().filter(|step| step.shape.prefill_seqs > 0).collect();
        assert!(!prefills.is_empty(), "{engine}");
        for step in prefills {
            let shape = &step.shape;
            assert_eq!(u64::from(shape.prefill_window), KEYS, "{engine}");
            let most = KEYS * u64::from(shape.prefill_tokens);
            let counted = shape.window_attention;
            assert!(counted > 0 && counted <= most.min(shape.prefill_attention), "{shape:?}");
        }
        let whole = |shape: &&servecast::cost::StepShape| {
            shape.prefill_seqs == 1 && shape.prefill_tokens == 3000
        };
        let shapes = log.steps.iter().map(|step| &step.shape);
        let long = shapes.clone().find(whole).expect("a prompt of 3000 tokens on its own");
        assert_eq!(long.window_attention, KEYS * KEYS / 2 + KEYS * (3000 - KEYS), "{engine}");
    }
}

#[test]
fn runs_of_steps_fare_as_step_by_step() {
    for engine in ["vllm_v1", "sglang"] {
        let [(runs, _), (steps, _)] = [false, true].map(|single| run(engine, single));
        assert_eq!(runs.requests, steps.requests, "{engine}");
    }
}
