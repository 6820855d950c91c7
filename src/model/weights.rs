//! The weights of a model: which matrices a layer has on each GPU, how they are packed, and their bytes.

use super::checkpoint::{Checkpoint, Component, Layer, Packing, Place, Tensor};
use super::precision::{ComputeRate, Module};
use crate::units::Bytes;

/// Layers that are made and packed alike.
#[derive(Debug, Clone, PartialEq)]
pub struct LayersAlike {
    /// What they consist of.
    pub layer: Layer,
    /// The first of them.
    pub first: usize,
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
    /// Matrices of the checkpoint that are stored as this one: q, k and v are three.
    pub parts: u64,
    /// What it is packed in; 16 bits if absent.
    pub packing: Option<Packing>,
    /// Bytes of the weights of one copy, with scales.
    pub weight_bytes: u64,
}

impl Matrix {
    pub(super) fn of(tensor: &Tensor, packing: Option<Packing>) -> Self {
        let one = Tensor { copies: 1, biases: 0, ..*tensor };
        let plain = one.params() * one.element.bytes();
        // Gates of single experts and of all of them are small products among the choice of experts.
        let is_gate = tensor.name == "gate" || tensor.name == "shared_expert_gate";
        Self {
            module: if is_gate { Module::Router } else { tensor.component.module() },
            outputs: tensor.outputs,
            inputs: tensor.inputs,
            biases: tensor.biases,
            count: tensor.copies,
            parts: tensor.parts,
            packing,
            weight_bytes: packing.map_or(plain, |packing| packing.bytes(&one)),
        }
    }

    /// Weights and biases of all copies.
    pub const fn params(&self) -> u64 {
        self.count * (self.outputs * self.inputs + self.biases)
    }

    /// The rate at which products with it run.
    pub fn compute(&self) -> ComputeRate {
        self.packing.map_or(ComputeRate::Half, Packing::compute)
    }
}

impl Checkpoint {
    /// The layers, of each kind that there is, in the order of the first of each.
    pub fn layers_alike(&self) -> Vec<LayersAlike> {
        let kind_of = |index: usize| self.quantization.as_ref().map_or(0, |it| it.kind_of(index));
        let mut kinds: Vec<LayersAlike> = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let packed = kind_of(index);
            let is_like =
                |kind: &&mut LayersAlike| kind.layer == *layer && kind_of(kind.first) == packed;
            match kinds.iter_mut().find(is_like) {
                Some(kind) => kind.count += 1,
                None => kinds.push(LayersAlike { layer: *layer, first: index, count: 1 }),
            }
        }
        kinds
    }

    /// The matrices of one layer as each of `tp` GPUs holds them, in the order a token meets them.
    pub fn layer_matrices(&self, alike: &LayersAlike, tp: u32) -> Vec<Matrix> {
        let tensors = self.layer_tensors(&alike.layer, tp);
        let matrices = tensors.iter().filter(|tensor| tensor.inputs > 1);
        let packed = |tensor: &Tensor| {
            Matrix::of(tensor, self.packing_of(Place::Layer(alike.first), tensor))
        };
        matrices.map(packed).collect()
    }

    /// The projection to the vocabulary as each of `tp` GPUs holds it.
    pub fn lm_head(&self, tp: u32) -> Matrix {
        let rows = self.vocab_rows(tp);
        let head = Tensor::matrix(Component::LmHead, "lm_head", rows, u64::from(self.hidden));
        let packing =
            if self.tied_embeddings { None } else { self.packing_of(Place::Outside, &head) };
        Matrix::of(&head, packing)
    }

    /// What the matrices of a module are packed in, those of the first layer that has some; 16 bits if absent.
    pub fn packing_of_module(&self, module: Module) -> Option<Packing> {
        if module == Module::LmHead {
            return self.lm_head(1).packing;
        }
        let has = |alike: &LayersAlike| {
            let matrices = self.layer_matrices(alike, 1);
            matrices.into_iter().find(|matrix| matrix.module == module)
        };
        self.layers_alike().iter().find_map(has)?.packing
    }

    /// What most of the quantised matrices are packed in, if any are.
    pub fn main_packing(&self) -> Option<Packing> {
        let weights = self.quantization.as_ref()?;
        weights.experts.or(weights.rest).or_else(|| {
            let modules = [Module::Experts, Module::Mlp, Module::Attention];
            modules.iter().find_map(|module| self.packing_of_module(*module))
        })
    }

    /// Bytes of weights on each of `tp` GPUs.
    pub fn weight_bytes(&self, tp: u32) -> Bytes {
        self.weight_bytes_of_rank(tp, 1)
    }

    /// Bytes of weights on each of the `tp` GPUs of one of several data-parallel ranks, which have all
    /// but the routed experts each, and of these whole ones on every GPU: as many, or one fewer.
    pub fn weight_bytes_of_rank(&self, tp: u32, ranks: u32) -> Bytes {
        let outer: u64 = self.outer_bytes(tp).into_iter().map(|(_, bytes)| bytes).sum();
        Bytes(outer + self.layer_bytes_of_rank(tp, ranks))
    }

    /// Bytes of what stands around the layers, on each of `tp` GPUs.
    pub(super) fn outer_bytes(&self, tp: u32) -> Vec<(Component, u64)> {
        let towers = self.tower.iter().flat_map(|tower| tower.tensors(tp));
        let towers = towers.map(|tensor| tensor.params() * tensor.element.bytes()).sum();
        let outer = self.outer_tensors(tp);
        let bytes = |tensor: &Tensor| (tensor.component, self.bytes_of(Place::Outside, tensor));
        outer.iter().map(bytes).chain([(Component::Vision, towers)]).collect()
    }

    /// The same of the layers alone.
    pub(super) fn layer_bytes_of_rank(&self, tp: u32, ranks: u32) -> u64 {
        let of_layer = |alike: LayersAlike| {
            let mut tensors = self.layer_tensors(&alike.layer, tp);
            if ranks > 1 {
                let is_expert = |tensor: &Tensor| tensor.component == Component::RoutedExperts;
                tensors.retain(|tensor| !is_expert(tensor));
                let mut experts = self.layer_tensors(&alike.layer, 1);
                experts.retain(is_expert);
                let gpus = u64::from(tp) * u64::from(ranks);
                let held =
                    |tensor: Tensor| Tensor { copies: tensor.copies.div_ceil(gpus), ..tensor };
                tensors.extend(experts.into_iter().map(held));
            }
            let bytes = |tensor: &Tensor| self.bytes_of(Place::Layer(alike.first), tensor);
            u64::from(alike.count) * tensors.iter().map(bytes).sum::<u64>()
        };
        self.layers_alike().into_iter().map(of_layer).sum()
    }

    /// FLOPs of one token through all matrices, two per parameter it meets; attention to its
    /// context not included.
    pub fn flops_per_token(&self) -> u64 {
        let table = u64::from(self.vocab) * u64::from(self.hidden);
        let looked_up = if self.tied_embeddings { 0 } else { table };
        2 * (self.parameters().active - looked_up)
    }
}
