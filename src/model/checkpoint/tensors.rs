//! The weights of a layer, as each of several GPUs holds them.
//!
//! Tensor parallelism splits matrices as Megatron-LM does (Shoeybi et al. 2019). KV heads are replicated where there
//! are more GPUs than KV heads; norms, routers, indexers, and what compresses queries, keys or the input of experts
//! are on every GPU. Names are those of the matrices in checkpoints, below the layer.

mod mixers;

use self::Component::{NormOther, RoutedExperts, SharedExperts};
use self::mixers::{
    compressed_tensors, conv_tensors, delta_tensors, grouped_tensors, kimi_tensors, latent_tensors,
    selective_tensors, state_tensors,
};
use super::Checkpoint;
use super::shape::{DenseMlp, Experts, Layer, Mixer};
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
