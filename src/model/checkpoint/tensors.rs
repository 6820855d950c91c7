//! The weights of a layer, as each of several GPUs holds them.
//!
//! Tensor parallelism splits matrices as Megatron-LM does (Shoeybi et al. 2019). KV heads are replicated where there
//! are more GPUs than KV heads; norms, routers, indexers, and what compresses queries, keys or the input of experts
//! are on every GPU. Names are those of the matrices in checkpoints, below the layer.

use self::Component::{Attention, NormOther, RoutedExperts, SharedExperts};
use super::Checkpoint;
use super::shape::{
    Compressed, DeltaNet, DenseMlp, Experts, Gate, GroupedAttention, Indexer, KimiDelta,
    LatentAttention, Layer, Mixer, QkNorm, Selective, ShortConv, StateSpace,
};
use crate::model::precision::Module;

/// The part of a model that weights belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The table of input embeddings.
    Embedding,
    /// Mixers of tokens of every kind, but norms.
    Attention,
    /// What chooses the keys that sparse attention reads.
    Indexer,
    /// Dense MLPs.
    DenseMlp,
    /// Routers.
    Router,
    /// Projections before and behind routed experts.
    MoeOther,
    /// Routed experts.
    RoutedExperts,
    /// Experts that every token visits, and their gates.
    SharedExperts,
    /// Norms and other vectors.
    NormOther,
    /// Towers.
    Vision,
    /// The projection to the vocabulary.
    LmHead,
}

impl Component {
    /// All parts.
    pub const ALL: [Self; 11] = [
        Self::Embedding,
        Self::Attention,
        Self::Indexer,
        Self::DenseMlp,
        Self::Router,
        Self::MoeOther,
        Self::RoutedExperts,
        Self::SharedExperts,
        Self::NormOther,
        Self::Vision,
        Self::LmHead,
    ];

    /// The module that it is counted to where formats are told for modules as a whole.
    pub const fn module(self) -> Module {
        match self {
            Self::Embedding | Self::NormOther | Self::Vision => Module::Embedding,
            Self::Attention | Self::Indexer => Module::Attention,
            Self::DenseMlp => Module::Mlp,
            Self::Router => Module::Router,
            Self::RoutedExperts => Module::Experts,
            Self::SharedExperts | Self::MoeOther => Module::SharedExperts,
            Self::LmHead => Module::LmHead,
        }
    }
}

/// What weights are stored in that are not quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// The 16-bit type of the checkpoint.
    Half,
    /// 32 bits, floating or whole.
    Single,
}

impl Element {
    /// Bytes of one.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Half => 2,
            Self::Single => 4,
        }
    }
}

/// Weights on one GPU: a matrix, or a vector with one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tensor {
    /// The part it belongs to.
    pub component: Component,
    /// Its name in the checkpoint below the layer; empty for what is never quantised.
    pub name: &'static str,
    /// What it is stored in where it is not quantised.
    pub element: Element,
    /// Outputs.
    pub outputs: u64,
    /// Inputs.
    pub inputs: u64,
    /// Biases.
    pub biases: u64,
    /// Copies of this shape, each with weights of its own: 1, or the experts of a layer.
    pub copies: u64,
    /// Matrices of the checkpoint that are stored as this one, each with its own scale: q, k and v are three.
    pub parts: u64,
}

impl Tensor {
    /// A matrix that may be quantised.
    pub(in crate::model) const fn matrix(
        component: Component,
        name: &'static str,
        outputs: u64,
        inputs: u64,
    ) -> Self {
        Self {
            component,
            name,
            element: Element::Half,
            outputs,
            inputs,
            biases: 0,
            copies: 1,
            parts: 1,
        }
    }

    /// Weights that are never quantised.
    pub(super) const fn plain(component: Component, outputs: u64, inputs: u64) -> Self {
        Self::matrix(component, "", outputs, inputs)
    }

    const fn vector(component: Component, elements: u64) -> Self {
        Self::plain(component, elements, 1)
    }

    const fn wide(self) -> Self {
        Self { element: Element::Single, ..self }
    }

    const fn of(self, parts: u64) -> Self {
        Self { parts, ..self }
    }

    const fn biased(self, has: bool) -> Self {
        Self { biases: if has { self.outputs } else { 0 }, ..self }
    }

    /// Weights and biases of all copies.
    pub const fn params(&self) -> u64 {
        self.copies * (self.outputs * self.inputs + self.biases)
    }
}

