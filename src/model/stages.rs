//! The stages of pipeline parallelism: which layers of a model lie on which group of GPUs.

use std::ops::Range;

use super::checkpoint::{Checkpoint as ModelSpec, Component};
use crate::units::Bytes;

/// The layers of a model that one group of GPUs computes.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The model, were these all its layers.
    pub model: ModelSpec,
    /// Which layers they are.
    pub layers: Range<u32>,
    is_first: bool,
    is_last: bool,
}

impl Stage {
    /// Whether tokens are embedded here.
    pub const fn is_first(&self) -> bool {
        self.is_first
    }

    /// Whether tokens are sampled here.
    pub const fn is_last(&self) -> bool {
        self.is_last
    }

    /// Bytes of weights on each of the `tp` GPUs of the stage. The first has the embedding table, the
    /// last the norm and the head behind the layers; a table that is both lies on both.
    pub fn weight_bytes(&self, tp: u32) -> Bytes {
        self.weight_bytes_of_rank(tp, 1)
    }

    /// The same where so many data-parallel ranks share the routed experts.
    pub fn weight_bytes_of_rank(&self, tp: u32, ranks: u32) -> Bytes {
        let tied = self.model.tied_embeddings;
        // The table of the vocabulary comes first; tables of positions lie on the first stage alone.
        let is_here = |place: usize, component: Component| match component {
            Component::Embedding if place == 0 => self.is_first || (self.is_last && tied),
            Component::Embedding | Component::Vision => self.is_first,
            _ => self.is_last,
        };
        let outer = self.model.outer_bytes(tp);
        let outer = outer.into_iter().enumerate();
        let outer = outer.filter(|(place, (component, _))| is_here(*place, *component));
        let outer: u64 = outer.map(|(_, (_, bytes))| bytes).sum();
        Bytes(outer + self.model.layer_bytes_of_rank(tp, ranks))
    }
}

impl ModelSpec {
    /// The model cut into so many stages as vLLM cuts it (0.33.0, `vllm/distributed/utils.py`,
    /// `get_pp_indices`): evenly, and what is left over one by one on the stages before the last, from
    /// the back, so that the last, which has the head, and then the first have none of it.
    ///
    /// # Panics
    /// When there are fewer layers than stages, or no stages.
    pub fn stages(&self, count: u32) -> Vec<Stage> {
        let all = self.num_layers();
        assert!((1..=all).contains(&count), "every stage has a layer");
        let (each, left) = (all / count, all % count);
        let mut start = 0;
        let stage = |index: u32| {
            // Counted from the back, the last stage being 1.
            let place = count - index;
            let layers = start..start + each + u32::from((2..left + 2).contains(&place));
            start = layers.end;
            Stage {
                model: self.part(&layers),
                layers,
                is_first: index == 0,
                is_last: index + 1 == count,
            }
        };
        (0..count).map(stage).collect()
    }

    /// The model, were these all its layers.
    fn part(&self, layers: &Range<u32>) -> Self {
        let mut part = self.clone();
        part.layers = self.layers[layers.start as usize..layers.end as usize].to_vec();
        if let Some(weights) = &mut part.quantization {
            *weights = weights.beginning_at(layers.start as usize);
        }
        part
    }
}
