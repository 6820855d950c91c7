//! Latent and sparse attention: from the times of whole modules, or of kernels, to what a layer's attention takes
//! beside its matrix products.
//!
//! vLLM's modules, and SGLang's of sparse attention, are the layer's attention from the residual stream and back
//! (`collector/vllm/collect_mla_module.py`, `collector/sglang/collect_mla_module.py`): projections, norms, rotary
//! positions, the write to the cache, the kernels. The products in them, as the product tables of the same
//! profile have them, are subtracted. SGLang's dense latent attention was measured as the kernel with the write to the
//! cache (`collector/sglang/collect_mla.py`); the absorbed products (`mla_bmm_perf`) are added to it, less that of
//! keys and values up, which stands for them among the matrices of a layer.

use super::cube::{Between, Cube};
use super::layers::{LAYERS, Layer};
use super::reduce::{self, CONTEXT_MIN, PROMPTS};
use super::{ImportError, Tables, norms};
use crate::cost::{Codes, MixerKind, MixerTable, OperatorProfile};
use crate::io::import::raw::{RawRow, RawTable};

/// The least that is left of a module without its products, in µs: the kernels of decode that were measured alone take
/// 10 to 12 µs on every GPU.
const LEAST_MICROS: f64 = 10.0;
/// Share of the multiplications in 16 bits that no kernel of prompts exceeds: FlashAttention-3 reaches 0.75 on H100
/// (Shah et al. 2024, forward, 128 elements a head), FlashAttention-4 0.71 on B200.
const MULTIPLYING: f64 = 0.8;
/// Modules that take longer than this whatever their size wait for the host, not for the GPU.
const LAUNCH_MICROS: f64 = 300.0;
/// Times of modules beyond that of the host by this factor are those of the GPU.
const BEYOND_LAUNCH: f64 = 1.25;
/// Twice the sequences never take so many times as long, but where a CUDA graph covers them no longer.
const WITHOUT_GRAPH: f64 = 2.5;
/// With fewer numbers of heads there is no telling how times go with them.
const HEADS_MIN: usize = 2;
/// Shorter prompts take as long as these.
const PROMPT_MIN: u64 = 16;

const NUMBERS: [&str; 4] = ["batch_size", "isl", "step", "num_heads"];
const WORDS: [&str; 6] =
    ["kv_cache_dtype", "gemm_type", "model", "op_name", "mla_dtype", "kernel_source"];

/// All tables of attention that is not grouped.
pub(super) fn import(
    tables: &Tables<'_>,
    profile: &OperatorProfile,
) -> Result<Vec<MixerTable>, ImportError> {
    let mut all = Vec::new();
    let is_bare = tables.selection.engine == "sglang";
    let bmm = if is_bare {
        let numbers = ["num_tokens", "num_heads"];
        tables.read("mla_bmm", "mla_bmm_perf", &numbers, &["bmm_dtype", "op_name"])?
    } else {
        RawTable::default()
    };
    for layer in &LAYERS {
        let stems = match layer.kind {
            MixerKind::Latent if is_bare => ["generation_mla_perf", "context_mla_perf"],
            _ => layer.stems,
        };
        let [decode, prefill] = stems;
        let has_norms = matches!(layer.kind, MixerKind::Latent | MixerKind::SparseLatent);
        let is_fused = is_bare || norms::are_fused(&tables.notes(layer.family, decode)?);
        let decode = tables.read(layer.family, decode, &NUMBERS, &WORDS)?;
        let prefill = tables.read(layer.family, prefill, &NUMBERS, &WORDS)?;
        let has_chain = has_norms && !is_fused;
        let module =
            Module { layer, profile, has_chain, bmm: &bmm, decode: &decode, prefill: &prefill };
        all.extend(["bfloat16", "fp8"].into_iter().filter_map(|kv_dtype| module.table(kv_dtype)));
    }
    Ok(all)
}

/// The measurements of one model's layer.
struct Module<'a> {
    layer: &'a Layer,
    profile: &'a OperatorProfile,
    /// Whether its norms were run otherwise than a server does.
    has_chain: bool,
    /// Absorbed products, where the kernel was measured without them.
    bmm: &'a RawTable,
    decode: &'a RawTable,
    prefill: &'a RawTable,
}

