//! The weights of what mixes tokens in a layer, on one of several GPUs.

use super::Component::{self, Attention, NormOther};
use super::{Tensor, share};
use crate::model::checkpoint::shape::{
    Compressed, DeltaNet, Gate, GroupedAttention, Indexer, KimiDelta, LatentAttention, QkNorm,
    Selective, ShortConv, StateSpace,
};

pub(super) fn grouped_tensors(grouped: &GroupedAttention, hidden: u64, tp: u64) -> Vec<Tensor> {
    let (key, value) = (u64::from(grouped.head_dim), u64::from(grouped.value_dim));
    let (heads, kv_heads) = (share(grouped.heads, tp), share(grouped.kv_heads, tp));
    let queries = if grouped.gate == Gate::Elements { 2 * heads } else { heads };
    let qkv = queries * key + kv_heads * (key + value);
    let mut all = vec![
        Tensor::matrix(Attention, "self_attn.q_proj", qkv, hidden).of(3).biased(grouped.qkv_bias),
        // Of a bias each GPU has all.
        Tensor::matrix(Attention, "self_attn.o_proj", hidden, heads * value)
            .biased(grouped.output_bias),
    ];
    match grouped.qk_norm {
        QkNorm::None => {}
        QkNorm::PerHead => all.push(Tensor::vector(NormOther, 2 * key)),
        QkNorm::AllHeads => all.push(Tensor::vector(NormOther, (heads + kv_heads) * key)),
    }
    if grouped.sinks {
        all.push(Tensor::vector(Attention, heads));
    }
    if grouped.gate == Gate::Heads {
        all.push(Tensor::matrix(Attention, "self_attn.g_proj", heads, hidden));
    }
    if let Some(indexer) = &grouped.indexer {
        let index = u64::from(indexer.head_dim);
        // One key for all heads, and norms of both.
        let index_heads = share(indexer.heads, tp);
        all.push(
            Tensor::matrix(Attention, "self_attn.index_q_proj", (index_heads + 1) * index, hidden)
                .of(2),
        );
        all.push(Tensor::vector(NormOther, 2 * index));
    }
    all
}

pub(super) fn latent_tensors(latent: &LatentAttention, hidden: u64, tp: u64) -> Vec<Tensor> {
    let heads = share(latent.heads, tp);
    let (nope, rope) = (u64::from(latent.qk_nope_head_dim), u64::from(latent.qk_rope_head_dim));
    let (kv_rank, value) = (u64::from(latent.kv_lora_rank), u64::from(latent.v_head_dim));
    let matrix = |name, outputs, inputs| Tensor::matrix(Attention, name, outputs, inputs);
    let mut all = match latent.q_lora_rank.map(u64::from) {
        Some(rank) => vec![
            matrix("self_attn.q_a_proj", rank, hidden),
            matrix("self_attn.q_b_proj", heads * (nope + rope), rank),
            Tensor::vector(NormOther, rank),
        ],
        None => vec![matrix("self_attn.q_proj", heads * (nope + rope), hidden)],
    };
    all.push(matrix("self_attn.kv_a_proj_with_mqa", kv_rank + rope, hidden));
    all.push(matrix("self_attn.kv_b_proj", heads * (nope + value), kv_rank));
    all.push(matrix("self_attn.o_proj", hidden, heads * value));
    all.push(Tensor::vector(NormOther, kv_rank));
    if latent.output_gate {
        all.push(matrix("self_attn.g_proj", heads * value, hidden));
    }
    if let (Some(indexer), Some(rank)) = (&latent.indexer, latent.q_lora_rank) {
        all.extend(indexer_tensors(indexer, hidden, u64::from(rank)));
    }
    all
}

fn indexer_tensors(indexer: &Indexer, hidden: u64, rank: u64) -> [Tensor; 3] {
    let (heads, dim) = (u64::from(indexer.heads), u64::from(indexer.head_dim));
    [
        Tensor::matrix(Component::Indexer, "self_attn.indexer.wq_b", heads * dim, rank),
        // Keys and weights of heads are one matrix, in the type of the checkpoint.
        Tensor::plain(Component::Indexer, dim + heads, hidden),
        Tensor::vector(NormOther, 2 * dim).wide(),
    ]
}

pub(super) fn compressed_tensors(compressed: &Compressed, hidden: u64, tp: u64) -> Vec<Tensor> {
    let dim = u64::from(compressed.head_dim);
    let heads = share(compressed.heads, tp);
    let (q_rank, o_rank) = (u64::from(compressed.q_lora_rank), u64::from(compressed.o_lora_rank));
    let groups = u64::from(compressed.o_groups);
    let matrix = |name, outputs, inputs| Tensor::matrix(Attention, name, outputs, inputs);
    let mut all = vec![
        matrix("attn.wq_a", q_rank + dim, hidden).of(2),
        matrix("attn.wq_b", heads * dim, q_rank),
        matrix(
            "attn.wo_a",
            share(compressed.o_groups, tp) * o_rank,
            u64::from(compressed.heads) * dim / groups,
        ),
        matrix("attn.wo_b", hidden, share(compressed.o_groups, tp) * o_rank),
        // Every GPU has room for the sinks of all heads that kernels are built for.
        Tensor::vector(Attention, heads).wide(),
        Tensor::vector(NormOther, q_rank + dim),
    ];
    if compressed.ratio > 0 {
        all.extend(compressor_tensors(Attention, dim, compressed.ratio, hidden));
    }
    if let Some(indexer) = &compressed.indexer {
        let (heads, dim) = (u64::from(indexer.heads), u64::from(indexer.head_dim));
        all.push(Tensor::matrix(Component::Indexer, "attn.indexer.wq_b", heads * dim, q_rank));
        all.push(Tensor::plain(Component::Indexer, heads, hidden));
        all.extend(compressor_tensors(Component::Indexer, dim, compressed.ratio, hidden));
    }
    all
}

