//! Merged adapters and rules of batching in whole runs: what dLoRA published, what is reported, what is refused.

use servecast::metrics::{AdaptersReport, Recorder};
use servecast::resolved::Scenario;
use servecast::rng::Seed;
use servecast::scenario::{
    AdapterBatchingConfig, AdapterPopularity, DloraCreditConfig, MergedOnlyConfig, ScenarioFile,
};
use servecast::sim::{simulation, step_times};
use servecast::workload::Workload;

use super::support::resolve;

const STUDY: &str = include_str!("../../scenarios/lora-merged.toml");
const UNMERGED: AdapterBatchingConfig = AdapterBatchingConfig::Unmerged {};

fn merged_only() -> AdapterBatchingConfig {
    AdapterBatchingConfig::MergedOnly(MergedOnlyConfig::default())
}

fn dlora(credit: f64) -> AdapterBatchingConfig {
    let defaults = DloraCreditConfig::default();
    AdapterBatchingConfig::DloraCredit(DloraCreditConfig { credit, ..defaults })
}

const PUBLISHED: f64 = 10_000.0;

/// The study with this rule, where requests prefer one adapter so much.
fn study(batching: AdapterBatchingConfig, exponent: f64, seed: u64) -> Scenario {
    let mut table: toml::Table = toml::from_str(STUDY).expect("the study is TOML");
    table.remove("variants");
    let mut file: ScenarioFile = table.try_into().expect("the study is a scenario");
    file.seed = Seed(seed);
    file.cluster.lora.get_or_insert_default().batching = batching;
    let adapters = file.workload.adapters.as_mut().expect("it has adapters");
    adapters.popularity = AdapterPopularity::Zipf { exponent };
    Scenario::resolve(file, None).expect("the study holds together")
}

fn run(scenario: &Scenario) -> Recorder {
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(scenario).expect("step times are known");
    let mut recorder = Recorder::of(scenario);
    let run = simulation(scenario, &costs, workload).expect("nothing is recorded");
    let counts = run.run(&mut recorder).expect("the workload is whole");
    assert_eq!(counts.finished, counts.arrived);
    recorder
}

fn report(scenario: &Scenario) -> AdaptersReport {
    AdaptersReport::new(&run(scenario), scenario).expect("there are adapters")
}

/// Mean end-to-end latency in seconds, over seeds.
fn mean_e2e_s(batching: AdapterBatchingConfig, exponent: f64, seeds: &[u64]) -> f64 {
    let of_seed = |seed: &u64| {
        let records = run(&study(batching, exponent, *seed)).requests;
        records.iter().map(|r| r.e2e().as_secs_f64()).sum::<f64>() / records.len() as f64
    };
    seeds.iter().map(of_seed).sum::<f64>() / seeds.len() as f64
}

/// The same of dynamic batching with so much credit, in parts of the better of the other two, and
/// whether that is to merge only.
fn of_the_better(credit: f64, exponent: f64, seeds: &[u64]) -> (f64, bool) {
    let [unmerged, merged, dynamic] =
        [UNMERGED, merged_only(), dlora(credit)].map(|rule| mean_e2e_s(rule, exponent, seeds));
    (dynamic / unmerged.min(merged), merged < unmerged)
}

#[test]
fn merging_wins_where_one_adapter_is_preferred_and_dynamic_batching_is_near_the_better() {
    // dLoRA's figure 10: unmerged is the better where requests are spread, merged where they are not, and
    // dynamic batching is at least as good as the better of both. They cross between 3 and 4; at 5 the first
    // adapter has 96 % of requests.
    let wins = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0].map(|exponent| {
        let (ratio, wins) = of_the_better(PUBLISHED, exponent, &[1]);
        assert!(ratio <= 1.05, "{exponent}: {ratio}");
        wins
    });
    assert_eq!(wins, [false, false, false, false, true, true]);
}

#[test]
fn rare_adapters_starve_beside_a_merged_one_unless_credit_is_little() {
    // At 7 the first adapter has 99.2 % of requests. Whoever uses another gains 0.06 of credit a step, and
    // goes first with 10,000 of it.
    let (published, wins) = of_the_better(PUBLISHED, 7.0, &[1, 2, 3]);
    assert!(wins && published > 1.05, "{published}");
    let (little, _) = of_the_better(100.0, 7.0, &[1, 2, 3]);
    assert!(little < 1.0, "{little}");
    let longest_s = |credit| {
        let report = report(&study(dlora(credit), 7.0, 1));
        let rare = report.adapters.iter().skip(1);
        let waits =
            rare.flat_map(|of| of.longest_pause_ms.into_iter().chain([of.longest_queueing_ms]));
        waits.fold(0.0, f64::max) / 1e3
    };
    let (published, little) = (longest_s(PUBLISHED), longest_s(100.0));
    assert!(published > 100.0 && little < 0.25 * published, "{published} s, {little} s");
}

