//! What operator models answer for real models, and profiles that are refused.

use proptest::prelude::*;

use super::*;
use crate::cost::StepTime;
use crate::cost::decode_run::tests::{any_decodes, prices_as_on_their_own};

use crate::profiles;

fn h100() -> (GpuSpec, OperatorProfile) {
    let table = profiles::operator_table("h100-sxm5-80gb/vllm-0.14.0").expect("in the catalogue");
    let profile = OperatorProfile::parse(table.text).expect("it is valid");
    (profiles::gpu("H100").expect("in the catalogue"), profile)
}

fn model(name: &str, tp: u32) -> OperatorModel {
    let (gpu, profile) = h100();
    let spec = profiles::model(name).expect("in the catalogue");
    let options = RooflineOptions { tensor_parallel_size: tp, ..RooflineOptions::default() };
    OperatorModel::new(&spec, &gpu, &profile, &options).expect("it fits")
}

fn decode(sequences: u32, context: u32) -> StepShape {
    let mut shape = StepShape::default();
    shape.add_decodes(sequences, u64::from(sequences * context), context);
    shape
}

proptest! {
    #[test]
    fn codes_are_read_as_they_are_written(codes in proptest::collection::vec(any::<Option<i16>>(), 0..60), columns in 1_usize..9) {
        let codes = Codes(codes);
        prop_assert_eq!(&Codes::try_from(codes.to_text(columns)), &Ok(codes.clone()));
        let spaced = codes.to_text(columns).replace(' ', " \t ").replace('\n', "\r\n\n");
        prop_assert_eq!(Codes::try_from(spaced), Ok(codes));
    }
}

#[test]
fn codes_that_are_no_numbers_are_named() {
    for word in ["32768", "-32769", "99999999999", "--", "-x", "1.5", "+", "1-", "\u{e9}"] {
        let said = Codes::try_from(format!(" 7 -\n{word} 8 \n")).expect_err(word);
        assert!(said.ends_with(&format!("got `{word}`")), "{said}");
    }
}

#[test]
fn more_work_never_takes_less_time() {
    for (name, tp) in [("meta-llama/Llama-3.1-8B", 1), ("Mixtral-8x7B-v0.1", 2)] {
        let model = model(name, tp);
        let secs = |shape: &StepShape| model.parts(shape).total();
        for context in [1, 30, 700, 5000, 100_000] {
            let times: Vec<f64> = (0..200).map(|n| secs(&decode(n, context))).collect();
            assert!(times.is_sorted(), "{name}: sequences at context {context}");
        }
        for sequences in [1, 7, 64, 300] {
            let times: Vec<f64> = (1..2000).map(|c| secs(&decode(sequences, 16 * c))).collect();
            let falls = times.windows(2).any(|pair| pair[1] < 0.97 * pair[0]);
            assert!(!falls, "{name}: contexts of {sequences} sequences");
        }
        let prompts = (1..2000).map(|n| {
            let mut shape = StepShape::default();
            shape.add_prefill(8 * n, 0, true);
            secs(&shape)
        });
        let prompts: Vec<f64> = prompts.collect();
        assert!(!prompts.windows(2).any(|pair| pair[1] < 0.97 * pair[0]), "{name}: prompts");
    }
}

#[test]
fn a_cached_prompt_is_cheaper_than_a_new_one_and_dearer_than_its_new_tokens_alone() {
    let model = model("meta-llama/Llama-3.1-8B", 1);
    let secs = |new: u32, cached: u32| {
        let mut shape = StepShape::default();
        shape.add_prefill(new, cached, true);
        model.parts(&shape).total()
    };
    assert!(secs(2048, 0) > secs(64, 1984));
    assert!(secs(64, 16_000) > secs(64, 0));
}

#[test]
fn a_prompt_in_two_chunks_multiplies_as_many_pairs_as_in_one() {
    let model = model("meta-llama/Llama-3.1-8B", 1);
    let pairs = |chunks: &[(u32, u32)]| -> f64 {
        let parts = chunks.iter().map(|(new, cached)| {
            let mut shape = StepShape::default();
            shape.add_prefill(*new, *cached, true);
            model.parts(&shape).prefill_attention
        });
        parts.sum()
    };
    let whole = pairs(&[(16_384, 0)]);
    let halves = pairs(&[(8192, 0), (8192, 8192)]);
    assert!((halves / whole - 1.0).abs() < 0.1, "{halves} {whole}");
}

