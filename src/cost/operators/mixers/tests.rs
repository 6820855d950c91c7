//! Times at and between nodes of made-up tables.

use super::*;
use crate::cost::operators::profile::Codes;

/// 10 µs, and a nanosecond for each head, sequence and token.
fn law(heads: f64, sequences: f64, context: f64) -> f64 {
    10.0 + 1e-3 * heads * sequences * context
}

fn table() -> MixerTable {
    let (heads, sequences, contexts) = ([8, 16, 128], [1, 16, 256], [64, 1024, 16_384]);
    let (prompts, tokens) = ([1, 16], [64, 1024, 8192]);
    let mut decode = Vec::new();
    let mut prefill = Vec::new();
    for h in heads.map(f64::from) {
        for b in sequences.map(f64::from) {
            decode.extend(contexts.map(|c| Codes::of(Some(law(h, b, f64::from(c))))));
        }
        for p in prompts.map(f64::from) {
            prefill.extend(tokens.map(|t| {
                let time = 1e-4 * h * p * f64::from(t).powi(2);
                // The longest prompts side by side were not measured, nor the time of a launch.
                Codes::of(Some(time).filter(|_| p < 2.0 || t < 8192).filter(|_| t > 64))
            }));
        }
    }
    MixerTable {
        kind: MixerKind::Latent,
        model: "made up".to_owned(),
        kv_dtype: "bfloat16".to_owned(),
        cached: 576,
        multiplied: 320,
        indexer: None,
        ratio: 0,
        heads: heads.to_vec(),
        sequences: sequences.to_vec(),
        contexts: contexts.to_vec(),
        decode: Codes(decode),
        prompts: prompts.to_vec(),
        tokens: tokens.to_vec(),
        prefill: Codes(prefill),
    }
}

fn shape(heads: f64) -> Shape {
    Shape {
        kind: MixerKind::Latent,
        heads,
        cached: 576.0,
        multiplied: 320.0,
        indexer: None,
        ratio: 0,
    }
}

fn times(heads: f64) -> MixerTimes {
    shape(heads).times(&[table()], KvDtype::Auto, 3.0).expect("there is a table")
}

#[test]
fn decode_follows_the_law_of_its_nodes_at_between_and_beyond_them() {
    for heads in [8.0, 12.0, 16.0, 72.0, 128.0] {
        let times = times(heads);
        for sequences in [1.0, 3.0, 16.0, 100.0, 256.0, 1000.0] {
            for context in [64.0, 100.0, 1024.0, 9000.0, 16_384.0, 60_000.0] {
                let wanted = 3e-6 * law(heads, sequences, context);
                let found = times.decode_secs(sequences, context);
                // Half a percent is the step of codes.
                assert!((found / wanted - 1.0).abs() < 0.01, "{heads} {sequences} {context}");
            }
        }
    }
    // Fewer heads than were measured take as long as the fewest.
    assert!(
        (times(2.0).decode_secs(16.0, 1024.0) / times(8.0).decode_secs(16.0, 1024.0) - 1.0).abs()
            < 1e-9
    );
    assert!(
        (times(256.0).decode_secs(16.0, 1024.0) / times(128.0).decode_secs(16.0, 1024.0) - 2.0)
            .abs()
            < 1e-6
    );
}

#[test]
fn prefill_meets_its_nodes_and_what_was_not_measured_follows_from_them() {
    let times = times(16.0);
    let prefill = |prompts, tokens| times.prefill_secs(prompts, tokens).expect("it was measured");
    let wanted = |prompts: f64, tokens: f64| 3e-6 * 1.6e-3 * prompts * tokens * tokens;
    for (prompts, tokens) in [(1.0, 1024.0), (1.0, 8192.0), (16.0, 1024.0), (1.0, 32_768.0)] {
        let ratio = prefill(prompts, tokens) / wanted(prompts, tokens);
        assert!((ratio - 1.0).abs() < 0.01, "{prompts} {tokens}: {ratio}");
    }
    // Not measured: 16 prompts of 8,192 tokens rise as one does, sixteen times as steep.
    assert!((prefill(16.0, 8192.0) / wanted(16.0, 8192.0) - 1.0).abs() < 0.02);
    // The time of a launch was left out: 64 tokens take a sixteenth of 1,024.
    assert!((prefill(1.0, 64.0) / (wanted(1.0, 1024.0) / 16.0) - 1.0).abs() < 0.02);
}

#[test]
fn wider_cached_vectors_weigh_as_more_sequences_and_wider_heads_multiply_more() {
    let wide = Shape { cached: 1152.0, multiplied: 640.0, ..shape(16.0) };
    let wide = wide.times(&[table()], KvDtype::Auto, 3.0).expect("there is a table");
    let plain = times(16.0);
    let ratio = wide.decode_secs(8.0, 1024.0) / plain.decode_secs(16.0, 1024.0);
    assert!((ratio - 1.0).abs() < 1e-6, "{ratio}");
    let [wide, plain] = [wide, plain].map(|times| times.prefill_secs(1.0, 1024.0).unwrap());
    assert!((wide / plain - 2.0).abs() < 1e-6);
}

#[test]
fn a_kind_ratio_or_cache_without_a_table_has_no_times() {
    let tables = [table()];
    assert!(shape(8.0).times(&tables, KvDtype::Fp8, 1.0).is_none());
    let other = Shape { kind: MixerKind::Compressed, ratio: 4, ..shape(8.0) };
    assert!(other.times(&tables, KvDtype::Auto, 1.0).is_none());
    let indexed = Shape { indexer: Some([64, 128, 2048]), ..shape(8.0) };
    assert!(indexed.times(&tables, KvDtype::Auto, 1.0).is_none());
}