#[test]
fn the_report_says_how_much_was_merged_and_for_how_long_requests_paused() {
    let [apart, merged, dynamic] =
        [UNMERGED, merged_only(), dlora(PUBLISHED)].map(|rule| report(&study(rule, 3.0, 1)));
    assert!(apart.merging.is_none() && apart.all.paused_ms.is_none());
    let of_merged = merged.merging.as_ref().expect("adapters are merged");
    assert!((of_merged.merged_step_share - 1.0).abs() < 1e-12);
    assert!((of_merged.merged_time_share - 1.0).abs() < 1e-12);
    // The first change merges only, each further one takes out too.
    let times = 2 * of_merged.switches - 1;
    assert!((of_merged.switching_s - 0.020 * times as f64).abs() < 1e-6, "{of_merged:?}");
    assert_eq!(merged.distinct_per_step_max, 1);
    let of_dynamic = dynamic.merging.as_ref().expect("adapters are merged");
    assert!(of_dynamic.merged_step_share > 0.3 && of_dynamic.merged_step_share < 0.95);
    assert!(
        of_dynamic.merged_time_share < of_dynamic.merged_step_share,
        "merged steps are shorter"
    );
    let paused = |report: &AdaptersReport| report.all.paused_ms.expect("all finished").mean;
    assert!(paused(&merged) > paused(&dynamic) && paused(&dynamic) > 0.0);
    let text =
        AdaptersReport::text(&run(&study(merged_only(), 3.0, 1)), &study(merged_only(), 3.0, 1));
    let text = text.expect("there are adapters");
    assert!(text.contains("merged in 100.0 % of steps, 100.0 % of their time; "), "{text}");
    assert!(text.contains(" paused ") && !text.contains("slot wait"), "{text}");
}

#[test]
fn lanes_report_of_merged_adapters_what_one_loop_does() {
    let mut file = study(dlora(PUBLISHED), 3.0, 1).written();
    file.workload.num_requests = Some(400);
    file.cluster.replicas = 3;
    let scenario = Scenario::resolve(file, None).expect("it holds together");
    let report = |in_lanes| {
        let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
        let costs = step_times(&scenario).expect("step times are known");
        let run = simulation(&scenario, &costs, workload).expect("nothing is recorded");
        let mut recorder = Recorder::of(&scenario);
        let counts =
            if in_lanes { run.run_in_lanes(&mut recorder) } else { run.run(&mut recorder) };
        assert_eq!(counts.expect("the workload is whole").finished, 400);
        AdaptersReport::new(&recorder, &scenario).expect("there are adapters")
    };
    let of_lanes = report(true);
    assert!(of_lanes.merging.as_ref().is_some_and(|of| of.switches > 0));
    assert_eq!(of_lanes, report(false));
}

#[test]
fn what_a_merged_and_an_unmerged_step_last_comes_from_the_cost_model_or_is_given() {
    // 15 ms, and 12 ms for 128 products and eight adapters of 80 MB: what dLoRA's profile says.
    let given = |merged_step_ms, unmerged_step_ms| {
        let defaults = DloraCreditConfig::default();
        let config = DloraCreditConfig { merged_step_ms, unmerged_step_ms, ..defaults };
        run(&study(AdapterBatchingConfig::DloraCredit(config), 3.0, 1)).requests
    };
    let derived = given(None, None);
    let near = given(Some(15.0), Some(27.0));
    let mean = |records: &[servecast::metrics::RequestRecord]| {
        records.iter().map(|r| r.e2e().as_secs_f64()).sum::<f64>() / records.len() as f64
    };
    assert!(
        (mean(&derived) / mean(&near) - 1.0).abs() < 0.02,
        "{} {}",
        mean(&derived),
        mean(&near)
    );
    assert!(given(Some(1.0), Some(27.0)) != derived, "what is given decides");
}

fn scenario(engine: &str, more: &str) -> String {
    format!(
        "name = 'merged'\n[cluster]\nmodel = 'meta-llama/Llama-2-7b-hf'\ngpu = 'A100-SXM4-80GB'\n\
         engine = {{ {engine} }}\n[workload]\nnum_requests = 50\n\
         arrivals = {{ type = 'poisson', rate_per_s = 2.0 }}\n\
         lengths = {{ type = 'fixed', input_tokens = 100, output_tokens = 20 }}\n{more}"
    )
}