impl Module<'_> {
    fn table(&self, kv_dtype: &str) -> Option<MixerTable> {
        let (decode, gemm) = self.decode_times(kv_dtype);
        if decode.is_empty() {
            return None;
        }
        let decode = decode.smoothed();
        let shortest = decode.firsts();
        let beside = |[heads, sequences, _]: [u64; 3], time: f64| {
            let others = if self.is_bare() {
                let up = self.micros(&gemm, self.layer.keys_up(heads)?, sequences);
                self.absorbed(heads, sequences)? - up
            } else {
                -self.products(&gemm, heads, sequences)
            };
            // Where products alone take longer than the module, what a longer context adds is right nevertheless.
            let least = LEAST_MICROS - shortest.get(&[heads, sequences])?;
            Some(time + others.max(least))
        };
        let mut decode = decode.map(beside).rising();
        for axis in [2, 1] {
            decode = decode.thinned(axis, Between::Line);
        }
        let mut prefill = self.prefill_times(kv_dtype);
        let heads = common(&decode, &prefill);
        if heads.len() < HEADS_MIN {
            return None;
        }
        decode = of_heads(decode, &heads);
        prefill = of_heads(prefill, &heads);
        for axis in [2, 1] {
            prefill = prefill.thinned(axis, Between::Power);
        }
        let layer = self.layer;
        let codes = |cube: &Cube| Codes(cube.cells.iter().map(|cell| Codes::of(*cell)).collect());
        let narrow = |axis: &Vec<u64>| reduce::narrow(axis);
        let has_prefill = !prefill.is_empty();
        Some(MixerTable {
            kind: layer.kind,
            model: layer.model.to_owned(),
            kv_dtype: kv_dtype.to_owned(),
            cached: layer.cached,
            multiplied: layer.multiplied,
            indexer: layer.indexer,
            ratio: layer.ratio,
            heads: narrow(&heads),
            sequences: narrow(&decode.axes[1]),
            contexts: narrow(&decode.axes[2]),
            decode: codes(&decode),
            prompts: if has_prefill { narrow(&prefill.axes[1]) } else { Vec::new() },
            tokens: if has_prefill { narrow(&prefill.axes[2]) } else { Vec::new() },
            prefill: if has_prefill { codes(&prefill) } else { Codes::default() },
        })
    }

    /// Whether kernels were measured, not modules.
    fn is_bare(&self) -> bool {
        !self.bmm.rows.is_empty() && self.layer.kind == MixerKind::Latent
    }

    /// The rows of this layer with a KV cache, and the format of their products: that of 16 bits where there are such.
    fn rows<'t>(&self, table: &'t RawTable, kv_dtype: &str) -> (Vec<&'t RawRow>, String) {
        let own = |row: &&RawRow| {
            let [kv, _, model, op, compute, kernel] = &*row.words else { return false };
            let skips = op.ends_with("skip_indexer");
            let is_own = model.is_empty() || self.layer.names.contains(&&**model);
            let is_absorbed = op.ends_with("mla_context") && !kernel.contains("trtllm");
            kv.starts_with(kv_dtype)
                && is_own
                && skips == self.layer.skips_indexer
                && matches!(&**compute, "" | "bfloat16")
                // On other GPUs SGLang's collector multiplies prompts with latent vectors, which SGLang does not.
                && !is_absorbed
        };
        let all: Vec<&RawRow> = table.rows.iter().filter(own).collect();
        let gemm = ["bfloat16", "", "fp8_block"]
            .into_iter()
            .find(|gemm| all.iter().any(|row| row.words[1] == *gemm));
        let gemm = gemm.unwrap_or_default();
        let kept = all.into_iter().filter(|row| row.words[1] == gemm).collect();
        (kept, if gemm.is_empty() { "bfloat16" } else { gemm }.to_owned())
    }

    fn decode_times(&self, kv_dtype: &str) -> (Cube, String) {
        let (rows, gemm) = self.rows(self.decode, kv_dtype);
        let times = reduce::fastest(rows.iter().map(|row| {
            let [batch, isl, step, heads] = row.numbers[..] else {
                unreachable!("four columns were read");
            };
            ([heads, batch, step + isl], row.micros)
        }));
        let [heads, mut sequences, mut contexts] =
            [0, 1, 2].map(|part| reduce::grid(&times, |key| key[part]));
        contexts.retain(|context| *context >= CONTEXT_MIN);
        // A jump at most heads ends the grid: the kernels that follow wait for the host.
        let least = |heads: u64, batch: u64| {
            let short =
                contexts.iter().take(4).filter_map(|context| times.get(&[heads, batch, *context]));
            short.copied().min_by(f64::total_cmp)
        };
        let jumps = |pair: &[u64]| {
            if pair[1] > 2 * pair[0] {
                return false;
            }
            let both = heads.iter().filter_map(|heads| {
                Some(least(*heads, pair[1])? > WITHOUT_GRAPH * least(*heads, pair[0])?)
            });
            let (all, up) =
                both.fold((0, 0), |(all, up), jumps| (all + 1, up + usize::from(jumps)));
            2 * up > all
        };
        let covered = sequences.windows(2).position(jumps);
        if let Some(last) = covered {
            sequences.truncate(last + 1);
        }
        (Cube::new([heads, sequences, contexts], |at| times.get(&at).copied()), gemm)
    }

    fn prefill_times(&self, kv_dtype: &str) -> Cube {
        let (rows, gemm) = self.rows(self.prefill, kv_dtype);
        let whole = rows.iter().filter(|row| {
            row.numbers[2] == 0 && row.numbers[1] >= PROMPT_MIN && PROMPTS.contains(&row.numbers[0])
        });
        let times = reduce::fastest(whole.map(|row| {
            let [batch, isl, _, heads] = row.numbers[..] else {
                unreachable!("four columns were read");
            };
            ([heads, batch, isl], row.micros)
        }));
        let axes = [0, 1, 2].map(|part| reduce::grid(&times, |key| key[part]));
        let cube = Cube::new(axes, |at| times.get(&at).copied());
        let chosen = self.layer.indexer.map_or(u64::MAX, |indexer| u64::from(indexer[2]));
        // Modules that choose tokens launch more kernels than those that need not.
        let launch = |chooses: bool| {
            let alike = rows.iter().filter(|row| {
                row.numbers[0] == 1 && (row.numbers[1] + row.numbers[2] > chosen) == chooses
            });
            let least = alike.map(|row| row.micros).fold(f64::INFINITY, f64::min);
            if (LAUNCH_MICROS..f64::INFINITY).contains(&least) {
                BEYOND_LAUNCH * least
            } else {
                0.0
            }
        };
        let launches = [launch(false), launch(true)];
        let cube = cube.map(|[heads, prompts, tokens], time| {
            let products =
                if self.is_bare() { 0.0 } else { self.products(&gemm, heads, prompts * tokens) };
            let is_believed = time >= launches[usize::from(tokens > chosen)];
            let least = LEAST_MICROS.max(self.multiplying_micros([heads, prompts, tokens]));
            is_believed.then(|| (time - products).max(least))
        });
        cube.smoothed().rising()
    }

    /// µs to multiply all pairs of whole prompts, where all tokens are seen.
    fn multiplying_micros(&self, [heads, prompts, tokens]: [u64; 3]) -> f64 {
        if self.layer.kind != MixerKind::Latent {
            return 0.0;
        }
        let per_token = (heads * u64::from(self.layer.multiplied)) as f64;
        // A pair is multiplied and added; of the square of the tokens half are pairs.
        let flops = per_token * (prompts * tokens) as f64 * tokens as f64;
        1e-6 * flops / (MULTIPLYING * self.profile.rates.bf16_tflops)
    }

    /// µs of the layer's products, and of norms that a server does not run.
    fn products(&self, gemm: &str, heads: u64, rows: u64) -> f64 {
        let matrices = self.layer.matrices(heads).into_iter();
        let products: f64 = matrices.map(|matrix| self.micros(gemm, matrix, rows)).sum();
        let chain = if self.has_chain { norms::chain_micros(rows) } else { 0.0 };
        products + chain
    }

    fn micros(&self, gemm: &str, matrix: [u64; 2], rows: u64) -> f64 {
        1e6 * self.profile.product_secs(gemm, matrix, rows as f64)
    }

    /// µs of the absorbed products, before and after the kernel.
    fn absorbed(&self, heads: u64, tokens: u64) -> Option<f64> {
        let both = ["mla_gen_pre", "mla_gen_post"].map(|op| {
            let alike = self.bmm.rows.iter().filter(|row| {
                row.numbers == [tokens, heads] && row.words[0] == "bfloat16" && row.words[1] == op
            });
            alike.map(|row| row.micros).min_by(f64::total_cmp)
        });
        Some(both[0]? + both[1]?)
    }
}

/// Heads that both have, or the first alone if the second has none; without those that follow from the others.
fn common(decode: &Cube, prefill: &Cube) -> Vec<u64> {
    let has = |heads: &&u64| prefill.axes[0].is_empty() || prefill.axes[0].contains(heads);
    let both: Vec<u64> = decode.axes[0].iter().filter(has).copied().collect();
    let thin =
        |cube: &Cube| of_heads(cube.clone(), &both).thinned(0, Between::Line).axes[0].clone();
    let [decode, prefill] = [thin(decode), thin(prefill)];
    both.into_iter().filter(|heads| decode.contains(heads) || prefill.contains(heads)).collect()
}

fn of_heads(cube: Cube, heads: &[u64]) -> Cube {
    let lines = cube.axes[1].len() * cube.axes[2].len();
    let mut cells = Vec::new();
    for (node, own) in cube.axes[0].iter().enumerate() {
        if heads.contains(own) {
            cells.extend_from_slice(&cube.cells[node * lines..(node + 1) * lines]);
        }
    }
    let [mut own, rows, columns] = cube.axes;
    own.retain(|count| heads.contains(count));
    Cube { axes: [own, rows, columns], cells }
}
