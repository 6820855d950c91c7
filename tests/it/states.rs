//! Models most of whose layers keep states in place of keys and values.

use servecast::load::{self, Draft};
use servecast::metrics::RequestRecord;
use servecast::model::{KvDtype, KvGroups, ModelSpec};
use servecast::profiles;
use servecast::scenario::{EngineConfig, MambaCacheMode};

fn model(name: &str) -> ModelSpec {
    profiles::model(name).unwrap_or_else(|| panic!("{name} is in the catalogue"))
}

#[test]
fn parameters_are_those_that_the_engine_counts() {
    // vLLM 0.33.0, model classes built without weights; towers left out.
    for (name, total, active) in [
        ("Qwen/Qwen3.5-27B", 26_895_998_464, 26_895_998_464),
        ("Qwen/Qwen3.5-35B-A3B", 34_660_610_688, 3_454_988_928),
        ("Qwen/Qwen3.5-122B-A10B", 122_111_526_912, 9_771_288_576),
        ("Qwen/Qwen3.5-397B-A17B", 396_346_350_336, 17_349_040_896),
    ] {
        let model = model(name);
        assert_eq!(model.params_total(), total, "{name}");
        assert_eq!(model.params_active(), active, "{name}");
    }
}

#[test]
fn states_and_blocks_are_as_large_as_in_the_engine() {
    // vLLM 0.33.0 on H200 and B200: tokens of a block, bytes of one over its layers, states of a sequence.
    for (name, tp, dtype, block_size, block_bytes, state_bytes) in [
        ("Qwen/Qwen3.5-27B", 1, KvDtype::Auto, 832, 54_525_952, 153_944_064),
        ("Qwen/Qwen3.5-27B", 1, KvDtype::Fp8, 1600, 52_428_800, 153_944_064),
        ("Qwen/Qwen3.5-27B", 8, KvDtype::Auto, 448, 7_340_032, 19_243_008),
        ("Qwen/Qwen3.5-35B-A3B", 1, KvDtype::Fp8, 2112, 21_626_880, 64_389_120),
        ("Qwen/Qwen3.5-35B-A3B", 2, KvDtype::Auto, 1088, 11_141_120, 32_194_560),
        ("Qwen/Qwen3.5-35B-A3B", 4, KvDtype::Auto, 576, 5_898_240, 16_097_280),
        ("Qwen/Qwen3.5-35B-A3B", 8, KvDtype::Fp8, 576, 2_949_120, 8_048_640),
    ] {
        let model = model(name);
        assert_eq!(KvGroups::block_size_with_states(&model, tp, dtype), Some(block_size), "{name}");
        let bytes = u64::from(block_size) * model.kv_bytes_per_token(tp, dtype);
        assert_eq!(bytes, block_bytes, "{name}, {tp} GPUs");
        assert_eq!(model.state_bytes(tp, 0), state_bytes, "{name}, {tp} GPUs");
        assert_eq!(
            KvGroups::of(&model).map(|groups| (groups.windows.len(), groups.states)),
            Some((0, 3))
        );
    }
    assert_eq!(KvGroups::block_size_with_states(&model("Qwen/Qwen3-8B"), 1, KvDtype::Auto), None);
}

#[test]
fn a_request_has_its_context_and_a_block_of_states_in_each_group() {
    let groups = KvGroups::of(&model("Qwen/Qwen3.5-27B")).expect("it has groups");
    for tokens in [1, 100, 832, 833, 100_000] {
        assert_eq!(groups.blocks(tokens, tokens - 1, 832), 3);
        assert_eq!(groups.most(tokens, 8192, 832), 3);
    }
    assert_eq!(groups.steady(832), 3);
}

const CONFIG: &str = r#"{
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 48,
    "hidden_size": 2048, "vocab_size": 151936, "num_attention_heads": 16, "num_key_value_heads": 2,
    "head_dim": 256, "intermediate_size": 5120, "full_attention_interval": 4, "num_experts": 512,
    "num_experts_per_tok": 10, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "max_position_embeddings": 262144, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "hidden_act": "silu"}"#;

#[test]
fn a_config_is_read_as_the_catalogue_has_it() {
    let name = "Qwen/Qwen3-Next-80B-A3B-Instruct";
    let read = ModelSpec::from_hf_config(CONFIG, None, name).expect("it is read");
    let built_in = model(name);
    assert_eq!(read.layers, built_in.layers);
    assert_eq!(read.weight_bytes(4), built_in.weight_bytes(4));
    assert_eq!(read.max_position, built_in.max_position);
    let without = CONFIG.replace("\"linear_key_head_dim\": 128,", "");
    let problem = ModelSpec::from_hf_config(&without, None, name).expect_err("a key is missing");
    assert!(problem.to_string().contains("linear_key_head_dim"), "{problem}");
    // Nobody else has such layers.
    let other = CONFIG.replace("Qwen3Next", "Qwen3Moe").replace("qwen3_next", "qwen3_moe");
    let problem =
        ModelSpec::from_hf_config(&other, None, name).expect_err("keys of another family");
    assert!(problem.to_string().contains("full_attention_interval"), "{problem}");
}

fn served(engine: &str) -> Draft {
    let text = format!(
        "name = 'states'\nseed = 2\n[workload]\nnum_requests = 60\n\
         arrivals = {{ type = 'poisson', rate_per_s = 6.0 }}\n\
         lengths = {{ type = 'fixed', input_tokens = 1000, output_tokens = 60 }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3.5-35B-A3B'\ngpu = 'H200'\nengine = {{ type = '{engine}' }}\n"
    );
    load::from_text(&text).expect("a scenario")
}

