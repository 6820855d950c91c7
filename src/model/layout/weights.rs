//! Bytes of weights on each GPU as vLLM 0.33.0 creates them, before they are repacked for kernels.

use std::collections::BTreeMap;

use super::Machine;
use crate::model::checkpoint::{Checkpoint, Component, Packing, Tensor};
use crate::units::Bytes;

impl Checkpoint {
    /// Bytes of weights on each GPU of a machine, as wide as its kernels need them.
    pub fn created_bytes(&self, machine: Machine) -> Bytes {
        Bytes(self.weight_bytes_by_component(machine).values().sum())
    }

    /// Bytes of weights on each GPU, by part.
    pub fn weight_bytes_by_component(&self, machine: Machine) -> BTreeMap<Component, u64> {
        let mut parts = BTreeMap::new();
        let mut add =
            |component: Component, bytes: u64| *parts.entry(component).or_default() += bytes;
        for tensor in self.outer_tensors(machine.tp) {
            add(tensor.component, self.bytes_of(None, &tensor));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            for tensor in self.layer_tensors(layer, machine.tp) {
                let tensor = self.padded(index, tensor, machine);
                add(tensor.component, self.bytes_of(Some(index), &tensor));
            }
        }
        for tensor in self.tower.iter().flat_map(|tower| tower.tensors(machine.tp)) {
            add(tensor.component, plain(&tensor));
        }
        parts
    }

    pub(in crate::model) fn packing_of(
        &self,
        layer: Option<usize>,
        tensor: &Tensor,
    ) -> Option<Packing> {
        self.quantization.as_ref().and_then(|weights| weights.packing(layer, tensor))
    }

    pub(in crate::model) fn bytes_of(&self, layer: Option<usize>, tensor: &Tensor) -> u64 {
        self.packing_of(layer, tensor)
            .map_or_else(|| plain(tensor), |packing| packing.bytes(tensor))
    }

    /// Experts are as wide as the tiles of the kernel that multiplies them.
    fn padded(&self, layer: usize, tensor: Tensor, machine: Machine) -> Tensor {
        if tensor.component != Component::RoutedExperts {
            return tensor;
        }
        let tile = match self.packing_of(Some(layer), &tensor) {
            None if machine.is_blackwell() && self.has_usual_activation() => {
                Tile { width: 128, hidden: 1 }
            }
            Some(Packing::Mxfp4) if machine.is_blackwell() => Tile { width: 128, hidden: 256 },
            // Triton's kernel of gpt-oss.
            Some(Packing::Mxfp4) if self.family == "gpt_oss" => Tile { width: 64, hidden: 1 },
            _ => return tensor,
        };
        let up = |size: u64, multiple: u64| size.next_multiple_of(multiple);
        let (outputs, inputs) = if tensor.name == "experts.down_proj" {
            (up(tensor.outputs, tile.hidden), up(tensor.inputs, tile.width))
        } else {
            (
                tensor.parts * up(tensor.outputs / tensor.parts, tile.width),
                up(tensor.inputs, tile.hidden),
            )
        };
        let biases = if tensor.biases > 0 { outputs } else { 0 };
        Tensor { outputs, inputs, biases, ..tensor }
    }

    /// Whether the kernel that pads takes its experts: their activation is a `SiLU` or a squared `ReLU`.
    fn has_usual_activation(&self) -> bool {
        !["gemma4_text", "minimax_m3"].contains(&self.family.as_str())
    }
}

/// Multiples to which experts are padded.
struct Tile {
    width: u64,
    hidden: u64,
}

fn plain(tensor: &Tensor) -> u64 {
    tensor.params() * tensor.element.bytes()
}
