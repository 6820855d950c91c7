//! Published runs: what is run, what is skipped and why, and the same result on any number of threads.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use servecast::metrics::bench::MetricKey;
use servecast::scenario::{ArrivalConfig, EngineConfig, LengthConfig, ScenarioFile};
use servecast::validate::{Plan, Record, Validation, validate};
use servecast::workload::Workload;

use crate::support::data;

/// A run of vLLM 0.11 that can be simulated.
fn runnable() -> Value {
    json!({
        "id": "a", "family": "f/x",
        "engine": {"name": "vLLM", "version": "v0.11.0"},
        "hardware": {"gpu": "NVIDIA H100", "gpus_used": 1},
        "model": {"name": "Qwen/Qwen3-8B", "precision": "bf16"},
        "workload": {
            "dataset": "random", "client": "vllm bench serve (openai-chat)", "request_rate": "inf",
            "num_prompts": 4, "input_len": 64, "output_len": 8,
        },
        "metrics": {
            "successful_requests": 4, "total_input_tokens": 256, "total_generated_tokens": 32,
            "mean_ttft_ms": 20.0, "mean_tpot_ms": 7.0, "output_token_throughput": 400.0,
            "median_e2el_s": 0.07, "p99_itl_ms": "N/A", "max_itl_ms": 9.0,
        },
    })
}

/// The same with the value at a path replaced.
fn with(path: &str, value: Value) -> Value {
    let mut record = runnable();
    let place = path.split('.').fold(&mut record, |at, key| &mut at[key]);
    *place = value;
    record
}

fn record(value: &Value) -> Record {
    let mut records = Record::parse_all(&value.to_string()).expect("a record");
    records.remove(0)
}

fn skipped(value: &Value) -> String {
    match Plan::of(&record(value)) {
        Ok(_) => panic!("{value} is run"),
        Err(skip) => skip.to_string(),
    }
}

fn vllm(value: &Value) -> servecast::scenario::VllmConfig {
    match Plan::of(&record(value)).expect("it is run").scenario.cluster.engine {
        EngineConfig::VllmV1(config) => config,
        other => panic!("{other:?}"),
    }
}

/// Scenarios stay as they are.
const AS_GIVEN: fn(&Record, ScenarioFile) -> Result<ScenarioFile, String> = |_, file| Ok(file);

fn validated(records: &[Value]) -> Validation {
    let records: Vec<Record> = records.iter().map(record).collect();
    validate(&records, &AS_GIVEN)
}

#[test]
fn a_flag_that_is_not_known_is_a_reason_to_skip_and_never_ignored() {
    let given = with("engine_flags", json!({"enable-magic": true}));
    assert_eq!(skipped(&given), "unmodelled flag: enable-magic=true");
    let command = with("server_command", json!("vllm serve x --port 80 --cpu-offload-gb 4"));
    assert_eq!(skipped(&command), "unmodelled flag: cpu-offload-gb=4");
    let environment = with("server_command", json!("VLLM_MAGIC=1 vllm serve x"));
    assert_eq!(skipped(&environment), "unmodelled flag: VLLM_MAGIC=1");
    let foreign = with("engine_flags", json!({"mem-fraction-static": 0.8}));
    assert_eq!(skipped(&foreign), "unmodelled flag: mem-fraction-static=0.8");
    let drafts = with("engine_flags", json!({"spec_decoding": "mtp"}));
    assert!(skipped(&drafts).starts_with("not modelled: drafts whose method or number"));
    let setting = with("workload", json!({"dataset": "random", "surprise": 1}));
    assert_eq!(skipped(&setting), "unmodelled setting of the workload: surprise");
}

#[test]
fn every_reason_names_what_is_missing() {
    for (path, value, reason) in [
        ("hardware.nodes", json!(2), "not modelled: several machines"),
        ("engine.name", json!("MindIE"), "engine not modelled: MindIE"),
        ("hardware.gpu", json!("TPU v6"), "unknown GPU: TPU v6"),
        ("hardware.gpu", json!(null), "GPU not stated"),
        ("hardware.gpus_used", json!(null), "number of GPUs not stated"),
        ("model.name", json!("acme/none"), "unknown model: acme/none"),
        ("model.precision", json!("fp8"), ""),
        ("model.precision", json!("gptq-int8"), "unknown model: Qwen/Qwen3-8B in gptq-int8"),
        (
            "model.name",
            json!("MiniMaxAI/MiniMax-M1-80k"),
            "not modelled: linear attention (MiniMax-M1-80k)",
        ),
        ("parallel", json!({"ep": "all"}), "unmodelled setting of the workload: parallel.ep=all"),
        ("parallel", json!({"dp": 8}), "contradiction: 8 engines, ranks or stages on 1 GPUs"),
        ("parallel", json!({"pp": 4}), "contradiction: 4 engines, ranks or stages on 1 GPUs"),
        ("parallel", json!({"decode": {"tp_size": 1}}), "not modelled: disaggregation"),
        ("metrics", json!({"successful_requests": 4}), "no metrics"),
        ("workload.dataset", json!("mine"), "unknown dataset: mine"),
    ] {
        let value = with(path, value);
        match reason {
            "" => assert!(Plan::of(&record(&value)).is_ok(), "{value}"),
            reason => assert_eq!(skipped(&value), reason),
        }
    }
    let lora = with("engine_flags", json!({"enable-lora": true, "max-loras": 8}));
    assert!(skipped(&lora).starts_with("not modelled: LoRA"));
    let drafts = json!({"speculative-config": {"method": "eagle3", "num_speculative_tokens": 3}});
    let drafts = with("engine_flags", drafts);
    assert!(skipped(&drafts).starts_with("not modelled: drafts of which neither the record"));
}

