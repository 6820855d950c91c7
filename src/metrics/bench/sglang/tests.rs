//! The conditional lines of the block, and the JSON keys of each generation.

use super::*;
use crate::metrics::bench::goodput::Slos;
use crate::metrics::bench::input::BenchInput;
use crate::metrics::bench::input::BenchRecord;
use crate::metrics::bench::input::BenchRequest;
use crate::metrics::bench::input::CacheTiers;
use crate::metrics::bench::json::NonFinite;

fn input() -> BenchInput {
    let request = BenchRequest {
        ttft_s: 0.1,
        latency_s: 0.3,
        prompt_tokens: 300,
        output_tokens: 3,
        cached_tokens: 150,
        ..BenchRequest::default()
    };
    let record = BenchRecord { request, itl_s: vec![0.1, 0.1], error: String::new() };
    BenchInput::from_records(2.0, &[record.clone(), record])
}

fn keys(line: &str) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for part in line.split("\": ") {
        keys.extend(part.rsplit('"').next().map(str::to_owned));
    }
    keys.pop();
    keys
}

#[test]
fn the_cache_section_follows_the_gaps() {
    let mut input = input();
    input.cache_tiers = Some(CacheTiers {
        device_tokens: 200,
        host_tokens: 60,
        storage_tokens: 40,
        storage_backend: Some("hf3fs".to_owned()),
    });
    let summary = BenchSummary::new(input, None);
    let run = SglangRun { cache_report: CacheReportFlag::Present, ..SglangRun::default() };
    let text = run.text(&summary);
    // 300 of 600 prompt tokens; 200, 60 and 40 of these 300
    let expected = "\
----------------Cache Hit Details-----------------
Total prompt tokens:                     600       
Total cached tokens:                     300       
  Device:                                200       
  Host:                                  60        
  Storage (hf3fs):                       40        
Cache hit rate:                          50.0%
  Device:                                66.7%
  Host:                                  20.0%
  Storage (hf3fs):                       13.3%
==================================================
";
    assert!(text.ends_with(expected), "{text}");
    let json = run.json(&summary, NonFinite::Python);
    let expected = "\"cache_report\": {\"total_prompt_tokens\": 600, \"total_cached_tokens\": 300, \
        \"cache_hit_rate_pct\": 50.0, \"device_cached_tokens\": 200, \"host_cached_tokens\": 60, \
        \"storage_cached_tokens\": 40, \"storage_backend\": \"hf3fs\"}}";
    assert!(json.ends_with(expected), "{json}");
}

#[test]
fn images_and_speculation_add_their_lines() {
    let mut input = input();
    input.input_vision_tokens = 100;
    for accepted in [0, 1, 2, 1, 2, 2, 1, 2] {
        input.drafts.count(2, accepted);
    }
    let summary = BenchSummary::new(input, None);
    let text = |dataset_name: &str| {
        SglangRun { dataset_name: dataset_name.to_owned(), ..SglangRun::default() }.text(&summary)
    };
    assert!(text("image").contains("Total input vision tokens:               100       \n"));
    assert!(text("image").contains("Total input text tokens:                 500       \n"));
    assert!(!text("random").contains("vision"));
    assert!(text("random").contains("Accept length:                           2.38      \n---"));
    let json = SglangRun::default().json(&summary, NonFinite::Null);
    assert!(json.contains("\"accept_length\": 2.375"), "{json}");
}

#[test]
fn a_trace_has_no_rate_and_a_limit_of_zero_is_none() {
    let summary = BenchSummary::new(input(), None);
    let run = SglangRun {
        request_rate: RequestRate::Trace,
        max_concurrency: Some(0),
        ..SglangRun::default()
    };
    let text = run.text(&summary);
    assert!(text.contains("Traffic request rate:                    trace     \n"));
    assert!(text.contains("Max request concurrency:                 not set   \n"));
    assert!(run.json(&summary, NonFinite::Null).contains("\"request_rate\": \"trace\""));
}

#[test]
fn only_the_newest_generation_tells_goodput() {
    let summary = BenchSummary::new(input(), Some(Slos::parse(["ttft:100"]).unwrap()));
    for (generation, tells) in
        [(SglangGeneration::V0_5_9, false), (SglangGeneration::V0_5_23, true)]
    {
        let run = SglangRun { generation, ..SglangRun::default() };
        assert_eq!(run.text(&summary).contains("Goodput"), tells);
        assert_eq!(run.json(&summary, NonFinite::Python).contains("slo_attainment"), tells);
    }
}

#[test]
fn each_generation_has_its_keys() {
    let summary = BenchSummary::new(input(), None);
    let keys = |generation| {
        let run = SglangRun { generation, ..SglangRun::default() };
        keys(&run.json(&summary, NonFinite::Python))
    };
    let a = keys(SglangGeneration::Early2025);
    assert_eq!(
        a.join(" "),
        "backend request_rate total_input_tokens total_output_tokens \
         total_output_tokens_retokenized mean_e2e_latency_ms median_e2e_latency_ms median_ttft_ms \
         median_itl_ms output_throughput random_input_len random_output_len random_range_ratio \
         duration completed"
    );
    let b = keys(SglangGeneration::V0_4_10);
    let c = keys(SglangGeneration::V0_5_8);
    assert_eq!((b[0].as_str(), c[0].as_str()), ("backend", "tag"));
    // C adds tag, server_info, text and vision tokens, total_throughput and both peaks
    let added: Vec<&str> = c.iter().filter(|key| !b.contains(key)).map(String::as_str).collect();
    let expected = [
        "tag",
        "server_info",
        "total_input_text_tokens",
        "total_input_vision_tokens",
        "total_throughput",
        "max_output_tokens_per_s",
        "max_concurrent_requests",
    ];
    assert_eq!(added, expected);
    assert!(b.iter().all(|key| c.contains(key)));
}

#[test]
fn details_hold_one_entry_a_request() {
    let ok = BenchRecord {
        request: BenchRequest {
            ttft_s: 0.5,
            output_tokens: 2,
            prompt_tokens: 7,
            ..Default::default()
        },
        itl_s: vec![0.25],
        error: String::new(),
    };
    let outcome = crate::metrics::bench::Outcome::Failed;
    let failed = BenchRecord {
        request: BenchRequest { outcome, ..ok.request },
        itl_s: vec![],
        error: "lost".to_owned(),
    };
    let records = [ok, failed];
    let summary = BenchSummary::new(BenchInput::from_records(1.0, &records), None);
    let line = SglangRun::default().json_with_details(&summary, &records, NonFinite::Python);
    let expected = "\"input_lens\": [7, 7], \"output_lens\": [2, 0], \"ttfts\": [0.5, 0.5], \
        \"itls\": [[0.25], []], \"generated_texts\": [\"\", \"\"], \"errors\": [\"\", \"lost\"]}";
    assert!(line.ends_with(expected), "{line}");
}
