//! Bytes of weights on each GPU as vLLM 0.33.0 creates them, before they are repacked for kernels.

use std::collections::BTreeMap;

use super::Machine;
use crate::model::checkpoint::{Checkpoint, Component, Packing, Place, Tensor};
use crate::units::Bytes;

impl Checkpoint {
    /// Bytes of weights on each GPU of a machine, as wide as its kernels need them, without those of layers that draft.
    pub fn created_bytes(&self, machine: Machine) -> Bytes {
        Bytes(self.weight_bytes_by_component(machine).values().sum())
    }

    /// Bytes of weights on each GPU, by part.
    pub fn weight_bytes_by_component(&self, machine: Machine) -> BTreeMap<Component, u64> {
        let mut parts = BTreeMap::new();
        let mut add =
            |component: Component, bytes: u64| *parts.entry(component).or_default() += bytes;
        for tensor in self.outer_tensors(machine.tp) {
            add(tensor.component, self.bytes_of(Place::Outside, &tensor));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let place = Place::Layer(index);
            for tensor in self.layer_tensors(layer, machine.tp) {
                let tensor = self.padded(place, tensor, machine);
                add(tensor.component, self.bytes_of(place, &tensor));
            }
        }
        for tensor in self.tower.iter().flat_map(|tower| tower.tensors(machine.tp)) {
            add(tensor.component, plain(&tensor));
        }
        parts
    }

    /// Bytes of the weights of layers that draft on each GPU, with output heads of their own but without the tables
    /// that they share with the model.
    pub fn draft_bytes(&self, machine: Machine) -> Bytes {
        let tensors = self.draft_tensors(machine.tp).into_iter();
        let bytes = tensors.map(|(place, tensor)| {
            let tensor = self.padded(place, tensor, machine);
            self.bytes_of(place, &tensor)
        });
        Bytes(bytes.sum())
    }

    pub(in crate::model) fn packing_of(&self, place: Place, tensor: &Tensor) -> Option<Packing> {
        self.quantization.as_ref().and_then(|weights| weights.packing(place, tensor))
    }

    pub(in crate::model) fn bytes_of(&self, place: Place, tensor: &Tensor) -> u64 {
        self.packing_of(place, tensor)
            .map_or_else(|| plain(tensor), |packing| packing.bytes(tensor))
    }

    /// Experts are as wide as the tiles of the kernel that multiplies them.
    fn padded(&self, place: Place, tensor: Tensor, machine: Machine) -> Tensor {
        if tensor.component != Component::RoutedExperts {
            return tensor;
        }
        let tile = match self.packing_of(place, &tensor) {
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