#[test]
fn short_prompts_of_one_step_share_the_launch_of_a_kernel() {
    let model = model("meta-llama/Llama-3.1-8B", 1);
    let attention = |prompts: u32, tokens: u32| {
        let mut shape = StepShape::default();
        for _ in 0..prompts {
            shape.add_prefill(tokens, 0, true);
        }
        model.parts(&shape).prefill_attention
    };
    for tokens in [30, 100, 500, 2000] {
        let times: Vec<f64> = (1..100).map(|prompts| attention(prompts, tokens)).collect();
        assert!(!times.windows(2).any(|pair| pair[1] < 0.97 * pair[0]), "{tokens}");
    }
    // 64 prompts of 32 tokens fill the GPU that one leaves idle; prompts of 4,096 fill it alone.
    assert!(attention(64, 32) < 8.0 * attention(1, 32));
    assert!(attention(16, 4096) > 12.0 * attention(1, 4096));
}

#[test]
fn experts_that_were_not_measured_come_from_the_roofline_and_say_so() {
    let says = |name: &str, tp: u32| model(name, tp).provenance().to_owned();
    assert!(!says("meta-llama/Llama-3.1-8B", 1).contains("not measured"));
    assert!(!says("Mixtral-8x7B-v0.1", 2).contains("not measured"));
    let scout = says("Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", 2);
    assert!(scout.contains("experts"), "{scout}");
    assert!(!says("DeepSeek-V3", 8).contains("latent attention"));
}

fn deepseek_v3(gpu: &str, table: &str) -> OperatorModel {
    let table = profiles::operator_table(table).expect("in the catalogue");
    let profile = OperatorProfile::parse(table.text).expect("it is valid");
    let gpu = profiles::gpu(gpu).expect("in the catalogue");
    let spec = profiles::model("DeepSeek-V3").expect("in the catalogue");
    let options = RooflineOptions { tensor_parallel_size: 8, ..RooflineOptions::default() };
    OperatorModel::new(&spec, &gpu, &profile, &options).expect("it fits")
}

#[test]
fn latent_attention_is_measured_where_there_is_a_table_and_else_says_what_is_not() {
    let says = |gpu, table| deepseek_v3(gpu, table).provenance().to_owned();
    let whole = says("H200", "h200-sxm-141gb/vllm-0.24.0");
    assert!(!whole.contains("latent attention"), "{whole}");
    // SGLang's kernels for whole prompts were measured on Blackwell alone.
    let decode = says("H200", "h200-sxm-141gb/sglang-0.5.14");
    assert!(decode.contains("prefill of latent attention"), "{decode}");
    let none = says("A100", "a100-sxm4-80gb/vllm-0.14.0");
    assert!(none.contains("latent attention") && !none.contains("prefill of"), "{none}");
}

#[test]
fn measured_latent_attention_rises_with_sequences_contexts_and_tokens() {
    for (gpu, table) in
        [("H200", "h200-sxm-141gb/vllm-0.24.0"), ("B200", "b200-sxm-180gb/sglang-0.5.14")]
    {
        let model = deepseek_v3(gpu, table);
        let reads = |sequences, context| model.parts(&decode(sequences, context)).decode_attention;
        for context in [1, 500, 8000, 60_000] {
            let times: Vec<f64> = (1..300).map(|n| reads(n, context)).collect();
            assert!(times.is_sorted(), "{table}: sequences at {context}");
        }
        for sequences in [1, 24, 128] {
            let times: Vec<f64> = (1..900).map(|n| reads(sequences, 64 * n)).collect();
            assert!(times.is_sorted(), "{table}: contexts of {sequences}");
        }
        let prompts: Vec<f64> = (1..900)
            .map(|n| {
                let mut shape = StepShape::default();
                shape.add_prefill(64 * n, 0, true);
                model.parts(&shape).prefill_attention
            })
            .collect();
        assert!(!prompts.windows(2).any(|pair| pair[1] < 0.97 * pair[0]), "{table}: prompts");
    }
}

