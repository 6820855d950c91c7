//! Layers with states: the kernels of the convolution and of the state, added up (`collector/vllm/collect_gdn.py`,
//! `collector/vllm/collect_kda.py` and their like for SGLang). Of Mamba-2 the tables hold the convolution alone.

use std::collections::BTreeMap;

use super::cube::{Between, Cube};
use super::reduce;
use super::{ImportError, Tables};
use crate::cost::{Codes, StateKind, StateTable};
use crate::io::import::raw::{RawRow, RawTable};

/// A kernel that takes longer than this for one token waits for the host by as much.
const LAUNCH_MICROS: f64 = 100.0;
/// Shorter prompts take as long as these.
const PROMPT_MIN: u64 = 16;
/// More prompts side by side, in proportion.
const PROMPTS_MAX: u64 = 64;

const NUMBERS: [&str; 6] =
    ["num_k_heads", "num_v_heads", "batch_size", "seq_len", "head_k_dim", "head_v_dim"];
const WORDS: [&str; 2] = ["phase", "kernel_source"];

pub(super) fn import(tables: &Tables<'_>) -> Result<Vec<StateTable>, ImportError> {
    let families = [
        (StateKind::GatedDelta, "linear_attention", "gdn_perf"),
        (StateKind::KimiDelta, "kda", "kda_perf"),
    ];
    let mut all = Vec::new();
    for (kind, family, stem) in families {
        let raw = tables.read(family, stem, &NUMBERS, &WORDS)?;
        let dims = raw.rows.first().map(|row| [row.numbers[4], row.numbers[5]]);
        all.extend(dims.and_then(|dims| table(kind, dims, &raw)));
    }
    Ok(all)
}

/// Heads, sequences or prompts, and tokens of each.
type Key = ([u64; 2], u64, u64);

fn table(kind: StateKind, dims: [u64; 2], raw: &RawTable) -> Option<StateTable> {
    let rows = raw.rows.iter().filter(|row| row.numbers[4..] == dims);
    let rows: Vec<&RawRow> = rows.collect();
    let decode = layer(&rows, "generation");
    let mut prefill = layer(&rows, "context");
    prefill.retain(|(_, prompts, tokens), _| *prompts <= PROMPTS_MAX && *tokens >= PROMPT_MIN);
    let mut heads: Vec<[u64; 2]> = decode.keys().map(|key| key.0).collect();
    heads.dedup();
    heads.retain(|heads| prefill.keys().any(|key| key.0 == *heads));
    if heads.is_empty() {
        return None;
    }
    let places: Vec<u64> = (0..heads.len() as u64).collect();
    let time = |times: &BTreeMap<Key, f64>, [place, count, tokens]: [u64; 3]| {
        times.get(&(heads[place as usize], count, tokens)).copied()
    };
    let sequences = reduce::grid(&decode, |key| key.1);
    let decode = Cube::new([places.clone(), vec![1], sequences], |[place, tokens, count]| {
        time(&decode, [place, count, tokens])
    });
    let axes =
        [1, 2].map(|part| reduce::grid(&prefill, |key| if part == 1 { key.1 } else { key.2 }));
    let [prompts, tokens] = axes;
    let prefill = Cube::new([places, prompts, tokens], |at| time(&prefill, at));
    let decode = decode.smoothed().rising().thinned(2, Between::Line);
    let mut prefill = prefill.smoothed().rising();
    for axis in [2, 1] {
        prefill = prefill.thinned(axis, Between::Power);
    }
    let codes = |cube: &Cube| Codes(cube.cells.iter().map(|cell| Codes::of(*cell)).collect());
    Some(StateTable {
        kind,
        key_dim: dims[0] as u32,
        value_dim: dims[1] as u32,
        heads: heads.iter().map(|heads| heads.map(|count| count as u32)).collect(),
        sequences: reduce::narrow(&decode.axes[2]),
        decode: codes(&decode),
        prompts: reduce::narrow(&prefill.axes[1]),
        tokens: reduce::narrow(&prefill.axes[2]),
        prefill: codes(&prefill),
    })
}

/// The kernels of a layer, added up: the convolution and the state, or, where it is faster, one kernel for both.
fn layer(rows: &[&RawRow], phase: &str) -> BTreeMap<Key, f64> {
    let of = |is_own: fn(&str) -> bool| {
        let own = rows.iter().filter(|row| row.words[0] == phase && is_own(&row.words[1]));
        let times = reduce::fastest(own.map(|row| {
            let [keys, values, count, tokens, ..] = row.numbers[..] else {
                unreachable!("six columns were read");
            };
            (([keys, values], count, tokens), row.micros)
        }));
        without_launch(times)
    };
    let convolution = of(|kernel| kernel.starts_with("causal_conv1d"));
    let both = of(is_fused);
    let state = of(|kernel| !kernel.starts_with("causal_conv1d") && !is_fused(kernel));
    let apart = state.iter().filter_map(|(key, time)| Some((*key, time + convolution.get(key)?)));
    reduce::fastest(apart.chain(both.iter().map(|(key, time)| (*key, *time))))
}

fn is_fused(kernel: &str) -> bool {
    matches!(kernel, "fused_kda_decode" | "kda_fused_decode")
}

/// Without the time of the host, which is that of a single token.
fn without_launch(mut times: BTreeMap<Key, f64>) -> BTreeMap<Key, f64> {
    let least = times.values().copied().fold(f64::INFINITY, f64::min);
    if least > LAUNCH_MICROS && least.is_finite() {
        for time in times.values_mut() {
            *time = (*time - least).max(1.0);
        }
    }
    times
}
