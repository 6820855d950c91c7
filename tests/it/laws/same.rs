//! L5: the same scenario and seed give the same run, occurrence by occurrence.

use proptest::prelude::*;

use servecast::cluster::Cluster;
use servecast::io::traces::{TraceOptions, open};
use servecast::metrics::{Recorder, Status};
use servecast::request::Request;
use servecast::resolved::Scenario;
use servecast::scenario::ScenarioFile;
use servecast::sim::{Simulation, cluster};
use servecast::units::SimDuration;
use servecast::workload::{Client, Workload};

use super::random::{laws, served};
use crate::support::{self, Digest, data, run_on};

fn digest(cluster: Cluster, requests: &[Request]) -> Digest {
    let mut digest = Digest::default();
    run_on(cluster, requests.iter().cloned(), &mut digest);
    digest
}

proptest! {
    #![proptest_config(crate::support::random_cases(150))]

    #[test]
    fn a_run_repeats_itself_alone_and_beside_others(
        (engine, requests) in served(), law in laws(), replicas in 1_u32..4,
    ) {
        let run = || digest(support::cluster(replicas, &engine, law), &requests);
        let alone = run();
        prop_assert_eq!(run(), alone);
        let beside = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(run));
            threads.map(|thread| thread.join().expect("the run ends"))
        });
        prop_assert_eq!(beside, [alone; 4]);
    }
}

#[test]
fn another_seed_gives_another_run() {
    let [one, same, other] = [1, 1, 2].map(|seed| {
        let scenario = scenario(&format!(
            "seed = {seed}\n{CLUSTER}[workload]\nnum_requests = 300\narrivals.type = 'poisson'\n\
             arrivals.rate_per_s = 8.0\nlengths.type = 'sampled'\n\
             lengths.input_tokens = {{ type = 'uniform', min_tokens = 10, max_tokens = 2000 }}\n\
             lengths.output_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 300 }}\n"
        ));
        let mut digest = Digest::default();
        let workload = Workload::open(&scenario.workload, scenario.seed, None);
        run(&scenario, workload.expect("the workload opens"), &mut digest);
        digest
    });
    assert_eq!(one, same);
    assert_ne!(one, other);
}

const CLUSTER: &str = "name = 'Llama on one H100'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\n\
                       gpu = 'H100-SXM5-80GB'\n";

fn scenario(text: &str) -> Scenario {
    let file: ScenarioFile = toml::from_str(text).expect("the scenario is TOML");
    Scenario::resolve(file, None).expect("the scenario holds together")
}

fn run(scenario: &Scenario, workload: Workload, observer: &mut impl servecast::sim::Observer) {
    let cluster = cluster(scenario).expect("step times are known");
    let client = Client::new(&scenario.workload.client);
    let simulation = Simulation::new(workload, client, cluster, SimDuration::ZERO);
    simulation.run(observer).expect("the trace is read to its end");
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn an_hour_of_azure_conversations_is_served_and_repeats_itself() {
    let data = data();
    let path = data.join("traces/azure2023/AzureLLMInferenceTrace_conv.csv");
    let scenario = scenario(&format!(
        "{CLUSTER}[trace]\npath = '-'\n[workload]\narrivals.type = 'trace'\nlengths.type = 'trace'\n"
    ));
    let once = || {
        let rows = open(&path, None, &TraceOptions::default()).expect("the trace is readable");
        let workload = Workload::open(&scenario.workload, scenario.seed, Some(rows.into_rows()));
        let mut observer = (Digest::default(), Recorder::default());
        run(&scenario, workload.expect("the workload opens"), &mut observer);
        observer
    };
    let (digest, recorder) = once();
    assert_eq!(recorder.requests.len(), 19_366);
    assert!(recorder.requests.iter().all(|record| record.status == Status::Finished));
    assert_eq!(once().0, digest);
    println!("{} steps, {} tokens", recorder.steps, recorder.tokens_by_second.total());
}
