//! The weights of a model: which matrices a layer has on each GPU, parameters and bytes.
//!
//! Tensor parallelism splits matrices as Megatron-LM does (Shoeybi et al. 2019): query, key,
//! value, gate and up projections by output, output and down projections by input, embeddings by
//! vocabulary. KV heads are replicated when there are more GPUs than KV heads; norms, routers and
//! the compressing projections of latent attention are on every GPU.

use std::ops::{Add, Mul};

use super::precision::Module;
use super::spec::{Attention, Grouped, Latent, LinearAttention, Mlp, ModelSpec, Moe};
use crate::units::Bytes;

/// What follows attention in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// One gated MLP.
    Dense,
    /// A mixture of experts.
    Sparse,
}

/// Layers that are made alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayersAlike {
    /// What follows attention.
    pub kind: LayerKind,
    /// Whether they keep states in place of keys and values.
    pub has_states: bool,
    /// How many.
    pub count: u32,
}

/// A matrix as one GPU holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrix {
    /// The module it belongs to.
    pub module: Module,
    /// Outputs on this GPU.
    pub outputs: u64,
    /// Inputs on this GPU.
    pub inputs: u64,
    /// Biases on this GPU.
    pub biases: u64,
    /// Copies of this shape, each with weights of its own: 1, or the experts of a layer.
    pub count: u64,
}

impl Matrix {
    const fn new(module: Module, outputs: u64, inputs: u64) -> Self {
        Self { module, outputs, inputs, biases: 0, count: 1 }
    }

    /// Weights and biases of all copies.
    pub const fn params(&self) -> u64 {
        self.count * (self.outputs * self.inputs + self.biases)
    }
}

impl ModelSpec {
    /// The matrices of one layer as each of `tp` GPUs holds them, in the order a token meets them.
    pub fn layer_matrices(&self, layer: LayersAlike, tp: u32) -> Vec<Matrix> {
        let hidden = u64::from(self.hidden);
        let cut = u64::from(tp.max(1));
        let mut matrices = match (&self.attention, &self.linear) {
            (_, Some(linear)) if layer.has_states => linear_matrices(linear, hidden, tp),
            (Attention::Grouped(grouped), _) => grouped_matrices(grouped, hidden, cut),
            (Attention::Latent(latent), _) => latent_matrices(latent, hidden, cut),
        };
        matrices.extend(self.mlp_matrices(layer.kind, tp));
        matrices
    }

    /// What follows attention in a layer.
    fn mlp_matrices(&self, kind: LayerKind, tp: u32) -> Vec<Matrix> {
        let (hidden, tp) = (u64::from(self.hidden), u64::from(tp.max(1)));
        let mut matrices = Vec::new();
        match (kind, &self.moe) {
            (LayerKind::Sparse, Some(moe)) => matrices.extend(moe_matrices(moe, hidden, tp)),
            _ => matrices.extend(self.dense_mlp(hidden, tp)),
        }
        matrices
    }

    /// The MLP of a dense layer.
    fn dense_mlp(&self, hidden: u64, tp: u64) -> [Matrix; 2] {
        let [mut up, down] = mlp(Module::Mlp, u64::from(self.intermediate), hidden, tp);
        if self.mlp == Mlp::Plain {
            up.outputs /= 2;
        }
        [up, down]
    }

    /// The projection to the vocabulary as each of `tp` GPUs holds it.
    pub fn lm_head(&self, tp: u32) -> Matrix {
        let outputs = u64::from(self.vocab).div_ceil(u64::from(tp.max(1)));
        Matrix::new(Module::LmHead, outputs, u64::from(self.hidden))
    }

    /// All parameters.
    pub fn params_total(&self) -> u64 {
        let tables = if self.tied_embeddings { 1 } else { 2 };
        tables * self.embedding_params()
            + u64::from(self.hidden)
            + self.per_layer(|matrices, vectors| {
                matrices(1).iter().map(Matrix::params).sum::<u64>() + vectors
            })
    }

    /// All parameters but those of norms and biases, whatever sizes are given.
    pub(super) fn params_roughly(&self) -> f64 {
        let params =
            |matrix: &Matrix| matrix.count as f64 * matrix.outputs as f64 * matrix.inputs as f64;
        params(&self.lm_head(1))
            + self.per_layer(|matrices, _| -> f64 { matrices(1).iter().map(params).sum() })
    }

