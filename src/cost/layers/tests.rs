//! Steps worked out by hand, and the shipped profiles.

use proptest::prelude::*;

use super::*;
use crate::cost::StepTime;
use crate::cost::decode_run::tests::{any_decodes, prices_as_on_their_own};

use crate::profiles;

/// Llama-3.1-8B with made-up times: 1 us per operator and layer at 1 row, 3 us at 101 rows.
const MADE_UP: &str = r#"
source = "made up"
licence = "none"
measured = "2026-11-21"
gpu = "RTX-4090"
model = "meta-llama/Llama-3.1-8B"
dtype = "bfloat16"
tensor_parallel_size = 1
engine = "vllm"
engine_version = "0.19.0"
[rows]
tokens = "1 101"
embedding_ns = "1000 3000"
layernorm_ns = "1000 3000"
qkv_proj_ns = "1000 3000"
rotary_emb_ns = "1000 3000"
o_proj_ns = "1000 3000"
gate_up_proj_ns = "1000 3000"
act_fn_ns = "1000 3000"
down_proj_ns = "1000 3000"
final_layernorm_ns = "1000 3000"
[sequences]
sequences = "1 11"
lm_head_ns = "50000 60000"
sampler_ns = "5000 6000"
[attention]
prefill_tokens = "10"
prefill_context = "0 100"
decode_seqs = "1 2"
decode_context = "100 200"
prefill_tenth_us = "40 60"
decode_tenth_us = "10 20  30 40"
mixed_tenth_us = "100 110  120 130"
"#;

const LAYERS: f64 = 32.0;

fn options(tensor_parallel_size: u32) -> LayerTableOptions {
    LayerTableOptions {
        tensor_parallel_size,
        kv_cache_dtype: KvDtype::Auto,
        expert_gpus: None,
        all_reduce: None,
        calibration: Calibration::default(),
    }
}

fn llama() -> ModelSpec {
    profiles::model("meta-llama/Llama-3.1-8B").expect("a model of the catalogue")
}

fn made_up() -> LayerProfile {
    LayerProfile::parse(MADE_UP).expect("a valid profile")
}

fn table(profile: &LayerProfile) -> LayerTable {
    LayerTable::new(profile, &llama(), &options(1)).expect("a profile of this model")
}

fn decodes(contexts: &[u32]) -> StepShape {
    let mut shape = StepShape::default();
    for context in contexts {
        shape.add_decode(*context, 0);
    }
    shape
}

fn assert_micros(secs: f64, micros: f64) {
    assert!((secs * 1e6 - micros).abs() < 1e-6, "{} is not {micros}", secs * 1e6);
}

#[test]
fn a_step_is_the_sum_of_its_operators() {
    let parts = table(&made_up()).parts(&decodes(&[150]));
    // qkv, o, gate_up and down of every layer.
    assert_micros(parts.products, LAYERS * 4.0);
    // Two norms, rotary and activation of every layer; embedding and last norm once.
    assert_micros(parts.elementwise, LAYERS * 4.0 + 2.0);
    assert_micros(parts.decode_attention, LAYERS * 1.5);
    assert_micros(parts.head, 50.0);
    assert_micros(parts.sampler, 5.0);
    assert_micros(parts.prefill_attention + parts.experts + parts.all_reduce, 0.0);
    let total = SimDuration::from_nanos(128_000 + 130_000 + 48_000 + 55_000);
    assert_eq!(table(&made_up()).step_duration(&decodes(&[150])), total);
}

#[test]
fn rows_of_a_padded_batch_are_computed_too() {
    let padded = StepShape { cuda_graph: Some(51), ..decodes(&[150]) };
    // Half way from 1 µs to 3 µs.
    assert_micros(table(&made_up()).parts(&padded).products, LAYERS * 8.0);
}

#[test]
fn attention_is_linear_between_batches_that_decode_prefill_or_do_both() {
    let table = table(&made_up());
    let attention = |shape: &StepShape| {
        let parts = table.parts(shape);
        parts.prefill_attention + parts.decode_attention
    };
    let mut mixed = decodes(&[100]);
    mixed.add_prefill(10, 50, true);
    // Half way from 10 µs to 12 µs.
    assert_micros(attention(&mixed), LAYERS * 11.0);
    let mut prefill = StepShape::default();
    prefill.add_prefill(10, 50, true);
    assert_micros(attention(&prefill), LAYERS * 5.0);
    let mut half = decodes(&[100]);
    half.add_prefill(5, 0, true);
    // Half way from decodes alone, 1 µs, to 10 µs.
    assert_micros(attention(&half), LAYERS * 5.5);
    // Two decodes beside prefill were not measured: what one more costs alone is added.
    let mut more = decodes(&[100, 100]);
    more.add_prefill(10, 0, true);
    assert_micros(attention(&more), LAYERS * 12.0);
}

