//! What a forward pass allocates at its peak.
//!
//! Activations live as long as an operator needs them: the peak is that of one layer, at its MLP or its
//! experts, or at its attention where that is wider. Counted per token, in 16-bit elements:
//!
//! * a gated MLP: gate and up 2·I, their product I, with I the width on this GPU; a plain one twice its width;
//! * experts (vLLM 0.33.0, `vllm/model_executor/layers/fused_moe/fused_moe.py`): per expert of a token the larger
//!   of 2·I and the hidden width, which share a buffer, and I, for as many tokens as are computed at once;
//! * attention: queries, keys and values, and the output of as many elements as queries;
//! * hidden states that are alive beside it: two in a compiled graph (the residual and the result), four in
//!   Python code, which keeps the operator's input and the layer's too.
//!
//! Logged peaks of vLLM agree within 0.1 GiB: 0.17 for a 3B model at 2048 tokens (0.14 here, and a cuBLAS workspace
//! of 0.03), 0.59 for 4B at 8192 (0.55), 14.63 for 8B at 131,072 uncompiled (14.5).

use super::start::EngineVersion;
use crate::model::checkpoint::{Checkpoint as ModelSpec, Mixer};
use crate::units::Bytes;

/// Bytes of an element: activations are in 16 bits.
const ELEMENT: u64 = 2;
/// Tokens whose experts are computed at once (`VLLM_FUSED_MOE_CHUNK_SIZE`, `vllm/envs.py`), before
/// [`SMALLER_CHUNKS`] and from there on.
const EXPERT_CHUNKS: [u32; 2] = [32 * 1024, 16 * 1024];
/// A vLLM that has the smaller default; 0.10 had the larger one.
const SMALLER_CHUNKS: EngineVersion = EngineVersion::new(0, 12);
/// What cuBLAS keeps to work in on a GPU of Hopper's kind (`PyTorch` 2.x, `aten/src/ATen/cuda/CublasHandlePool.cpp`).
const WORKSPACE: Bytes = Bytes(32 << 20);

/// How the layers of a model are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// As a graph in which a tensor is freed after its last use.
    Compiled,
    /// Line by line.
    Eager,
}

impl Run {
    /// Hidden states alive beside an operator.
    const fn hidden_states(self) -> u64 {
        match self {
            Self::Compiled => 2,
            Self::Eager => 4,
        }
    }
}

/// The peak of a step of so many tokens on each of `tp` GPUs.
pub(super) fn peak(
    model: &ModelSpec,
    (run, version): (Run, EngineVersion),
    tokens: u32,
    tp: u32,
) -> Bytes {
    let (all, tp) = (u64::from(tokens), u64::from(tp.max(1)));
    let [larger, smaller] = EXPERT_CHUNKS;
    let chunk = tokens.min(if version < SMALLER_CHUNKS { larger } else { smaller });
    let hidden = run.hidden_states() * all * u64::from(model.hidden);
    let widest = (all * attention(model, tp)).max(mlp(model, (tokens, chunk), tp));
    Bytes(ELEMENT * (widest + hidden) + WORKSPACE.0)
}

/// Elements of the hidden states of so many tokens.
pub(super) fn hidden_states(model: &ModelSpec, tokens: u32) -> Bytes {
    Bytes(ELEMENT * u64::from(tokens) * u64::from(model.hidden) + WORKSPACE.0)
}

/// Elements of a token in the widest attention, or what stands in its place.
fn attention(model: &ModelSpec, tp: u64) -> u64 {
    let share = |count: u32| u64::from(count).div_ceil(tp);
    let of = |mixer: &Mixer| match mixer {
        Mixer::Grouped(grouped) => {
            let heads = share(grouped.heads) + share(grouped.kv_heads);
            heads * u64::from(grouped.head_dim + grouped.value_dim)
        }
        Mixer::Latent(latent) => {
            let head = latent.qk_nope_head_dim + latent.qk_rope_head_dim;
            let wide = 2 * u64::from(head) + 2 * u64::from(latent.v_head_dim);
            share(latent.heads) * wide
        }
        Mixer::Compressed(compressed) => {
            share(compressed.heads) * 2 * u64::from(compressed.head_dim)
        }
        Mixer::Delta(delta) => {
            2 * share(delta.key_heads) * u64::from(delta.key_dim)
                + 3 * share(delta.value_heads) * u64::from(delta.value_dim)
        }
        Mixer::Selective(selective) => 4 * share(selective.channels),
        Mixer::ShortConv(conv) => 4 * share(conv.channels),
        Mixer::KimiDelta(delta) => 5 * share(delta.heads) * u64::from(delta.head_dim),
        Mixer::StateSpace(state) => {
            let inner = share(state.heads) * u64::from(state.head_dim);
            3 * inner + 2 * share(state.groups) * u64::from(state.state)
        }
    };
    model.each_mixer().map(of).max().unwrap_or(0)
}

/// Elements of a step in the widest MLP of the model, of whose experts a chunk is computed at once.
fn mlp(model: &ModelSpec, (tokens, chunk): (u32, u32), tp: u64) -> u64 {
    let dense = model.layers.iter().filter_map(|layer| layer.dense).map(|dense| {
        let matrices = if dense.gated { 3 } else { 2 };
        matrices * u64::from(dense.width).div_ceil(tp) * u64::from(tokens)
    });
    let experts = model.layers.iter().filter_map(|layer| layer.experts).map(|experts| {
        let width = u64::from(experts.width).div_ceil(tp);
        let ups = if experts.gated { 2 } else { 1 };
        let inside = experts.latent.unwrap_or(model.hidden);
        let expert = (ups * width).max(u64::from(inside)) + width;
        u64::from(chunk) * u64::from(experts.per_token) * expert
    });
    dense.chain(experts).max().unwrap_or(0)
}
