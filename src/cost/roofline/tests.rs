//! Laws of the roofline, and its distance from measured steps.

use proptest::prelude::*;

use super::experts::Spread;
use super::*;
use crate::cost::StepTime;
use crate::cost::decode_run::tests::{any_decodes, prices_as_on_their_own};

use crate::profiles;

fn roofline(model: &str, gpu: &str, options: RooflineOptions) -> Roofline {
    let model = profiles::model(model).expect("in the catalogue");
    let gpu = profiles::gpu(gpu).expect("in the catalogue");
    Roofline::new(&model, &gpu, &options).unwrap()
}

fn sharing(tensor_parallel_size: u32, communication: Communication) -> RooflineOptions {
    RooflineOptions { tensor_parallel_size, communication, ..RooflineOptions::default() }
}

fn decode(seqs: u32, context: u32) -> StepShape {
    let mut shape = StepShape::default();
    (0..seqs).for_each(|_| shape.add_decode(context, 0));
    shape
}

fn prefill(tokens: u32) -> StepShape {
    let mut shape = StepShape::default();
    shape.add_prefill(tokens, 0, true);
    shape
}

fn ms(roofline: &Roofline, shape: &StepShape) -> f64 {
    roofline.step_duration(shape).as_millis_f64()
}

fn any_shape() -> impl Strategy<Value = StepShape> {
    let decodes = (0_u32..600, 0_u64..2_000_000, 0_u32..2000);
    let prefills = (0_u32..64, 0_u32..20_000, 0_u64..500_000, 0_u64..200_000_000);
    (decodes, prefills, 0_u32..512, proptest::option::of(0_u32..600)).prop_map(
        |(decodes, prefills, draft_tokens, cuda_graph)| StepShape {
            decode_seqs: decodes.0,
            decode_context_tokens: decodes.1,
            decode_context_max: decodes.2,
            prefill_seqs: prefills.0,
            prefill_tokens: prefills.1,
            prefill_context_tokens: prefills.2,
            prefill_attention: prefills.3,
            logit_rows: decodes.0 + prefills.0,
            draft_tokens,
            draft_context_tokens: u64::from(draft_tokens) * 3000,
            cuda_graph,
            ..StepShape::default()
        },
    )
}

/// The shape with one field larger.
fn grown(shape: &StepShape, field: usize, by: u32) -> StepShape {
    let mut shape = *shape;
    match field {
        0 => shape.decode_seqs += by,
        1 => shape.decode_context_tokens += u64::from(by),
        2 => shape.decode_context_max += by,
        3 => shape.prefill_seqs += by,
        4 => shape.prefill_tokens += by,
        5 => shape.prefill_context_tokens += u64::from(by),
        6 => shape.prefill_attention += u64::from(by) * 1000,
        7 => shape.logit_rows += by,
        8 => shape.draft_tokens += by,
        9 => shape.draft_context_tokens += 1000 * u64::from(by),
        _ => shape.cuda_graph = Some(shape.cuda_graph.unwrap_or(0) + by),
    }
    shape
}

const MODELS: [&str; 4] = ["Llama-3.1-8B", "Qwen3-30B-A3B", "DeepSeek-V3", "gpt-oss-120b"];