    /// Parameters a token meets: all of a dense model; of a mixture, all but the experts not
    /// chosen and the embedding table, as published figures of active parameters count.
    pub fn params_active(&self) -> u64 {
        let Some(moe) = &self.moe else { return self.params_total() };
        let idle = u64::from(moe.experts - moe.experts_per_token);
        let expert: u64 = self
            .mlp_matrices(LayerKind::Sparse, 1)
            .iter()
            .filter(|matrix| matrix.module == Module::Experts)
            .map(|matrix| matrix.params() / matrix.count)
            .sum();
        let table = if self.tied_embeddings { 0 } else { self.embedding_params() };
        self.params_total() - u64::from(self.sparse_layers()) * idle * expert - table
    }

    /// Bytes of weights on each of `tp` GPUs.
    pub fn weight_bytes(&self, tp: u32) -> Bytes {
        self.weight_bytes_of_rank(tp, 1)
    }

    /// Bytes of weights on each of the `tp` GPUs of one of several data-parallel ranks, which have all
    /// but the routed experts each, and of these whole ones on every GPU: as many, or one fewer.
    pub fn weight_bytes_of_rank(&self, tp: u32, ranks: u32) -> Bytes {
        let format = &self.weights;
        let plain = format.dtype.bytes();
        let tables = if self.tied_embeddings { 1 } else { 2 };
        let head = self.lm_head(tp).params() * plain * tables;
        let layers = self.per_layer(|of_layer, vectors| {
            let mut matrices = of_layer(tp);
            if ranks > 1 {
                let is_expert = |matrix: &Matrix| matrix.module == Module::Experts;
                matrices.retain(|matrix| !is_expert(matrix));
                let mut experts = of_layer(1);
                experts.retain(is_expert);
                let held = |matrix: Matrix| {
                    let count = matrix.count.div_ceil(u64::from(tp) * u64::from(ranks));
                    Matrix { count, ..matrix }
                };
                matrices.extend(experts.into_iter().map(held));
            }
            let bytes = |matrix: &Matrix| {
                let weights = format.bytes(matrix.module, matrix.outputs, matrix.inputs);
                matrix.count * (weights + matrix.biases * plain)
            };
            matrices.iter().map(bytes).sum::<u64>() + vectors * plain
        });
        Bytes(head + layers + u64::from(self.hidden) * plain)
    }

    /// The sum of a figure over all layers, of which it is given the matrices on each of so many GPUs, and the
    /// parameters that are in no matrix.
    fn per_layer<T>(&self, figure: impl Fn(&dyn Fn(u32) -> Vec<Matrix>, u64) -> T) -> T
    where
        T: From<u32> + Add<Output = T> + Mul<Output = T>,
    {
        self.layers_alike().into_iter().fold(T::from(0), |sum, alike| {
            let matrices = |tp| self.layer_matrices(alike, tp);
            sum + T::from(alike.count) * figure(&matrices, self.vector_params(alike))
        })
    }

    /// The layers, of each kind that there is.
    pub fn layers_alike(&self) -> Vec<LayersAlike> {
        let states = self.linear.map_or(0, |linear| linear.layers);
        let (dense, sparse) = (self.dense_layers(), self.sparse_layers());
        // Of the few layers with another MLP, none has states.
        let dense_states = if sparse > dense { 0 } else { states.min(dense) };
        let sparse_states = states - dense_states;
        let alike = |kind, has_states, count| LayersAlike { kind, has_states, count };
        let all = [
            alike(LayerKind::Dense, false, dense - dense_states),
            alike(LayerKind::Dense, true, dense_states),
            alike(LayerKind::Sparse, false, sparse.saturating_sub(sparse_states)),
            alike(LayerKind::Sparse, true, sparse_states.min(sparse)),
        ];
        all.into_iter().filter(|alike| alike.count > 0).collect()
    }

