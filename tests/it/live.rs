//! A cluster that is driven from outside fares as a run of the same requests.

use std::path::Path;

use servecast::load::{Changes, Draft};
use servecast::metrics::{BenchReport, Recorder, Summary};
use servecast::request::Request;
use servecast::scenario::{ClientConfig, FaultConfig};
use servecast::sim::Live;
use servecast::study::Case;
use servecast::units::{SimDuration, SimTime};

use super::support::resolve;

/// Requests that each scenario gets.
const REQUESTS: u32 = 120;

/// The scenarios of the folder and their variants whose clients send what comes when it comes.
fn open_cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = std::fs::read_dir(folder).expect("the scenarios are there");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let Ok(drafts) = Changes::default().load(Some(&file)) else { continue };
        let few = |draft: &Draft| draft.clone().with("workload.num_requests", REQUESTS).ok();
        for draft in drafts.each.iter().filter_map(few) {
            // Traces that are not part of the repository.
            let Ok(case) = draft.resolve().and_then(|loaded| loaded.case()) else { continue };
            let is_open = case.scenario.workload.client == ClientConfig::default();
            let workload = case.workload().expect("it opens");
            if is_open && !workload.has_follow_ups() {
                cases.push(case);
            }
        }
    }
    cases
}

/// Serves requests as they come; `between` is done before each.
fn serve(case: &Case, mut between: impl FnMut(&mut Live, SimTime)) -> (Live, Recorder) {
    let mut recorder = Recorder::of(&case.scenario);
    let cluster = case.cluster().expect("it is built");
    let mut live = Live::new(&case.scenario, cluster, &mut recorder).expect("it is warmed up");
    for request in case.workload().expect("it opens") {
        let request: Request = request.expect("it is drawn");
        let at = request.arrival;
        while live.advance(at, &mut recorder) {}
        between(&mut live, at);
        live.submit(at, request, &mut recorder);
    }
    while live.counts().unfinished > 0 && live.advance(SimTime::MAX, &mut recorder) {}
    (live, recorder)
}

#[test]
fn requests_that_come_from_outside_fare_as_those_of_a_workload() {
    let cases = open_cases();
    assert!(cases.len() > 40, "{} scenarios", cases.len());
    for case in &cases {
        let name = &case.scenario.name;
        println!("{name}");
        let run = case.run().expect("it runs");
        let (live, recorder) = serve(case, |_, _| {});
        assert_eq!(live.counts(), run.counts, "{name}");
        assert_eq!(recorder.requests, run.recorder.requests, "{name}");
        assert_eq!(recorder.steps, run.recorder.steps, "{name}");
    }
}

const TWO: &str = "name = 'two'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
                   replicas = 2\n[workload]\nnum_requests = 200\narrivals.type = 'poisson'\n\
                   arrivals.rate_per_s = 20.0\nlengths.type = 'fixed'\nlengths.input_tokens = 500\n\
                   lengths.output_tokens = 50\n";