#[test]
fn above_the_grid_time_goes_on_growing_and_is_not_covered() {
    let table = table(&made_up());
    let mut long = StepShape::default();
    long.add_prefill(201, 0, true);
    assert_eq!(table.coverage(&long), Coverage::Extrapolated);
    assert_eq!(table.coverage(&decodes(&[200, 100])), Coverage::Interpolated);
    assert_eq!(table.coverage(&decodes(&[201])), Coverage::Extrapolated);
    // Beyond 101 rows by the mean rate of the upper half: 2 µs per 100 rows and product.
    assert_micros(table.parts(&long).products, LAYERS * 4.0 * 5.0);
    let beyond_look_up = StepShape { prefill_tokens: TABLE_ROWS + 101, ..long };
    let rows = f64::from(TABLE_ROWS);
    assert_micros(table.parts(&beyond_look_up).products, LAYERS * 4.0 * (3.0 + rows * 0.02));
}

#[test]
fn unequal_contexts_cost_a_share_of_what_the_longest_would() {
    let mut profile = made_up();
    profile.skew = Some(SkewProfile {
        mixed_alpha: 0.5,
        decode_seqs: Numbers(vec![2]),
        mean_percent: Numbers(vec![80]),
        context: Numbers(vec![1000]),
        alpha: vec![0.25, 0.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0],
    });
    let attention = |contexts: &[u32]| table(&profile).parts(&decodes(contexts)).decode_attention;
    // Mean 150, three quarters of the longest, 200: 3.5 µs, and 4 µs at the longest.
    assert_micros(attention(&[100, 200]), LAYERS * (3.5 + 0.25 * 0.5));
    // Mean 180, 90 % of the longest.
    assert_micros(attention(&[160, 200]), LAYERS * (3.8 + 0.1 * 0.2));
    assert_micros(attention(&[200, 200]), LAYERS * 4.0);
    let mut mixed = decodes(&[100, 200]);
    mixed.add_prefill(10, 0, true);
    let parts = table(&profile).parts(&mixed);
    // One decode: 10.5 µs at the mean and 11 at the longest; the second adds 2 alone.
    let expected = LAYERS * (12.5 + 0.5 * 0.5);
    assert_micros(parts.prefill_attention + parts.decode_attention, expected);
}

#[test]
fn calibration_multiplies_parts_and_adds_constants() {
    let calibration = Calibration {
        products: 2.0,
        per_step_us: 10.0,
        per_prefill_step_us: 100.0,
        per_sequence_us: 1.0,
        ..Calibration::default()
    };
    let plain = table(&made_up());
    let fitted = plain.calibrated(calibration);
    let added = |shape: &StepShape| {
        let [fitted, plain] = [&fitted, &plain].map(|table| table.step_duration(shape).as_nanos());
        (fitted - plain) as f64 / 1e3
    };
    let shape = decodes(&[150]);
    assert!((added(&shape) - (128.0 + 10.0 + 1.0)).abs() <= 0.002, "{}", added(&shape));
    let mut mixed = shape;
    mixed.add_prefill(9, 0, true);
    let expected = plain.parts(&mixed).products * 1e6 + 10.0 + 100.0 + 2.0;
    assert!((added(&mixed) - expected).abs() <= 0.002, "{} {expected}", added(&mixed));
}

#[test]
fn a_profile_of_something_else_is_refused() {
    let refusal = |profile: &LayerProfile, options: LayerTableOptions| {
        LayerTable::new(profile, &llama(), &options).expect_err("refused").to_string()
    };
    let qwen = LayerProfile { model: "Qwen/Qwen3-8B".into(), ..made_up() };
    assert_eq!(
        refusal(&qwen, options(1)),
        "the profile has model Qwen/Qwen3-8B, the scenario meta-llama/Llama-3.1-8B"
    );
    assert_eq!(
        refusal(&made_up(), options(2)),
        "the profile has tensor_parallel_size 1, the scenario 2"
    );
    let fp8 = LayerTableOptions { kv_cache_dtype: KvDtype::Fp8, ..options(1) };
    assert_eq!(refusal(&made_up(), fp8), "the profile has kv_cache_dtype auto, the scenario fp8");
    let windowed = llama().with_windows(128, 16);
    let refused = LayerTable::new(&made_up(), &windowed, &options(1)).expect_err("refused");
    assert_eq!(refused, LayerTableError::Windows(16));
    let two = LayerProfile { tensor_parallel_size: 2, ..made_up() };
    assert!(refusal(&two, options(2)).contains("all_reduce_latency_us"));
    let short = MADE_UP.replace("prefill_tenth_us = \"40 60\"", "prefill_tenth_us = \"40\"");
    assert_eq!(
        LayerProfile::parse(&short).expect_err("refused").to_string(),
        "attention.prefill_tenth_us: must hold 2 numbers, got 1"
    );
    let falling = MADE_UP.replace("tokens = \"1 101\"", "tokens = \"101 1\"");
    assert_eq!(
        LayerProfile::parse(&falling).expect_err("refused").to_string(),
        "rows.tokens: must be at least 2 increasing numbers"
    );
}

