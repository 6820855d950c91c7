//! Records written in many ways: what is run and how, and what is left out with which reason.

mod drafts;
mod parallel;
mod versions;

use serde_json::{Value, json};

use super::{Plan, Record};
use crate::metrics::bench::MetricKey;
use crate::scenario::{ArrivalConfig, EngineConfig, LengthConfig, ReplicaRole, ScenarioFile};

fn base() -> Value {
    json!({
        "id": "a", "family": "f", "engine": {"name": "vLLM", "version": "0.11.0"},
        "hardware": {"gpu": "H100", "gpus_used": 1},
        "model": {"name": "Qwen/Qwen3-8B", "precision": "bf16"},
        "parallel": {"tp": 1}, "engine_flags": {},
        "workload": {
            "dataset": "random", "client": "vllm bench serve", "num_prompts": 60,
            "input_len": 1024, "output_len": 128, "max_concurrency": 8,
        },
        "metrics": {"mean_ttft_ms": 80.0},
    })
}

/// The base with values at paths replaced; null takes a value out.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut record = base();
    for (path, value) in changes {
        *path.split('.').fold(&mut record, |at, key| &mut at[key]) = value.clone();
    }
    record
}

fn plan(changes: &[(&str, Value)]) -> Result<Plan, String> {
    let records = Record::parse_all(&with(changes).to_string()).expect("a record");
    Plan::of(&records[0]).map_err(|skip| skip.to_string())
}

fn tp(changes: &[(&str, Value)]) -> Result<u32, String> {
    plan(changes).map(|plan| plan.scenario.cluster.tensor_parallel_size)
}

#[test]
fn a_line_that_is_no_record_costs_no_other() {
    let good = base().to_string();
    let odd = good.replace("80.0", "NaN");
    let text = format!("\u{feff}{good}\n{{}}\n{odd}\n{}", &good[..60]);
    let (records, broken) = Record::read_all(&text);
    assert_eq!(records.len(), 2);
    let lines: Vec<usize> = broken.iter().map(|line| line.number).collect();
    assert_eq!(lines, [2, 4]);
    assert_eq!(records[0].metric("mean_ttft_ms"), Some(80.0));
    assert_eq!(records[1].metric("mean_ttft_ms"), None);
}

#[test]
fn a_list_of_records_is_read_as_their_lines_are() {
    let good = base().to_string();
    let odd = good.replace("80.0", "NaN");
    let (records, broken) = Record::read_all(&format!(" [{good},\n{{}},\n{odd}]\n"));
    assert_eq!(records, Record::read_all(&format!("{good}\n{odd}")).0);
    let [broken] = &broken[..] else { panic!("{broken:?}") };
    assert!(broken.to_string().starts_with("item 2: missing field"), "{broken}");
    let (records, broken) = Record::read_all(&format!("[{good},\n"));
    assert!(records.is_empty());
    assert!(broken[0].to_string().starts_with("line 2: EOF"), "{broken:?}");
}

#[test]
fn tensor_parallelism_is_what_any_part_says_and_no_part_denies() {
    let none = json!(null);
    let two = json!(2);
    assert_eq!(
        tp(&[("parallel.tp", none.clone()), ("engine_flags.tensor-parallel-size", two.clone())]),
        Ok(2)
    );
    let gpus = ("hardware.gpus_used", two.clone());
    assert_eq!(tp(&[("parallel", none.clone()), gpus.clone()]), Ok(2));
    let command = |text: &str| ("server_command", json!(text));
    let plain = [("parallel", none), gpus.clone(), command("vllm serve Qwen/Qwen3-8B")];
    assert_eq!(tp(&plain), Ok(1));
    let denied = tp(&[command("vllm serve Qwen/Qwen3-8B -tp 4")]);
    assert_eq!(denied, Err("contradiction: tensor parallelism of 4 and of 1".to_owned()));
    for odd in [json!("two"), json!(2.5), json!(-1)] {
        let skip = tp(&[("parallel.tp", odd), gpus.clone()]).unwrap_err();
        assert!(skip.contains("parallel.tp="), "{skip}");
    }
    for key in ["dp", "pp", "ep"] {
        let mut record = with(&[]);
        record["parallel"][key] = json!(null);
        let records = Record::parse_all(&record.to_string()).unwrap();
        assert!(Plan::of(&records[0]).is_ok(), "{key}");
    }
}

