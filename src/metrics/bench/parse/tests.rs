//! Laws of reading what is written, and the ways logs disfigure it.

use proptest::prelude::*;

use super::*;
use crate::metrics::bench::block::two_decimals;
use crate::metrics::bench::goodput::Slos;
use crate::metrics::bench::input::BenchInput;
use crate::metrics::bench::json::JsonLayout;
use crate::metrics::bench::json::NonFinite;
use crate::metrics::bench::keys::Figure;
use crate::metrics::bench::keys::Latency;
use crate::metrics::bench::sglang::SglangRun;
use crate::metrics::bench::summary::BenchSummary;
use crate::metrics::bench::summary::tests::records;
use crate::metrics::bench::vllm::VllmRun;

const GENERATIONS: [SglangGeneration; 5] = [
    SglangGeneration::Early2025,
    SglangGeneration::V0_4_10,
    SglangGeneration::V0_5_8,
    SglangGeneration::V0_5_9,
    SglangGeneration::V0_5_23,
];

fn only(found: Found) -> Measured {
    assert_eq!(found.problems, []);
    let [run] = <[Measured; 1]>::try_from(found.measured).expect("one run");
    run
}

/// What a block shows of a figure: shares in percent, everything with two decimals.
fn shown(key: MetricKey, value: f64) -> String {
    match key {
        MetricKey::Figure(Figure::SloAttainment | Figure::MetricAttainment(_)) => {
            two_decimals(value * 100.0)
        }
        _ => two_decimals(value),
    }
}