impl Checkpoint {
    /// The weights of a layer on one of `tp` GPUs.
    pub fn layer_tensors(&self, layer: &Layer, tp: u32) -> Vec<Tensor> {
        let hidden = u64::from(self.hidden);
        let tp = u64::from(tp.max(1));
        let mut all = vec![Tensor::vector(NormOther, u64::from(layer.norms) * hidden)];
        match &layer.mixer {
            Some(Mixer::Grouped(grouped)) => all.extend(grouped_tensors(grouped, hidden, tp)),
            Some(Mixer::Latent(latent)) => all.extend(latent_tensors(latent, hidden, tp)),
            Some(Mixer::Compressed(compressed)) => {
                all.extend(compressed_tensors(compressed, hidden, tp));
            }
            Some(Mixer::Delta(delta)) => all.extend(delta_tensors(delta, hidden, tp)),
            Some(Mixer::KimiDelta(delta)) => all.extend(kimi_tensors(delta, hidden, tp)),
            Some(Mixer::StateSpace(state)) => all.extend(state_tensors(state, hidden, tp)),
            Some(Mixer::Selective(selective)) => {
                all.extend(selective_tensors(selective, hidden, tp));
            }
            Some(Mixer::ShortConv(conv)) => all.extend(conv_tensors(conv, hidden, tp)),
            None => {}
        }
        if let Some(dense) = layer.dense {
            all.extend(dense_tensors(dense, hidden, tp));
            if self.family == "apertus" {
                // Two numbers that shape its activation.
                all.push(Tensor::vector(Component::DenseMlp, 2));
            }
        }
        if let Some(experts) = &layer.experts {
            all.extend(self.expert_tensors(experts, tp));
        }
        let streams = u64::from(self.streams);
        if streams > 1 {
            // Hyper-connections before the mixer and before the experts: how streams are read, written and mixed.
            let mixes = (2 + streams) * streams;
            for count in [mixes * streams * hidden, mixes, 3] {
                all.push(Tensor::vector(NormOther, 2 * count).wide());
            }
        }
        all
    }

    /// What stands around the layers, on one of `tp` GPUs: tables, the last norm, and towers, which are split too.
    pub fn outer_tensors(&self, tp: u32) -> Vec<Tensor> {
        let (hidden, tp) = (u64::from(self.hidden), u64::from(tp.max(1)));
        let rows = self.vocab_rows(tp as u32);
        let mut all = vec![Tensor::plain(Component::Embedding, rows, hidden)];
        // Positions have a table too; OPT's begins with two rows that stand for none.
        match self.family.as_str() {
            "gpt2" | "gpt_bigcode" => {
                all.push(Tensor::plain(Component::Embedding, u64::from(self.max_position), hidden));
            }
            "opt" => {
                let rows = u64::from(self.max_position) + 2;
                all.push(Tensor::plain(Component::Embedding, rows, hidden));
            }
            // The table is normalised.
            "bloom" => all.push(Tensor::vector(NormOther, 2 * hidden)),
            _ => {}
        }
        if !self.tied_embeddings {
            let has_bias = ["gptj", "phi", "phimoe"].contains(&self.family.as_str());
            all.push(Tensor::matrix(Component::LmHead, "lm_head", rows, hidden).biased(has_bias));
        }
        all.push(Tensor::vector(NormOther, self.last_norms() * hidden));
        all.extend(self.stream_head());
        all
    }

    /// Rows of the tables of the vocabulary on one of `tp` GPUs.
    pub(in crate::model) fn vocab_rows(&self, tp: u32) -> u64 {
        rows_of(self.vocab, u64::from(tp.max(1)))
    }

    /// What joins the copies of the residual stream behind the last layer, if there are several.
    pub(super) fn stream_head(&self) -> Option<Tensor> {
        let (streams, hidden) = (u64::from(self.streams), u64::from(self.hidden));
        let size = streams * streams * hidden + streams + 1;
        (streams > 1).then(|| Tensor::vector(NormOther, size).wide())
    }

    /// Norms behind the last layer; Kimi-K3 sums up earlier layers with two vectors more, some have biases, and
    /// `OLMo`'s have no weights.
    fn last_norms(&self) -> u64 {
        let is_k3 = || self.layers.first().is_some_and(|layer| layer.norms > 2);
        match self.family.as_str() {
            "kimi_linear" if is_k3() => 3,
            "gpt_neox" | "jais2" | "nemotron" | "phi" | "phimoe" | "phimoe_native" | "stablelm"
            | "starcoder2" | "bloom" | "falcon" | "gpt2" | "gpt_bigcode" | "gptj" | "opt" => 2,
            "olmo" => 0,
            _ => 1,
        }
    }