#[test]
fn rates_and_limits_are_read_in_every_spelling_or_are_a_reason() {
    let limit = |changes: &[(&str, Value)]| {
        plan(changes).map(|plan| plan.scenario.workload.client.max_concurrency)
    };
    let none = json!(null);
    let in_metrics =
        [("workload.max_concurrency", none.clone()), ("metrics.max_request_concurrency", json!(5))];
    assert_eq!(limit(&in_metrics), Ok(Some(5)));
    for (told, expected) in [
        (json!("8"), Ok(Some(8))),
        (json!(8.0), Ok(Some(8))),
        (json!("not set"), Ok(None)),
        (
            json!("eight"),
            Err("unmodelled setting of the workload: max_concurrency=eight".to_owned()),
        ),
        (json!(0), Err("unmodelled setting of the workload: max_concurrency=0".to_owned())),
    ] {
        assert_eq!(limit(&[("workload.max_concurrency", told)]), expected);
    }
    let rate = |path: &str, value: Value| {
        plan(&[(path, value)]).map(|plan| match plan.scenario.workload.arrivals {
            ArrivalConfig::Vllm { rate_per_s, .. } => rate_per_s,
            other => {
                assert_eq!(other, ArrivalConfig::AllAtOnce {});
                None
            }
        })
    };
    for told in ["inf", "Infinity", "INF"] {
        assert_eq!(rate("workload.request_rate", json!(told)), Ok(None));
    }
    assert_eq!(rate("workload.request_rate", json!("10")), Ok(Some(10.0)));
    assert_eq!(rate("metrics.traffic_request_rate", json!(4.0)), Ok(Some(4.0)));
    for odd in [json!(0), json!(-1), json!("4 req/s"), json!(1e-12)] {
        let skip = rate("workload.request_rate", odd).unwrap_err();
        assert!(skip.contains("request_rate="), "{skip}");
    }
}

#[test]
fn counts_that_no_memory_holds_are_a_reason() {
    for changes in [
        vec![("workload.num_prompts", json!(4_000_000_000_u64))],
        vec![("workload.num_prompts", json!(100_000_000)), ("workload.dataset", json!("sharegpt"))],
        vec![
            ("workload.client", json!("InferenceX")),
            ("workload.num_prompts", json!(null)),
            ("workload.max_concurrency", json!(1_000_000_000)),
        ],
    ] {
        let skip = plan(&changes).map(|_| ()).unwrap_err();
        assert!(skip.contains("requests are more than"), "{skip}");
    }
}

#[test]
fn flags_that_change_nothing_are_no_reason() {
    let command = |text: &str| ("server_command", json!(text));
    for flags in [
        json!({"dtype": "auto", "quantization": null, "seed": 0, "swap-space": 16}),
        json!({"dtype": "bfloat16", "enforce-eager": false, "disable-custom-all-reduce": true}),
        json!({"distributed-executor-backend": "mp", "attention-backend": "FLASH_ATTN"}),
        json!({"env": {"VLLM_USE_V1": 1}}),
    ] {
        assert!(plan(&[("engine_flags", flags.clone())]).is_ok(), "{flags}");
    }
    let quoted = plan(&[command("VLLM_USE_V1=1 vllm serve x --max-num-seqs \"4\"")]).unwrap();
    let EngineConfig::VllmV1(config) = quoted.scenario.cluster.engine else { panic!("V1") };
    assert_eq!(config.max_num_seqs, Some(4));
    let docker = "docker run --gpus all -p 8000:8000 --ipc=host vllm/vllm-openai:v0.11.0 --model x";
    assert!(plan(&[command(docker)]).is_ok());
    for (flags, reason) in [
        (json!({"dtype": "float32"}), "unmodelled flag: dtype=float32"),
        (json!({"quantization": "awq"}), "unmodelled flag: quantization=awq"),
        (json!({"env": {"A": 1}}), "unmodelled flag: A=1"),
    ] {
        assert_eq!(plan(&[("engine_flags", flags)]).map(|_| ()).unwrap_err(), reason);
    }
    let two =
        [("parallel.tp", json!(2)), ("engine_flags", json!({"disable-custom-all-reduce": true}))];
    assert!(plan(&two).is_err());
}

#[test]
fn a_field_that_may_mean_something_is_never_ignored() {
    for path in
        ["model.kv_cache_dtype", "engine.spec_decode", "hardware.power_limit_w", "speculative"]
    {
        let skip = plan(&[(path, json!("x"))]).map(|_| ()).unwrap_err();
        assert_eq!(skip, format!("unmodelled field: {path}"));
    }
    assert!(plan(&[("hardware.cpu", json!("x")), ("hardware.count_basis", json!("y"))]).is_ok());
}

