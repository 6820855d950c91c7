//! Layouts of small models, counted by hand: what layers that draft add, and what engines do not start with.

use super::{Machine, RefusedSetting, SglangLayout, VllmLayout};
use crate::model::checkpoint::Checkpoint;
use crate::model::{Generation, KvDtype};
use crate::units::Bytes;

/// Three layers of latent attention, the last two with experts.
const LATENT: &str = r#"{"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 256,
    "num_hidden_layers": 3, "num_attention_heads": 8, "q_lora_rank": 64, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16, "v_head_dim": 32, "intermediate_size": 512, "moe_intermediate_size": 256,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "topk_method": "noaux_tc", "vocab_size": 1000, "max_position_embeddings": 4096, "tie_word_embeddings": false"#;

/// Two layers of states, one of attention and one of experts; a module of attention and experts drafts.
const STATES: &str = r#"{"architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h",
    "hybrid_override_pattern": "MM*E", "hidden_size": 64, "vocab_size": 128, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32, "moe_intermediate_size": 32,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "mamba_num_heads": 8, "mamba_head_dim": 16,
    "ssm_state_size": 16, "n_groups": 2, "conv_kernel": 4, "max_position_embeddings": 4096,
    "tie_word_embeddings": false"#;

fn read(text: &str, rest: &str) -> Checkpoint {
    Checkpoint::from_hf_config(&format!("{text}{rest}}}"), None, "small").expect("it is read")
}

fn machine(tp: u32, draft_tokens: u32) -> Machine {
    Machine { generation: Generation::Hopper, tp, kv_cache_dtype: KvDtype::Auto, draft_tokens }
}

const ONE: &str = r#", "num_nextn_predict_layers": 1"#;

#[test]
fn a_module_that_drafts_is_one_layer_more() {
    let model = read(LATENT, ONE);
    let (plain, drafting) = (machine(1, 0), machine(1, 1));
    let (without, with) = (VllmLayout::of(&model, plain), VllmLayout::of(&model, drafting));
    assert_eq!(with.bytes_per_block * 3, without.bytes_per_block * 4);
    assert_eq!((without.groups[0].layers, with.groups[0].layers), (3, 4));
    // Its weights are those of a layer with experts, the join, three norms and a head.
    let longer = read(&LATENT.replace("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4"), "");
    let layer = longer.created_bytes(plain).0 - model.created_bytes(plain).0;
    let around = 2 * (2 * 256 * 256 + 3 * 256 + 1000 * 256);
    assert_eq!(model.draft_bytes(drafting), Bytes(layer + around));
    assert_eq!(model.created_bytes(drafting), model.created_bytes(plain));
}

#[test]
fn states_keep_drafted_tokens() {
    let drafts = r#", "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E""#;
    let model = read(STATES, drafts);
    let layouts = [0, 2].map(|tokens| VllmLayout::of(&model, machine(1, tokens)));
    // Two tokens more of 192 channels in 16 bits, in two layers.
    let more = layouts[1].state_bytes_per_seq - layouts[0].state_bytes_per_seq;
    assert_eq!(more, 2 * 2 * 192 * 2);
    let blocks = layouts.each_ref().map(|layout| {
        let states = layout.groups.iter().filter(|group| group.name() == "MambaSpec").count();
        (states as u64, layout.blocks_of_request(1))
    });
    // A request has three blocks in each group of states, and one for each drafted token.
    assert_eq!(blocks, [(2, 2 * 3 + 1), (1, 5 + 1)]);
    let full = layouts[1].groups.iter().find(|group| group.name() == "FullAttentionSpec");
    assert_eq!(full.expect("it is there").layers, 2);
    // Attention, experts and their norms as in the model; a join that GPUs share, and three norms.
    let layer = |pattern: &str| {
        let model = read(&STATES.replace("MM*E", pattern), "");
        model.created_bytes(machine(1, 0)).0
    };
    let layers = layer("M*E*E") - layer("M*E");
    assert_eq!(model.draft_bytes(machine(1, 1)), Bytes(layers + 2 * (2 * 64 * 64 + 3 * 64)));
}

