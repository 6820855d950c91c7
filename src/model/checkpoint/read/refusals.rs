//! What is read, and what is refused by which name.

use proptest::prelude::*;

use super::*;
use crate::model::hf::known::DESCRIPTIONS;
use crate::model::shape::SlidingWindow;

const SMALL: &str = r#"{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100,
    "max_position_embeddings": 512"#;

const SPARSE: &str = r#"{"architectures": ["Qwen2MoeForCausalLM"], "num_hidden_layers": 2,
    "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100,
    "max_position_embeddings": 512, "num_experts": 8, "num_experts_per_tok": 2"#;

fn read(text: &str) -> Result<Checkpoint, ModelError> {
    Checkpoint::from_hf_config(text, None, "small")
}

fn with(extra: &str) -> Result<Checkpoint, ModelError> {
    read(&format!("{SMALL}{extra}}}"))
}

fn refused(extra: &str) -> String {
    with(extra).expect_err(extra).to_string()
}

#[test]
fn absent_keys_mean_what_transformers_means() {
    let model = with("").unwrap();
    let Some(Mixer::Grouped(attention)) = model.layers[0].mixer else { panic!("grouped") };
    assert_eq!((attention.kv_heads, attention.head_dim), (4, 16));
    assert_eq!(model.experts(), None);
    // Two tables of 100·64, a norm of 64; per layer 4·64·64 + 3·64·128 + 2·64.
    assert_eq!(model.params_total(), 12_800 + 64 + 2 * (16_384 + 24_576 + 128));
}

