//! Steps worked out by hand, laws, and the shipped profiles.

use proptest::prelude::*;

use super::*;
use crate::cost::StepTime;
use crate::cost::decode_run::tests::{any_decodes, prices_as_on_their_own};
use crate::profiles;

/// Llama-2-70B with made-up times: one prompt 10 ms and 0.1 ms per token, 20 % more side by side;
/// decode 20 ms and 1 ms per sequence, 1 us per token of context.
const MADE_UP: &str = r#"
source = "made up"
licence = "none"
measured = "2026-11-22"
gpu = "H100-SXM5-80GB"
model = "meta-llama/Llama-2-70b-hf"
dtype = "float16"
tensor_parallel_size = 4
engine = "none"
engine_version = "1"
[one_prompt]
tokens = "100 500 1000"
us = "20000 60000 110000"
[prompts]
prompt_tokens = 500
prompts = "2 4"
us = "132000 264000"
[decode]
context = 600
sequences = "1 11"
us = "21000 31000"
[decode_context]
context = "100 1100"
us = "20500 21500"
"#;

const OPTIONS: StepTableOptions =
    StepTableOptions { tensor_parallel_size: 4, kv_cache_dtype: KvDtype::Auto };

fn table() -> StepTable {
    let profile = StepProfile::parse(MADE_UP).expect("a profile");
    let model = profiles::model("llama2-70b").expect("a model of the catalogue");
    StepTable::new(&profile, &model, &OPTIONS).expect("the profile of this model")
}

fn prompts(count: u32, tokens: u32, cached: u32) -> StepShape {
    let mut shape = StepShape::default();
    (0..count).for_each(|_| shape.add_prefill(tokens, cached, true));
    shape
}

fn decodes(sequences: u32, context: u32) -> StepShape {
    let mut shape = StepShape::default();
    (0..sequences).for_each(|_| shape.add_decode(context, 0));
    shape
}

fn both(a: &StepShape, b: &StepShape) -> StepShape {
    StepShape {
        decode_seqs: b.decode_seqs,
        decode_context_tokens: b.decode_context_tokens,
        decode_context_max: b.decode_context_max,
        logit_rows: a.logit_rows + b.logit_rows,
        ..*a
    }
}

fn ms(shape: &StepShape) -> f64 {
    table().step_duration(shape).as_millis_f64()
}

#[test]
fn steps_as_measured_take_the_measured_time() {
    let close = |shape: &StepShape, expected: f64| {
        assert!((ms(shape) - expected).abs() < 1e-6, "{shape:?}: {} {expected}", ms(shape));
    };
    close(&prompts(1, 100, 0), 20.0);
    close(&prompts(1, 500, 0), 60.0);
    close(&prompts(2, 500, 0), 132.0);
    close(&prompts(4, 500, 0), 264.0);
    close(&decodes(1, 600), 21.0);
    close(&decodes(11, 600), 31.0);
    // Between: 10 + 75 ms; 20 + 6 ms and 6·400 tokens more at 1 us.
    close(&prompts(1, 750, 0), 85.0);
    close(&decodes(6, 1000), 26.0 + 2.4);
    // 1000 tokens are 110 ms in one prompt and 132 ms in two of 500; 300 + 700 have 500 in the mean.
    let mut unequal = prompts(1, 300, 0);
    unequal.add_prefill(700, 0, true);
    close(&unequal, 132.0);
    // Three of 600: a mean of 600 lies 100/1300 of the way from 500 to all 1800 in one prompt.
    let together = 132.0 + 0.8 * (264.0 - 132.0);
    close(&prompts(3, 600, 0), together + (190.0 - together) / 13.0);
}

#[test]
fn a_step_that_does_both_pays_for_reading_the_weights_once() {
    let (prompt, decode) = (prompts(1, 500, 0), decodes(6, 600));
    // 60 ms, and of the 26 ms what six sequences take longer than one.
    assert!((ms(&both(&prompt, &decode)) - 65.0).abs() < 1e-6);
    assert_eq!(table().coverage(&both(&prompt, &decode)), Coverage::Extrapolated);
}

#[test]
fn what_was_not_measured_is_said() {
    let is_covered = |shape: &StepShape| table().coverage(shape) == Coverage::Interpolated;
    assert!(is_covered(&prompts(1, 1000, 0)) && is_covered(&prompts(4, 500, 0)));
    // Several at 600 in the mean, behind prompts of 500.
    assert!(is_covered(&decodes(11, 700)) && is_covered(&decodes(1, 1100)));
    for beyond in [
        prompts(1, 1001, 0),
        prompts(1, 99, 0),
        prompts(1, 500, 16),
        prompts(5, 500, 0),
        prompts(2, 600, 0),
        decodes(12, 600),
        decodes(1, 1101),
        decodes(2, 701),
    ] {
        assert!(!is_covered(&beyond), "{beyond:?}");
    }
}

