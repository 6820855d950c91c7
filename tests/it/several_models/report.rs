//! What is reported of several models, and scenarios that name them in other ways.

use servecast::io::traces::{TraceOptions, open};
use servecast::metrics::{Caution, ModelsReport};
use servecast::model::ModelSpec;
use servecast::profiles;
use servecast::resolved::{OwnFiles, Scenario, Unstated};
use servecast::scenario::ScenarioFile;
use servecast::sim::{Requests, simulation, step_times};
use servecast::workload::Workload;

use super::{CLASSES, CLUSTER, LARGE, LARGE_GROUP, SMALL, SMALL_GROUP, WORKLOAD, requests, run};
use crate::support::resolve;

fn both() -> String {
    format!("{WORKLOAD}{CLASSES}{CLUSTER}{LARGE_GROUP}{SMALL_GROUP}")
}

#[test]
fn a_resolved_scenario_gives_the_same_run() {
    let text = both().replace("model = 'meta-llama/Llama-3.1-8B'", "model = 'llama-3.1-8b'");
    let scenario = resolve(&text).expect("it holds");
    assert_eq!(scenario.models, [LARGE, SMALL]);
    let written = toml::to_string(&scenario.written()).expect("it can be written");
    let again = resolve(&written).expect("it holds");
    assert_eq!(again.written(), scenario.written());
    assert_eq!(again.models, scenario.models);
    let runs = [&scenario, &again].map(|it| run(it, requests(it)).1.requests);
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn the_report_of_a_model_is_that_of_its_requests() {
    let scenario = resolve(&both()).expect("it holds");
    let sent = requests(&scenario);
    let (counts, recorder) = run(&scenario, sent.clone());
    let report = ModelsReport::new(&recorder, &scenario).expect("there are two models");
    let [large, small] = &report.models[..] else { panic!("{report:?}") };
    assert_eq!((large.model.as_str(), large.replicas, large.gpus), (LARGE, 2, 8));
    assert_eq!((small.model.as_str(), small.replicas, small.gpus), (SMALL, 3, 3));
    assert_eq!(large.finished + small.finished, counts.finished);
    let of_small: Vec<_> = sent.iter().filter(|request| request.model.index() == 1).collect();
    assert_eq!(small.requests, of_small.len() as u64);
    let output: u32 = of_small.iter().map(|request| request.output_tokens).sum();
    assert_eq!(small.output_tokens, u64::from(output));
    let records = sent.iter().zip(&recorder.requests);
    let of_small = records.filter(|(request, _)| request.model.index() == 1);
    let ttfts: Vec<f64> = of_small.map(|(_, record)| record.ttft().as_millis_f64()).collect();
    let mean = ttfts.iter().sum::<f64>() / ttfts.len() as f64;
    let told = small.ttft_ms.expect("some are answered").mean;
    assert!((told - mean).abs() < 1e-9 * mean, "{told} instead of {mean}");
    let text = report.text();
    assert!(text.contains("Llama-3.1-70B"), "{text}");
}

#[test]
fn one_model_has_no_report_of_its_own() {
    let scenario = resolve(&format!("{WORKLOAD}{CLUSTER}{LARGE_GROUP}")).expect("it holds");
    let (_, recorder) = run(&scenario, requests(&scenario));
    assert_eq!(ModelsReport::new(&recorder, &scenario), None);
}

/// Few requests for a model with many replicas hide no model that has too few.
#[test]
fn the_load_that_is_warned_of_is_that_of_the_busiest_model() {
    let crowded = |groups: &str| {
        let text = both().replace("num_requests = 80", "num_requests = 400");
        let text = text.replace("rate_per_s = 30.0", "rate_per_s = 16.0") + groups;
        let scenario = resolve(&text).expect("it holds");
        let costs = step_times(&scenario).expect("step times are known");
        let mut caution = Caution::new(&scenario, costs.clone());
        let source = Requests(requests(&scenario).into_iter());
        let run = simulation(&scenario, &costs, source).expect("it can be built");
        let counts = run.run(&mut caution).expect("a list has no errors");
        caution.warnings(&scenario, &counts)
    };
    let slow = "step_time = { type = 'linear', base_us = 9000.0, prefill_token_us = 900.0, \
                decode_seq_us = 90.0 }\nengine = { type = 'vllm_v1', max_num_seqs = 1 }\n";
    let warnings = crowded(slow);
    assert_eq!(warnings.load_model.as_deref(), Some(SMALL), "{warnings:?}");
    let alone = warnings.load.expect("requests come by themselves");
    let more = crowded(&format!("{slow}\n{LARGE_GROUP}"));
    assert_eq!(more.load, Some(alone), "replicas of the other model do not help");
}

#[test]
fn a_column_of_a_trace_names_the_model() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("trace.csv");
    let rows = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                5,GPT-4,472,18,490,Conversation log\n6,ChatGPT,50,5,55,Conversation log\n\
                6,ChatGPT,60,6,66,API log\n";
    std::fs::write(&path, rows).expect("it can be written");
    let classes = "[[workload.classes]]\nname = 'GPT-4'\n\
                   [[workload.classes]]\nname = 'ChatGPT'\nmodel = 'meta-llama/Llama-3.1-8B'\n";
    let text = format!(
        "name = 'x'\n[trace]\npath = 'trace.csv'\ncolumns = {{ class = 'Model' }}\n[workload]\n\
         arrivals.type = 'trace'\nlengths.type = 'trace'\n{classes}{CLUSTER}{LARGE_GROUP}{SMALL_GROUP}"
    );
    let scenario = resolve(&text).expect("it holds");
    let trace = scenario.trace.as_ref().expect("it is given");
    let options = TraceOptions { columns: trace.columns.clone(), ..TraceOptions::default() };
    let rows = open(&path, None, &options).expect("the trace is readable").into_rows();
    let workload = Workload::open(&scenario.workload, scenario.seed, Some(rows));
    let sent = workload.expect("it opens").collect::<Result<Vec<_>, _>>().expect("rows are good");
    let models: Vec<usize> = sent.iter().map(|request| request.model.index()).collect();
    assert_eq!(models, [0, 1, 1]);
}

#[test]
fn groups_and_classes_name_local_models() {
    let local = |name: &str| ModelSpec {
        name: name.to_owned(),
        ..profiles::model(SMALL).expect("it is in the catalogue")
    };
    let text = both().replace("meta-llama/Llama-3.1-8B", "mine");
    let file: ScenarioFile = toml::from_str(&text).expect("it is TOML");
    let models = [("mine".to_owned(), local("my own"))].into();
    let own = OwnFiles { models, ..OwnFiles::default() };
    let scenario = Scenario::resolve_with(file, &own, Unstated::Bare).expect("it holds");
    assert_eq!(scenario.models, [LARGE, "my own"]);
    assert_eq!(scenario.workload.classes[1].model.as_deref(), Some("mine"));
}