#[test]
fn steps_beyond_the_measured_shapes_count_as_extrapolated() {
    let model = model("meta-llama/Llama-3.1-8B", 1);
    assert_eq!(model.coverage(&decode(64, 1000)), Coverage::Interpolated);
    assert_eq!(model.coverage(&decode(1, 200_000)), Coverage::Extrapolated);
    assert_eq!(model.coverage(&decode(3000, 10)), Coverage::Extrapolated);
    let mut shape = StepShape::default();
    shape.add_prefill(9000, 0, true);
    assert_eq!(model.coverage(&shape), Coverage::Extrapolated);
}

#[test]
fn the_roofline_is_no_slower_by_more_than_half_or_faster_by_more_than_a_third() {
    let (gpu, _) = h100();
    let options = RooflineOptions::default();
    for name in ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-14B", "meta-llama/Llama-2-7b-hf"] {
        let spec = profiles::model(name).expect("in the catalogue");
        let roofline = super::super::Roofline::new(&spec, &gpu, &options).expect("it fits");
        let measured = model(name, 1);
        for shape in [decode(1, 1000), decode(32, 1000), decode(128, 4000)] {
            let ratio = roofline.parts(&shape).total() / measured.parts(&shape).total();
            assert!((0.67..1.5).contains(&ratio), "{name}: {ratio:.2} at {shape:?}");
        }
    }
}

#[test]
fn a_profile_with_a_wrong_number_of_times_is_refused_by_name() {
    let (_, profile) = h100();
    assert!(profile.products.iter().any(|table| table.dtype == "fp8"));
    let text = profiles::operator_table("h100-sxm5-80gb/vllm-0.14.0").expect("there").text;
    let cut = text.replacen("862 ", "", 1);
    let error = OperatorProfile::parse(&cut).expect_err("a number is missing").to_string();
    assert!(error.contains("products[0].times"), "{error}");
    let odd = text.replacen("862 ", "x ", 1);
    assert!(OperatorProfile::parse(&odd).is_err());
}

#[test]
fn measured_products_follow_the_rate_of_multiplications_where_it_bounds_them() {
    let (gpu, profile) = h100();
    let spec = profiles::model("meta-llama/Llama-3.1-8B").expect("in the catalogue");
    let products = |products_compute, shape: &StepShape| {
        let calibration = Calibration { products_compute, ..Calibration::default() };
        let options = RooflineOptions { calibration, ..RooflineOptions::default() };
        let model = OperatorModel::new(&spec, &gpu, &profile, &options).expect("it fits");
        model.parts(shape).products
    };
    let small = decode(1, 100);
    assert!((products(2.0, &small) / products(1.0, &small) - 1.0).abs() < 1e-12);
    let mut large = StepShape::default();
    large.add_prefill(8000, 0, true);
    let ratio = products(2.0, &large) / products(1.0, &large);
    assert!((1.9..2.0).contains(&ratio), "{ratio}");
}

#[test]
fn measured_experts_follow_the_rate_of_multiplications_where_it_bounds_them() {
    let (gpu, profile) = h100();
    let spec = profiles::model("Qwen/Qwen3-30B-A3B").expect("in the catalogue");
    let experts = |experts_compute, shape: &StepShape| {
        let calibration = Calibration { experts_compute, ..Calibration::default() };
        let options = RooflineOptions { calibration, ..RooflineOptions::default() };
        let model = OperatorModel::new(&spec, &gpu, &profile, &options).expect("it fits");
        model.parts(shape).experts
    };
    let small = decode(1, 100);
    assert!((experts(2.0, &small) / experts(1.0, &small) - 1.0).abs() < 1e-12);
    let mut large = StepShape::default();
    large.add_prefill(32_000, 0, true);
    let ratio = experts(2.0, &large) / experts(1.0, &large);
    assert!((1.8..2.0).contains(&ratio), "{ratio}");
}