    /// Parameters of a layer that are in no matrix: norms, sinks, the router's numbers.
    fn vector_params(&self, layer: LayersAlike) -> u64 {
        let attention = match (&self.attention, self.linear) {
            (_, Some(linear)) if layer.has_states => {
                // Decays of each head, the norm, and the convolution.
                2 * u64::from(linear.value_heads)
                    + u64::from(linear.value_dim)
                    + u64::from(linear.conv_kernel) * linear.channels(1)
            }
            (Attention::Grouped(grouped), _) => {
                let head_norms = if grouped.qk_norm { 2 * u64::from(grouped.head_dim) } else { 0 };
                head_norms + if grouped.sinks { u64::from(grouped.heads) } else { 0 }
            }
            (Attention::Latent(latent), _) => {
                u64::from(latent.q_lora_rank.unwrap_or(0)) + u64::from(latent.kv_lora_rank)
            }
        };
        let router = match (layer.kind, &self.moe) {
            (LayerKind::Sparse, Some(moe)) if moe.router_bias => u64::from(moe.experts),
            _ => 0,
        };
        2 * u64::from(self.hidden) + attention + router
    }
}

/// Queries, keys, values and gates in one matrix, decays, and the output.
fn linear_matrices(linear: &LinearAttention, hidden: u64, tp: u32) -> Vec<Matrix> {
    let share = |count: u32| u64::from(count.div_ceil(tp.max(1)));
    let values = share(linear.value_heads) * u64::from(linear.value_dim);
    let matrix = |outputs, inputs| Matrix::new(Module::Attention, outputs, inputs);
    vec![
        matrix(linear.channels(tp) + values, hidden),
        matrix(2 * share(linear.value_heads), hidden),
        matrix(hidden, values),
    ]
}

fn grouped_matrices(grouped: &Grouped, hidden: u64, tp: u64) -> Vec<Matrix> {
    let dim = u64::from(grouped.head_dim);
    let heads = u64::from(grouped.heads).div_ceil(tp);
    let kv_heads = u64::from(grouped.kv_heads).div_ceil(tp);
    let queries = if grouped.output_gate { 2 * heads } else { heads };
    let mut qkv = Matrix::new(Module::Attention, (queries + 2 * kv_heads) * dim, hidden);
    let mut output = Matrix::new(Module::Attention, hidden, heads * dim);
    qkv.biases = if grouped.qkv_bias { qkv.outputs } else { 0 };
    output.biases = if grouped.output_bias { hidden } else { 0 };
    vec![qkv, output]
}

fn latent_matrices(latent: &Latent, hidden: u64, tp: u64) -> Vec<Matrix> {
    let heads = u64::from(latent.heads).div_ceil(tp);
    let (nope, rope) = (u64::from(latent.qk_nope_head_dim), u64::from(latent.qk_rope_head_dim));
    let (kv_rank, value) = (u64::from(latent.kv_lora_rank), u64::from(latent.v_head_dim));
    let matrix = |outputs, inputs| Matrix::new(Module::Attention, outputs, inputs);
    let query = match latent.q_lora_rank.map(u64::from) {
        Some(rank) => vec![matrix(rank, hidden), matrix(heads * (nope + rope), rank)],
        None => vec![matrix(heads * (nope + rope), hidden)],
    };
    let rest = [
        matrix(kv_rank + rope, hidden),
        matrix(heads * (nope + value), kv_rank),
        matrix(hidden, heads * value),
    ];
    query.into_iter().chain(rest).collect()
}

fn moe_matrices(moe: &Moe, hidden: u64, tp: u64) -> Vec<Matrix> {
    let mut matrices = vec![Matrix::new(Module::Router, u64::from(moe.experts), hidden)];
    for mut matrix in mlp(Module::Experts, u64::from(moe.intermediate), hidden, tp) {
        matrix.count = u64::from(moe.experts);
        matrix.biases = if moe.expert_bias { matrix.outputs } else { 0 };
        matrices.push(matrix);
    }
    if moe.shared_intermediate > 0 {
        let shared = mlp(Module::SharedExperts, u64::from(moe.shared_intermediate), hidden, tp);
        matrices.extend(shared);
    }
    if moe.shared_gate {
        matrices.push(Matrix::new(Module::Router, 1, hidden));
    }
    matrices
}

/// Gate and up projections in one matrix, then the down projection.
fn mlp(module: Module, intermediate: u64, hidden: u64, tp: u64) -> [Matrix; 2] {
    let width = intermediate.div_ceil(tp);
    [Matrix::new(module, 2 * width, hidden), Matrix::new(module, hidden, width)]
}