    fn expert_tensors(&self, experts: &Experts, tp: u64) -> Vec<Tensor> {
        let hidden = u64::from(self.hidden);
        let count = u64::from(experts.count);
        let inside = experts.latent.map_or(hidden, u64::from);
        let router = |tensor: Tensor| if experts.router.is_wide { tensor.wide() } else { tensor };
        let mut all = Vec::new();
        let choices = count + u64::from(experts.router.idle);
        let gate = Tensor::matrix(Component::Router, "gate", choices, hidden);
        // Gemma 4's is counted among the other vectors.
        let component = if experts.router.scales { NormOther } else { Component::Router };
        all.push(router(Tensor { component, ..gate }).biased(experts.router.bias && experts.bias));
        if experts.router.scales {
            all.push(Tensor::vector(Component::Router, hidden + count));
        }
        if experts.router.bias && !experts.bias {
            // Step-3.5 keeps it beside its experts.
            let component =
                if self.family == "step3p5" { Component::MoeOther } else { Component::Router };
            all.push(Tensor::vector(component, choices).wide());
        }
        if experts.router.table {
            let entries = u64::from(self.vocab) * u64::from(experts.per_token);
            all.push(Tensor::vector(Component::Router, entries).wide());
        }
        if let Some(latent) = experts.latent {
            all.push(Tensor::matrix(
                Component::MoeOther,
                "fc1_latent_proj",
                u64::from(latent),
                hidden,
            ));
            all.push(Tensor::matrix(
                Component::MoeOther,
                "fc2_latent_proj",
                hidden,
                u64::from(latent),
            ));
            if experts.latent_norm {
                all.push(Tensor::vector(NormOther, u64::from(latent)));
            }
        }
        let width = u64::from(experts.width).div_ceil(tp);
        let ups = if experts.gated { 2 } else { 1 };
        for (name, outputs, inputs, parts) in [
            ("experts.gate_up_proj", ups * width, inside, ups),
            ("experts.down_proj", inside, width, 1),
        ] {
            let matrix =
                Tensor::matrix(RoutedExperts, name, outputs, inputs).of(parts).biased(experts.bias);
            all.push(Tensor { copies: count, ..matrix });
        }
        if experts.shared_width > 0 {
            let width = u64::from(experts.shared_width).div_ceil(tp);
            all.push(
                Tensor::matrix(SharedExperts, "shared_experts.up_proj", ups * width, hidden)
                    .of(ups),
            );
            all.push(Tensor::matrix(SharedExperts, "shared_experts.down_proj", hidden, width));
        }
        if experts.shared_gate {
            all.push(Tensor::matrix(SharedExperts, "shared_expert_gate", 1, hidden));
        }
        all
    }
}

/// Rows to a multiple of which vocabularies are padded.
const VOCAB_PADDING: u64 = 64;

/// Rows of a table of the vocabulary on one of `tp` GPUs: vLLM pads it (`vocab_parallel_embedding.py`,
/// `DEFAULT_VOCAB_PADDING_SIZE`); whole on one.
pub(super) fn rows_of(vocab: u32, tp: u64) -> u64 {
    let rows = u64::from(vocab);
    if tp > 1 { rows.next_multiple_of(VOCAB_PADDING).div_ceil(tp) } else { rows }
}

fn share(count: u32, tp: u64) -> u64 {
    u64::from(count).div_ceil(tp)
}

fn grouped_tensors(grouped: &GroupedAttention, hidden: u64, tp: u64) -> Vec<Tensor> {
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

fn latent_tensors(latent: &LatentAttention, hidden: u64, tp: u64) -> Vec<Tensor> {
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

fn compressed_tensors(compressed: &Compressed, hidden: u64, tp: u64) -> Vec<Tensor> {
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

fn delta_tensors(delta: &DeltaNet, hidden: u64, tp: u64) -> Vec<Tensor> {
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

fn kimi_tensors(delta: &KimiDelta, hidden: u64, tp: u64) -> Vec<Tensor> {
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

fn state_tensors(state: &StateSpace, hidden: u64, tp: u64) -> Vec<Tensor> {
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

fn selective_tensors(selective: &Selective, hidden: u64, tp: u64) -> Vec<Tensor> {
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

fn conv_tensors(conv: &ShortConv, hidden: u64, tp: u64) -> Vec<Tensor> {
    let channels = share(conv.channels, tp);
    let kernel = u64::from(conv.conv_kernel);
    vec![
        Tensor::matrix(Attention, "conv.in_proj", 3 * channels, hidden).biased(conv.bias).of(3),
        Tensor::matrix(Attention, "conv.out_proj", hidden, channels).biased(conv.bias),
        Tensor::vector(Attention, channels * (kernel + u64::from(conv.bias))),
    ]
}

fn dense_tensors(dense: DenseMlp, hidden: u64, tp: u64) -> [Tensor; 2] {
    let width = share(dense.width, tp);
    let ups = if dense.gated { 2 } else { 1 };
    [
        Tensor::matrix(Component::DenseMlp, "mlp.up_proj", ups * width, hidden)
            .of(ups)
            .biased(dense.bias),
        Tensor::matrix(Component::DenseMlp, "mlp.down_proj", hidden, width).biased(dense.bias),
    ]
}
