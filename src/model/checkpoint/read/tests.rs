//! What is read, and what is refused by which name.

mod families;

use proptest::prelude::*;

use crate::model::checkpoint::{Checkpoint, Component};
use crate::model::error::ModelError;
use crate::model::layout::{Machine, VllmLayout};
use crate::model::{Generation, KvDtype};
use crate::units::Bytes;

/// Two layers of states, two of experts, one of attention and one dense.
const HYBRID: &str = r#"{"architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h",
    "hybrid_override_pattern": "MEM*E-", "hidden_size": 64, "vocab_size": 128, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32, "moe_intermediate_size": 32,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "mamba_num_heads": 8, "mamba_head_dim": 16,
    "ssm_state_size": 16, "n_groups": 2, "conv_kernel": 4, "time_step_limit": [0.0, Infinity],
    "max_position_embeddings": 4096, "tie_word_embeddings": false"#;

fn read(text: &str, apart: Option<&str>) -> Result<Checkpoint, ModelError> {
    Checkpoint::from_hf_config(&format!("{text}}}"), apart, "small")
}

fn machine(tp: u32) -> Machine {
    Machine { generation: Generation::Hopper, tp, kv_cache_dtype: KvDtype::Auto, draft_tokens: 0 }
}

#[test]
fn layers_are_those_of_the_pattern() {
    let model = read(HYBRID, None).expect("it is read");
    let kinds: Vec<(bool, bool, bool)> = model
        .layers
        .iter()
        .map(|layer| (layer.mixer.is_some(), layer.dense.is_some(), layer.experts.is_some()))
        .collect();
    let (mixer, dense, experts) =
        ((true, false, false), (false, true, false), (false, false, true));
    assert_eq!(kinds, [mixer, experts, mixer, mixer, experts, dense]);
    assert_eq!(model.mixers(), [("state space".to_owned(), 2), ("attention".to_owned(), 1)]);
    // Two matrices of 32 by 64 for each of eight experts, in two layers.
    assert_eq!(model.parameters_of(Component::RoutedExperts), 2 * 8 * 2 * 32 * 64);
    let told = read(&HYBRID.replace("MEM*E-", "MEMX"), None).expect_err("X is no layer");
    assert!(
        told.to_string().contains("hybrid_override_pattern: must be of M, *, E and -"),
        "{told}"
    );
}

#[test]
fn blocks_have_room_for_the_states_of_a_layer() {
    let model = read(HYBRID, None).expect("it is read");
    let layout = VllmLayout::of(&model, machine(1));
    // Three tokens of 192 channels in 16 bits, 8 heads of 16 by 16 in 32 bits; a token has 128 bytes.
    let state = 3 * 192 * 2 + 8 * 16 * 16 * 4;
    assert_eq!(layout.state_bytes_per_seq, 2 * state);
    assert_eq!(u64::from(layout.block_size), state.div_ceil(128).next_multiple_of(16));
    let groups: Vec<(&str, u32)> =
        layout.groups.iter().map(|group| (group.name(), group.layers)).collect();
    let expected = [("MambaSpec", 1), ("MambaSpec", 1), ("FullAttentionSpec", 1)];
    assert_eq!(groups, expected);
}