#[test]
fn draws_of_a_range_are_those_of_the_tool() {
    let capitals =
        [("workload.dataset", json!("Random")), ("workload.client", json!("vLLM bench serve"))];
    assert!(plan(&capitals).is_ok());
    let older = [
        ("workload.client", json!("vLLM benchmark_serving.py")),
        ("workload.request_rate", json!(2)),
    ];
    let arrivals = plan(&older).unwrap().scenario.workload.arrivals;
    assert_eq!(arrivals, ArrivalConfig::Vllm2024 { rate_per_s: 2.0 });
    let spread = plan(&[("workload.random_range_ratio", json!(0.5))]).unwrap();
    let LengthConfig::VllmRandom(drawn) = spread.scenario.workload.lengths else { panic!("drawn") };
    assert!((drawn.range_ratio - 0.5).abs() < 1e-12);
    assert!(plan(&[("workload.random_range_ratio", json!(1.0))]).is_err());
    let seed = |version: &str| {
        let changes = [
            ("engine", json!({"name": "SGLang", "version": version})),
            ("workload.client", json!("sglang.bench_serving")),
        ];
        plan(&changes).unwrap().scenario.workload.tool_seed
    };
    assert_eq!((seed("0.5.9"), seed("0.5.23")), (Some(1), Some(42)));
}

#[test]
fn figures_are_read_as_people_write_them() {
    for (told, expected) in [("1,080.5", 1080.5), ("80 ms", 80.0), (" 80 ", 80.0)] {
        let plan = plan(&[("metrics.mean_ttft_ms", json!(told))]).unwrap();
        let key = MetricKey::parse("mean_ttft_ms").unwrap();
        assert_eq!(plan.measured, [(key, expected)], "{told}");
    }
    for odd in ["80 s", "8,0", "N/A", "1,08"] {
        assert!(plan(&[("metrics.mean_ttft_ms", json!(odd))]).is_err(), "{odd}");
    }
}

#[test]
fn gaps_between_some_of_the_tokens_are_no_figure() {
    // 100 gaps of 20 ms from the first token to the end.
    let is_told = |gap_ms: f64| {
        let metrics = json!({
            "mean_ttft_ms": 80.0, "mean_e2el_s": 2.08, "mean_itl_ms": gap_ms,
            "total_generated_tokens": 6060, "successful_requests": 60,
        });
        let key = MetricKey::parse("mean_itl_ms").unwrap();
        let measured = plan(&[("metrics", metrics)]).unwrap().measured;
        measured.iter().any(|(told, _)| *told == key)
    };
    assert!(is_told(20.0) && is_told(11.0));
    assert!(!is_told(9.0));
}

#[test]
fn flags_that_choose_kernels_are_told_and_graphs_are_those_of_the_flags() {
    const TOLD: &str = "kernels: the engine's defaults, though flags choose others";
    let of = |flags: Value| plan(&[("engine_flags", flags)]).unwrap();
    for flags in [
        json!({"attention-backend": "FLASHINFER"}),
        json!({"enable-torch-compile": true}),
        json!({"env": {"VLLM_USE_FLASHINFER_MOE_FP8": 1}}),
    ] {
        assert!(of(flags.clone()).assumed.contains(&TOLD), "{flags}");
    }
    for (model, flags) in [
        ("deepseek-ai/DeepSeek-V3.2", json!({"nsa-decode-backend": "tilelang"})),
        ("deepseek-ai/DeepSeek-V3", json!({"env": "DEEP_GEMM_DISABLE=1"})),
        ("deepseek-ai/DeepSeek-V3", json!({"env": "SGLANG_ROCM_FUSED_DECODE_MLA=0"})),
    ] {
        let changes = [
            ("engine", json!({"name": "SGLang", "version": "0.5.12"})),
            ("model", json!({"name": model})),
            ("engine_flags", flags.clone()),
        ];
        assert!(plan(&changes).unwrap().assumed.contains(&TOLD), "{flags}");
    }
    for flags in [json!({"attention-backend": "FLASH_ATTN"}), json!({"enable-mscclpp": false})] {
        assert!(!of(flags.clone()).assumed.contains(&TOLD), "{flags}");
    }
    let vllm = |flags: Value| match of(flags).scenario.cluster.engine {
        EngineConfig::VllmV1(config) => (config.enforce_eager, config.max_cudagraph_capture_size),
        _ => panic!("vLLM"),
    };
    assert_eq!(vllm(json!({})), (false, None));
    assert_eq!(vllm(json!({"enforce-eager": true})), (true, None));
    assert_eq!(vllm(json!({"max-cudagraph-capture-size": 64})), (false, Some(64)));
}