#[test]
fn formats_of_drafts_are_told_by_their_own_names() {
    let beside = |exempt: &str| {
        let text = format!(
            r#"{{"producer": {{"name": "modelopt"}},
                 "quantization": {{"quant_algo": "FP8", "exclude_modules": [{exempt}]}}}}"#
        );
        let config = format!(
            r#"{STATES}, "num_nextn_predict_layers": 1, "mtp_layers_block_type": ["attention", "moe"]}}"#
        );
        let model = Checkpoint::from_hf_config(&config, Some(&text), "small").expect("it is read");
        (model.created_bytes(machine(1, 1)), model.draft_bytes(machine(1, 1)).0)
    };
    let (weights, packed) = beside("\"lm_head\"");
    let (same, whole) = beside(r#""lm_head", "mtp*""#);
    assert_eq!(weights, same);
    assert_eq!(beside(r#""lm_head", "re:.*mtp.*""#), (same, whole));
    // All but routers, norms and scales has half the bytes.
    assert!(whole * 6 > packed * 10 && whole < packed * 2, "{packed} of {whole}");
    let (_, all_but_one) = beside(r#""lm_head", "mtp.layers.0*""#);
    assert!(packed < all_but_one && all_but_one < whole, "{all_but_one}");
    // Behind the layers of the model they have numbers too.
    assert_eq!(beside(r#""lm_head", "backbone.layers.4*""#).1, all_but_one);
}

#[test]
fn engines_refuse_what_they_do_not_draft() {
    let told = |model: &Checkpoint, tokens: u32| {
        let refused = VllmLayout::check(model, machine(1, tokens)).expect_err("it is refused");
        assert_eq!(refused.setting, RefusedSetting::Drafts);
        refused.to_string()
    };
    let none = told(&read(LATENT, ""), 1);
    assert!(none.contains("has no layers that draft"), "{none}");
    assert_eq!(none, told(&read(LATENT, &ONE.replace('1', "0")), 1));
    let two = read(LATENT, &ONE.replace('1', "2"));
    for tokens in [1, 2, 4] {
        assert_eq!(VllmLayout::check(&two, machine(1, tokens)), Ok(()));
    }
    let three = told(&two, 3);
    assert!(three.contains("must be at most 2 or a multiple of it"), "{three}");
    assert_eq!(SglangLayout::check(&two, machine(1, 3)), Ok(()));
    let other =
        read(STATES, r#", "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*M""#);
    let other = told(&other, 1);
    assert!(other.contains("one module drafts, but engines know only attention"), "{other}");
}

#[test]
fn windows_keep_what_later_modules_compute_again() {
    let window = |modules: u32, tokens: u32| {
        let config = format!(
            r#"{{"architectures": ["MiMoForCausalLM"], "model_type": "mimo", "hidden_size": 64,
                "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
                "vocab_size": 128, "max_position_embeddings": 65536, "sliding_window": 17, "use_sliding_window": true,
                "max_window_layers": 0, "tie_word_embeddings": false, "num_nextn_predict_layers": {modules}}}"#
        );
        let model = Checkpoint::from_hf_config(&config, None, "small").expect("it is read");
        VllmLayout::of(&model, machine(1, tokens)).blocks_of_request(65_536)
    };
    // 16 tokens before the next one and two steps of 8192, in blocks of 16, and one block more.
    assert_eq!(window(1, 0), 1 + 1024 + 1);
    assert_eq!(window(1, 2), window(1, 0));
    assert_eq!(window(2, 1), window(1, 0));
    assert_eq!(window(2, 2), window(1, 0) + 1);
}

#[test]
fn blocks_of_weights_are_not_cut() {
    let packed =
        r#", "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}"#;
    let model = read(LATENT, packed);
    assert_eq!(VllmLayout::check(&model, machine(1, 0)), Ok(()));
    assert_eq!(VllmLayout::check(&model, machine(2, 0)), Ok(()));
    let told = VllmLayout::check(&model, machine(4, 0)).expect_err("64 of 256 inputs");
    assert_eq!(told.setting, RefusedSetting::TensorParallel);
    assert!(told.to_string().contains("each of 4 GPUs has 64 of the inputs"), "{told}");
    assert_eq!(VllmLayout::check(&read(LATENT, ""), machine(4, 0)), Ok(()));
}

#[test]
fn sglang_sizes_pools_by_layers_that_draft() {
    let model = read(LATENT, ONE);
    let (without, with) =
        (SglangLayout::of(&model, machine(1, 0)), SglangLayout::of(&model, machine(1, 3)));
    assert_eq!((without.cell_size, with.cell_size), (480.0, 640.0));
    let memory = Bytes(1 << 30);
    assert_eq!(with.pools(memory).max_total_num_tokens, (1 << 30) / 640);
    assert_eq!(with.pools(memory).max_running_requests, 48);
    // Of states: a slot for each sequence, and for four tokens of every fifth of them; one slot and one request more.
    let model =
        read(STATES, r#", "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E""#);
    let layout = SglangLayout::of(&model, machine(1, 3));
    let pools = layout.pools(memory);
    let slots = pools.max_mamba_cache_size.expect("slots");
    let states = (slots + 1 + (slots / 5 + 1) * 4) * layout.state_bytes;
    let share = (f64::from(1 << 30) * 0.9 / 1.9) as u64;
    assert!(states <= share && share < states + 3 * layout.state_bytes, "{states} of {share}");
    // Only so many requests run at once, and what states of others would take is left to tokens.
    let taken = (slots + 1 + 49 * 4) * layout.state_bytes;
    assert_eq!(pools.max_total_num_tokens, ((1 << 30) - taken) / (2 * 128));
    assert_eq!(pools.max_running_requests, 48);
}
