//! The stages of pipeline parallelism: which layers of a model lie on which group of GPUs.

use std::ops::Range;

use super::spec::{LinearAttention, ModelSpec, SlidingWindow};
use crate::units::Bytes;

/// The layers of a model that one group of GPUs computes.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The model, were these all its layers. Dense layers of a mixture are taken to come first, and
    /// layers with a window to be spread evenly.
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
        let whole = self.model.weight_bytes_of_rank(tp, ranks);
        if self.is_first && self.is_last {
            return whole;
        }
        let plain = self.model.weights.dtype.bytes();
        let table = self.model.lm_head(tp).params() * plain;
        let norm = u64::from(self.model.hidden) * plain;
        let tables = if self.model.tied_embeddings { 1 } else { 2 };
        let layers = whole.0 - tables * table - norm;
        let ends = u64::from(self.is_first) * table + u64::from(self.is_last) * (table + norm);
        Bytes(layers + ends)
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
        assert!((1..=self.layers).contains(&count), "every stage has a layer");
        let (each, left) = (self.layers / count, self.layers % count);
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
        let windows_before = |layer: u32, windows: u32| {
            (u64::from(windows) * u64::from(layer) / u64::from(self.layers)) as u32
        };
        let window = self.sliding_window.map(|window| SlidingWindow {
            layers: windows_before(layers.end, window.layers)
                - windows_before(layers.start, window.layers),
            ..window
        });
        let linear = self.linear.map(|linear| LinearAttention {
            layers: windows_before(layers.end, linear.layers)
                - windows_before(layers.start, linear.layers),
            ..linear
        });
        let mut moe = self.moe;
        if let Some(moe) = &mut moe {
            moe.dense_layers = moe.dense_layers.clamp(layers.start, layers.end) - layers.start;
        }
        Self {
            layers: layers.end - layers.start,
            sliding_window: window.filter(|window| window.layers > 0),
            moe,
            linear: linear.filter(|linear| linear.layers > 0),
            ..self.clone()
        }
    }
}