proptest! {
    #[test]
    fn a_decode_run_prices_each_step_as_on_its_own(
        decodes in any_decodes(), mixed in any_shape(), model in 0_usize..4, steps in 1_usize..50,
        factor in 0.1_f64..3.0,
    ) {
        let calibration = Calibration {
            decode_attention: factor,
            head: 0.9,
            per_sequence_us: factor,
            ..Calibration::default()
        };
        let options = RooflineOptions {
            sampler: Sampler::TopPTopK,
            calibration,
            ..sharing(1, Communication::Counted)
        };
        let law = StepTime::Roofline(roofline(MODELS[model], "H100", options));
        prices_as_on_their_own(&law, &decodes, steps)?;
        prices_as_on_their_own(&law, &mixed, steps)?;
    }

    #[test]
    fn a_larger_step_never_takes_less_time(
        shape in any_shape(), field in 0_usize..11, by in 1_u32..3000, model in 0_usize..4,
        spreads in any::<bool>(),
    ) {
        let whole = ExpertParallelConfig { size: Some(2), ..Default::default() };
        let options = RooflineOptions {
            sampler: Sampler::TopPTopK,
            expert_parallel: spreads.then_some(whole),
            calibration: Calibration {
                per_step_us: 100.0,
                per_sequence_us: 2.0,
                ..Calibration::default()
            },
            ..sharing(2, Communication::Counted)
        };
        let roofline = roofline(MODELS[model], "H100", options);
        let larger = grown(&shape, field, by);
        prop_assert!(roofline.step_duration(&shape) <= roofline.step_duration(&larger));
    }

    #[test]
    fn more_gpus_are_never_slower_when_talking_is_free(shape in any_shape(), model in 0_usize..4) {
        let secs = |tp| {
            let free = sharing(tp, Communication::Ignored);
            roofline(MODELS[model], "H100", free).step_duration(&shape)
        };
        prop_assert!(secs(2) <= secs(1));
        prop_assert!(secs(4) <= secs(2));
        prop_assert!(secs(8) <= secs(4));
    }

    #[test]
    fn no_step_beats_the_bandwidth_or_the_compute_of_the_gpu(shape in any_shape()) {
        let model = profiles::model("Llama-3.1-8B").expect("in the catalogue");
        let gpu = profiles::gpu("A100").expect("in the catalogue");
        let roofline = Roofline::new(&model, &gpu, &RooflineOptions::default()).unwrap();
        prop_assume!(shape.tokens() > 0 && shape.logit_rows > 0);
        let table = f64::from(model.vocab) * f64::from(model.hidden);
        let kv = model.kv_bytes_per_token(1, KvDtype::Auto) as f64;
        // The embedding table is looked up, biases and norms are not multiplied.
        let norms = 65.0 * f64::from(model.hidden);
        let layers = model.params_total() as f64 - 2.0 * table - norms;
        let bytes = 2.0 * (layers + table) + kv * shape.decode_context_tokens as f64;
        let flops = 2.0 * layers * f64::from(shape.tokens())
            + 2.0 * table * f64::from(shape.logit_rows)
            + f64::from(model.num_layers())
                * model.each_mixer().next().unwrap().prefill_flops_per_pair(1) as f64
                * shape.prefill_attention as f64;
        let secs = roofline.step_duration(&shape).as_secs_f64();
        prop_assert!(secs >= bytes / gpu.memory_bandwidth());
        prop_assert!(secs >= flops / (gpu.bf16_tflops * 1e12));
    }
}

#[test]
fn the_table_and_the_sum_agree_where_they_meet() {
    for model in MODELS {
        let roofline = roofline(model, "H100", sharing(8, Communication::Counted));
        let secs = |rows| {
            let parts = roofline.layers.parts(rows);
            parts.products + parts.experts + parts.elementwise + parts.all_reduce
        };
        let (last, next) = (secs(TABLE_ROWS), secs(TABLE_ROWS + 1));
        assert!(last <= next && next < last * 1.01, "{model}: {last} {next}");
    }
}

#[test]
fn experts_touched_grow_from_those_of_one_token_to_all() {
    let experts = Experts {
        count: 8.0,
        idle_share: 0.75,
        spread: Spread::NONE,
        product: Product { read: 1.0, read_row: 0.0, multiply_row: 0.0, fixed: 0.0 },
    };
    // 8·(1 − 0.75) = 2 for one token of two experts; 8·(1 − 0.75²) = 3.5 for two tokens.
    assert!((experts.touched(1) - 2.0).abs() < 1e-12);
    assert!((experts.touched(2) - 3.5).abs() < 1e-12);
    assert!((experts.touched(10_000) - 8.0).abs() < 1e-12);
}

#[test]
fn a_padded_batch_costs_what_its_graph_costs() {
    let roofline = roofline("Llama-3.1-8B", "H100", RooflineOptions::default());
    let padded = StepShape { cuda_graph: Some(256), ..decode(250, 0) };
    let full = StepShape { logit_rows: 250, ..decode(256, 0) };
    assert_eq!(roofline.step_duration(&padded), roofline.step_duration(&full));
}

#[test]
fn what_stands_in_for_measurements_is_said() {
    let a10 = roofline("Qwen2.5-7B-Instruct-GPTQ-Int4", "A10", RooflineOptions::default());
    assert!(a10.provenance().contains("kernels of L40S stand in"), "{}", a10.provenance());
    let gpt = roofline("gpt-oss-20b", "H100", RooflineOptions::default());
    assert!(gpt.provenance().contains("window of 128 tokens in 12 layers"), "{}", gpt.provenance());
}