proptest! {
    #[test]
    fn steps_of_a_decode_run_cost_what_each_costs_on_its_own(first in any_decodes()) {
        prices_as_on_their_own(&StepTime::StepTable(table()), &first, 40)?;
    }

    #[test]
    fn more_work_never_takes_less_time(
        seqs in 1_u32..80, context in 0_u32..9000, tokens in 1_u32..9000, cached in 0_u32..9000,
    ) {
        let at_least = |more: &StepShape, less: &StepShape| {
            let (more, less) = (table().step_duration(more), table().step_duration(less));
            prop_assert!(more >= less, "{more} {less}");
            Ok(())
        };
        at_least(&decodes(seqs + 1, context), &decodes(seqs, context))?;
        at_least(&decodes(seqs, context + 1), &decodes(seqs, context))?;
        at_least(&prompts(1, tokens + 1, 0), &prompts(1, tokens, 0))?;
        at_least(&prompts(1, tokens, cached), &prompts(1, tokens, 0))?;
        let mixed = both(&prompts(1, tokens, cached), &decodes(seqs, context));
        at_least(&mixed, &prompts(1, tokens, cached))?;
    }

    #[test]
    fn chunks_of_a_prompt_take_at_least_what_the_whole_takes(
        first in 1_u32..2000, second in 1_u32..2000,
    ) {
        let chunks = ms(&prompts(1, first, 0)) + ms(&prompts(1, second, first));
        prop_assert!(chunks > ms(&prompts(1, first + second, 0)) - 1e-5);
    }
}

#[test]
fn another_model_size_or_cache_is_refused() {
    let profile = StepProfile::parse(MADE_UP).expect("a profile");
    let model = |name: &str| profiles::model(name).expect("a model of the catalogue");
    let refused = |name: &str, options: StepTableOptions| {
        StepTable::new(&profile, &model(name), &options).expect_err("another").to_string()
    };
    let other = refused("llama-3.1-70b", OPTIONS);
    assert!(other.contains("the profile has model meta-llama/Llama-2-70b-hf"), "{other}");
    let other = refused("llama2-70b", StepTableOptions { tensor_parallel_size: 2, ..OPTIONS });
    assert!(other.contains("tensor_parallel_size 4, the scenario 2"), "{other}");
    let other = refused("llama2-70b", StepTableOptions { kv_cache_dtype: KvDtype::Fp8, ..OPTIONS });
    assert!(other.contains("kv_cache_dtype"), "{other}");
}

#[test]
fn broken_tables_are_refused_by_name() {
    let broken = |good: &str, bad: &str| {
        let text = MADE_UP.replace(good, bad);
        assert_ne!(text, MADE_UP);
        StepProfile::parse(&text).expect_err("broken").to_string()
    };
    let error = broken("20000 60000 110000", "20000 60000");
    assert_eq!(error, "one_prompt.us: must hold 3 times above 0, got 2");
    let error = broken("21000 31000", "21000 0");
    assert_eq!(error, "decode.us: must hold 2 times above 0, got 1");
    let error = broken("prompts = \"2 4\"", "prompts = \"1 4\"");
    assert_eq!(error, "prompts.prompts: must be at least 1 increasing numbers from 2 on");
    assert_eq!(broken("context = 600", "context = 0"), "decode.context: must be at least 1, got 0");
    assert!(broken("[decode]", "[decoding]").contains("decoding"));
}

#[test]
fn every_shipped_profile_is_what_its_name_says() {
    for file in profiles::step_tables() {
        let profile = StepProfile::parse(file.text).expect(file.name);
        assert_eq!((profile.gpu.as_str(), profile.model.as_str()), (file.gpu, file.model));
        assert_eq!(profile.tensor_parallel_size, file.tensor_parallel_size, "{}", file.name);
        let short = file.model.rsplit('/').next().unwrap_or_default();
        let name =
            format!("{}/{short}-{}-tp{}", file.gpu, profile.dtype, file.tensor_parallel_size);
        assert_eq!(name.to_lowercase(), file.name);
        let model = profiles::model(file.model).expect("a model of the catalogue");
        let options = StepTableOptions {
            tensor_parallel_size: file.tensor_parallel_size,
            kv_cache_dtype: KvDtype::Auto,
        };
        StepTable::new(&profile, &model, &options).expect(file.name);
        assert!(profiles::gpu(file.gpu).is_some_and(|gpu| gpu.name == file.gpu));
    }
}
