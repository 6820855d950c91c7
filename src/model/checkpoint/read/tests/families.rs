//! Parameters of one or more models of each family, as published or counted by the classes that run them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::model::checkpoint::Checkpoint;
use crate::model::error::ModelError;
use crate::model::layout::{Machine, SglangLayout, VllmLayout};
use crate::model::{Generation, KvDtype};

/// What a model is, its parameters, and the keys of its config that say them: a line each.
const MODELS: &str = include_str!("families.jsonl");

fn models() -> Vec<Value> {
    MODELS.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn read(model: &Value) -> Checkpoint {
    let text = model["config"].to_string();
    let name = model["of"].as_str().expect("a name");
    Checkpoint::from_hf_config(&text, None, name).expect("it is read")
}

fn of_family(kind: &str) -> Value {
    let mut models = models().into_iter();
    models.find(|model| model["config"]["model_type"] == kind).expect("a model of this family")
}

#[test]
fn parameters_are_those_published() {
    let mut wrong = Vec::new();
    let mut kinds = BTreeSet::new();
    for model in models() {
        let kind = model["config"]["model_type"].to_string();
        let parameters = read(&model).parameters();
        if parameters.total() != model["params"].as_u64().expect("a number") {
            wrong.push(format!(
                "{kind} {}: {}, {}",
                model["of"],
                parameters.total(),
                model["params"]
            ));
        }
        assert!(parameters.active <= parameters.text, "{kind}");
        kinds.insert(kind);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(kinds.len() > 40, "{} families", kinds.len());
}

/// A layer of Falcon-H1 keeps 262144 elements of states, and three tokens of 1536 channels in 16 bits: what vLLM keeps
/// of the former in 16 bits, SGLang keeps in 32.
#[test]
fn falcon_h1_keeps_states_beside_keys() {
    let defaults = models()
        .into_iter()
        .find(|model| model["params"] == 8_514_961_408_u64)
        .expect("the defaults of the class");
    let model = read(&defaults);
    let machine = Machine {
        generation: Generation::Hopper,
        tp: 1,
        kv_cache_dtype: KvDtype::Auto,
        draft_tokens: 0,
    };
    let layout = VllmLayout::of(&model, machine);
    assert_eq!(layout.state_bytes_per_seq, 32 * (262_144 * 2 + 3 * 1536 * 2));
    // A token has 4096 bytes of keys and values.
    let state: u64 = 262_144 * 2 + 3 * 1536 * 2;
    assert_eq!(u64::from(layout.block_size), state.div_ceil(4096).next_multiple_of(16));
    let groups: Vec<(&str, u32)> =
        layout.groups.iter().map(|group| (group.name(), group.layers)).collect();
    assert_eq!(groups, [("FullAttentionSpec", 32), ("MambaSpec", 32)]);
    let states = SglangLayout::of(&model, machine).state_bytes;
    assert_eq!(states, 32 * (262_144 * 4 + 3 * 1536 * 2));
}

/// LFM2 keeps the tokens that its convolutions see.
#[test]
fn short_convolutions_keep_a_few_tokens() {
    let model = read(&of_family("lfm2"));
    // Two tokens of 2048 channels in 16 bits, in ten of sixteen layers.
    let machine = Machine {
        generation: Generation::Hopper,
        tp: 1,
        kv_cache_dtype: KvDtype::Auto,
        draft_tokens: 0,
    };
    assert_eq!(model.mixers(), [("short convolution".to_owned(), 10), ("attention".to_owned(), 6)]);
    assert_eq!(VllmLayout::of(&model, machine).state_bytes_per_seq, 10 * 2 * 2048 * 2);
}

/// The first model of a family with another value under some keys.
fn with(kind: &str, keys: &[(&str, Value)]) -> Result<Checkpoint, ModelError> {
    let mut model = of_family(kind);
    for (key, value) in keys {
        model["config"][*key] = value.clone();
    }
    Checkpoint::from_hf_config(&model["config"].to_string(), None, kind)
}

#[test]
fn each_engine_derives_a_context_of_its_own() {
    let contexts = |kind: &str, rope: Value, original: Value| {
        let keys = [
            ("max_position_embeddings", json!(131_072)),
            ("rope_scaling", rope),
            ("original_max_position_embeddings", original),
        ];
        let model = with(kind, &keys).expect("it is read");
        (model.max_position, model.max_position_sglang)
    };
    let longrope = json!({"rope_type": "longrope"});
    assert_eq!(contexts("phi3", longrope, json!(4096)), (4096, 131_072));
    let yarn =
        json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192});
    assert_eq!(contexts("olmo", yarn, Value::Null), (131_072, 131_072));
    let linear = json!({"rope_type": "linear", "factor": 2.0});
    assert_eq!(contexts("olmo", linear, Value::Null), (262_144, 262_144));
    // What Gemma 3 names is stretched already, which SGLang does not know.
    let gemma = models().into_iter().find(|model| model["of"] == "gemma-3-4b-it");
    let gemma = read(&gemma.expect("it is there"));
    assert_eq!((gemma.max_position, gemma.max_position_sglang), (131_072, 8 * 131_072));
}

#[test]
fn windows_and_latent_vectors_are_kept_as_vllm_does() {
    let machine = Machine {
        generation: Generation::Hopper,
        tp: 1,
        kv_cache_dtype: KvDtype::Auto,
        draft_tokens: 0,
    };
    // A window of Cohere 2 holds the token itself beside those before it.
    let cohere = with("cohere2_moe", &[]).expect("it is read");
    let windows: BTreeSet<_> = VllmLayout::of(&cohere, machine)
        .groups
        .iter()
        .filter_map(|group| group.kind.window())
        .collect();
    assert_eq!(windows, BTreeSet::from([4097]));
    // Keys and values of 40 heads of 96 elements in 62 layers, for 16 tokens.
    let expanded = VllmLayout::of(&with("minicpm3", &[]).expect("it is read"), machine);
    assert_eq!(expanded.bytes_per_block, 16 * 62 * 40 * 2 * 96 * 2);
}

#[test]
fn what_vllm_has_no_part_for_is_refused_by_name() {
    for (kind, key, value) in [
        ("stablelm", "qk_layernorm", json!(true)),
        ("olmo", "clip_qkv", json!(8.0)),
        ("gemma2", "attention_bias", json!(true)),
        ("opt", "word_embed_proj_dim", json!(512)),
        ("hunyuan_v1_moe", "moe_intermediate_size", json!([3072, 1536])),
        ("lfm2", "conv_dim", json!(1024)),
        ("falcon_h1", "mamba_d_head", json!(7)),
        ("jamba", "a_key_of_nobody", json!(1)),
    ] {
        let told = with(kind, &[(key, value)]).expect_err(key).to_string();
        assert!(told.contains(&format!("config.json: {key}")), "{told}");
    }
}