#[test]
fn both_engines_serve_them() {
    for engine in ["vllm_v1", "sglang"] {
        let run = served(engine).run().expect("it runs");
        assert_eq!(run.counts.finished, 60, "{engine}");
    }
}

#[test]
fn states_cost_the_same_at_any_context() {
    let tpot = |tokens: i64| {
        let draft = served("vllm_v1").with("workload.lengths.input_tokens", tokens);
        let draft = draft.and_then(|draft| draft.with("workload.num_requests", 1));
        let draft = draft.and_then(|draft| draft.with("cluster.host", "none"));
        let run = draft.and_then(|draft| draft.run()).expect("it runs");
        run.summary().figure("mean_tpot_ms").expect("it was measured")
    };
    let (short, long) = (tpot(1_000), tpot(60_000));
    // Ten of forty layers read the context; all of them would read 4.5 GB more.
    assert!(long > short && long < 1.5 * short, "{short} and {long} ms");
}

#[test]
fn what_is_not_modelled_of_states_is_refused() {
    let refused = |draft: Draft, what: &str| {
        let problem = draft.resolve().expect_err("it is refused").to_string();
        assert!(problem.contains(what), "{problem}");
    };
    let with = |path: &str, value: toml::Value| {
        served("vllm_v1").with(path, value).expect("there is a place for it")
    };
    refused(served("vllm_v0"), "vllm_v1 and sglang only");
    refused(with("cluster.pipeline_parallel_size", 2.into()), "on several stages");
    refused(with("cluster.engine.disable_hybrid_kv_cache_manager", true.into()), "hybrid KV cache");
    let roles: toml::Table = toml::from_str(
        "prefill_replicas = 1\ndecode_replicas = 1\ntransfer = { nic_gb_per_s = 50.0 }",
    )
    .expect("TOML");
    refused(with("cluster.disaggregation", roles.into()), "are not handed over");
}

/// Requests whose prompts begin with one of two system prompts.
fn sharing(prefix: u32) -> Draft {
    let draft = served("vllm_v1");
    let content = format!("type = 'system_prompt'\ngroups = 2\nprefix_tokens = {prefix}");
    let content: toml::Table = toml::from_str(&content).expect("TOML");
    draft.with("workload.content", content).expect("a setting")
}

fn mode(draft: &Draft) -> Option<MambaCacheMode> {
    let loaded = draft.clone().resolve().expect("it is served");
    let EngineConfig::VllmV1(vllm) = &loaded.scenario.first().cluster.engine else {
        panic!("vLLM's engine")
    };
    assert_eq!(vllm.enable_prefix_caching, vllm.mamba_cache_mode == Some(MambaCacheMode::Align));
    vllm.mamba_cache_mode
}

#[test]
fn states_are_kept_at_ends_of_blocks_where_prompts_may_share_something() {
    let set = |draft: Draft, path: &str, value: toml::Value| draft.with(path, value).expect("set");
    assert_eq!(mode(&served("vllm_v1")), Some(MambaCacheMode::None));
    assert_eq!(mode(&sharing(4000)), Some(MambaCacheMode::Align));
    for (path, value) in [
        ("cluster.engine.enable_prefix_caching", toml::Value::from(false)),
        ("cluster.engine.enable_chunked_prefill", false.into()),
        ("cluster.engine.mamba_cache_mode", "none".into()),
        ("cluster.engine.start_up.version", "0.23.0".into()),
    ] {
        let draft = set(sharing(4000), "cluster.engine.max_model_len", 8192.into());
        assert_eq!(mode(&set(draft, path, value)), Some(MambaCacheMode::None), "{path}");
    }
    let asked = |draft: Draft| set(draft, "cluster.engine.mamba_cache_mode", "align".into());
    assert_eq!(mode(&asked(served("vllm_v1"))), Some(MambaCacheMode::Align));
    for draft in [
        set(asked(sharing(4000)), "cluster.engine.enable_prefix_caching", false.into()),
        set(asked(sharing(4000)), "cluster.model", "Qwen/Qwen3-8B".into()),
    ] {
        let problem = draft.resolve().expect_err("it is refused").to_string();
        assert!(problem.contains("cluster.engine.mamba_cache_mode"), "{problem}");
    }
}

#[test]
fn prefixes_end_where_states_were_kept() {
    let cached = |prefix: u32| {
        let run = sharing(prefix).run().expect("it runs");
        assert_eq!(run.counts.finished, 60);
        let requests = run.recorder.seen();
        let sum =
            |tokens: fn(&RequestRecord) -> u32| f64::from(requests.iter().map(tokens).sum::<u32>());
        sum(|request| request.cached_tokens) / sum(|request| request.prompt_tokens)
    };
    // Blocks have 1088 or more tokens: nothing ends within the first one.
    assert_eq!(cached(1000).to_bits(), 0.0_f64.to_bits());
    let share = cached(9000);
    assert!((0.7..0.9).contains(&share), "{share}");
    let ttft = |mode: &str| {
        let draft = sharing(9000).with("cluster.engine.mamba_cache_mode", mode).expect("set");
        let run = draft.run().expect("it runs");
        run.summary().figure("mean_ttft_ms").expect("it was measured")
    };
    let (with, without) = (ttft("align"), ttft("none"));
    assert!(with < 0.7 * without, "{with} and {without} ms");
}

#[test]
fn prompts_within_a_block_fare_alike_whatever_is_kept() {
    // One after the other, so that no share is cut by the budget.
    let requests = |mode: &str| {
        let draft = served("vllm_v1").with("cluster.engine.mamba_cache_mode", mode).expect("set");
        let draft = draft.with("workload.arrivals.rate_per_s", 2.0).expect("set");
        draft.run().expect("it runs").recorder.seen().into_owned()
    };
    assert_eq!(requests("align"), requests("none"));
}
