//! What is wrong with a recording is told with its line.

use serde_json::json;

use super::*;
use crate::conformance::check;

/// A recording without requests, of these settings.
fn recording(scenario: &Value) -> String {
    format!("{scenario}\n{}\n", json!({ "type": "summary", "steps": 0 }))
}

fn scenario() -> Value {
    json!({
        "type": "scenario", "name": "small", "engine": "vllm", "version": "0.33.0",
        "config": {
            "max_num_seqs": 4, "max_num_active_seqs": null, "max_num_batched_tokens": 32,
            "max_model_len": 64, "enable_chunked_prefill": true, "block_size": 16,
            "num_gpu_blocks": 8, "enable_prefix_caching": true, "policy": "fcfs",
            "long_prefill_token_threshold": 0, "long_prefill_token_threshold_adaptive": false,
            "scheduler_reserve_full_isl": true, "watermark": 0.0, "prefill_schedule_interval": 1,
            "async_scheduling": false, "max_loras": null, "spec_method": null,
            "num_speculative_tokens": 0, "kv_role": null, "record_block_ids": false,
        },
    })
}

fn problem(text: &str) -> String {
    let verdict = Recording::parse(text).and_then(|recording| check(&recording));
    verdict.expect_err("it cannot be replayed").to_string()
}

#[test]
fn a_whole_recording_is_replayed() {
    let parsed = Recording::parse(&recording(&scenario())).expect("it is whole");
    let verdict = check(&parsed).expect("it can be replayed");
    assert_eq!(verdict, crate::conformance::Verdict::Exact { steps: 0 });
}

#[test]
fn an_empty_file_is_told() {
    assert_eq!(problem(""), "line 1: the file is empty");
    assert_eq!(problem("\n\n"), "line 2: the file is empty");
}

#[test]
fn a_truncated_recording_is_told_with_its_last_line() {
    let whole = recording(&scenario());
    let first = whole.lines().next().expect("a scenario");
    let cut = problem(&first[..first.len() / 2]);
    assert!(cut.starts_with("line 1: not a whole JSON object: "), "{cut}");
    assert!(problem(first).starts_with("line 1: the file ends before its summary line"));
}

#[test]
fn a_step_that_is_missing_is_noticed() {
    let text = recording(&scenario()).replace("\"steps\":0", "\"steps\":3");
    assert_eq!(problem(&text), "line 2: the summary tells of 3 steps, the file has 0");
}

#[test]
fn numbers_that_no_engine_takes_are_named() {
    let with = |key: &str, value: Value| {
        let mut scenario = scenario();
        scenario["config"][key] = value;
        problem(&recording(&scenario))
    };
    assert!(with("watermark", json!(1e9)).contains("watermark: must be at least 0 and below 1"));
    let mut drafts = scenario();
    drafts["config"]["spec_method"] = json!("ngram");
    drafts["config"]["num_speculative_tokens"] = json!(u32::MAX);
    assert!(problem(&recording(&drafts)).contains("num_speculative_tokens: must be at most 1000"));
    let mut numbered = scenario();
    numbered["config"]["record_block_ids"] = json!(true);
    numbered["config"]["num_gpu_blocks"] = json!(u32::MAX);
    assert!(problem(&recording(&numbered)).contains("num_gpu_blocks: must be at most 16777216"));
    let request = |key: &str, value: Value| {
        let mut request = json!({
            "type": "request", "id": "r0000", "arrival_us": 0, "prompt": [[0, 0, 4]],
            "max_tokens": 2,
        });
        request[key] = value;
        let text = recording(&scenario());
        let (head, tail) = text.split_once('\n').expect("two lines");
        problem(&format!("{head}\n{request}\n{tail}"))
    };
    assert!(request("arrival_us", json!(1_u64 << 63)).starts_with("line 2: times must be at most"));
    assert!(request("max_tokens", json!(u32::MAX)).starts_with("line 2: max_tokens: must be"));
    let far = request("prompt", json!([[0, u32::MAX, 4]]));
    assert!(far.starts_with("line 2: a stream has at most 2147483647 tokens"), "{far}");
    assert!(request("stop_at", json!(0)).starts_with("line 2: stop_at: must be at least 1"));
}

#[test]
fn a_missing_field_of_the_head_is_named() {
    for field in ["name", "engine", "version", "config"] {
        let mut scenario = scenario();
        scenario.as_object_mut().expect("an object").remove(field);
        let expected = format!("line 1: missing field `{field}`");
        assert_eq!(problem(&recording(&scenario)), expected);
    }
    let mut scenario = scenario();
    scenario["config"].as_object_mut().expect("an object").remove("block_size");
    let expected = "line 1: vLLM settings: missing field `block_size`";
    assert_eq!(problem(&recording(&scenario)), expected);
    let headless = format!("{}\n", json!({ "type": "summary", "steps": 0 }));
    assert_eq!(problem(&headless), "line 1: no scenario line in the file");
}

