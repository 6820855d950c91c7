//! What layers with a sliding window keep in the KV memory of vLLM: the hybrid KV cache manager
//! (vLLM 0.33.0, `vllm/v1/core/kv_cache_planning.py` and `single_type_kv_cache_manager.py`).
//!
//! Layers are dealt out to groups of as many layers as the smaller kind has, and a block holds the
//! tokens of one group. All groups take their blocks from one pool. A request has a block of every
//! group for each `block_size` of its tokens, and gives back those of windowed groups that lie before
//! its window.

use super::checkpoint::Checkpoint as ModelSpec;
use super::layout::{CacheKind, Machine, VllmLayout};
use super::precision::KvDtype;

/// Groups whose layers have the same window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowGroups {
    /// How many.
    pub groups: u32,
    /// Tokens of the window.
    pub tokens: u32,
    /// Tokens of a block; without them as many as in blocks of whole contexts.
    pub block_size: Option<u32>,
}

/// The groups of a model some of whose layers have a window or a state. One group keeps whole contexts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KvGroups {
    /// Layers of the group that keeps whole contexts, or of a wider one.
    pub layers: u32,
    /// Groups with a window.
    pub windows: Vec<WindowGroups>,
    /// Groups of layers with linear attention, of each of which a request has one block with its states.
    pub states: u32,
    /// Tokens of a block of whole contexts, where they follow from the layers and are not the user's to choose.
    pub block_size: Option<u32>,
}

impl KvGroups {
    /// So many groups with a window of so many tokens, of so many layers each.
    pub fn with_window(layers: u32, groups: u32, tokens: u32) -> Self {
        let windows = vec![WindowGroups { groups, tokens, block_size: None }];
        Self { layers, windows, ..Self::default() }
    }

    /// Of a model on a machine; nothing where all layers keep whole contexts here.
    pub fn on(model: &ModelSpec, machine: Machine) -> Option<Self> {
        Self::of(model).or_else(|| Self::laid_out(model, machine))
    }

    /// Of a model whose layers keep different amounts of a token, as [`VllmLayout`] has them; nothing where several
    /// groups keep whole contexts, or layers see chunks.
    fn laid_out(model: &ModelSpec, machine: Machine) -> Option<Self> {
        if !model.has_unequal_caches() {
            return None;
        }
        let mut laid = Self::default();
        for group in VllmLayout::of(model, machine).groups {
            match group.kind {
                CacheKind::Full | CacheKind::Latent => {
                    if laid.block_size.replace(group.block_size).is_some() {
                        return None;
                    }
                    laid.layers = group.layers;
                }
                CacheKind::Sliding(tokens) | CacheKind::SlidingLatent(tokens) => {
                    laid.add_window(tokens, group.block_size);
                }
                CacheKind::State => laid.states += 1,
                CacheKind::Chunked(_) => return None,
            }
        }
        let keeps_less = laid.states > 0 || !laid.windows.is_empty();
        (laid.block_size.is_some() && keeps_less).then_some(laid)
    }

    fn add_window(&mut self, tokens: u32, block_size: u32) {
        let one = WindowGroups { groups: 1, tokens, block_size: Some(block_size) };
        let same = |known: &&mut WindowGroups| {
            (known.tokens, known.block_size) == (one.tokens, one.block_size)
        };
        match self.windows.iter_mut().find(same) {
            Some(known) => known.groups += 1,
            None => self.windows.push(one),
        }
    }

    /// Of a model whose layers without a window fit in one group and keep as much of a token as the others; nothing
    /// for others.
    pub fn of(model: &ModelSpec) -> Option<Self> {
        if model.has_unequal_caches() {
            return None;
        }
        let states = model.state_layers();
        if states > 0 {
            return Self::with_states(model, states);
        }
        let window = model.window().filter(|window| !window.chunked)?;
        let whole =
            model.attention_layers().checked_sub(window.layers).filter(|whole| *whole > 0)?;
        let (least, most) = (whole.min(window.layers), whole.max(window.layers));
        // Two kinds of nearly equal size are padded to the larger one.
        let layers = if 2 * u64::from(most) < 3 * u64::from(least) { most } else { least };
        let groups = Self::with_window(layers, window.layers.div_ceil(layers), window.tokens);
        (whole <= layers).then_some(groups)
    }

    /// Of a model with states, whose other layers see everything and fit in one group.
    fn with_states(model: &ModelSpec, keeping: u32) -> Option<Self> {
        let layers = model.attention_layers();
        let fits = model.window().is_none() && (1..=keeping).contains(&layers);
        let states = keeping.div_ceil(layers.max(1));
        fits.then_some(Self { layers, states, ..Self::default() })
    }

