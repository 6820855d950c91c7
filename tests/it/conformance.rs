//! Recorded schedules of the real engines come out step for step.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use servecast::conformance::{Recording, Verdict, check};

use crate::support::data;

/// The folder of recordings: `SERVECAST_SCHEDULES`, or `schedules` in `SERVECAST_DATA`.
fn folder() -> PathBuf {
    let given = std::env::var_os("SERVECAST_SCHEDULES").map(PathBuf::from);
    given.unwrap_or_else(|| data().join("schedules"))
}

pub(crate) fn recordings(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder of recordings is readable") {
        let path = entry.expect("a folder entry is readable").path();
        let name = path.to_string_lossy();
        if path.is_dir() {
            recordings(&path, found);
        } else if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
            found.push(path);
        }
    }
}

pub(crate) fn read(path: &Path) -> String {
    let file = File::open(path).expect("a recording is readable");
    let mut text = String::new();
    if path.extension().is_some_and(|ext| ext == "gz") {
        flate2::read::GzDecoder::new(file).read_to_string(&mut text)
    } else {
        { file }.read_to_string(&mut text)
    }
    .expect("a recording is text");
    text
}

#[test]
fn own_recordings_come_out_exactly() {
    come_out_exactly(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schedules"));
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn recorded_schedules_come_out_exactly() {
    come_out_exactly(&folder());
}

/// Recordings of SGLang with windows, states and drafts that do not come out exactly.
const SGLANG_INEXACT: [&str; 0] = [];

/// Recordings of vLLM with several KV groups, pipeline stages, images, grammars or a connector that do not come
/// out exactly, and why.
const VLLM_INEXACT: [&str; 2] = [
    // Hits that end inside a block.
    "hy_qwen3next_align_fine.jsonl",
    // Which block of host memory makes way first.
    "offload_lru.jsonl",
];

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn recorded_hybrid_schedules_of_sglang_come_out_exactly_but_for_those_named() {
    assert_eq!(inexact(&data().join("schedules-hybrid/sglang")), SGLANG_INEXACT);
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn recorded_hybrid_schedules_of_vllm_come_out_exactly_but_for_those_named() {
    assert_eq!(inexact(&data().join("schedules-hybrid/vllm")), VLLM_INEXACT);
}

fn come_out_exactly(folder: &Path) {
    assert_eq!(inexact(folder), [""; 0]);
}

/// The recordings under a folder that do not come out exactly, by name.
fn inexact(folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    recordings(folder, &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "no recording under {}", folder.display());
    let mut others = Vec::new();
    for path in &paths {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let verdict = Recording::parse(&read(path)).and_then(|recording| check(&recording));
        match verdict {
            Ok(Verdict::Exact { steps }) => {
                println!("{name}: exact ({steps} steps)");
                continue;
            }
            Ok(Verdict::Differs { place, fields, recorded, replayed }) => {
                println!("{name}: {place} differs in {}", fields.join(", "));
                println!("  recorded {recorded}\n  replayed {replayed}");
            }
            Err(error) => println!("{name}: {error}"),
        }
        others.push(name);
    }
    println!("{} scenarios exact of {}", paths.len() - others.len(), paths.len());
    others
}
