//! `attention.csv`: prefills of one sequence, whole or in chunks, and decodes of sequences of equal
//! context.

use std::collections::BTreeMap;
use std::path::Path;

use super::table::{Row, Rows as Table};
use crate::io::import::error::LayerImportError;
use crate::io::import::llmservingsim::{Measured, Slice};
use crate::model::ModelSpec;

/// µs by context.
type Line = BTreeMap<u64, f64>;
/// Lines by tokens that prefill, or by sequences that decode.
type Lines = BTreeMap<u64, Line>;

/// How far apart points of the grid are at least: four to an octave. Tables have thousands.
const SPACING: f64 = 1.19;

pub(super) fn read(path: &Path, model: &ModelSpec, tp: u32) -> Result<Measured, LayerImportError> {
    let table = Table::read(path)?;
    let (mut prefills, mut decodes): (Lines, Lines) = Default::default();
    let mut backend = None;
    for row in table.with("num_tensor_parallel_workers", tp)? {
        row.check_shape(model, "n_q_head")?;
        if table.has("attention_backend") {
            let found = row.word("attention_backend")?.to_owned();
            let first = backend.get_or_insert_with(|| found.clone());
            if *first != found {
                let problem = format!("attention_backend: must be one, got {first} and {found}");
                return Err(table.fail(problem));
            }
        }
        let context = row.count("kv_cache_size")?;
        let (lines, key, us) = if row.is("is_prefill")? {
            (&mut prefills, row.count("prefill_chunk_size")?, micros(&row, "attn_prefill")?)
        } else {
            (&mut decodes, row.count("batch_size")?, micros(&row, "attn_decode")?)
        };
        // Of repeated measurements the fastest counts.
        if key > 0 {
            let points = lines.entry(key).or_default();
            points.entry(context).and_modify(|known| *known = us.min(*known)).or_insert(us);
        }
    }
    if prefills.is_empty() || decodes.is_empty() {
        let missing = if prefills.is_empty() { "prefills" } else { "decodes" };
        return Err(table.fail(format!("has no {missing} with tensor parallel size {tp}")));
    }
    thin(&mut prefills);
    thin(&mut decodes);
    complete(&mut prefills);
    let mut measured = Measured::new(path, slices(&prefills, &decodes))?;
    measured.prefill_context = thinned(&measured.prefill_context);
    measured.decode_context = thinned(&measured.decode_context);
    Ok(measured)
}

/// Attention and what goes with it.
fn micros(row: &Row<'_>, operator: &str) -> Result<f64, LayerImportError> {
    let around = ["attn_input_reshape", "attn_output_reshape", "attn_kv_cache_save"];
    let mut us = row.micros(operator)?;
    for operator in around {
        us += row.maybe_micros(operator)?;
    }
    Ok(us)
}

/// Long prompts are timed without context only: what a context adds is that of the longest chunk with
/// contexts, in proportion to the tokens.
fn complete(prefills: &mut Lines) {
    let known = prefills.iter().rev().find(|(_, line)| line.len() > 1 && line.contains_key(&0));
    let Some((chunk, line)) = known.map(|(chunk, line)| (*chunk, line.clone())) else { return };
    for (tokens, short) in prefills.iter_mut().filter(|(_, line)| line.len() == 1) {
        let Some(alone) = short.get(&0).copied() else { continue };
        let ratio = *tokens as f64 / chunk as f64;
        short.extend(line.iter().map(|(cached, us)| (*cached, alone + ratio * (us - line[&0]))));
    }
}

/// Prefills alone, decodes alone, and both with the fewest decodes: with more, a layer profile adds
/// what these take alone.
fn slices(prefills: &Lines, decodes: &Lines) -> BTreeMap<(u64, u64), Slice> {
    let mut slices: BTreeMap<(u64, u64), Slice> = BTreeMap::new();
    let fewest = decodes.iter().next();
    for (tokens, line) in prefills {
        let alone = line.iter().map(|(cached, us)| (*cached, Line::from([(0, *us)])));
        slices.insert((*tokens, 0), alone.collect());
        let Some((seqs, decode)) = fewest else { continue };
        let both = |us: &f64| decode.iter().map(|(context, more)| (*context, us + more)).collect();
        let mixed = line.iter().map(|(cached, us)| (*cached, both(us)));
        slices.insert((*tokens, *seqs), mixed.collect());
    }
    for (seqs, line) in decodes {
        slices.insert((0, *seqs), Slice::from([(0, line.clone())]));
    }
    slices
}

fn thin(lines: &mut Lines) {
    let kept = thinned(&lines.keys().copied().collect::<Vec<_>>());
    lines.retain(|key, _| kept.binary_search(key).is_ok());
}

/// The first and the last point, and between them those far enough from the one before.
fn thinned(points: &[u64]) -> Vec<u64> {
    let mut kept: Vec<u64> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let is_far = kept.last().is_none_or(|last| *point as f64 >= SPACING * *last as f64);
        if is_far || index + 1 == points.len() {
            kept.push(*point);
        }
    }
    kept
}
