//! splitwise-sim's table of measured runs, `data/perf_model.csv` (Mutinifni/splitwise-sim, MIT): batches
//! of equal prompts, prefilled in one step and decoded together, by model, GPU and tensor parallel size.
//!
//! Kept are the medians over repeated runs: of one prompt by its length, and of several prompts of one
//! length by their number. Runs that took longer than one step of prefill and their steps of decode
//! did not fit in memory at once; they are left out.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::raw::ImportError;
use crate::cost::{
    DecodeContextProfile, DecodeProfile, Numbers, OnePromptProfile, PromptsProfile, StepProfile,
};
use crate::io::text;
use crate::plain::shown;
use crate::profiles;

/// Share by which a run may take longer than its steps. In the published table runs of one batch
/// stay within 0.02, and those of several take 0.17 more or a multiple.
const OVERTIME: f64 = 0.05;

/// Which runs of the table, by the words of its columns.
#[derive(Debug, Clone, Copy)]
pub struct SplitwiseSelection<'a> {
    /// `model`: `llama2-70b`.
    pub model: &'a str,
    /// `hardware`: `h100-80gb`.
    pub hardware: &'a str,
    /// `tensor_parallel`.
    pub tensor_parallel_size: u32,
}

/// What was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitwiseRuns {
    /// Runs of this model, GPU and tensor parallel size.
    pub runs: usize,
    /// Those that a point of the profile is the median of.
    pub used: usize,
    /// Those that did not run as one batch.
    pub in_parts: usize,
}

/// No sequence is as long; sums of two such counts are still counts.
const TOKENS_MAX: u32 = 1_000_000_000;

#[derive(Debug, Clone, Deserialize)]
struct Row {
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

impl Row {
    fn is_in_parts(&self) -> bool {
        let decode = f64::from(self.token_size.saturating_sub(1)) * self.token_time;
        self.e2e_time > (1.0 + OVERTIME) * (self.prompt_time + decode)
    }

