//! Recorded decisions of Dynamo's KV router come out as they were made.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use servecast::conformance::RecordingError;
use servecast::conformance::routing::{Tally, check};

use crate::support::data;

/// Recordings that are not replayed, and why.
const REFUSED: [(&str, &str); 1] = [("replay-agg-evict.jsonl.gz", "num_gpu_blocks")];

fn read(path: &Path) -> String {
    let mut text = String::new();
    let file = File::open(path).expect("a recording is readable");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("a recording is text");
    text
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn recorded_decisions_of_dynamo_come_out() {
    let folder = data().join("routing/dynamo");
    let mut paths: Vec<_> = (fs::read_dir(&folder).expect("the folder is readable"))
        .map(|entry| entry.expect("an entry is readable").path())
        .collect();
    paths.sort();
    let mut sum = Tally::default();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".jsonl.gz") || name.starts_with("planner-") {
            continue;
        }
        let refused = REFUSED.iter().find(|(one, _)| *one == name);
        match (check(&read(&path)), refused) {
            (Ok(tally), None) => {
                println!("{name}: {} exact, {} drawn", tally.exact, tally.drawn);
                assert_eq!((tally.wrong, &tally.first), (0, &None), "{name}");
                (sum.exact, sum.drawn) = (sum.exact + tally.exact, sum.drawn + tally.drawn);
            }
            (Err(RecordingError::NotModelled { problem, .. }), Some((_, why))) => {
                assert!(problem.contains(why), "{name}: {problem}");
            }
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
    println!("all: {} exact, {} drawn", sum.exact, sum.drawn);
}

const SETTINGS: &str = r#"{"k":"settings","name":"x","seed":1,"source":"SelectionService","version":"ai-dynamo-runtime 1.6.1","block_size":16,"env":{},"policy":null,"indexer_threads":4,"note":""}
{"k":"worker","op":"add","id":1}
{"k":"worker","op":"add","id":2}
{"k":"arrive","id":"a","t":0.5,"p":[[1,2]],"isl":40,"overlap":{},"potential":{"1.0":[40,2,0],"2.0":[40,2,0]}}
{"k":"decision","id":"a","t":1.0,"w":2,"r":0,"cost":4.5}
{"k":"arrive","id":"b","t":1.5,"p":[[1,2]],"isl":40,"overlap":{},"potential":{"1.0":[40,2,0],"2.0":[80,2,1]}}
{"k":"decision","id":"b","t":2.0,"w":1,"r":0,"cost":4.5}
{"k":"prefill_done","id":"a","t":2.5}
{"k":"free","id":"a","t":3.0}
{"k":"end","t":4.0,"unfinished":0}
"#;

#[test]
fn a_recording_is_replayed_and_what_is_not_so_is_counted() {
    let tally = check(SETTINGS).unwrap();
    assert_eq!((tally.exact, tally.drawn, tally.wrong), (1, 1, 0));

    for (right, other, wrong) in [
        (r#""id":"b","t":2.0,"w":1"#, r#""id":"b","t":2.0,"w":2"#, 1),
        (r#""2.0":[80,2,1]"#, r#""2.0":[80,3,1]"#, 1),
        (r#""w":1,"r":0,"cost":4.5"#, r#""w":1,"r":0,"cost":4.6"#, 1),
        (
            r#""overlap":{},"potential":{"1.0":[40,2,0],"2.0":[80"#,
            r#""overlap":{"1.0":1},"potential":{"1.0":[40,2,0],"2.0":[80"#,
            3,
        ),
    ] {
        assert!(SETTINGS.contains(right), "{right}");
        let tally = check(&SETTINGS.replace(right, other)).unwrap();
        assert_eq!(tally.wrong, wrong, "{other}: {:?}", tally.first);
    }
}

#[test]
fn what_is_not_modelled_is_refused_by_name() {
    for (right, other, name) in [
        (
            r#""env":{}"#,
            r#""env":{"DYN_ROUTER_PREFILL_LOAD_MODEL":"ais"}"#,
            "DYN_ROUTER_PREFILL_LOAD_MODEL",
        ),
        (r#""note":"""#, r#""note":"","worker_selection":{"type":"thunderagent"}"#, "thunderagent"),
        ("runtime 1.6.1", "runtime 1.7.0", "1.7.0"),
        (
            r#""isl":40,"overlap":{},"potential":{"1.0":[40,2,0],"2.0":[40"#,
            r#""isl":40,"opts":{"shared":1},"overlap":{},"potential":{"1.0":[40,2,0],"2.0":[40"#,
            "shared",
        ),
        (r#""isl":40"#, r#""isl":30"#, "line 4: isl"),
        (r#""t":2.5"#, r#""t":-1.0"#, "line 8"),
        (r#""id":2}"#, r#""id":2,"dp":5000000}"#, "line 3: dp"),
        ("[[1,2]]", "[[1,4000000000],[1,4000000000]]", "line 4: p"),
    ] {
        assert!(SETTINGS.contains(right), "{right}");
        let error = check(&SETTINGS.replacen(right, other, 1)).unwrap_err().to_string();
        assert!(error.contains(name), "{other}: {error}");
    }
}