#[test]
fn what_is_not_modelled_is_named_with_what_is() {
    let changed = |key: &str, value: Value| {
        let mut scenario = scenario();
        scenario[key] = value;
        problem(&recording(&scenario))
    };
    let expected = "line 1: vLLM 0.1.0: recordings of version 0.33.0 can be replayed";
    assert_eq!(changed("version", json!("0.1.0")), expected);
    let expected = "line 1: engine `tgi`: recordings of `vllm` and `sglang` can be replayed";
    assert_eq!(changed("engine", json!("tgi")), expected);
    let mut sglang = scenario();
    sglang["engine"] = json!("sglang");
    assert!(problem(&recording(&sglang)).starts_with("line 1: SGLang 0.33.0: recordings of"));
    let mut unknown = scenario();
    unknown["config"]["dbo"] = json!(true);
    assert!(problem(&recording(&unknown)).contains("unknown field `dbo`"));
}

#[test]
fn what_recordings_of_sglang_cannot_have_is_refused() {
    let mut scenario = json!({
        "type": "scenario", "name": "small", "engine": "sglang", "version": "0.5.23",
        "config": {
            "max_total_num_tokens": 100, "max_running_requests": 4, "context_len": 64,
            "chunked_prefill_size": -1, "max_prefill_tokens": 16384, "page_size": 1,
            "schedule_policy": "lof", "schedule_conservativeness": 1.0,
            "disable_radix_cache": false, "enable_mixed_chunk": false,
            "disable_overlap_schedule": true, "enable_priority_scheduling": true,
            "priority_scheduling_preemption_threshold": 10, "max_loras_per_batch": null,
            "prefill_max_requests": null,
        },
    });
    let request = json!({
        "type": "request", "id": "r0000", "arrival_us": 0, "prompt": [[1, 0, 5]], "max_tokens": 1,
        "remote_prefill": true,
    });
    let elsewhere = recording(&scenario).replacen('\n', &format!("\n{request}\n"), 1);
    let expected = "line 1: request r0000: remote_prefill, remote_decode: recordings of SGLang";
    assert!(problem(&elsewhere).starts_with(expected), "{}", problem(&elsewhere));
    scenario["config"]["schedule_policy"] = json!("lpm");
    let expected = "line 1: SGLang settings: enable_priority_scheduling: goes with schedule_policy \
                    \"fcfs\" and \"lof\", got \"lpm\"";
    assert_eq!(problem(&recording(&scenario)), expected);
    scenario["config"]["enable_priority_scheduling"] = json!(false);
    for (key, value, rule) in [
        (
            "mamba",
            json!({"slots": 8}),
            "max_mamba_cache_size: must be at least 9 for 4 running requests, got 8",
        ),
        (
            "mamba",
            json!({"slots": 9, "chunk": 64}),
            "chunk and track_interval go with extra_buffer",
        ),
        ("mamba", json!({"slots": 9, "extra_buffer": true}), "extra_buffer goes with chunk"),
        ("mamba", json!({"slots": 9, "lazy": true}), "unknown field `lazy`"),
        ("swa", json!({"window": 0, "tokens": 50}), "window: must be 1 to 268435456 tokens, got 0"),
        ("swa", json!({"window": u32::MAX, "tokens": 50}), "got 4294967295"),
        ("swa_eviction_interval", json!(16), "swa_eviction_interval: goes with swa"),
        ("spec_k", json!(1001), "spec_k: must be at most 1000, got 1001"),
    ] {
        let mut changed = scenario.clone();
        changed["config"][key] = value;
        let got = problem(&recording(&changed));
        assert!(got.contains(rule), "{got}");
    }
}

#[test]
fn lines_that_make_no_sense_are_named() {
    let line = scenario().to_string();
    let twice = format!("{line}\n{}", recording(&scenario()));
    assert_eq!(problem(&twice), "line 2: a second scenario line, after line 1");
    let unknown = format!("{line}\n{{\"type\": \"stop\"}}\n");
    assert_eq!(problem(&unknown), "line 2: unknown line type `stop`");
    let request = json!({
        "type": "request", "id": "r0001", "arrival_us": 0, "prompt": [[1, 0, 5]], "max_tokens": 1,
    });
    let gap = format!("{line}\n{request}\n");
    assert_eq!(problem(&gap), "line 2: request r0001 where r0000 follows");
}
