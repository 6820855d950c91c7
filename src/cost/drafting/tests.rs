//! What drafts take, against what the same kernels take in a step of the model.

use proptest::prelude::*;

use super::*;
use crate::cost::{CapturedSizes, Roofline};
use crate::model::layout::Machine;
use crate::model::{DraftHead, Generation, KvDtype, ModelSpec};
use crate::profiles;

const MACHINE: Machine = Machine {
    generation: Generation::Hopper,
    tp: 1,
    kv_cache_dtype: KvDtype::Auto,
    draft_tokens: 3,
};

fn llama() -> ModelSpec {
    profiles::model("meta-llama/Llama-3.1-8B").expect("in the catalogue")
}

fn priced(drafter: &Drafter, passes: u32, graphs: CudaGraphs) -> Drafting {
    let gpu = profiles::gpu("H100").expect("in the catalogue");
    let options = RooflineOptions::default();
    let layers = StepTime::Roofline(Roofline::new(&drafter.model, &gpu, &options).unwrap());
    let launches = (graphs, SimDuration::from_micros(100));
    let passes = DraftPasses::new(drafter, (layers, passes), &gpu, &options, launches).unwrap();
    Drafting::Passes(Box::new(passes))
}

fn head(passes: u32) -> Drafting {
    let drafter = Drafter::of_head(&llama(), DraftHead::Eagle, None, MACHINE).unwrap();
    priced(&drafter, passes, CudaGraphs::default())
}

fn decode(seqs: u32, drafts: u32) -> StepShape {
    let mut shape = StepShape::default();
    (0..seqs).for_each(|_| shape.add_decode(1000, drafts));
    shape
}

#[test]
fn a_model_that_drafts_takes_its_own_steps_one_after_the_other() {
    let small = profiles::model("meta-llama/Llama-3.2-1B").expect("in the catalogue");
    let gpu = profiles::gpu("H100").expect("in the catalogue");
    let alone = Roofline::new(&small, &gpu, &RooflineOptions::default()).unwrap();
    let drafter = Drafter::of_model(&llama(), small, MACHINE).unwrap();
    let drafts = priced(&drafter, 3, CudaGraphs::default()).time(&decode(8, 3));
    // 8 sequences of 1000 tokens verify 3 drafts: 32 rows, with a head for 8. The passes behind it have 8 rows over
    // contexts of 1001 and 1002 tokens.
    let first = StepShape { logit_rows: 8, ..decode(8, 3) };
    let second =
        StepShape { decode_context_tokens: 8008, decode_context_max: 1001, ..decode(8, 0) };
    let third = StepShape { decode_context_tokens: 8016, decode_context_max: 1002, ..decode(8, 0) };
    let steps = [first, second, third].map(|shape| alone.step_duration(&shape));
    assert_eq!(drafts.device, steps.into_iter().fold(SimDuration::ZERO, |a, b| a + b));
    assert_eq!(drafts.launches, SimDuration::from_micros(300));
}

#[test]
fn a_pass_that_a_graph_covers_is_launched_with_it() {
    let drafter = Drafter::of_head(&llama(), DraftHead::Eagle, None, MACHINE).unwrap();
    let graphs = CudaGraphs::new(CapturedSizes::new([8]), CapturedSizes::default());
    let drafting = priced(&drafter, 3, graphs);
    // The first pass replays a graph where the step does.
    let eager = drafting.time(&decode(4, 3));
    assert_eq!(eager.launches, SimDuration::from_micros(100));
    let replayed = drafting.time(&StepShape { cuda_graph: Some(16), ..decode(4, 3) });
    assert_eq!(replayed.launches, SimDuration::ZERO);
}

/// SGLang's step that decodes makes its drafts before it verifies them: two passes of 8 rows over contexts of 1000 and
/// 1001 tokens, and behind it one over all 32 rows. A step that prefills has that last one alone.
#[test]
fn drafts_ahead_of_verification_are_those_of_sequences_that_decode() {
    let small = profiles::model("meta-llama/Llama-3.2-1B").expect("in the catalogue");
    let gpu = profiles::gpu("H100").expect("in the catalogue");
    let alone = Roofline::new(&small, &gpu, &RooflineOptions::default()).unwrap();
    let drafter = Drafter::of_model(&llama(), small, MACHINE).unwrap();
    let Drafting::Passes(passes) = priced(&drafter, 3, CudaGraphs::default()) else { panic!() };
    let drafting = Drafting::Passes(Box::new(passes.ahead_of_verification()));
    let extend = StepShape { logit_rows: 8, ..decode(8, 3) };
    let second =
        StepShape { decode_context_tokens: 8008, decode_context_max: 1001, ..decode(8, 0) };
    let steps = [extend, decode(8, 0), second].map(|shape| alone.step_duration(&shape));
    let drafts = drafting.time(&decode(8, 3));
    assert_eq!(drafts.device, steps.into_iter().fold(SimDuration::ZERO, |a, b| a + b));
    assert_eq!(drafts.launches, SimDuration::from_micros(300));
    let mut prompts = StepShape::default();
    prompts.add_prefill(500, 0, true);
    let drafts = drafting.time(&prompts);
    assert_eq!(drafts.device, alone.step_duration(&prompts));
    assert_eq!(drafts.launches, SimDuration::from_micros(100));
}

#[test]
fn look_ups_take_the_host_its_time_for_each_sequence() {
    let drafting = Drafting::LookUps(SimDuration::from_micros(20));
    let time = drafting.time(&decode(6, 2));
    let host = SimDuration::from_micros(120);
    assert_eq!(time, DraftTime { host, ..DraftTime::default() });
}

proptest! {
    #[test]
    fn more_drafts_take_longer(seqs in 0_u32..300, prompt in 0_u32..4000, passes in 1_u32..6) {
        let mut shape = decode(seqs, passes);
        if prompt > 0 {
            shape.add_prefill(prompt, 0, true);
        }
        let (fewer, more) = (head(passes).time(&shape), head(passes + 1).time(&shape));
        if shape.tokens() == 0 {
            prop_assert_eq!(more, DraftTime::default());
        } else {
            prop_assert!(fewer.device > SimDuration::ZERO);
            prop_assert!(more.device > fewer.device && more.launches > fewer.launches);
        }
    }
}
