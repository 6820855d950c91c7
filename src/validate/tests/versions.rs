//! What servers do by the version of their engine, and by who measured them.

use serde_json::{Value, json};

use super::super::{Record, validate};
use super::{plan, with};
use crate::load::{self, Override};
use crate::model::SamplerKernels;
use crate::model::layout::MambaStrategy;
use crate::resolved::{KvSource, Scenario, ServerClass};
use crate::scenario::{Calibration, ClusterConfig, EngineConfig, StepTimeConfig};

#[test]
fn the_memory_of_a_vllm_is_that_of_its_version() {
    let blocks = |version: &str| {
        let engine = json!({"name": "vLLM", "version": version});
        let flags = json!({"max-num-seqs": 1024, "gpu-memory-utilization": 0.9});
        let plan = plan(&[("engine", engine), ("engine_flags", flags)]).unwrap();
        let scenario = Scenario::resolve(plan.scenario, None).unwrap();
        let KvSource::Derived(kv) = scenario.first().kv else { panic!("blocks are derived") };
        (kv.blocks, kv.start.expect("it follows from the start-up"))
    };
    // Until 0.17 the sampler sorts the logits of 1024 sequences.
    let (sorted, parts) = blocks("0.10.2");
    let (newest, other) = blocks("0.33.0");
    assert!(parts.activation.0 > 2 * other.activation.0, "{parts:?} {other:?}");
    assert_eq!(parts.graphs.0, 0);
    assert!(other.graphs.0 > 0 && newest > sorted, "{newest} {sorted}");
}

#[test]
fn a_server_that_started_has_the_sampler_that_its_memory_allows() {
    let sampler = |version: &str, flags: Value| {
        let plan = plan(&[
            ("engine", json!({"name": "vLLM", "version": version})),
            ("model", json!({"name": "Qwen/Qwen3-235B-A22B-Instruct-2507", "precision": "bf16"})),
            ("hardware.gpus_used", json!(8)),
            ("parallel", json!({"tp": 8})),
            ("engine_flags", flags),
        ]);
        let plan = plan.unwrap();
        let EngineConfig::VllmV1(vllm) = &plan.scenario.cluster.engine else { panic!() };
        let is_told = plan.assumed.iter().any(|told| told.starts_with("sampler: "));
        assert_eq!(is_told, vllm.start_up.sampler.is_some());
        vllm.start_up.sampler
    };
    // A sequence of 262,144 tokens does not fit beside sorted logits of 1,024 sequences.
    assert_eq!(sampler("0.11.0", json!({})), Some(SamplerKernels::FlashInfer));
    assert_eq!(sampler("0.11.0", json!({"max-model-len": 40960})), None);
    assert_eq!(sampler("0.33.0", json!({})), None);
}

#[test]
fn servers_with_adapters_have_the_host_that_was_found_for_their_version() {
    let workload = json!({
        "dataset": "dummy_dataset", "total_time_s": 60, "offered_rate_req_s": 1.0,
        "avg_input_len": 100, "avg_output_len": 50,
        "adapter_rates": [0.5], "adapter_rate_counts": [2], "adapter_ranks": [8],
    });
    let cluster = |version: &str| {
        let engine = json!({"name": "vLLM", "version": version});
        let flags = json!({"enable-lora": true, "max-loras": 2});
        let changes = [("engine", engine), ("engine_flags", flags), ("workload", workload.clone())];
        plan(&changes).unwrap().scenario.cluster
    };
    let host = |cluster: ClusterConfig| {
        let StepTimeConfig::Auto { calibration, .. } = cluster.step_time else {
            panic!("{:?}", cluster.step_time)
        };
        let Calibration { per_sequence_us, per_prefill_step_us, .. } =
            calibration.unwrap_or_default();
        [cluster.api_delay_ms, per_sequence_us, per_prefill_step_us].map(|value| value.to_string())
    };
    // As profiles/lora/README.md has them.
    assert_eq!(host(cluster("image vllm_0.8.5.sif")), ["15.7", "38.4", "1200"]);
    let plain = plan(&[("engine", json!({"name": "vLLM", "version": "0.8.5"}))]).unwrap();
    let plain = host(plain.scenario.cluster);
    assert_eq!(host(cluster("0.9.1")), plain);
    assert_eq!(plain, ["0"; 3]);
}

#[test]
fn chats_to_an_old_vllm_look_for_a_processor() {
    let lookup = |version: &str, client: &str, model: Value| {
        let engine = json!({"name": "vLLM", "version": version});
        let changes = [("engine", engine), ("workload.client", json!(client)), ("model", model)];
        let host = plan(&changes).unwrap().scenario.cluster.host;
        host.and_then(|host| host.processes().copied()).expect("a host").chat_lookup_ms.to_string()
    };
    let chat = "vllm bench serve (openai-chat)";
    let qwen = || json!({"name": "Qwen/Qwen3-8B"});
    assert_eq!(lookup("v0.11.0", chat, qwen()), "12");
    assert_eq!(lookup("0.11.1", chat, qwen()), "0");
    assert_eq!(lookup("0.11.0", "vllm bench serve (openai)", qwen()), "0");
    assert_eq!(lookup("0.11.0", chat, json!({"name": "openai/gpt-oss-20b"})), "0");
}