#[test]
fn a_context_longer_than_the_window_costs_only_the_other_layers() {
    let (gpu, profile) = h100();
    let spec = profiles::model("gpt-oss-120b").expect("in the catalogue");
    let parts = |layers, shape: &StepShape| {
        let model = spec.seeing_all().with_windows(128, layers);
        let options = RooflineOptions::default();
        OperatorModel::new(&model, &gpu, &profile, &options).expect("it fits").parts(shape)
    };
    let rise = |layers| {
        let [long, short] = [8192, 4096].map(|context| decode(32, context));
        parts(layers, &long).decode_attention - parts(layers, &short).decode_attention
    };
    assert!((rise(18) / rise(0) - 0.5).abs() < 1e-9, "{} {}", rise(18), rise(0));
    assert!(rise(36).abs() < 1e-12);
    let mut prompt = StepShape::seeing(128 + 512);
    prompt.add_prefill(16_384, 0, true);
    let prefill = |layers| parts(layers, &prompt).prefill_attention;
    // 640·(16384 − 320) of 16384²/2 pairs.
    assert!((prefill(36) / prefill(0) - 0.0766).abs() < 1e-4, "{}", prefill(36) / prefill(0));
}

/// Models of every kind of attention, and on how many GPUs.
const KINDS: [(&str, u32); 9] = [
    ("deepseek-ai/DeepSeek-V3", 8),
    ("deepseek-ai/DeepSeek-V3.2", 8),
    ("deepseek-ai/DeepSeek-V4-Flash", 8),
    ("MiniMaxAI/MiniMax-M3", 8),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", 4),
    ("moonshotai/Kimi-K3", 8),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 1),
    ("google/gemma-4-26B-A4B", 1),
    ("XiaomiMiMo/MiMo-V2-Flash", 4),
];

fn of_kind(kind: usize) -> OperatorModel {
    let (name, tp) = KINDS[kind];
    let spec = profiles::model(name).expect("in the catalogue");
    let gpu = profiles::gpu("H200").expect("in the catalogue");
    let table = profiles::operator_table("h200-sxm-141gb/vllm-0.24.0").expect("it is shipped");
    let profile = OperatorProfile::parse(table.text).expect("a profile");
    let options = RooflineOptions { tensor_parallel_size: tp, ..RooflineOptions::default() };
    OperatorModel::new(&spec, &gpu, &profile, &options).expect("heads are shared")
}

proptest! {
    /// Tables are not exactly a line and a square in the tokens, so that what is interpolated between them may fall a
    /// little where prompts of other lengths are added.
    #[test]
    fn more_to_prefill_hardly_ever_takes_less_time(
        prefills in proptest::collection::vec((1_u32..9000, 0_u32..100_000), 1..6),
        more in (1_u32..9000, 0_u32..100_000), kind in 0..KINDS.len(),
    ) {
        let model = of_kind(kind);
        let secs = |prefills: &[(u32, u32)]| {
            let mut shape = StepShape::seeing(model.prefill_window());
            for (new, cached) in prefills {
                shape.add_prefill(*new, *cached, true);
            }
            model.step_duration(&shape).as_secs_f64()
        };
        let before = secs(&prefills);
        let mut all = prefills;
        all.push(more);
        prop_assert!(secs(&all) > 0.93 * before, "{}: {} {}", KINDS[kind].0, before, secs(&all));
    }

    #[test]
    fn a_decode_run_of_any_kind_prices_each_step_as_on_its_own(
        decodes in any_decodes(), steps in 1_usize..100, new in 1_u32..3000, kind in 0..KINDS.len(),
    ) {
        let model = StepTime::Operators(of_kind(kind));
        prices_as_on_their_own(&model, &decodes, steps)?;
        let mut mixed = decodes;
        mixed.add_prefill(new, 100, true);
        prices_as_on_their_own(&model, &mixed, steps)?;
    }

    #[test]
    fn a_decode_run_prices_each_step_as_on_its_own(
        decodes in any_decodes(), steps in 1_usize..100, new in 1_u32..3000, cached in 0_u32..3000,
        kind in 0_usize..3,
    ) {
        let (name, tp) = [("DeepSeek-V3", 8), ("Llama-3.1-8B", 1), ("gpt-oss-120b", 2)][kind];
        let model = StepTime::Operators(model(name, tp));
        prices_as_on_their_own(&model, &decodes, steps)?;
        let mut mixed = decodes;
        mixed.add_prefill(new, cached, true);
        prices_as_on_their_own(&model, &mixed, steps)?;
    }
}
