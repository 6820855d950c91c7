//! Recorded decisions of Dynamo's planner come out one by one.

use std::fs::{self, File};
use std::io::Read;

use proptest::prelude::*;

use servecast::conformance::routing::check;

use crate::support::data;

/// A line of settings, with ticks after it.
fn recording(settings: &[(&str, &str)], ticks: &str) -> String {
    let mut line = r#"{"k":"settings","name":"n","seed":1,"source":"dynamo.planner PlannerScalingState","version":"ai-dynamo 1.6.1","config":{"mode":"agg","optimization_target":"sla","enable_load_scaling":true},"resolved":{"ttft_ms":500.0},"capabilities":{"prefill":{"max_num_batched_tokens":2048,"max_num_seqs":64,"context_length":8192,"max_kv_tokens":60000,"num_gpu":1},"decode":"same"},"forward_seconds":{"base":0.004,"per_prefill_token":4e-05,"per_decode_seq":8e-05,"per_kv_token":1.2e-07},"avg_isl":600.0,"avg_decode_length":700.0}"#.to_owned();
    for (from, to) in settings {
        assert!(line.contains(from), "{from} stands in the settings");
        line = line.replace(from, to);
    }
    format!("{line}\n{ticks}")
}

#[test]
fn what_is_wrong_with_a_recording_is_told_with_its_line() {
    let told = |settings: &[(&str, &str)], ticks: &str| {
        check(&recording(settings, ticks)).expect_err("it is refused").to_string()
    };
    let tick = r#"{"k":"tick","n":0,"p":0,"d":1,"traffic":[0,1,2,3,0.5]}"#;
    assert_eq!(told(&[], tick), "line 2: traffic: an interval must not be 0 s");
    assert_eq!(told(&[], "{\"k\":\"tock\"}"), "line 2: k: Some(\"tock\") is not \"tick\"");
    assert!(told(&[], "{").starts_with("line 2: not a whole JSON object"));
    assert!(told(&[("1.6.1", "1.7.0")], "").contains("only ai-dynamo 1.6.1"));
    assert!(told(&[("\"agg\"", "\"prefill\"")], "").contains("agg or disagg"));
    assert!(told(&[("\"resolved\":{", "\"resolved\":{\"new\":1,")], "").contains("resolved.new"));
    assert!(
        told(&[("\"config\":{", "\"config\":{\"new\":1,")], "").contains("unknown field `new`")
    );
    assert!(told(&[("\"num_gpu\":1", "\"num_gpu\":0")], "").contains("nothing may be 0"));
    assert!(told(&[("600.0", "1e300")], "").contains("avg_isl: must be between"));
    assert!(told(&[("4e-05", "-1")], "").contains("must not be negative"));
    let fpm = r#"{"k":"tick","n":0,"p":0,"d":1,"fpm":{"prefill":null,"decode":{"d0":[1,2,3,4,18446744073709551615]}}}"#;
    assert!(told(&[], fpm).starts_with("line 2: fpm: must be at most"));
    assert!(check("").is_err());
}

/// Ticks of a planner of two pools by both ways of scaling.
const TICKS: &str = r#"{"k":"tick","n":0,"p":1,"d":2,"traffic":[30,112.7,2445,300,0.248],"rps":[4.1,4.1],"thr":[1,1],"floor":[1,1],"fpm":{"prefill":{"p0":[0,0,0,500,3313]},"decode":{"d0":[50,45569,0,0,0],"d1":[50,45392,7,0,0]}},"load":[1,3],"why":"scale_up","est":[171.5,13.6]}
{"k":"tick","n":1,"p":2,"d":2,"fpm":{"prefill":{"p0":[0,0,0,500,0],"p1":[0,0,0,500,1]},"decode":{"d0":[5,4556,0,0,0],"d1":[5,4539,7,0,0]}},"why":"no_change","est":[1.0,2.0]}"#;

/// Where the numbers of a text stand.
fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let is_part = |byte: u8| byte.is_ascii_digit() || b".-".contains(&byte);
    let bytes = text.as_bytes();
    let mut all = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = (at..bytes.len()).find(|end| !is_part(bytes[*end])).unwrap_or(bytes.len());
        let before = at.checked_sub(1).map_or(b' ', |before| bytes[before]);
        if end > at && b":[,".contains(&before) {
            all.push(at..end);
        }
        at = end.max(at + 1);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_numbers_stand_in_a_recording_it_is_replayed_or_refused(
        places in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        values in prop::collection::vec(prop::sample::select(vec![
            "0", "-1", "1", "2", "0.5", "1e-300", "1e300", "4096", "4097", "1000000000",
            "2147483647", "4294967295", "4294967296", "18446744073709551615", "null", "true",
        ]), 6),
        budget in prop::sample::select(vec!["-1", "0", "1", "3", "4096"]),
        throughput: bool,
    ) {
        let config = format!(
            "\"mode\":\"disagg\",\"max_gpu_budget\":{budget},\"min_gpu_budget\":2,\"min_endpoint\":1,\
             \"max_throughput_scaling_replicas\":8,\"enable_throughput_scaling\":{throughput}"
        );
        let mut text = recording(&[("\"mode\":\"agg\"", &config)], TICKS);
        for (place, value) in places.iter().zip(values) {
            let all = numbers(&text);
            text.replace_range(all[place.index(all.len())].clone(), value);
        }
        // It does not panic, and comes to an end.
        let _ = check(&text);
    }
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn recorded_decisions_of_the_planner_come_out() {
    let folder = data().join("routing/dynamo");
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .expect("the folder of recordings is readable")
        .map(|entry| entry.expect("a folder entry is readable").path())
        .filter(|path| path.to_string_lossy().contains("planner-"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no recording under {}", folder.display());
    let (mut exact, mut wrong) = (0, 0);
    for path in paths {
        let mut text = String::new();
        flate2::read::GzDecoder::new(File::open(&path).expect("a recording is readable"))
            .read_to_string(&mut text)
            .expect("a recording is text");
        let tally = check(&text).expect("the recording is of what is modelled");
        println!("{}: {tally:?}", path.display());
        exact += tally.exact;
        wrong += tally.wrong + tally.drawn;
    }
    println!("{exact} exact, {wrong} wrong");
    assert_eq!(wrong, 0);
}