#[test]
fn layers_with_a_window_read_what_lies_in_it() {
    let model = profiles::model("gpt-oss-120b").expect("in the catalogue");
    let gpu = profiles::gpu("H200").expect("in the catalogue");
    let attention = |layers, shape: &StepShape| {
        let model = model.seeing_all().with_windows(128, layers);
        let roofline = Roofline::new(&model, &gpu, &RooflineOptions::default()).unwrap();
        roofline.parts(shape).decode_attention
    };
    let per_context =
        |layers| attention(layers, &decode(8, 6000)) - attention(layers, &decode(8, 5000));
    // Half of 36 layers go on reading; with a window everywhere, none does.
    assert!((per_context(18) / per_context(0) - 0.5).abs() < 1e-9);
    assert!(per_context(36).abs() < 1e-15);
    // What is shorter than the window is read whole.
    let (all, none) = (attention(36, &decode(8, 100)), attention(0, &decode(8, 100)));
    assert!((all / none - 1.0).abs() < 1e-12);
}

#[test]
fn prompts_of_a_step_are_cut_to_the_window_one_by_one() {
    let roofline = roofline("gpt-oss-120b", "H200", RooflineOptions::default());
    let attention = |prompts: &[(u32, u32)]| {
        let mut shape = StepShape::seeing(roofline.prefill_window());
        for (new, cached) in prompts {
            shape.add_prefill(*new, *cached, true);
        }
        roofline.parts(&shape).prefill_attention
    };
    let (chunk, prompt) = ((1000, 7000), (200, 0));
    let apart = attention(&[chunk]) + attention(&[prompt]);
    assert!((attention(&[chunk, prompt]) / apart - 1.0).abs() < 1e-3);
}

#[test]
fn tensor_parallelism_stays_in_its_node() {
    let model = profiles::model("Llama-3.1-405B").expect("in the catalogue");
    let gpu = profiles::gpu("H100").expect("in the catalogue");
    let error = Roofline::new(&model, &gpu, &sharing(16, Communication::Counted)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor parallel size on H100-SXM5-80GB must be at most 8 (one node), got 16"
    );
}

/// vLLM on one A10 with RDMA between prefill and decode instances (Mooncake's published runs):
/// medians of TPOT at one or two sequences, and of TTFT, which adds transfer and queueing. Nothing
/// was fitted to them, and the A10's kernels are borrowed, so the tolerances are wide.
#[test]
fn steps_on_an_a10_are_near_measured_ones() {
    let a10 = roofline("Qwen2.5-7B-Instruct-GPTQ-Int4", "A10", RooflineOptions::default());
    for (shape, measured_ms, tolerance) in [
        (decode(1, 256), 11.5, 0.05),
        (decode(2, 256), 12.2, 0.10),
        (prefill(250), 45.0, 0.12),
        (prefill(1024), 255.0, 0.28),
    ] {
        let error = ms(&a10, &shape) / measured_ms - 1.0;
        assert!(error.abs() < tolerance, "{shape:?}: {:+.1} %", 100.0 * error);
    }
}

#[test]
fn the_rate_of_multiplications_counts_where_they_take_longer_than_reading() {
    let calibrated = |products_compute| {
        let calibration = Calibration { products_compute, ..Calibration::default() };
        let options = RooflineOptions { calibration, ..RooflineOptions::default() };
        roofline("Llama-3.1-8B", "H100", options)
    };
    let parts = |factor, shape: &StepShape| calibrated(factor).parts(shape);
    let (small, large) = (decode(1, 100), prefill(8000));
    assert_eq!(parts(2.0, &small), parts(1.0, &small));
    let ratio = parts(2.0, &large).products / parts(1.0, &large).products;
    assert!((1.9..2.0).contains(&ratio), "{ratio}");
    // Nothing but the products of the layers.
    let [slow, rated] = [2.0, 1.0].map(|factor| parts(factor, &large));
    assert_eq!(StepParts { products: 0.0, ..slow }, StepParts { products: 0.0, ..rated });
}

#[test]
fn the_rate_of_multiplications_of_experts_counts_where_they_take_longer_than_reading() {
    let parts = |experts_compute, shape: &StepShape| {
        let calibration = Calibration { experts_compute, ..Calibration::default() };
        let options = RooflineOptions { calibration, ..RooflineOptions::default() };
        roofline("Qwen/Qwen3-30B-A3B", "H100", options).parts(shape)
    };
    let (small, large) = (decode(1, 100), prefill(32_000));
    assert_eq!(parts(2.0, &small), parts(1.0, &small));
    let [slow, rated] = [2.0, 1.0].map(|factor| parts(factor, &large));
    let ratio = slow.experts / rated.experts;
    assert!((1.8..2.0).contains(&ratio), "{ratio}");
    assert_eq!(StepParts { experts: 0.0, ..slow }, StepParts { experts: 0.0, ..rated });
}