const ADAPTERS: &str = "[workload.adapters]\nkinds = [{ count = 4, rank = 16 }]\n";

fn batching(text: &str) -> String {
    format!("[cluster.lora]\nbatching = {{ {text} }}\n{ADAPTERS}")
}

#[test]
fn rules_that_merge_stand_on_orca_and_slots_are_those_of_all_adapters() {
    let text = scenario("type = 'orca'", &batching("type = 'merged_only', switch_ms = 5.0"));
    let resolved = resolve(&text).expect("it holds together");
    let engine = toml::to_string(&resolved.first().cluster.engine).expect("it is TOML");
    assert!(engine.contains("max_loras = 4"), "{engine}");
    let lora = resolved.lora().expect("it is settled");
    assert!((lora.batching.switch_ms() - 5.0).abs() < 1e-12);
    let memory = |slots: u32| {
        let engine = format!("type = 'orca', max_loras = {slots}");
        let resolved = resolve(&scenario(&engine, ADAPTERS)).expect("it fits");
        match resolved.first().kv {
            servecast::resolved::KvSource::Derived(kv) => kv.adapters.0,
            servecast::resolved::KvSource::Given => panic!("it is derived"),
        }
    };
    // 4,997,120 bytes for each of 16 ranks.
    assert_eq!(memory(3) - memory(2), 16 * 4_997_120);
}

#[test]
fn what_is_not_modelled_or_does_not_fit_together_is_refused_by_name() {
    let orca = "type = 'orca'";
    let path = "cluster.lora.batching";
    let cases = [
        (
            scenario("type = 'vllm_v1'", &batching("type = 'merged_only'")),
            format!("{path}.type: merged_only is not modelled with engine vllm_v1"),
        ),
        (
            scenario("type = 'sglang'", &batching("type = 'dlora_credit'")),
            format!("{path}.type: dlora_credit is not modelled with engine sglang"),
        ),
        (
            scenario("type = 'vllm_v1'", &batching("type = 'slora_clusters', max_adapters = 4")),
            format!("{path}.type: slora_clusters is not modelled with engine vllm_v1"),
        ),
        (
            scenario(orca, &batching("type = 'slora_clusters', max_adapters = 0")),
            format!("{path}.max_adapters: must be at least 1, got 0"),
        ),
        (
            scenario(orca, "[cluster.lora]\nbatching = { type = 'merged_only' }\n"),
            format!("{path}.type: merged_only needs workload.adapters"),
        ),
        (
            scenario("type = 'orca', max_loras = 2", ""),
            "cluster.engine.max_loras: needs workload.adapters".to_owned(),
        ),
        (
            scenario("type = 'orca', max_loras = 0", ADAPTERS),
            "cluster.engine.max_loras: must be at least 1, got 0".to_owned(),
        ),
        (
            scenario(orca, &batching("type = 'merged_only', switch_ms = -1.0")),
            format!("{path}.switch_ms: must be a time from 0 to 1000 seconds, got -1"),
        ),
        (
            scenario(orca, &batching("type = 'dlora_credit', merged_step_ms = 3.0")),
            format!("{path}.merged_step_ms: needs unmerged_step_ms"),
        ),
        (
            scenario(
                orca,
                &batching("type = 'dlora_credit', merged_step_ms = 3.0, unmerged_step_ms = 2.0"),
            ),
            format!("{path}.merged_step_ms: must be at most unmerged_step_ms, 2, got 3"),
        ),
        (
            scenario(orca, &batching("type = 'dlora_credit', credit = 0.0")),
            format!("{path}.credit: must be a finite number above 0, got 0"),
        ),
        (
            scenario(orca, &batching("type = 'dlora_credit', threshold_step = -0.1")),
            format!("{path}.threshold_step: must be a finite number of at least 0, got -0.1"),
        ),
        (
            scenario(orca, &batching("type = 'dlora_credit', threshold_factor = 0.9")),
            format!("{path}.threshold_factor: must be a finite number of at least 1, got 0.9"),
        ),
    ];
    for (text, expected) in cases {
        let error = resolve(&text).expect_err(&expected);
        assert!(error.contains(&expected), "{error}\nis not: {expected}");
    }
    let unknown = batching("type = 'unmerged', switch_ms = 3.0");
    let read = toml::from_str::<ScenarioFile>(&scenario(orca, &unknown));
    assert!(read.is_err(), "a setting that a rule has not is refused");
}