fn case(text: &str) -> Case {
    let scenario = resolve(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Case::new(scenario, None).expect("step times are known")
}

#[test]
fn a_fault_that_is_told_later_is_one_that_was_planned() {
    let crash = FaultConfig::Crash { replica: 1, at_s: 3.0, down_s: 2.0, detection_s: 0.5 };
    let slow = FaultConfig::Straggler { replica: 0, at_s: 2.0, for_s: 4.0, factor: 3.0 };
    let planned = case(&format!(
        "{TWO}[[faults]]\ntype = 'crash'\nreplica = 1\nat_s = 3.0\ndown_s = 2.0\ndetection_s = 0.5\n\
         [[faults]]\ntype = 'straggler'\nreplica = 0\nat_s = 2.0\nfor_s = 4.0\nfactor = 3.0\n"
    ));
    let expected = planned.run().expect("it runs");
    let mut faults = vec![slow, crash];
    let (live, recorder) = serve(&case(TWO), |live, at| {
        // The later one first, so that the earlier one comes before what is awaited.
        if at > SimTime::from_secs_f64(1.0)
            && let Some(fault) = faults.pop()
        {
            live.inject(&fault);
        }
    });
    assert!(faults.is_empty());
    assert!(expected.counts.failed > 0);
    assert_eq!(live.counts(), expected.counts);
    assert_eq!(recorder.requests, expected.recorder.requests);
}

#[test]
fn clients_that_go_away_leave_nothing_behind() {
    let case = case(TWO);
    let mut recorder = Recorder::of(&case.scenario);
    let cluster = case.cluster().expect("it is built");
    let mut live = Live::new(&case.scenario, cluster, &mut recorder).expect("it starts");
    let mut ids = Vec::new();
    for (index, request) in case.workload().expect("it opens").enumerate() {
        let request: Request = request.expect("it is drawn");
        let at = request.arrival;
        while live.advance(at, &mut recorder) {}
        ids.push(live.submit(at, request, &mut recorder));
        if index % 3 == 2 {
            // One on its way, one that is being answered, and one that may be over.
            for back in [0, 2, 20] {
                if let Some(place) = index.checked_sub(back) {
                    live.cancel(at, ids[place], &mut recorder);
                }
            }
        }
    }
    let end = live.now() + SimDuration::from_secs_f64(60.0);
    while live.advance(end, &mut recorder) {}
    let counts = live.counts();
    assert!(counts.aborted > 60, "{counts:?}");
    assert_eq!(counts.aborted + counts.finished, 200, "{counts:?}");
    for instance in live.instances() {
        let load = instance.scheduler().load();
        assert_eq!((load.waiting, load.running, load.kv_blocks_held()), (0, 0, 0));
    }
    assert_eq!(live.close(&mut recorder), counts);
}

/// Records are forgotten as requests leave, whatever they leave by.
#[test]
fn figures_of_forgotten_requests_are_those_of_their_records() {
    let case = case(TWO);
    let mut kept = Recorder::of(&case.scenario);
    let mut forgotten = Recorder::of_figures(&case.scenario).remembering(16);
    let cluster = case.cluster().expect("it is built");
    let heard = &mut (&mut kept, &mut forgotten);
    let mut live = Live::new(&case.scenario, cluster, heard).expect("it starts");
    let mut ids = Vec::new();
    for (index, request) in case.workload().expect("it opens").enumerate() {
        let request: Request = request.expect("it is drawn");
        let at = request.arrival;
        while live.advance(at, heard) {}
        ids.push(live.submit(at, request, heard));
        match index % 20 {
            3 => live.inject(&FaultConfig::Crash {
                replica: u32::from(index % 40 == 3),
                at_s: at.as_secs_f64() + 1e-3,
                down_s: 0.3,
                detection_s: 0.1,
            }),
            5 | 11 => live.cancel(at, ids[index - 2], heard),
            _ => {}
        }
    }
    let end = live.now() + SimDuration::from_secs_f64(60.0);
    while live.advance(end, heard) {}
    let counts = live.counts();
    assert!(counts.failed > 0 && counts.aborted > 5, "{counts:?}");
    assert_eq!(live.close(heard), counts);
    assert!(forgotten.folded().is_some());
    let summary = |recorder: &Recorder| {
        let report = BenchReport::new(recorder, &case.scenario);
        let summary = Summary::new(&case.scenario, &counts, recorder, &report, &[]);
        serde_json::to_value(summary).expect("it is JSON")
    };
    let (kept, forgotten) = (summary(&kept), summary(&forgotten));
    assert_eq!(kept["requests"], forgotten["requests"]);
    for figure in ["completed", "total_input_tokens", "total_output_tokens", "duration"] {
        assert_eq!(kept["benchmark"][figure], forgotten["benchmark"][figure], "{figure}");
    }
}