#[test]
fn layers_that_are_not_modelled_are_refused_by_key() {
    assert_eq!(
        refused(r#", "linear_attn_config": 16"#),
        "small: config.json: linear_attn_config: not modelled (linear attention), got 16"
    );
    assert!(
        refused(r#", "linear_num_key_heads": 16"#).contains("linear_num_key_heads: is not read")
    );
    assert!(refused(r#", "layer_types": ["linear_attention"]"#).contains("layer_types: "));
    assert!(refused(r#", "attn_type_list": [1, 0]"#).contains("attn_type_list: "));
    let tower = refused(r#", "vision_config": {"depth": 24}"#);
    assert!(tower.starts_with("small: config.json: vision_config.model_type: "), "{tower}");
    for (key, value) in [
        ("attn_layer_period", "8"),
        ("cross_attention_layers", "[3, 8]"),
        ("mb_per_layer", "2"),
        ("sparse_attention_config", r#"{"topk": 16}"#),
        ("hybrid_layer_pattern", "[0, 1]"),
        ("num_experts", "64"),
        ("acme_expert_count", "64"),
    ] {
        let told = refused(&format!(", \"{key}\": {value}"));
        assert!(told.starts_with(&format!("small: config.json: {key}: ")), "{told}");
        let off = if value.starts_with('{') { "{}" } else { "null" };
        with(&format!(", \"{key}\": {off}")).unwrap_or_else(|error| panic!("{key}: {error}"));
    }
}

#[test]
fn a_class_or_type_of_another_family_is_refused() {
    let acme = r#", "architectures": ["AcmeForCausalLM"]"#;
    let told = refused(acme);
    assert!(
        told.starts_with("small: config.json: architectures: AcmeForCausalLM is not read"),
        "{told}"
    );
    let other = SMALL.replace("\"llama\"", "\"mamba2\"");
    let told = read(&format!("{other}}}")).unwrap_err().to_string();
    assert!(told.starts_with("small: config.json: model_type: mamba2 is not read"), "{told}");
    let mixed = format!("{other}, \"architectures\": [\"LlamaForCausalLM\"]}}");
    assert_eq!(
        read(&mixed).unwrap_err().to_string(),
        "small: config.json: model_type: must be llama for LlamaForCausalLM, got mamba2"
    );
}

#[test]
fn weights_saved_in_32_bits_are_served_in_16() {
    assert_eq!(with(", \"torch_dtype\": \"float32\"").unwrap(), with("").unwrap());
}

#[test]
fn sizes_that_make_no_model_together_are_refused() {
    let huge = SMALL
        .replace("hidden_size\": ", "hidden_size\": 2000")
        .replace("layers\": 2", "layers\": 9000");
    let told = read(&format!("{huge}}}")).unwrap_err();
    assert!(told.to_string().contains("parameters, more than 1e15"), "{told}");
}

#[test]
fn every_second_layer_may_be_sparse() {
    let moe = read(&format!("{SPARSE}, \"decoder_sparse_step\": 2}}"));
    assert_eq!(moe.unwrap().sparse_layers(), 1);
}

#[test]
fn a_language_model_may_be_nested() {
    let json = format!(r#"{{"architectures": ["Seeing"], "text_config": {SMALL}}}}}"#);
    let model = Checkpoint::from_hf_config(&json, None, "seeing").unwrap();
    assert_eq!((model.architecture.as_str(), model.num_layers()), ("Seeing", 2));
    let unknown = json.replace("\"vocab_size\"", "\"deepstack\": 3, \"vocab_size\"");
    let told = read(&unknown).unwrap_err().to_string();
    assert!(told.contains("config.json: text_config.deepstack: "), "{told}");
    let tower =
        json.replace("\"text_config\"", "\"vision_config\": {\"depth\": 3}, \"text_config\"");
    let told = read(&tower).unwrap_err().to_string();
    assert!(
        told.contains("config.json: vision_config.model_type: ") && told.contains("text_config"),
        "{told}"
    );
}

#[test]
fn a_missing_key_is_named() {
    let error = Checkpoint::from_hf_config("{}", None, "empty").unwrap_err().to_string();
    assert!(error.starts_with("empty: config.json: model_type: is missing; known are "), "{error}");
    let error = read("{\"model_type\": \"llama\"}").unwrap_err().to_string();
    assert_eq!(error, "small: config.json: hidden_size: is missing");
    let deep = SMALL.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 20000");
    let error = read(&format!("{deep}}}")).unwrap_err().to_string();
    assert!(error.ends_with("must be at most 10000, got 20000"), "{error}");
}

#[test]
fn positions_that_are_stretched_reach_further() {
    let reach = |rope: &str| with(&format!(", \"rope_scaling\": {rope}")).map(|it| it.max_position);
    assert_eq!(reach("null").unwrap(), 512);
    assert_eq!(reach(r#"{"rope_type": "llama3", "factor": 8.0}"#).unwrap(), 512);
    let yarn = r#"{"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}"#;
    assert_eq!(reach(yarn).unwrap(), 512);
    assert_eq!(reach(r#"{"type": "linear", "factor": 2}"#).unwrap(), 1024);
    let told = reach(r#"{"type": "yarn", "factor": 4.0, "acme": 1}"#).unwrap_err().to_string();
    assert!(told.contains("config.json: rope_scaling.acme: "), "{told}");
    assert!(reach(r#"{"type": "acme"}"#).unwrap_err().to_string().contains("rope_type: must be"));
}

#[test]
fn windows_of_qwen_are_those_of_its_upper_layers() {
    let window =
        |more: &str| read(&format!("{SPARSE}, \"sliding_window\": 32{more}}}")).unwrap().window();
    assert_eq!(window(r#", "use_sliding_window": false, "max_window_layers": 1"#), None);
    let upper = window(r#", "use_sliding_window": true, "max_window_layers": 1"#);
    assert_eq!(upper, Some(SlidingWindow { tokens: 32, layers: 1, chunked: false }));
}

/// No key is in two lists, whose rules could differ.
#[test]
fn every_known_key_has_one_rule() {
    let mut all: Vec<&str> = DESCRIPTIONS.iter().flat_map(|group| group.keys).copied().collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

proptest! {
    /// Whatever nobody looked at is refused by its name, wherever it stands.
    #[test]
    fn unknown_keys_are_refused_by_name(key in "x_[a-z_]{1,12}", value in 1_u32..9, nested in any::<bool>()) {
        let extra = format!(", \"{key}\": {value}");
        let (text, path) = if nested {
            (format!("{{\"text_config\": {SMALL}{extra}}}}}"), format!("text_config.{key}"))
        } else {
            (format!("{SMALL}{extra}}}"), key)
        };
        let told = read(&text).unwrap_err().to_string();
        prop_assert!(told.starts_with(&format!("small: config.json: {path}: is not read")), "{}", told);
        let quantized = format!(
            "{SMALL}, \"quantization_config\": {{\"quant_method\": \"fp8\"{extra}}}}}"
        );
        let told = read(&quantized).unwrap_err().to_string();
        prop_assert!(told.contains("quantization_config.x_"), "{}", told);
    }
}
