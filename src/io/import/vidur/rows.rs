//! `mlp.csv`: what is computed for every token, attention apart.

use std::collections::BTreeMap;
use std::path::Path;

use super::table::Rows as Table;
use crate::cost::{Numbers, RowsProfile, SequencesProfile};
use crate::io::import::error::LayerImportError;
use crate::model::ModelSpec;

/// Sequences of one step for which the output head is estimated.
const MOST_SEQUENCES: u64 = 1024;

/// Of a table of all tokens.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) rows: RowsProfile,
    pub(super) sequences: SequencesProfile,
}

const OPERATORS: [&str; 10] = [
    "emb",
    "input_layernorm",
    "attn_pre_proj",
    "attn_rope",
    "attn_post_proj",
    "post_attention_layernorm",
    "mlp_up_proj",
    "mlp_act",
    "mlp_down_proj",
    "add",
];

pub(super) fn read(path: &Path, model: &ModelSpec, tp: u32) -> Result<Rows, LayerImportError> {
    let table = Table::read(path)?;
    let mut by_tokens: BTreeMap<u64, [f64; OPERATORS.len()]> = BTreeMap::new();
    let mut gates = 1;
    for row in table.with("num_tensor_parallel_workers", tp)? {
        row.check_shape(model, "n_head")?;
        let width = row.count("n_expanded_embd")?;
        if width != u64::from(model.dense_width()) {
            let (name, expected) = (&model.name, model.dense_width());
            return Err(table.fail(format!("n_expanded_embd: {name} has {expected}, got {width}")));
        }
        gates = if row.is("use_gated_mlp")? { 2 } else { 1 };
        let times =
            by_tokens.entry(row.count("num_tokens")?).or_insert([f64::INFINITY; OPERATORS.len()]);
        // Of repeated measurements the fastest counts.
        for (time, operator) in times.iter_mut().zip(OPERATORS) {
            *time = time.min(row.micros(operator)?);
        }
    }
    let column = |of: &dyn Fn(&[f64; OPERATORS.len()]) -> f64| {
        Numbers(by_tokens.values().map(|times| (of(times) * 1e3).round() as u64).collect())
    };
    let rows = RowsProfile {
        tokens: Numbers(by_tokens.keys().copied().collect()),
        embedding_ns: column(&|times| times[0]),
        // Two norms and two additions in a layer, one of which is timed.
        layernorm_ns: column(&|times| f64::midpoint(times[1], times[5]) + times[9]),
        qkv_proj_ns: column(&|times| times[2]),
        rotary_emb_ns: column(&|times| times[3]),
        o_proj_ns: column(&|times| times[4]),
        gate_up_proj_ns: Some(column(&|times| times[6])),
        act_fn_ns: Some(column(&|times| times[7])),
        down_proj_ns: Some(column(&|times| times[8])),
        final_layernorm_ns: column(&|times| times[1]),
        qk_norm_ns: None,
    };
    let outputs = f64::from(model.vocab) / (f64::from(gates) * f64::from(model.dense_width()));
    let few = || by_tokens.iter().filter(|(tokens, _)| **tokens <= MOST_SEQUENCES);
    let head = few().map(|(_, times)| (times[6] * outputs * 1e3).round() as u64);
    let sequences = SequencesProfile {
        lm_head_ns: Numbers(head.collect()),
        sampler_ns: Numbers(few().map(|_| 0).collect()),
        sequences: Numbers(few().map(|(tokens, _)| *tokens).collect()),
    };
    Ok(Rows { rows, sequences })
}