#[test]
fn whole_experts_are_asked_for_in_the_words_of_every_engine() {
    let spread = |value: &Value| {
        let plan = Plan::of(&record(value)).unwrap();
        let is_assumed = plan.assumed.iter().any(|text| text.starts_with("experts:"));
        assert_eq!(is_assumed, plan.scenario.cluster.expert_parallel.is_some());
        plan.scenario.cluster.expert_parallel.map(|parallel| parallel.size)
    };
    assert_eq!(spread(&with("parallel", json!({"tp": 8, "ep": 4}))), Some(Some(4)));
    assert_eq!(spread(&with("parallel", json!({"tp": 8, "expert_parallel": true}))), Some(None));
    assert_eq!(spread(&with("parallel", json!({"tp": 8, "ep": 1}))), None);
    assert_eq!(spread(&with("parallel", json!({"tp": 8, "moe_ep_size": 0}))), None);
    let flags = |flags: Value| spread(&with("engine_flags", flags));
    assert_eq!(flags(json!({"enable-expert-parallel": true})), Some(None));
    assert_eq!(flags(json!({"enable-expert-parallel": false})), None);
    assert_eq!(flags(json!({"ep-size": 8})), Some(Some(8)));
}

#[test]
fn flags_and_versions_decide_the_engine() {
    let old = vllm(&runnable());
    assert!(!old.async_scheduling && !old.scheduler_reserve_full_isl);
    let new = vllm(&with("engine.version", json!("0.23.0 + patch")));
    assert!(new.async_scheduling && new.scheduler_reserve_full_isl);
    let flags = json!({
        "max-num-seqs": 7, "enable_prefix_caching": "FALSE", "observed_kv_cache_tokens": 1600,
        "async-scheduling": true, "host": "0.0.0.0",
    });
    let flagged = vllm(&with("engine_flags", flags));
    assert_eq!((flagged.max_num_seqs, flagged.num_gpu_blocks), (Some(7), Some(100)));
    assert!(flagged.async_scheduling && !flagged.enable_prefix_caching);
    let command = vllm(&with("server_command", json!("vllm serve x --max-num-seqs 9 --port 1")));
    assert_eq!(command.max_num_seqs, Some(9));
    let v0 = Plan::of(&record(&with("engine.version", json!("0.6.3")))).unwrap();
    assert!(matches!(v0.scenario.cluster.engine, EngineConfig::VllmV0(_)));
}

#[test]
fn lengths_that_are_not_nominal_are_those_of_the_totals_and_marked() {
    let plan = Plan::of(&record(&runnable())).unwrap();
    assert!(plan.assumed.is_empty());
    let nominal = LengthConfig::Fixed { input_tokens: 64, output_tokens: 8 };
    assert_eq!(plan.scenario.workload.lengths, nominal);
    assert_eq!(plan.scenario.workload.arrivals, ArrivalConfig::AllAtOnce {});
    let early = with("metrics.total_generated_tokens", json!(26));
    let plan = Plan::of(&record(&early)).unwrap();
    let mean = LengthConfig::Fixed { input_tokens: 64, output_tokens: 7 };
    assert_eq!(plan.scenario.workload.lengths, mean);
    assert_eq!(plan.assumed, ["lengths: all as long as the mean of the totals"]);
}

#[test]
fn metrics_have_the_names_and_units_of_the_benchmark_json() {
    let plan = Plan::of(&record(&runnable())).unwrap();
    let value = |name: &str| {
        let key = MetricKey::parse(name).unwrap();
        plan.measured.iter().find(|(have, _)| *have == key).map(|(_, value)| *value)
    };
    assert_eq!(value("median_e2el_ms"), Some(70.0));
    assert_eq!(value("output_throughput"), Some(400.0));
    assert_eq!((value("p99_itl_ms"), value("max_itl_ms")), (None, None));
}