fn assert_shown(run: &Measured, summary: &BenchSummary) -> Result<(), TestCaseError> {
    for (key, value) in &run.metrics {
        let Some(ours) = summary.metric(*key) else { panic!("{key:?} is not ours") };
        prop_assert_eq!(shown(*key, ours), shown(*key, *value), "{:?}", key);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_written_block_reads_back_as_printed(
        records in records(),
        generation in prop::sample::select(GENERATIONS.to_vec()),
    ) {
        let slos = Slos::parse(["ttft:800 tpot:90"]).unwrap();
        let summary = BenchSummary::new(BenchInput::from_records(60.0, &records), Some(slos));
        let request_rate = RequestRate::PerSecond(2.5);
        let sglang = SglangRun { generation, request_rate, ..SglangRun::default() };
        let run = only(read(&sglang.text(&summary)));
        prop_assert_eq!(run.generation, Some(Generation::Sglang(generation)));
        prop_assert_eq!(run.request_rate, Some(request_rate));
        prop_assert!(run.metrics.len() >= 17);
        assert_shown(&run, &summary)?;
        for generation in [VllmGeneration::Late2024, VllmGeneration::V0_33] {
            let percentile_metrics = Latency::ALL.to_vec();
            let vllm = VllmRun { generation, percentile_metrics, ..VllmRun::default() };
            let run = only(read(&vllm.text(&summary)));
            prop_assert_eq!(run.generation, Some(Generation::Vllm(generation)));
            assert_shown(&run, &summary)?;
        }
    }

    #[test]
    fn written_json_reads_back_to_the_last_digit(records in records()) {
        let summary = BenchSummary::new(BenchInput::from_records(60.0, &records), None);
        let mut found = Vec::new();
        for generation in GENERATIONS {
            let line = SglangRun { generation, ..SglangRun::default() }
                .json(&summary, NonFinite::Python);
            let run = only(read(&line));
            prop_assert_eq!(run.generation, Some(Generation::Sglang(generation)));
            prop_assert_eq!(run.request_rate.is_some(), true);
            found.push(run);
        }
        for layout in [JsonLayout::Line, JsonLayout::Indented(2)] {
            found.push(only(read(&VllmRun::default().json(&summary, layout, NonFinite::Text))));
        }
        for run in found {
            for (key, value) in run.metrics {
                let ours = summary.metric(key).unwrap();
                prop_assert!(ours.to_bits() == value.to_bits(), "{key:?}: {ours} and {value}");
            }
        }
    }
}

fn block() -> String {
    let summary = BenchSummary::new(BenchInput::from_records(60.0, &[]), None);
    VllmRun::default().text(&summary)
}

#[test]
fn line_ends_bars_prefixes_and_fences_do_not_hide_a_block() {
    let plain = block();
    let prefixed = format!("(pod-1) {}", plain.trim_end().replace('\n', "\n(pod-1) "));
    for text in [
        plain.replace('\n', "\r\n"),
        format!("  0%|   | 0/4\r100%|███| 4/4 [00:04<00:00]{plain}"),
        format!("  0%|   | 0/4\r100%|███| 4/4 [00:04<00:00]\r{plain}"),
        prefixed,
        format!("# Run\n```\n{plain}```\n"),
        format!("{plain}trailing text: 5\n"),
    ] {
        let run = only(read(&text));
        assert_eq!(run.metrics.len(), 19, "{text}");
    }
}

#[test]
fn flags_and_heading_belong_to_the_next_block_only() {
    let text = format!(
        "# Rate 2\nNamespace(backend='vllm', request_rate=2.0)\nother\n{0}\n## Rate 4\n{0}",
        block()
    );
    let found = read(&text);
    let [first, second] = <[Measured; 2]>::try_from(found.measured).unwrap();
    assert_eq!(first.context, ["Namespace(backend='vllm', request_rate=2.0)"]);
    assert_eq!(first.labels, [("heading".to_owned(), "Rate 2".to_owned())]);
    assert!(second.context.is_empty());
    assert_eq!(second.labels[0].1, "Rate 4");
}

#[test]
fn what_is_announced_before_a_block_belongs_to_it() {
    let announced = "Traffic request rate: 3.5\nMaximum request concurrency: None\nBackend: x\n";
    let run = only(read(&format!("{announced}{}", block())));
    assert_eq!(run.request_rate, Some(RequestRate::PerSecond(3.5)));
    assert_eq!(run.max_concurrency, None);
    // other lines of a log do not make it another tool's
    assert_eq!(run.backend, None);
    assert_eq!(run.tool, Some(Tool::Vllm));
}

#[test]
fn a_block_that_is_cut_off_is_kept_and_told() {
    let text = block().lines().take(8).collect::<Vec<_>>().join("\n");
    let found = read(&text);
    assert_eq!(found.measured.len(), 1);
    assert_eq!(
        found.problems[0].to_string(),
        "line 8: the block of line 1 ends without its last rule of 50 `=`: is it cut off?"
    );
}

#[test]
fn a_figure_without_a_value_or_in_another_unit_is_told() {
    let problem = |line: &str| {
        let replaced = block().replace("Failed requests:                         0", line);
        read(&replaced).problems.first().map(ToString::to_string).unwrap_or_default()
    };
    assert_eq!(problem("Mean TTFT (ms):"), "line 3: Mean TTFT (ms): has no value");
    let seconds = "line 3: Mean TTFT (s): must be in milliseconds, as in `Mean TTFT (ms): 12.34`";
    assert_eq!(problem("Mean TTFT (s):   0.12"), seconds);
    assert_eq!(problem("Mean of something (s):   0.12"), "");
}

#[test]
fn a_value_that_is_no_number_is_told_with_its_line() {
    let found = read(
        &block().replace("Failed requests:                         0", "Failed requests: many"),
    );
    assert_eq!(
        found.problems[0].to_string(),
        "line 3: Failed requests: `many` must be a number, such as 12.34"
    );
    assert_eq!(found.measured[0].metrics.len(), 18);
}

#[test]
fn unknown_lines_are_kept_as_facts() {
    let text = block().replace("Failed requests:", "Good requests:");
    let run = only(read(&text));
    assert_eq!(run.facts, [("Good requests".to_owned(), "0".to_owned())]);
}

#[test]
fn python_numbers_and_a_stray_colon_are_read() {
    let text = "{\"duration\": 2.5, \"completed\": 3, \"request_goodput:\": 1.5, \"tag\": \"NaN \\\" Infinity\",\n \
                \"request_rate\": Infinity, \"mean_ttft_ms\": NaN, \"std_ttft_ms\": -Infinity,\n \
                \"total_token_throughput\": 9, \"num_prompts\": 3}";
    let run = only(read(text));
    assert_eq!(run.request_rate, Some(RequestRate::PerSecond(f64::INFINITY)));
    assert_eq!(run.get_named("request_goodput"), Some(1.5));
    assert!(run.get_named("mean_ttft_ms").unwrap().is_nan());
    assert_eq!(run.get_named("std_ttft_ms"), Some(f64::NEG_INFINITY));
    assert_eq!(run.generation, Some(Generation::Vllm(VllmGeneration::Late2024)));
    let facts = [("num_prompts", "3"), ("tag", "NaN \" Infinity")];
    assert_eq!(run.facts, facts.map(|(key, value)| (key.to_owned(), value.to_owned())));
}

#[test]
fn several_objects_are_read_however_they_are_joined() {
    let compact = "{\"completed\": 3, \"duration\": 1.0}";
    let indented =
        "{\n \"completed\": 3,\n \"cache_report\": {\n  \"total_cached_tokens\": 5\n }\n}";
    for text in [
        format!("{compact}\n{indented}\n\n{compact}"),
        format!("{compact}\n{compact}\n{indented}\n"),
        format!("[{compact}, {indented},\n{compact}]"),
        format!("\u{feff}\n{compact}\r\n{compact}\r\n{compact}"),
    ] {
        let found = read(&text);
        assert_eq!(found.problems, [], "{text}");
        assert_eq!(found.measured.len(), 3, "{text}");
    }
}

#[test]
fn an_object_without_figures_is_told() {
    let found = read("{\"completed\": 3}\n{\"name\": 3}\n");
    assert_eq!(found.measured.len(), 1);
    assert_eq!(found.problems[0].line, 2);
}

#[test]
fn a_table_needs_three_columns_of_figures() {
    let rule = "|---|---:|:-:|---|\n";
    let good = format!(
        "| Set | Mean TTFT (ms) | P99 ITL (ms) | Duration (s) |\n{rule}| a | 1,234.5 | - | 7 |\n"
    );
    let run = only(read(&good));
    assert_eq!(run.line, 3);
    assert_eq!(run.get_named("mean_ttft_ms"), Some(1234.5));
    assert_eq!(run.get_named("p99_itl_ms"), None);
    let other = format!("| Set | Mean TTFT (ms) | GPU | Price |\n{rule}| a | 1 | A10 | 7 |\n");
    assert_eq!(read(&other), Found::default());
}
