//! Parameters of a model by part, and those that a token meets.

use super::Checkpoint;
use super::shape::Mixer;
use super::tensors::{Component, Tensor};
use crate::model::error::ModelError;

/// Parameters of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parameters {
    /// All but those of towers.
    pub text: u64,
    /// Those of towers.
    pub vision: u64,
    /// Those that a token meets: all but the experts not chosen, and towers.
    pub active: u64,
}

impl Parameters {
    /// All.
    pub const fn total(&self) -> u64 {
        self.text + self.vision
    }
}

impl Checkpoint {
    /// All parameters, tied tables once; layers that draft not included.
    pub fn params_total(&self) -> u64 {
        self.parameters().total()
    }

    /// Parameters that a token meets.
    pub fn params_active(&self) -> u64 {
        self.parameters().active
    }

    /// Parameters by part, tied tables once; layers that draft not included.
    pub fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::default();
        for tensor in self.outer_tensors(1) {
            parameters.text += tensor.params();
        }
        parameters.active = parameters.text;
        for layer in &self.layers {
            let tensors = self.layer_tensors(layer, 1);
            let all: u64 = tensors.iter().map(Tensor::params).sum();
            let routed: u64 = of(&tensors, Component::RoutedExperts);
            let chosen = layer.experts.map_or(0, |experts| {
                routed / u64::from(experts.count.max(1)) * u64::from(experts.per_token)
            });
            parameters.text += all;
            parameters.active += all - routed + chosen;
        }
        parameters.vision = self
            .tower
            .as_ref()
            .map_or(0, |tower| tower.tensors(1).iter().map(Tensor::params).sum());
        parameters
    }

    /// What mixes tokens in each layer that has such a part, in order.
    pub fn each_mixer(&self) -> impl Iterator<Item = &Mixer> {
        self.layers.iter().filter_map(|layer| layer.mixer.as_ref())
    }

    /// The different mixers, in the order of the first of each, with the layers that have them.
    pub fn distinct_mixers(&self) -> Vec<(Mixer, u32)> {
        let mut kinds: Vec<(Mixer, u32)> = Vec::new();
        for mixer in self.each_mixer() {
            match kinds.iter_mut().find(|(kind, _)| kind == mixer) {
                Some((_, count)) => *count += 1,
                None => kinds.push((*mixer, 1)),
            }
        }
        kinds
    }

    /// Kinds of mixers, by name, with the layers that have them.
    pub fn mixers(&self) -> Vec<(String, usize)> {
        let mut kinds: Vec<(String, usize)> = Vec::new();
        for mixer in self.each_mixer() {
            let name = mixer.to_string();
            match kinds.iter_mut().find(|(kind, _)| *kind == name) {
                Some((_, count)) => *count += 1,
                None => kinds.push((name, 1)),
            }
        }
        kinds
    }

    /// Whether this many GPUs can share the heads, as vLLM requires.
    ///
    /// # Errors
    /// When the heads do not divide evenly.
    pub fn check_tensor_parallel(&self, tp: u32) -> Result<(), ModelError> {
        for mixer in self.each_mixer() {
            let (heads, kv_heads) = match mixer {
                Mixer::Grouped(grouped) => (grouped.heads, grouped.kv_heads),
                Mixer::Latent(latent) if latent.is_expanded => (latent.heads, latent.heads),
                Mixer::Latent(latent) => (latent.heads, 1),
                Mixer::Compressed(compressed) => (compressed.heads, 1),
                Mixer::Delta(delta) => (delta.value_heads, delta.key_heads),
                Mixer::KimiDelta(delta) => (delta.heads, 1),
                Mixer::StateSpace(state) => (state.heads, 1),
                Mixer::Selective(selective) => (selective.channels, 1),
                Mixer::ShortConv(conv) => (conv.channels, 1),
            };
            let shares = |count: u32| {
                count == 1 || count.is_multiple_of(tp) || (tp > count && tp.is_multiple_of(count))
            };
            if tp == 0 || !heads.is_multiple_of(tp) || !shares(kv_heads) {
                return Err(ModelError::TensorParallel {
                    model: self.name.clone(),
                    heads,
                    kv_heads,
                    tp,
                });
            }
        }
        Ok(())
    }

    /// All parameters, whatever sizes are given.
    pub(super) fn parameters_roughly(&self) -> f64 {
        let of = |tensor: &Tensor| {
            tensor.copies as f64
                * (tensor.outputs as f64 * tensor.inputs as f64 + tensor.biases as f64)
        };
        let layers = self.layers.iter().flat_map(|layer| self.layer_tensors(layer, 1));
        let towers = self.tower.iter().flat_map(|tower| tower.tensors(1));
        layers.chain(self.outer_tensors(1)).chain(towers).map(|tensor| of(&tensor)).sum()
    }

    /// Parameters of a part.
    pub fn parameters_of(&self, component: Component) -> u64 {
        let layers = self.layers.iter().map(|layer| of(&self.layer_tensors(layer, 1), component));
        layers.sum::<u64>() + of(&self.outer_tensors(1), component)
    }
}

fn of(tensors: &[Tensor], component: Component) -> u64 {
    tensors.iter().filter(|tensor| tensor.component == component).map(Tensor::params).sum()
}