#[test]
fn all_reduces_take_the_hosts_latency_and_rate() {
    let profile = LayerProfile {
        tensor_parallel_size: 2,
        all_reduce: Some(AllReduceHost { latency_us: 20.0, gb_s: 16.0 }),
        ..made_up()
    };
    let priced = |options: LayerTableOptions| {
        let table = LayerTable::new(&profile, &llama(), &options).expect("a table");
        table.parts(&decodes(&[150])).all_reduce
    };
    // 64 times 20 µs and 4096 · 2 B at 16 GB/s.
    assert_micros(priced(options(2)), 64.0 * (20.0 + 0.512));
    let own = Some(AllReduceHost { latency_us: 5.0, gb_s: 8.192 });
    assert_micros(priced(LayerTableOptions { all_reduce: own, ..options(2) }), 64.0 * 6.0);
}

#[test]
fn experts_are_read_as_tokens_reach_them() {
    let shipped = |tp| {
        let mut all = profiles::layer_tables().iter();
        let found = all.find(|s| s.model == "Qwen/Qwen3-30B-A3B" && s.tensor_parallel_size == tp);
        LayerProfile::parse(found.expect("it is shipped").text).expect("a valid profile")
    };
    let model = profiles::model("Qwen/Qwen3-30B-A3B").expect("a model of the catalogue");
    let experts = |profile: &LayerProfile, options: LayerTableOptions| {
        let table = LayerTable::new(profile, &model, &options).expect("a table");
        table.parts(&decodes(&[100])).experts
    };
    // One token reaches its 8 experts in each of 48 layers: the first entry of the table.
    let one = shipped(1);
    let first = one.experts.as_ref().expect("it has experts").experts_ns[0] as f64;
    assert_micros(experts(&one, options(1)), 48.0 * first / 1e3);
    let two = shipped(2);
    let refused = LayerTable::new(&two, &model, &options(2)).expect_err("refused");
    assert_eq!(refused, LayerTableError::SharedExperts(2));
    let parallel = LayerTableOptions { expert_gpus: Some(2), ..options(2) };
    assert!(experts(&two, parallel) <= experts(&one, options(1)));
}

#[test]
fn every_shipped_profile_is_valid_and_reads_back_as_written() {
    assert!(!profiles::layer_tables().is_empty());
    for shipped in profiles::layer_tables() {
        let profile = LayerProfile::parse(shipped.text).expect(shipped.name);
        assert_eq!(profile.gpu, shipped.gpu, "{}", shipped.name);
        assert_eq!(profile.model, shipped.model, "{}", shipped.name);
        assert_eq!(profile.tensor_parallel_size, shipped.tensor_parallel_size);
        assert_eq!(profiles::gpu(shipped.gpu).map(|gpu| gpu.name).as_deref(), Some(shipped.gpu));
        let model = profiles::model(shipped.model).expect(shipped.name);
        assert_eq!(model.name, shipped.model);
        assert_eq!(LayerProfile::parse(&profile.to_toml()).expect("a profile"), profile);
        let options = LayerTableOptions {
            expert_gpus: Some(shipped.tensor_parallel_size),
            ..options(shipped.tensor_parallel_size)
        };
        let table = LayerTable::new(&profile, &model, &options).expect(shipped.name);
        for (row, seqs) in profile.attention.decode_seqs.iter().enumerate() {
            for (column, context) in profile.attention.decode_context.iter().enumerate() {
                let equal = decodes(&vec![*context as u32; *seqs as usize]);
                let columns = profile.attention.decode_context.len();
                let tenths = profile.attention.decode_tenth_us[row * columns + column] as f64;
                let expected = tenths / 10.0 * f64::from(model.num_layers());
                assert_micros(table.parts(&equal).decode_attention, expected);
            }
        }
    }
}

proptest! {
    #[test]
    fn a_decode_run_prices_each_step_as_on_its_own(
        decodes in any_decodes(), steps in 1_usize..100, which in 0_usize..1000, prefills in any::<bool>(),
    ) {
        let shipped = &profiles::layer_tables()[which % profiles::layer_tables().len()];
        let profile = LayerProfile::parse(shipped.text).expect(shipped.name);
        let model = profiles::model(shipped.model).expect(shipped.name);
        let options =
            LayerTableOptions { expert_gpus: Some(shipped.tensor_parallel_size), ..options(shipped.tensor_parallel_size) };
        let table = LayerTable::new(&profile, &model, &options).expect(shipped.name);
        let mut shape = decodes;
        if prefills {
            shape.add_prefill(10, 0, true);
        }
        prices_as_on_their_own(&StepTime::LayerTable(table), &shape, steps)?;
    }
}