#[test]
fn an_old_sglang_finds_states_where_steps_end() {
    let states = |version: &str, flags: Value| {
        let planned = plan(&[
            ("engine", json!({"name": "sglang", "version": version})),
            ("model", json!({"name": "Qwen/Qwen3-Next-80B-A3B-Instruct"})),
            ("hardware", json!({"gpu": "H200", "gpus_used": 4})),
            ("parallel.tp", json!(4)),
            ("engine_flags", flags),
        ]);
        let EngineConfig::Sglang(sglang) = planned.unwrap().scenario.cluster.engine else {
            panic!("SGLang")
        };
        (sglang.mamba_radix_cache_strategy, sglang.disable_overlap_schedule)
    };
    let (plain, tracking) = (MambaStrategy::NoBuffer, MambaStrategy::ExtraBuffer);
    assert_eq!(states("0.5.7", json!({})), (Some(plain), true));
    assert_eq!(states("0.5.23", json!({})), (None, false));
    assert_eq!(states("0.5.7", json!({"disable-radix-cache": true})), (None, false));
    let told = json!({"mamba-scheduler-strategy": "extra_buffer"});
    assert_eq!(states("0.5.7", told), (Some(tracking), false));
}

#[test]
fn inferencex_serves_without_a_radix_cache_unless_it_says_so() {
    let is_off = |client: &str, flags: Value| {
        let planned = plan(&[
            ("engine", json!({"name": "sglang", "version": "0.5.9"})),
            ("workload.client", json!(client)),
            ("engine_flags", flags),
        ]);
        let planned = planned.unwrap();
        let EngineConfig::Sglang(sglang) = planned.scenario.cluster.engine else {
            panic!("SGLang")
        };
        let note = "radix cache not stated: off, as InferenceX serves";
        (sglang.disable_radix_cache, planned.assumed.contains(&note))
    };
    assert_eq!(is_off("InferenceX", json!({})), (true, true));
    assert_eq!(is_off("InferenceX", json!({"disable-radix-cache": false})), (false, false));
    assert_eq!(is_off("vllm bench serve", json!({})), (false, false));
}

#[test]
fn inferencex_is_tuned_where_nothing_says_how_long_steps_take() {
    let class = |client: &str, step_time: &str| {
        let told =
            [("workload.client", json!(client)), ("model.name", json!("Qwen/Qwen3-30B-A3B"))];
        let records = Record::parse_all(&with(&told).to_string()).expect("a record");
        let kind = [Override::new("cluster.step_time.type", step_time)];
        let adjust = |_: &Record, file| load::overridden(file, &kind).map_err(|error| error.told());
        let validation = validate(&records, &adjust);
        let run = validation.runs.first();
        run.unwrap_or_else(|| panic!("{:?}", validation.left_out)).class
    };
    assert_eq!(class("InferenceX", "auto"), Some(ServerClass::TunedExperts));
    assert_eq!(class("vllm bench serve", "auto"), Some(ServerClass::Experts));
    // Other step times have nothing to say of it, and are taken.
    assert_eq!(class("InferenceX", "roofline"), Some(ServerClass::Experts));
}

#[test]
fn an_old_sglang_captures_no_prompts() {
    let is_without = |version: &str| {
        let engine = json!({"name": "SGLang", "version": version});
        let EngineConfig::Sglang(config) =
            plan(&[("engine", engine)]).unwrap().scenario.cluster.engine
        else {
            panic!("SGLang")
        };
        config.disable_prefill_cuda_graph
    };
    assert_eq!([is_without("v0.5.9"), is_without("0.5.10.post1")], [Some(true), Some(false)]);
}

#[test]
fn flags_say_what_sglang_captures_of_prompts() {
    let graphs = |version: &str, flags: Value| {
        let changes =
            [("engine", json!({"name": "SGLang", "version": version})), ("engine_flags", flags)];
        let EngineConfig::Sglang(config) = plan(&changes).unwrap().scenario.cluster.engine else {
            panic!("SGLang")
        };
        (config.disable_prefill_cuda_graph, config.cuda_graph_max_bs_prefill)
    };
    assert_eq!(graphs("0.5.9", json!({"enable-piecewise-cuda-graph": true})), (Some(false), None));
    assert_eq!(graphs("0.5.12", json!({"disable-piecewise-cuda-graph": true})), (Some(true), None));
    assert_eq!(graphs("0.5.23", json!({"disable-prefill-cuda-graph": true})), (Some(true), None));
    let most = json!({"piecewise-cuda-graph-max-tokens": 1024});
    assert_eq!(graphs("0.5.12", most.clone()), (Some(false), Some(1024)));
    assert_eq!(graphs("0.5.9", most), (Some(true), None));
}