/// What makes one entry of `ratio` tokens: values and weights, of twice the width where entries overlap.
fn compressor_tensors(component: Component, dim: u64, ratio: u32, hidden: u64) -> [Tensor; 3] {
    let width = if ratio == Compressed::OVERLAPPING { 2 * dim } else { dim };
    [
        Tensor::plain(component, 2 * width, hidden),
        Tensor::vector(component, u64::from(ratio) * width).wide(),
        Tensor::vector(NormOther, dim),
    ]
}

impl Compressed {
    /// The ratio at which neighbouring entries overlap.
    pub const OVERLAPPING: u32 = 4;
}

pub(super) fn delta_tensors(delta: &DeltaNet, hidden: u64, tp: u64) -> Vec<Tensor> {
    let values = share(delta.value_heads, tp) * u64::from(delta.value_dim);
    let channels = 2 * share(delta.key_heads, tp) * u64::from(delta.key_dim) + values;
    let heads = share(delta.value_heads, tp);
    vec![
        Tensor::matrix(Attention, "linear_attn.in_proj_qkv", channels + values, hidden).of(4),
        Tensor::matrix(Attention, "linear_attn.in_proj_ba", 2 * heads, hidden).of(2),
        Tensor::matrix(Attention, "linear_attn.out_proj", hidden, values),
        Tensor::vector(Attention, channels * u64::from(delta.conv_kernel)),
        Tensor::vector(Attention, heads),
        Tensor::vector(Attention, heads).wide(),
        Tensor::vector(NormOther, u64::from(delta.value_dim)),
    ]
}

pub(super) fn kimi_tensors(delta: &KimiDelta, hidden: u64, tp: u64) -> Vec<Tensor> {
    let (heads, dim) = (share(delta.heads, tp), u64::from(delta.head_dim));
    let width = heads * dim;
    let matrix = |name, outputs, inputs| Tensor::matrix(Attention, name, outputs, inputs);
    let mut all = vec![
        matrix("self_attn.q_proj", 3 * width, hidden).of(3),
        matrix("self_attn.f_a_proj", dim, hidden),
        matrix("self_attn.f_b_proj", width, dim),
        matrix("self_attn.b_proj", heads, hidden),
        matrix("self_attn.o_proj", hidden, width),
        Tensor::vector(Attention, 3 * width * u64::from(delta.conv_kernel)),
        Tensor::vector(Attention, heads + width).wide(),
        Tensor::vector(NormOther, dim),
    ];
    if delta.has_full_rank_gate {
        all.push(matrix("self_attn.g_proj", width, hidden));
    } else {
        all.push(matrix("self_attn.g_a_proj", dim, hidden));
        all.push(matrix("self_attn.g_b_proj", width, dim));
    }
    all
}

pub(super) fn state_tensors(state: &StateSpace, hidden: u64, tp: u64) -> Vec<Tensor> {
    let (heads, states) = (share(state.heads, tp), u64::from(state.state));
    let inner = heads * u64::from(state.head_dim);
    let groups = share(state.groups, tp);
    let channels = inner + 2 * groups * states;
    let mut all = vec![
        Tensor::matrix(Attention, "mixer.in_proj", inner + channels + heads, hidden)
            .biased(state.proj_bias)
            .of(5),
        Tensor::matrix(Attention, "mixer.out_proj", hidden, inner).biased(state.proj_bias),
        Tensor::vector(
            Attention,
            channels * u64::from(state.conv_kernel) + if state.conv_bias { channels } else { 0 },
        ),
        Tensor::vector(Attention, 2 * heads),
        Tensor::vector(Attention, heads).wide(),
    ];
    if state.has_norm {
        all.push(Tensor::vector(NormOther, inner));
    }
    all
}

pub(super) fn selective_tensors(selective: &Selective, hidden: u64, tp: u64) -> Vec<Tensor> {
    let channels = share(selective.channels, tp);
    let (rank, states) = (u64::from(selective.step_rank), u64::from(selective.state));
    let kernel = u64::from(selective.conv_kernel);
    vec![
        Tensor::matrix(Attention, "mamba.in_proj", 2 * channels, hidden)
            .biased(selective.proj_bias)
            .of(2),
        Tensor::matrix(Attention, "mamba.x_proj", rank + 2 * states, channels),
        Tensor::matrix(Attention, "mamba.dt_proj", channels, rank).biased(true),
        Tensor::matrix(Attention, "mamba.out_proj", hidden, channels).biased(selective.proj_bias),
        Tensor::vector(Attention, channels * (kernel + u64::from(selective.conv_bias))),
        Tensor::vector(Attention, channels * states).wide(),
        Tensor::vector(Attention, channels),
        Tensor::vector(NormOther, rank + 2 * states),
    ]
}

pub(super) fn conv_tensors(conv: &ShortConv, hidden: u64, tp: u64) -> Vec<Tensor> {
    let channels = share(conv.channels, tp);
    let kernel = u64::from(conv.conv_kernel);
    vec![
        Tensor::matrix(Attention, "conv.in_proj", 3 * channels, hidden).biased(conv.bias).of(3),
        Tensor::matrix(Attention, "conv.out_proj", hidden, channels).biased(conv.bias),
        Tensor::vector(Attention, channels * (kernel + u64::from(conv.bias))),
    ]
}