    /// Mean context of the steps that decode.
    fn context(&self) -> u32 {
        self.prompt_size + self.token_size / 2
    }
}

/// Reads the runs of one model on one GPU.
///
/// # Errors
/// When the table cannot be read, holds no such runs or too few of them, or when the model or GPU is
/// not in the catalogue.
pub fn import_steps(
    path: &Path,
    selection: &SplitwiseSelection<'_>,
) -> Result<(StepProfile, SplitwiseRuns), ImportError> {
    let rows = rows(path)?;
    let fail = |problem: String| ImportError::read(path, problem);
    let is_asked = |row: &&Row| {
        row.model.eq_ignore_ascii_case(selection.model)
            && row.hardware.eq_ignore_ascii_case(selection.hardware)
            && row.tensor_parallel == selection.tensor_parallel_size
    };
    let asked: Vec<&Row> = rows.iter().filter(is_asked).collect();
    if asked.is_empty() {
        return Err(fail(format!(
            "has no run of {} on {} with tensor_parallel {}; it has {}",
            selection.model,
            selection.hardware,
            selection.tensor_parallel_size,
            combinations(&rows)
        )));
    }
    let gpu = profiles::gpu(selection.hardware).ok_or_else(|| {
        fail(format!("hardware: `{}` is not in the catalogue of GPUs", selection.hardware))
    })?;
    let model = profiles::model(selection.model).ok_or_else(|| {
        fail(format!("model: `{}` is not in the catalogue of models", selection.model))
    })?;
    let whole: Vec<&Row> = asked.iter().copied().filter(|row| !row.is_in_parts()).collect();
    let (length, outputs) = shape_of_batches(&whole).ok_or_else(|| {
        fail("has no run of several prompts at once: batch_size is 1 in all".to_owned())
    })?;
    let alone = |row: &&Row| row.batch_size == 1 && row.token_size == outputs;
    let batch = |row: &&Row| row.prompt_size == length && row.token_size == outputs;
    let single: Vec<&Row> = whole.iter().copied().filter(alone).collect();
    let batches: Vec<&Row> = whole.iter().copied().filter(batch).collect();
    let several = batches.iter().copied().filter(|row| row.batch_size > 1);
    let (tokens, prompt_us) = medians(single.iter().copied(), |r| (r.prompt_size, r.prompt_time));
    let (prompts, prompts_us) = medians(several, |r| (r.batch_size, r.prompt_time));
    let (sequences, us) = medians(batches.iter().copied(), |r| (r.batch_size, r.token_time));
    let (context, context_us) = medians(single.iter().copied(), |r| (r.context(), r.token_time));
    let profile = StepProfile {
        source: "splitwise-sim data/perf_model.csv".to_owned(),
        licence: "MIT".to_owned(),
        measured: "unstated, published 2024-04-25".to_owned(),
        gpu: gpu.name,
        model: model.name,
        dtype: "float16".to_owned(),
        tensor_parallel_size: selection.tensor_parallel_size,
        engine: "unstated".to_owned(),
        engine_version: "unstated".to_owned(),
        one_prompt: OnePromptProfile { tokens, us: prompt_us },
        prompts: PromptsProfile { prompt_tokens: length, prompts, us: prompts_us },
        decode: DecodeProfile { context: length + outputs / 2, sequences, us },
        decode_context: DecodeContextProfile { context, us: context_us },
    };
    // What was read may still not make a profile.
    let profile =
        StepProfile::parse(&profile.to_toml()).map_err(|error| fail(error.to_string()))?;
    let used = whole.iter().filter(|row| alone(row) || batch(row)).count();
    let kept = SplitwiseRuns { runs: asked.len(), used, in_parts: asked.len() - whole.len() };
    Ok((profile, kept))
}

fn rows(path: &Path) -> Result<Vec<Row>, ImportError> {
    let fail = |problem: String| ImportError::read(path, problem);
    if path.is_dir() {
        return Err(fail(
            "is a folder; the table is data/perf_model.csv of splitwise-sim".to_owned(),
        ));
    }
    let text = text::whole(path, text::RESULTS_MIB_MAX).map_err(|error| fail(error.to_string()))?;
    let mut rows = Vec::new();
    for row in csv::Reader::from_reader(text.as_bytes()).into_deserialize() {
        let row: Row = row.map_err(|error| fail(error.to_string()))?;
        for (column, ms) in [
            ("prompt_time", row.prompt_time),
            ("token_time", row.token_time),
            ("e2e_time", row.e2e_time),
        ] {
            if !(ms.is_finite() && ms > 0.0) {
                let line = rows.len() + 2;
                let got = shown(ms);
                return Err(fail(format!("line {line}: {column} must be a time in ms, got {got}")));
            }
        }
        for (column, count) in [("prompt_size", row.prompt_size), ("token_size", row.token_size)] {
            if count > TOKENS_MAX {
                let line = rows.len() + 2;
                let rule = format!("{column} must be at most {TOKENS_MAX} tokens, got {count}");
                return Err(fail(format!("line {line}: {rule}")));
            }
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(fail("holds no rows".to_owned()));
    }
    Ok(rows)
}

fn combinations(rows: &[Row]) -> String {
    let names = rows.iter().map(|r| (&r.model, &r.hardware, r.tensor_parallel));
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    let names = names.iter().map(|(model, gpu, tp)| format!("{model} on {gpu} with {tp}"));
    names.collect::<Vec<_>>().join(", ")
}

/// Prompt and output tokens of the runs of several prompts: the pair with the most batch sizes.
fn shape_of_batches(rows: &[&Row]) -> Option<(u32, u32)> {
    let mut sizes: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.batch_size > 1) {
        let known = sizes.entry((row.prompt_size, row.token_size)).or_default();
        if !known.contains(&row.batch_size) {
            known.push(row.batch_size);
        }
    }
    sizes.into_iter().max_by_key(|(_, sizes)| sizes.len()).map(|(shape, _)| shape)
}

/// Medians in µs, by what the runs differ in.
fn medians<'a>(
    rows: impl Iterator<Item = &'a Row>,
    of: fn(&Row) -> (u32, f64),
) -> (Numbers, Numbers) {
    let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (key, ms) in rows.map(of) {
        groups.entry(key).or_default().push(ms);
    }
    let keys = groups.keys().map(|key| u64::from(*key)).collect();
    let us = groups.into_values().map(|mut ms| {
        ms.sort_unstable_by(f64::total_cmp);
        let middle = ms.len() / 2;
        let median =
            if ms.len() % 2 == 1 { ms[middle] } else { f64::midpoint(ms[middle - 1], ms[middle]) };
        (1e3 * median).round() as u64
    });
    (Numbers(keys), Numbers(us.collect()))
}
