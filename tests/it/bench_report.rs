//! The benchmark report against what the real tools printed and wrote, and the readers against
//! logs of measured runs. Needs the reference data.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use serde_json::Value;
use servecast::metrics::bench::BenchInput;
use servecast::metrics::bench::BenchRecord;
use servecast::metrics::bench::BenchRequest;
use servecast::metrics::bench::BenchSummary;
use servecast::metrics::bench::ClientMode;
use servecast::metrics::bench::Comparison;
use servecast::metrics::bench::Found;
use servecast::metrics::bench::Generation;
use servecast::metrics::bench::JsonLayout;
use servecast::metrics::bench::Latency;
use servecast::metrics::bench::Measured;
use servecast::metrics::bench::NonFinite;
use servecast::metrics::bench::Origin;
use servecast::metrics::bench::Outcome;
use servecast::metrics::bench::RequestRate;
use servecast::metrics::bench::SglangGeneration;
use servecast::metrics::bench::SglangRun;
use servecast::metrics::bench::Slos;
use servecast::metrics::bench::Tool;
use servecast::metrics::bench::VllmGeneration;
use servecast::metrics::bench::VllmRun;
use servecast::metrics::bench::read;
use servecast::metrics::bench::read_json;

use crate::support::data;

fn text_of(folder: &str, name: &str) -> String {
    let path = data().join(folder).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The 40 recorded requests, two of them failures, and the duration in seconds.
fn golden_records() -> (f64, Vec<BenchRecord>) {
    let text = text_of("bench-goldens", "requests.json");
    let json: Value = serde_json::from_str(&text).unwrap();
    let record = |record: &Value| {
        let seconds = |key: &str| record[key].as_f64().unwrap();
        let tokens = |key: &str| record[key].as_u64().unwrap() as u32;
        let succeeded = record["success"].as_bool().unwrap();
        BenchRecord {
            request: BenchRequest {
                start_s: seconds("start_time"),
                ttft_s: seconds("ttft"),
                latency_s: seconds("latency"),
                prompt_tokens: tokens("prompt_len"),
                output_tokens: tokens("output_len"),
                cached_tokens: 0,
                outcome: if succeeded { Outcome::Succeeded } else { Outcome::Failed },
            },
            itl_s: record["itl"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect(),
            error: String::new(),
        }
    };
    let records = json["records"].as_array().unwrap().iter().map(record).collect();
    (json["duration_s"].as_f64().unwrap(), records)
}

/// The summary of the recorded requests. The golden runs' tokenizer gives one token less for
/// answers of more than 50.
fn golden_summary(slos: Option<&str>) -> BenchSummary {
    let (duration_s, records) = golden_records();
    let retokenized = |record: &BenchRecord| match u64::from(record.request.output_tokens) {
        tokens @ 51.. => tokens - 1,
        tokens => tokens,
    };
    let mut input = BenchInput::from_records(duration_s, &records);
    let successes = records.iter().filter(|record| record.request.succeeded());
    input.retokenized_output_tokens = Some(successes.map(retokenized).sum());
    BenchSummary::new(input, slos.map(|words| Slos::parse([words]).unwrap()))
}

fn assert_same(ours: &str, name: &str) {
    let golden = text_of("bench-goldens", name);
    for (number, (ours, golden)) in ours.lines().zip(golden.lines()).enumerate() {
        assert_eq!(ours, golden, "{name}, line {}", number + 1);
    }
    assert_eq!(ours, golden, "{name}");
}

fn sglang(generation: SglangGeneration) -> SglangRun {
    let request_rate = RequestRate::PerSecond(4.0);
    SglangRun { generation, request_rate, ..SglangRun::default() }
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn sglang_output_is_reproduced_byte_for_byte() {
    let plain = golden_summary(None);
    let limits = golden_summary(Some("ttft:500 tpot:40 e2el:4000"));
    let closed = |generation| SglangRun {
        request_rate: RequestRate::PerSecond(f64::INFINITY),
        max_concurrency: Some(8),
        ..sglang(generation)
    };
    let (d, e) = (SglangGeneration::V0_5_9, SglangGeneration::V0_5_23);
    for (name, run, summary) in [
        ("sglang_0.5.9_default", sglang(d), &plain),
        ("sglang_0.5.9_conc8", closed(d), &plain),
        ("sglang_0.5.23_default", sglang(e), &plain),
        ("sglang_0.5.23_conc8", closed(e), &plain),
        ("sglang_0.5.23_goodput", sglang(e), &limits),
    ] {
        assert_same(&run.text(summary), &format!("{name}.stdout.txt"));
        let line = run.json(summary, NonFinite::Python) + "\n";
        assert_same(&line, &format!("{name}.result.jsonl"));
    }
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn vllm_output_is_reproduced_byte_for_byte() {
    let plain = golden_summary(None);
    let limits = golden_summary(Some("ttft:500 tpot:40 e2el:4000"));
    let default = VllmRun { request_rate: 4.0, ..VllmRun::default() };
    let detailed = VllmRun {
        percentile_metrics: VllmRun::parse_metrics("ttft,tpot,itl,e2el").unwrap(),
        percentiles: VllmRun::parse_percentiles("50,90,95,99").unwrap(),
        ..default.clone()
    };
    for (name, run, summary) in
        [("vllm_0.33.0_default", default, &plain), ("vllm_0.33.0_goodput_e2el", detailed, &limits)]
    {
        assert_same(&run.text(summary), &format!("{name}.stdout.txt"));
        let json = run.json(summary, JsonLayout::Indented(1), NonFinite::Python);
        assert_same(&json, &format!("{name}.result.json"));
    }
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn what_the_tools_wrote_reads_back() {
    let folder = data().join("bench-goldens");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains("result.json") && !name.contains("stdout") {
            continue;
        }
        files += 1;
        let found = read(&std::fs::read_to_string(&path).unwrap());
        assert_eq!(found.problems, [], "{name}");
        let [run] = found.measured.as_slice() else { panic!("{name}: one run") };
        let expected = match name.split('_').take(2).collect::<Vec<_>>()[..] {
            ["sglang", "0.5.9"] => Generation::Sglang(SglangGeneration::V0_5_9),
            ["sglang", _] => Generation::Sglang(SglangGeneration::V0_5_23),
            _ => Generation::Vllm(VllmGeneration::V0_33),
        };
        assert_eq!(run.generation, Some(expected), "{name}");
        assert_near(run, "mean_ttft_ms", 496.67, 0.005, &name);
        assert_near(run, "total_throughput", 1215.21, 0.005, &name);
        if name.contains("conc8") {
            assert_eq!(run.request_rate, Some(RequestRate::PerSecond(f64::INFINITY)), "{name}");
            assert_eq!(run.max_concurrency, Some(8), "{name}");
        }
        if name.contains("sglang") && name.contains("goodput") {
            assert_near(run, "slo_attainment", 0.375, 1e-9, &name);
            assert_near(run, "slo_attainment_by_metric.tpot", 0.825, 1e-9, &name);
        }
    }
    assert_eq!(files, 14);
}

fn assert_near(run: &Measured, key: &str, expected: f64, tolerance: f64, place: &str) {
    let value = run.get_named(key).unwrap_or_else(|| panic!("{place}: no {key}"));
    assert!((value - expected).abs() <= tolerance, "{place}: {key} is {value}, not {expected}");
}

fn reference_run(name: &str) -> Found {
    let found = read(&text_of("reference-runs", name));
    assert_eq!(found.problems, [], "{name}");
    found
}

fn assert_values(run: &Measured, values: &[(&str, f64)], place: &str) {
    for (key, expected) in values {
        assert_near(run, key, *expected, 1e-9, place);
    }
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn the_multi_lora_log_holds_six_blocks_of_generation_a() {
    let name = "sglang-multi-lora-maf2.txt";
    let found = reference_run(name);
    assert_eq!(found.measured.len(), 6);
    let rates = found.measured.iter().map(|run| run.request_rate);
    let expected = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0].map(RequestRate::PerSecond).map(Some);
    assert_eq!(rates.collect::<Vec<_>>(), expected);
    for run in &found.measured {
        assert_eq!(run.generation, Some(Generation::Sglang(SglangGeneration::Early2025)));
        assert_eq!(run.backend.as_deref(), Some("sglang"));
        assert_eq!(run.metrics.len(), 20);
        assert!(run.facts.is_empty(), "{:?}", run.facts);
    }
    let first = &found.measured[0];
    assert_values(
        first,
        &[
            ("completed", 996.0),
            ("duration", 262.38),
            ("total_throughput", 2137.04),
            ("p99_ttft_ms", 13317.90),
            ("median_tpot_ms", 0.0),
            ("mean_itl_ms", 0.0),
        ],
        name,
    );
    assert!(first.context.iter().any(|line| line.contains("trace_total_rate=4.0")));
    // the last block was pasted without its flags
    assert!(found.measured[5].context.is_empty());
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn the_short_burst_is_one_block_of_generation_d() {
    let name = "sglang-qwen2.5-0.5b-short.txt";
    let found = reference_run(name);
    let [run] = found.measured.as_slice() else { panic!("one block") };
    assert_eq!(run.generation, Some(Generation::Sglang(SglangGeneration::V0_5_9)));
    assert_eq!(run.request_rate, Some(RequestRate::PerSecond(f64::INFINITY)));
    assert_eq!(run.max_concurrency, None);
    let values = [("total_input_tokens", 5661.0), ("concurrency", 176.48), ("max_itl_ms", 17.57)];
    assert_values(run, &values, name);
    assert_values(run, &[("p90_e2e_latency_ms", 553.42), ("p90_e2el_ms", 553.42)], name);
    assert!(run.context.iter().any(|line| line.contains("num_prompts=200")));
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn the_ascend_log_is_one_block_of_generation_c() {
    let name = "sglang-qwen3-coder-480b-ascend.txt";
    let found = reference_run(name);
    let [run] = found.measured.as_slice() else { panic!("one block") };
    assert_eq!(run.generation, Some(Generation::Sglang(SglangGeneration::V0_5_8)));
    assert_eq!(run.max_concurrency, Some(80));
    let values =
        [("max_concurrent_requests", 160.0), ("max_itl_ms", 8901.2), ("p99_tpot_ms", 52.95)];
    assert_values(run, &values, name);
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn the_deepseek_log_holds_four_blocks_of_generation_b() {
    let name = "sglang-deepseek-v3-tp8.txt";
    let found = reference_run(name);
    assert_eq!(found.measured.len(), 4);
    let limits: Vec<_> = found.measured.iter().map(|run| run.max_concurrency).collect();
    assert_eq!(limits, [Some(32), Some(16), Some(32), Some(16)]);
    for run in &found.measured {
        assert_eq!(run.generation, Some(Generation::Sglang(SglangGeneration::V0_4_10)));
        assert_eq!(run.backend.as_deref(), Some("sglang-oai"));
        assert_eq!(run.get_named("mean_tpot_ms"), None);
        assert!(run.context.iter().any(|line| line.starts_with("Namespace(")));
    }
    assert_values(&found.measured[3], &[("mean_ttft_ms", 1119.91), ("p95_itl_ms", 27.16)], name);
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn the_mooncake_page_holds_25_rows_and_25_blocks() {
    let name = "vllm-mooncake-a10.txt";
    let found = reference_run(name);
    let of = |origin| found.measured.iter().filter(move |run| run.origin == origin);
    assert_eq!(of(Origin::TableRow).count(), 25);
    assert_eq!(of(Origin::Block).count(), 25);
    for run in of(Origin::Block) {
        assert_eq!(run.generation, Some(Generation::Vllm(VllmGeneration::Late2024)));
        assert_eq!(run.metrics.len(), 16);
        assert_eq!(run.context.len(), 2, "line {}", run.line);
        // the rate stands before the block, and among the flags
        let Some(RequestRate::PerSecond(rate)) = run.request_rate else { panic!("no rate") };
        let flag = format!("request_rate={rate:.1}");
        assert!(run.context[1].contains(&flag), "line {}: {flag}", run.line);
    }
    let rows: Vec<&Measured> = of(Origin::TableRow).collect();
    assert_eq!(rows[0].labels, [("Backend/Setting".to_owned(), "Non-disaggregated".to_owned())]);
    assert_eq!(rows[24].labels[0], ("QPS".to_owned(), "8".to_owned()));
    assert_eq!(rows[24].request_rate, Some(RequestRate::PerSecond(8.0)));
    assert_values(
        rows[24],
        &[("duration", 25.02), ("total_token_throughput", 2008.92), ("p99_itl_ms", 415.9)],
        name,
    );
    // every row repeats a block, figure by figure
    for row in rows {
        let twin = of(Origin::Block).find(|block| {
            row.metrics.iter().all(|(key, value)| {
                block.get(*key).is_some_and(|other| (other - value).abs() < 1e-9)
            })
        });
        assert!(twin.is_some(), "line {} has no block", row.line);
    }
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn a_client_that_does_not_stream_prints_what_the_multi_lora_log_shows() {
    let (duration_s, records) = golden_records();
    let mut input = BenchInput::from_records(duration_s, &records);
    input.client = ClientMode::NonStreaming;
    let summary = BenchSummary::new(input, None);
    let text = sglang(SglangGeneration::Early2025).text(&summary);
    let log = text_of("reference-runs", "sglang-multi-lora-maf2.txt");
    // the section of gaps is the log's, byte for byte
    let gaps = "---------------Inter-token Latency----------------";
    let ours = &text[text.find(gaps).unwrap()..];
    assert!(log.contains(ours), "{ours}");
    let [run] = <[Measured; 1]>::try_from(read(&text).measured).unwrap();
    assert_eq!(run.get_named("mean_ttft_ms"), run.get_named("mean_e2e_latency_ms"));
    // the log's median TPOT is -0.00 by the noise of two clock readings
    assert_eq!(run.get_named("p99_tpot_ms"), Some(0.0));
    // and labels and order are the log's
    let labels = |text: &str| -> Vec<String> {
        let block = &text[text.find("============ Serving").unwrap()..];
        let lines = block.lines().take_while(|line| !line.starts_with(&"=".repeat(50)));
        lines.map(|line| line.chars().take(41).collect()).collect()
    };
    assert_eq!(labels(&text), labels(&log));
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn the_blocks_of_measured_generations_have_our_labels_in_our_order() {
    let summary = golden_summary(None);
    for (name, ours) in [
        ("sglang-deepseek-v3-tp8.txt", sglang(SglangGeneration::V0_4_10).text(&summary)),
        ("sglang-qwen3-coder-480b-ascend.txt", sglang(SglangGeneration::V0_5_8).text(&summary)),
        ("sglang-qwen2.5-0.5b-short.txt", sglang(SglangGeneration::V0_5_9).text(&summary)),
        (
            "vllm-mooncake-a10.txt",
            VllmRun { generation: VllmGeneration::Late2024, ..VllmRun::default() }.text(&summary),
        ),
    ] {
        let log = text_of("reference-runs", name);
        let block = &log[log.find("============ Serving").unwrap()..];
        let label = |line: &str| line.split(": ").next().unwrap().trim_end().to_owned();
        let lines = ours.lines().count();
        let expected: Vec<String> = block.lines().take(lines).map(label).collect();
        assert_eq!(ours.lines().map(label).collect::<Vec<_>>(), expected, "{name}");
    }
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn a_truncated_line_is_told_and_the_others_are_kept() {
    let line = text_of("bench-goldens", "sglang_0.5.23_conc8.result.jsonl");
    let cut = &line[..200];
    let found = read_json(&format!("{line}\n{cut}\n{line}"));
    assert_eq!(found.measured.len(), 2);
    assert_eq!(found.problems.len(), 1);
    assert_eq!(found.problems[0].line, 3);
    assert!(found.problems[0].problem.contains("cut off"), "{}", found.problems[0]);
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn a_measured_run_compares_with_itself_without_error() {
    let summary = golden_summary(None);
    let line = text_of("bench-goldens", "sglang_0.5.23_default.result.jsonl");
    let [run] = <[Measured; 1]>::try_from(read(&line).measured).unwrap();
    let comparison = Comparison::new(&run, &summary);
    // counts 6 of 7 (one is left out), rates 4, latencies 4·6, concurrency and peaks 3
    assert_eq!(comparison.rows().len(), 37);
    for row in comparison.rows() {
        assert_eq!(row.error_pct(), Some(0.0), "{:?}", row.key);
    }
    assert_eq!(run.tool, Some(Tool::Sglang));
    assert!(
        summary.latency(Latency::Itl).max_ms() > summary.latency(Latency::Itl).percentile_ms(99.0)
    );
}
