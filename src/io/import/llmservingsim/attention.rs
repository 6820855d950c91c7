//! `attention.csv`: slices by tokens prefilled and sequences that decode; in each, rows by the
//! prefill's context with contexts of decodes of their own.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::experts::along;
use super::{check_time, csv_rows};
use crate::io::import::error::LayerImportError;

#[derive(Debug, Deserialize)]
struct Row {
    // Sums of two are far from the end of u64.
    prefill_chunk: u32,
    kv_prefill: u32,
    n_decode: u32,
    kv_decode: u32,
    time_us: f64,
}

/// Rows of a slice by the prefill's context, each by the decodes' context, in µs.
pub(in crate::io::import) type Slice = BTreeMap<u64, BTreeMap<u64, f64>>;

/// A ragged table.
#[derive(Debug)]
pub(in crate::io::import) struct Measured {
    slices: BTreeMap<(u64, u64), Slice>,
    pub(in crate::io::import) prefill_tokens: Vec<u64>,
    pub(in crate::io::import) prefill_context: Vec<u64>,
    pub(in crate::io::import) decode_seqs: Vec<u64>,
    pub(in crate::io::import) decode_context: Vec<u64>,
    /// How many of the numbers of sequences were measured beside prefills.
    pub(in crate::io::import) mixed_seqs: usize,
}

impl Measured {
    /// µs at a point of the grid: linear within the slice's row, then between rows.
    pub(in crate::io::import) fn at(
        &self,
        tokens: u64,
        seqs: u64,
        cached: u64,
        context: u64,
    ) -> f64 {
        let slice = &self.slices[&(tokens, seqs)];
        let context = if seqs == 0 { 0 } else { context };
        let cached = if tokens == 0 { 0 } else { cached };
        let rows = slice.iter().map(|(cached, row)| (*cached, along(row, context)));
        along(&rows.collect(), cached)
    }

    /// Finds the axes.
    pub(in crate::io::import) fn new(
        path: &Path,
        slices: BTreeMap<(u64, u64), Slice>,
    ) -> Result<Self, LayerImportError> {
        let sorted = |values: &mut dyn Iterator<Item = u64>| {
            let mut values: Vec<u64> = values.collect();
            values.sort_unstable();
            values.dedup();
            values
        };
        let prefill_tokens = sorted(&mut slices.keys().map(|key| key.0).filter(|p| *p > 0));
        let decode_seqs = sorted(&mut slices.keys().map(|key| key.1).filter(|d| *d > 0));
        let prefill_context = sorted(&mut slices.values().flat_map(|slice| slice.keys().copied()));
        let rows = || slices.values().flat_map(BTreeMap::values);
        let decode_context = sorted(&mut rows().flat_map(|r| r.keys().copied()).filter(|c| *c > 0));
        let is_measured = |tokens: u64, seqs: u64| slices.contains_key(&(tokens, seqs));
        let beside_all = |seqs: &&u64| prefill_tokens.iter().all(|p| is_measured(*p, **seqs));
        let mixed_seqs = decode_seqs.iter().take_while(beside_all).count();
        let alone = |d: &u64| is_measured(0, *d);
        if mixed_seqs == 0
            || !decode_seqs.iter().all(alone)
            || !prefill_tokens.iter().all(|p| is_measured(*p, 0))
        {
            let problem = "prefills alone, decodes alone and both together have to be measured";
            return Err(LayerImportError::content(path, problem));
        }
        if decode_context.is_empty() {
            let problem = "decodes have to be measured over a context of a token or more";
            return Err(LayerImportError::content(path, problem));
        }
        Ok(Self {
            slices,
            prefill_tokens,
            prefill_context,
            decode_seqs,
            decode_context,
            mixed_seqs,
        })
    }
}

pub(super) fn read(path: &Path) -> Result<Measured, LayerImportError> {
    let mut slices: BTreeMap<(u64, u64), Slice> = BTreeMap::new();
    for row in csv_rows::<Row>(path)? {
        check_time(path, "attention", row.time_us)?;
        let slice = slices.entry((row.prefill_chunk.into(), row.n_decode.into())).or_default();
        slice.entry(row.kv_prefill.into()).or_default().insert(row.kv_decode.into(), row.time_us);
    }
    Measured::new(path, slices)
}
