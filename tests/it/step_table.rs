//! Step tables against the runs that they were made from (splitwise-sim, MIT): points left out, and
//! runs that no point comes from.

use std::path::Path;

use serde::Deserialize;
use servecast::cost::{CostModel, Numbers, StepProfile, StepShape, StepTable, StepTableOptions};
use servecast::io::import::{SplitwiseSelection, import_steps};
use servecast::model::KvDtype;
use servecast::profiles;

use crate::support::data;

const OF: [(&str, &str, u32); 8] = [
    ("bloom-176b", "a100-80gb", 8),
    ("bloom-176b", "h100-80gb", 8),
    ("llama2-70b", "a100-80gb", 2),
    ("llama2-70b", "a100-80gb", 4),
    ("llama2-70b", "a100-80gb", 8),
    ("llama2-70b", "h100-80gb", 2),
    ("llama2-70b", "h100-80gb", 4),
    ("llama2-70b", "h100-80gb", 8),
];

#[derive(Debug, Deserialize)]
struct Run {
    model: String,
    hardware: String,
    prompt_size: u32,
    batch_size: u32,
    token_size: u32,
    prompt_time: f64,
    token_time: f64,
    e2e_time: f64,
    tensor_parallel: u32,
}

impl Run {
    /// Tokens that were really decoded: some answers ended early.
    fn decoded(&self) -> f64 {
        (self.e2e_time - self.prompt_time) / self.token_time
    }

    fn is_one_batch(&self) -> bool {
        self.decoded() < 1.06 * f64::from(self.token_size)
    }
}

fn table(profile: &StepProfile) -> StepTable {
    let model = profiles::model(&profile.model).expect("a model of the catalogue");
    let options = StepTableOptions {
        tensor_parallel_size: profile.tensor_parallel_size,
        kv_cache_dtype: KvDtype::Auto,
    };
    StepTable::new(profile, &model, &options).expect("the profile of this model")
}

fn prefill_us(table: &StepTable, prompts: u32, tokens: u32) -> f64 {
    let mut shape = StepShape::default();
    (0..prompts).for_each(|_| shape.add_prefill(tokens, 0, true));
    table.step_duration(&shape).as_secs_f64() * 1e6
}

fn decode_us(table: &StepTable, sequences: u32, context: u32) -> f64 {
    let mut shape = StepShape::default();
    (0..sequences).for_each(|_| shape.add_decode(context, 0));
    table.step_duration(&shape).as_secs_f64() * 1e6
}

/// Errors without sign: of prefill, of decode.
#[derive(Debug, Default)]
struct Errors([Vec<f64>; 2]);

impl Errors {
    fn push(&mut self, kind: usize, simulated: f64, measured: f64) {
        self.0[kind].push((simulated / measured - 1.0).abs() * 100.0);
    }

    /// Mean and largest, in percent, of a kind.
    fn of(&self, kind: usize) -> [f64; 2] {
        let errors = &self.0[kind];
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        [mean, errors.iter().copied().fold(0.0, f64::max)]
    }

    fn print(&self, title: &str) {
        for (kind, name) in ["prefill", "decode"].into_iter().enumerate() {
            let [mean, most] = self.of(kind);
            let count = self.0[kind].len();
            println!("  {title:<34}{name:<8}{count:>5}: mean {mean:5.2} %, largest {most:5.1} %");
        }
    }
}

fn without(numbers: &Numbers, index: usize) -> Numbers {
    let mut left = numbers.0.clone();
    left.remove(index);
    Numbers(left)
}

/// Prices every inner point of every axis by the table without it.
fn leave_one_out(profile: &StepProfile, errors: &mut Errors) {
    let inner = |numbers: &Numbers| 1..numbers.len() - 1;
    for index in inner(&profile.one_prompt.tokens) {
        let mut less = profile.clone();
        less.one_prompt.tokens = without(&profile.one_prompt.tokens, index);
        less.one_prompt.us = without(&profile.one_prompt.us, index);
        let tokens = profile.one_prompt.tokens[index] as u32;
        errors.push(0, prefill_us(&table(&less), 1, tokens), profile.one_prompt.us[index] as f64);
    }
    // Before the first number of prompts there is one prompt.
    for index in 0..profile.prompts.prompts.len() - 1 {
        let mut less = profile.clone();
        less.prompts.prompts = without(&profile.prompts.prompts, index);
        less.prompts.us = without(&profile.prompts.us, index);
        let (count, each) = (profile.prompts.prompts[index] as u32, profile.prompts.prompt_tokens);
        errors.push(0, prefill_us(&table(&less), count, each), profile.prompts.us[index] as f64);
    }
    for index in inner(&profile.decode.sequences) {
        let mut less = profile.clone();
        less.decode.sequences = without(&profile.decode.sequences, index);
        less.decode.us = without(&profile.decode.us, index);
        let (seqs, context) = (profile.decode.sequences[index] as u32, profile.decode.context);
        errors.push(1, decode_us(&table(&less), seqs, context), profile.decode.us[index] as f64);
    }
    for index in inner(&profile.decode_context.context) {
        let mut less = profile.clone();
        less.decode_context.context = without(&profile.decode_context.context, index);
        less.decode_context.us = without(&profile.decode_context.us, index);
        let context = profile.decode_context.context[index] as u32;
        let measured = profile.decode_context.us[index] as f64;
        errors.push(1, decode_us(&table(&less), 1, context), measured);
    }
}

fn runs(path: &Path) -> Vec<Run> {
    let rows = csv::Reader::from_path(path).expect("the table").into_deserialize();
    rows.collect::<Result<_, _>>().expect("good rows")
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn points_left_out_and_runs_held_out_are_predicted() {
    let data = data();
    let path = data.join("op-tables/splitwise/perf_model.csv");
    let runs = runs(&path);
    let [mut left_out, mut seen, mut held_out] = [(); 3].map(|()| Errors::default());
    for (model, hardware, tp) in OF {
        let selection = SplitwiseSelection { model, hardware, tensor_parallel_size: tp };
        let (profile, _) = import_steps(&path, &selection).expect("a profile");
        leave_one_out(&profile, &mut left_out);
        let table = table(&profile);
        let of_this = |run: &&Run| {
            (run.model.as_str(), run.hardware.as_str(), run.tensor_parallel)
                == (model, hardware, tp)
        };
        for run in runs.iter().filter(of_this).filter(|run| run.is_one_batch()) {
            // The points are of runs with 128 tokens of output.
            let errors = if run.token_size == 128 { &mut seen } else { &mut held_out };
            let prefill = prefill_us(&table, run.batch_size, run.prompt_size);
            errors.push(0, prefill, run.prompt_time * 1e3);
            let context = run.prompt_size + (run.decoded() / 2.0) as u32;
            let decode = decode_us(&table, run.batch_size, context);
            errors.push(1, decode, run.token_time * 1e3);
        }
    }
    println!("step tables of 8 models and GPUs against runs of splitwise-sim");
    seen.print("runs that points are medians of");
    held_out.print("runs with other outputs");
    left_out.print("points left out");
    let means = |errors: &Errors| [errors.of(0)[0], errors.of(1)[0]];
    let within = |errors: &Errors, limits: [f64; 2]| {
        let means = means(errors);
        assert!(means[0] <= limits[0] && means[1] <= limits[1], "{means:?} {limits:?}");
    };
    within(&seen, [2.0, 1.2]);
    within(&held_out, [2.1, 3.0]);
    within(&left_out, [8.5, 2.0]);
}