    /// Tokens of a block in which the states of a layer have room, a few more than needed
    /// (`vllm/platforms/interface.py`, `update_block_size_for_backend`); nothing of a model without states.
    pub fn block_size_with_states(model: &ModelSpec, tp: u32, dtype: KvDtype) -> Option<u32> {
        let state = model.largest_state(tp, 0);
        let token = model.kv_bytes_of_layer(tp, dtype);
        let tokens = state.div_ceil(token.max(1)).next_multiple_of(model.state_alignment());
        if state == 0 {
            return None;
        }
        u32::try_from(tokens).ok()
    }

    /// Blocks of the windowed groups with slots for `slots` tokens, of which `computed` are computed.
    ///
    /// A request that decodes keeps one block more than it needs whenever its window begins with a
    /// block, so that it always keeps as many.
    pub fn blocks(&self, slots: u32, computed: u32, block_size: u32) -> u32 {
        self.of_all(block_size, |window, block_size| {
            let all = slots.div_ceil(block_size);
            let passed = computed.saturating_add(1).saturating_sub(window) / block_size;
            all.saturating_sub(passed).max(all.min(steady(window, block_size)))
        })
    }

    /// The same of a request that decodes, once it is longer than the windows.
    pub fn steady(&self, block_size: u32) -> u32 {
        self.of_all(block_size, steady)
    }

    /// The most that a request of `tokens` tokens has of them at once, if a step computes at most
    /// `step` (`SlidingWindowSpec.max_admission_blocks_per_request`).
    pub fn most(&self, tokens: u32, step: u32, block_size: u32) -> u32 {
        self.of_all(block_size, |window, block_size| {
            let reach = window.saturating_sub(1).saturating_add(step);
            tokens.div_ceil(block_size).min(reach.div_ceil(block_size).saturating_add(1))
        })
    }

    /// The blocks of all groups, by the window and the block size of each; where they are too many to count, more
    /// than any memory has.
    fn of_all(&self, block_size: u32, blocks: impl Fn(u32, u32) -> u32) -> u32 {
        self.windows.iter().fold(self.states, |sum, window| {
            let each = blocks(window.tokens, window.block_size.unwrap_or(block_size));
            sum.saturating_add(window.groups.saturating_mul(each))
        })
    }
}

/// Blocks that a request which decodes keeps of a window.
fn steady(window: u32, block_size: u32) -> u32 {
    window.div_ceil(block_size).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"model_type": "mistral", "num_hidden_layers": 36, "hidden_size": 64, "num_attention_heads": 4,
        "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 512}"#;

    fn groups(layers: u32, windowed: u32) -> Option<(u32, u32)> {
        let model = ModelSpec::from_hf_config(JSON, None, "small").unwrap();
        let model = model.with_layers(layers).with_windows(128, windowed);
        KvGroups::of(&model).map(|groups| (groups.layers, groups.windows[0].groups))
    }

    #[test]
    fn layers_are_dealt_out_to_groups_as_vllm_does() {
        assert_eq!(groups(36, 18), Some((18, 1)), "gpt-oss-120b");
        assert_eq!(groups(62, 52), Some((10, 6)), "Gemma 3 27B: eight layers are padding");
        assert_eq!(groups(25, 12), Some((13, 1)), "padded to the larger kind");
        assert_eq!(groups(30, 10), None, "whole contexts in two groups");
        assert_eq!(groups(32, 32), None, "no layer sees everything");
        assert_eq!(groups(32, 0), None);
    }

    #[test]
    fn too_many_blocks_to_count_are_the_most_there_can_be() {
        let groups = KvGroups::with_window(10, 6, u32::MAX);
        assert_eq!(groups.most(u32::MAX, u32::MAX, 1), u32::MAX);
        assert_eq!(groups.blocks(u32::MAX, u32::MAX, 1), u32::MAX);
        assert_eq!(groups.steady(1), u32::MAX);
    }

    #[test]
    fn a_request_keeps_its_window_and_what_a_step_adds() {
        let groups = KvGroups::with_window(18, 2, 128);
        let blocks = |slots, computed| groups.blocks(slots, computed, 16);
        assert_eq!(blocks(40, 0), 2 * 3, "shorter than the window: everything");
        assert_eq!(blocks(2048, 0), 2 * 128, "the first chunk is held whole");
        // Of tokens 0 to 2047 computed, the next sees from 1921 on, in block 120.
        assert_eq!(blocks(4096, 2048), 2 * (256 - 120));
        for computed in 144..400 {
            assert_eq!(blocks(computed + 1, computed), groups.steady(16), "{computed}");
        }
        for (slots, computed) in [(40, 0), (2048, 0), (4096, 2048), (1000, 999)] {
            assert!(blocks(slots, computed) <= groups.most(slots, slots - computed, 16));
        }
    }
}