#[test]
fn a_run_compared_with_itself_has_no_error() {
    let first = validated(&[runnable()]);
    let simulated = |name: &str| {
        let key = MetricKey::parse(name).unwrap();
        first.runs[0].rows.iter().find(|row| row.key == key).unwrap().simulated
    };
    let mut again = runnable();
    for name in ["mean_ttft_ms", "mean_tpot_ms"] {
        again["metrics"][name] = json!(simulated(name));
    }
    again["metrics"]["output_token_throughput"] = json!(simulated("output_throughput"));
    again["metrics"]["median_e2el_s"] = json!(simulated("median_e2el_ms") / 1e3);
    for (key, score) in validated(&[again]).all.metrics {
        assert!(score.mean_abs_pct < 1e-9, "{key:?}: {score:?}");
    }
}

#[test]
fn the_answer_has_the_documented_shape() {
    let mut slower = runnable();
    slower["id"] = json!("b");
    slower["workload"]["output_len"] = json!(80);
    slower["metrics"]["total_generated_tokens"] = json!(320);
    slower["metrics"]["output_token_throughput"] = json!(900.0);
    let validation = validated(&[runnable(), slower, with("engine.name", json!("MindIE"))]);
    let answer: Value = serde_json::from_str(&validation.json()).unwrap();
    let family = &answer["families"][0];
    assert_eq!(
        (&family["family"], &family["total"], &family["ran"]),
        (&json!("f/x"), &json!(3), &json!(2))
    );
    assert_eq!(family["skipped"], json!({"engine not modelled: MindIE": 1}));
    assert_eq!(family["kendall_tau"], json!(1.0));
    let keys: BTreeSet<&String> =
        family["metrics"]["mean_ttft_ms"].as_object().unwrap().keys().collect();
    assert_eq!(
        keys.into_iter().collect::<Vec<_>>(),
        ["bias_pct", "mean_abs_pct", "median_abs_pct", "n"]
    );
    let left_out = json!({"id": "a", "family": "f/x", "reason": "engine not modelled: MindIE"});
    assert_eq!(answer["left_out"], json!([left_out]));
    let run = &answer["runs"][0];
    assert_eq!((&run["id"], &run["family"]), (&json!("a"), &json!("f/x")));
    assert_eq!(run["metrics"]["mean_ttft_ms"]["measured"], json!(20.0));
    assert!(run["metrics"]["mean_ttft_ms"]["error_pct"].is_number());
}

#[test]
fn a_broken_line_is_named() {
    let error = Record::parse_all("{}\n").unwrap_err();
    assert!(error.to_string().starts_with("line 1: missing field `id`"), "{error}");
}

/// The records of a published file.
fn published(name: &str) -> Vec<Record> {
    let text = std::fs::read_to_string(data().join("real-runs").join(name)).expect("the runs");
    Record::parse_all(&text).expect("records")
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn every_published_run_is_planned_or_named() {
    let mut shares = Vec::new();
    for name in
        ["published-calibration.jsonl", "published-validation.jsonl", "inferencex-points.jsonl"]
    {
        let records = published(name);
        let planned = records.iter().filter(|record| Plan::of(record).is_ok()).count();
        let share = planned as f64 / records.len() as f64;
        println!("{name}: {planned} of {} can be planned", records.len());
        shares.push(share);
    }
    // Without drafts this much is there; more may come.
    assert!(shares[1] > 0.3, "{shares:?}");
}

/// The draws of the tools give the totals that were printed, for every run that repeats them.
#[test]
#[ignore = "needs SERVECAST_DATA"]
fn drawn_lengths_have_the_printed_totals() {
    let folder = data();
    let path = folder.join("real-runs/published-validation.jsonl");
    let text = std::fs::read_to_string(path).expect("the runs");
    let mut compared = 0;
    for line in text.lines() {
        let told: Value = serde_json::from_str(line).expect("a record");
        let Ok(plan) = Plan::of(&record(&told)) else { continue };
        let workload = &plan.scenario.workload;
        let drawn = matches!(
            workload.lengths,
            LengthConfig::SglangRandom(_) | LengthConfig::Vllm2024Random(_)
        );
        if !drawn || plan.assumed.iter().any(|what| what.starts_with("lengths")) {
            continue;
        }
        let requests = Workload::open(workload, plan.scenario.seed, None).expect("it opens");
        let tokens: u64 = requests.flatten().map(|request| u64::from(request.prompt_tokens)).sum();
        let printed = told["metrics"]["total_input_tokens"].as_f64().expect("a total");
        let off = (tokens as f64 / printed - 1.0).abs();
        assert!(off < 0.005, "{}: drawn {tokens}, printed {printed}", told["id"]);
        compared += 1;
    }
    println!("{compared} runs draw their lengths from a seed");
    assert!(compared > 5, "{compared}");
}

#[cfg(feature = "parallel")]
#[test]
#[ignore = "needs SERVECAST_DATA"]
fn the_result_does_not_depend_on_threads() {
    let records = published("published-validation.jsonl");
    let records: Vec<Record> =
        records.into_iter().filter(|record| record.family.starts_with("sgl-cookbook")).collect();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| validate(&records, &AS_GIVEN).json())
    };
    assert_eq!(on(1), on(3));
}