#[test]
fn formats_are_read_from_the_file_beside() {
    let apart = |exempt: &str| {
        format!(
            r#"{{"producer": {{"name": "modelopt", "version": "1"}}, "quantization": {{"quant_algo": "NVFP4",
            "group_size": 16, "kv_cache_quant_algo": "FP8", "exclude_modules": [{exempt}]}}}}"#
        )
    };
    let bytes = |exempt: &str, part: Component| {
        let model = read(HYBRID, Some(&apart(exempt))).expect("it is read");
        model.weight_bytes_by_component(machine(1))[&part]
    };
    let experts = Component::RoutedExperts;
    let whole = read(HYBRID, None).expect("it is read").weight_bytes_by_component(machine(1));
    // Four bits, and eight for sixteen weights; scales of matrices beside.
    let weights = whole[&experts] / 2;
    let packed = bytes(r#""lm_head""#, experts);
    assert!(packed > weights * 9 / 16 && packed < weights * 9 / 16 + 1000, "{packed}");
    // One of two layers with experts, by its name, its beginning and an expression.
    for exempt in
        ["backbone.layers.1.mixer.experts", "backbone.layers.1.mixer*", "re:.*layers\\\\.1\\\\..*"]
    {
        let half = bytes(&format!(r#""lm_head", "{exempt}""#), experts);
        assert_eq!(half, packed / 2 + whole[&experts] / 2, "{exempt}");
    }
    assert_eq!(bytes(r#""lm_head""#, Component::LmHead), whole[&Component::LmHead]);
    assert!(bytes("", Component::LmHead) < whole[&Component::LmHead] / 3);
    let model = read(HYBRID, Some(&apart(""))).expect("it is read");
    assert_eq!(model.kv_cache_dtype, KvDtype::Fp8);
}

#[test]
fn what_is_not_known_is_refused_by_its_name() {
    for (from, to, name) in [
        ("\"conv_kernel\"", "\"conv_kernels\"", "conv_kernel"),
        ("NemotronHForCausalLM", "AcmeForCausalLM", "architectures"),
        ("\"nemotron_h\"", "\"mamba2\"", "model_type"),
        ("\"n_groups\": 2", "\"n_groups\": -2", "n_groups"),
        ("\"hidden_size\": 64", "\"hidden_size\": 64, \"mamba_expand\": 2", "mamba_expand"),
        (
            "\"hidden_size\": 64",
            "\"hidden_size\": 64, \"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 0}",
            "quantization_config.group_size: must be -1 or at least 1",
        ),
    ] {
        let told = read(&HYBRID.replace(from, to), None).expect_err(to).to_string();
        assert!(told.contains(&format!("config.json: {name}")), "{told}");
    }
}

#[test]
fn models_that_nobody_has_are_refused() {
    let told = read(&HYBRID.replace("MEM*E-", "MEM"), None).expect_err("no keys").to_string();
    assert!(told.contains("has no layer with keys and values"), "{told}");
    for name in ["hidden_size", "ssm_state_size", "moe_intermediate_size", "n_routed_experts"] {
        let (before, after) = HYBRID.split_once(&format!("\"{name}\": ")).expect("it is there");
        let rest = after.trim_start_matches(|sign: char| sign.is_ascii_digit());
        for size in ["262144", "4294967295"] {
            let told = read(&format!("{before}\"{name}\": {size}{rest}"), None);
            assert!(size == "262144" || told.is_err(), "{name}");
        }
    }
}

#[test]
fn names_of_towers_and_drafts_are_not_those_of_the_model() {
    let apart = |exempt: &str| {
        format!(
            r#"{{"producer": {{"name": "modelopt"}}, "quantization": {{"quant_algo": "FP8", "exclude_modules": [{exempt}]}}}}"#
        )
    };
    let model = |exempt: &str| read(HYBRID, Some(&apart(exempt))).expect("it is read");
    let bytes = |exempt: &str| model(exempt).created_bytes(machine(1));
    let elsewhere = r#""model.vision_tower.encoder.layers.0*", "model.mtp.layers.1*", "mtp*""#;
    assert_eq!(bytes(elsewhere), bytes(""));
    assert_ne!(bytes(r#""backbone.layers.1*""#), bytes(""));
}

proptest! {
    /// Whatever GPUs share a model, they hold all of it; and more of them hold no more each.
    #[test]
    fn gpus_share_weights(pattern in "[ME*-]{1,12}", tp in prop::sample::select(vec![1_u32, 2, 4])) {
        let text = HYBRID.replace("MEM*E-", &format!("{pattern}*"));
        let model = read(&text, None).expect("it is read");
        let of = |tp: u32| model.created_bytes(machine(tp)).0;
        prop_assert!(of(tp) <= of(1));
        prop_assert!(u64::from(tp) * of(tp) >= of(1));
        prop_assert!(model.parameters().active <= model.parameters().total());
    }

    /// More memory holds no fewer blocks, and a longer request needs no fewer.
    #[test]
    fn memory_and_requests_are_in_order(small in 1_u64..1 << 32, more in 0_u64..1 << 32, tokens in 1_u32..4000) {
        let layout = VllmLayout::of(&read(HYBRID, None).expect("it is read"), machine(1));
        prop_assert!(layout.blocks(Bytes(small)) <= layout.blocks(Bytes(small + more)));
        prop_assert!(layout.blocks_of_request(tokens) <= layout.blocks_of_request(tokens + 1));
    }
}
