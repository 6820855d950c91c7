//! Shipped tables of sparse attention: what saturates, what grows, and what a part of a prompt takes.

use super::*;
use crate::model::checkpoint::{Gate, QkNorm, Reach};
use crate::profiles;

fn profile(name: &str) -> OperatorProfile {
    let table = profiles::operator_table(name).expect("in the catalogue");
    OperatorProfile::parse(table.text).expect("it is valid")
}

fn deepseek_v3_2() -> LatentAttention {
    LatentAttention {
        heads: 128,
        q_lora_rank: Some(1536),
        kv_lora_rank: 512,
        qk_nope_head_dim: 128,
        qk_rope_head_dim: 64,
        v_head_dim: 128,
        output_gate: false,
        is_sparse: true,
        is_expanded: false,
        indexer: Some(Indexer { heads: 64, head_dim: 128, tokens: 2048 }),
    }
}

/// Whether times rise with sequences, contexts, prompts and tokens.
fn assert_rises(times: &MixerTimes) {
    for context in [100.0, 2000.0, 30_000.0, 130_000.0] {
        let rise: Vec<f64> = (1..400).map(|n| times.decode_secs(f64::from(n), context)).collect();
        assert!(rise.is_sorted_by(|a, b| *b >= a * (1.0 - 1e-9)), "sequences at {context}");
    }
    for sequences in [1.0, 30.0, 256.0] {
        let rise: Vec<f64> =
            (1..900).map(|n| times.decode_secs(sequences, 128.0 * f64::from(n))).collect();
        assert!(rise.is_sorted_by(|a, b| *b >= a * (1.0 - 1e-9)), "contexts of {sequences}");
    }
    for prompts in [1.0, 3.0, 16.0] {
        let rise: Vec<f64> = (1..900)
            .map(|n| times.prefill_secs(prompts, 32.0 * f64::from(n)).expect("it was measured"))
            .collect();
        assert!(rise.is_sorted_by(|a, b| *b >= a * (1.0 - 1e-9)), "tokens of {prompts}");
    }
}

#[test]
fn latent_attention_of_chosen_tokens_outruns_that_of_all_at_long_contexts() {
    for name in ["h200-sxm-141gb/vllm-0.24.0", "b200-sxm-180gb/vllm-0.24.0"] {
        let profile = profile(name);
        let latent = deepseek_v3_2();
        let sparse = profile.sparse_latent_attention(&latent, 8, KvDtype::Fp8, 61.0);
        let sparse = sparse.expect("it was measured");
        assert_rises(&sparse);
        let all =
            profile.latent_attention(&latent, 8, KvDtype::Fp8, 61.0).expect("it was measured");
        let [short, long] = [1000.0, 131_072.0]
            .map(|context| sparse.decode_secs(64.0, context) / all.decode_secs(64.0, context));
        assert!(short > 1.0 && long < 0.6, "{name}: {short} {long}");
        // Beyond the chosen tokens only the indexer's part grows: 132 of 1152 bytes of a token.
        let rise = |times: &MixerTimes| {
            times.decode_secs(64.0, 65_536.0) - times.decode_secs(64.0, 32_768.0)
        };
        let ratio = rise(&sparse) / rise(&all);
        assert!((0.05..0.6).contains(&ratio), "{name}: {ratio}");
    }
}

#[test]
fn a_layer_that_takes_the_choice_of_another_is_faster() {
    let profile = profile("b200-sxm-180gb/sglang-0.5.14");
    let glm = LatentAttention {
        heads: 64,
        q_lora_rank: Some(2048),
        qk_nope_head_dim: 192,
        v_head_dim: 256,
        indexer: Some(Indexer { heads: 32, head_dim: 128, tokens: 2048 }),
        ..deepseek_v3_2()
    };
    let taken = LatentAttention { indexer: None, ..glm };
    let [own, taken] = [glm, taken].map(|latent| {
        profile.sparse_latent_attention(&latent, 8, KvDtype::Fp8, 1.0).expect("it was measured")
    });
    for context in [4096.0, 65_536.0] {
        assert!(taken.decode_secs(8.0, context) < own.decode_secs(8.0, context), "{context}");
    }
}

#[test]
fn blocks_and_compressed_entries_rise_and_say_where_nothing_was_measured() {
    let profile = profile("h200-sxm-141gb/vllm-0.24.0");
    let minimax = GroupedAttention {
        heads: 64,
        kv_heads: 4,
        head_dim: 128,
        value_dim: 128,
        qkv_bias: false,
        output_bias: false,
        qk_norm: QkNorm::PerHead,
        sinks: false,
        gate: Gate::None,
        reach: Reach::Full,
        indexer: Some(Indexer { heads: 4, head_dim: 128, tokens: 2048 }),
    };
    let times = profile.sparse_grouped_attention(&minimax, 4, KvDtype::Auto, 57.0);
    assert_rises(&times.expect("it was measured"));
    let v4 = Compressed {
        heads: 128,
        head_dim: 512,
        q_lora_rank: 1536,
        o_lora_rank: 1024,
        o_groups: 16,
        window: 128,
        ratio: 4,
        indexer: Some(Indexer { heads: 64, head_dim: 128, tokens: 1024 }),
    };
    let wide = Compressed { ratio: 128, indexer: None, ..v4 };
    let [few, many] = [v4, wide].map(|compressed| {
        profile.compressed_attention(&compressed, 8, KvDtype::Fp8, 1.0).expect("it was measured")
    });
    assert_rises(&few);
    assert_rises(&many);
    // An indexer costs more than the few entries that it saves.
    assert!(few.decode_secs(32.0, 8192.0) > many.decode_secs(32.0, 8192.0));
    let alone = Compressed { ratio: 0, indexer: None, ..v4 };
    assert!(profile.compressed_attention(&alone, 8, KvDtype::Fp8, 1.0).is_none());
    assert!(profile.compressed_attention(&v4, 8, KvDtype::Auto, 1.0).is_none());
}