#[test]
fn throughput_mode_doubles_what_flags_do_not_say() {
    let limits = |flags: Value| {
        let changes = [("engine.version", json!("0.17.1")), ("engine_flags", flags)];
        match plan(&changes)?.scenario.cluster.engine {
            EngineConfig::VllmV1(config) => {
                Ok((config.max_num_batched_tokens, config.max_num_seqs))
            }
            _ => panic!("vLLM"),
        }
    };
    // H100: 8,192 tokens of 1,024 sequences.
    assert_eq!(limits(json!({"performance-mode": "throughput"})), Ok((Some(16_384), Some(2048))));
    for flags in [
        json!({"max-num-seqs": 64, "performance-mode": "throughput"}),
        json!({"performance-mode": "throughput", "max-num-seqs": 64}),
    ] {
        assert_eq!(limits(flags), Ok((Some(16_384), Some(64))));
    }
    // Sequences give way to the tokens that a flag says, wherever it stands.
    for flags in [
        json!({"max-num-batched-tokens": 1024, "performance-mode": "throughput"}),
        json!({"performance-mode": "throughput", "max-num-batched-tokens": 1024}),
    ] {
        assert_eq!(limits(flags), Ok((Some(1024), Some(1024))));
    }
    assert_eq!(limits(json!({"performance-mode": "balanced"})), Ok((None, None)));
    let other = "unmodelled flag: performance-mode=interactivity".to_owned();
    assert_eq!(limits(json!({"performance-mode": "interactivity"})), Err(other));
}

#[test]
fn what_no_field_names_is_what_the_command_serves() {
    let command = ("server_command", json!("sglang serve --model-path Qwen/Qwen3-8B-FP8"));
    let served = |model: Value| {
        let changes = [
            ("engine", json!({"name": "SGLang", "version": "0.5.9"})),
            ("model", model),
            command.clone(),
        ];
        plan(&changes).map(|plan| plan.scenario.cluster.model)
    };
    assert_eq!(served(json!({})).as_deref(), Ok("Qwen/Qwen3-8B-FP8"));
    // What was made of a name that names no checkpoint says nothing of the checkpoint.
    let title = json!({"name": "The 8B (BF16)", "precision_inferred_from_checkpoint_name": "bf16"});
    assert_eq!(served(title).as_deref(), Ok("Qwen/Qwen3-8B-FP8"));
    assert_eq!(served(json!({"name": "Qwen/Qwen3-14B"})).as_deref(), Ok("Qwen/Qwen3-14B"));
    let unknown = plan(&[("model", json!({"name": "who/Knows-1B"}))]).map(|_| ());
    assert_eq!(unknown, Err("unknown model: who/Knows-1B".to_owned()));
}

#[test]
fn the_gpu_is_that_of_the_heading_over_the_figures() {
    let of = |heading: &str| {
        let plan = plan(&[("variant", json!(heading))]).unwrap();
        let is_told = plan.assumed.contains(&"GPU: that of the heading over the figures");
        (plan.scenario.cluster.gpu, is_told)
    };
    let page = of("1. Choosing the engine");
    assert!(!page.1);
    assert_eq!(of("Speed / gemma (MoE, 1x MI300X, TP=1)"), ("MI300X".to_owned(), true));
    for same in ["Speed (1x H100, TP=1)", "Speed (2x faster)", "Speed (fixed)", "Speed 1x MI300X"] {
        assert_eq!(of(same), page, "{same}");
    }
}

#[test]
fn replicas_that_prefill_or_decode_may_be_told_by_a_flag() {
    let flags = json!({"disaggregation": {
        "prefill_workers": 1, "decode_workers": 3, "tp_per_worker": 2, "transfer_backend": "nixl",
    }});
    let engine = json!({"name": "SGLang", "version": "0.5.9"});
    let told = [("engine", engine), ("engine_flags", flags), ("parallel.tp", json!(2))];
    let cluster = plan(&told).unwrap().scenario.cluster;
    let groups =
        cluster.groups.iter().map(|one| (one.role, one.replicas, one.tensor_parallel_size));
    let groups: Vec<_> = groups.collect();
    let expected = [(ReplicaRole::Prefill, 1, Some(2)), (ReplicaRole::Decode, 3, Some(2))];
    assert_eq!(groups, expected);
    // The whole is not spread otherwise than its parts.
    let mut other = told.to_vec();
    other[2].1 = json!(4);
    assert!(plan(&other).is_err());
    let unknown = json!({"disaggregation": {"prefill_workers": 1, "decode_workers": 1, "mode": 2}});
    assert!(plan(&[("engine_flags", unknown)]).is_err());
}

#[test]
fn intervals_are_those_of_what_is_expected_and_of_nothing_that_was_set() {
    let record = Record::parse_all(&base().to_string()).expect("a record");
    let scored = |factor: Option<f64>| {
        let adjust = move |_: &Record, mut file: ScenarioFile| {
            if let Some(factor) = factor {
                let calibration = file.cluster.step_time.calibration_mut();
                calibration.expect("it has one").products_compute = factor;
            }
            Ok(file)
        };
        let validation = super::validate(&record, &adjust);
        let run = validation.runs.first().expect("it is run").clone();
        let [low, high] = run.interval(&run.rows[0])?;
        assert!(low < run.rows[0].simulated && run.rows[0].simulated < high);
        Some(())
    };
    assert_eq!(scored(None), Some(()));
    assert_eq!(scored(Some(2.5)), None);
}
