//! Blocks of layers with a sliding window (vLLM 0.33.0, `SlidingWindowManager`): a request has them
//! beside those of its whole context and gives them back as its window moves on.
//!
//! They have no names: a lookup finds what layers that see everything have kept. Given back, they
//! go where blocks with a content go, as the engine's do, and push such blocks out.

use super::VllmV1;
use crate::model::KvGroups;

impl VllmV1 {
    /// The same engine with a model some of whose layers have a window.
    ///
    /// # Panics
    /// When blocks have numbers: those of windows have none.
    #[must_use]
    pub fn with_windows(mut self, groups: Option<KvGroups>) -> Self {
        assert!(groups.is_none() || !self.pool.is_numbered(), "blocks of windows have no numbers");
        self.windows = groups;
        self
    }

    /// Blocks of windows that a request has with these slots.
    pub(super) fn windowed(&self, slots: u32, computed: u32) -> u32 {
        self.windows
            .as_ref()
            .map_or(0, |groups| groups.blocks(slots, computed, self.settings.block_size))
    }

    /// The most that a request of so many tokens has at once.
    pub(super) fn most_windowed(&self, tokens: u32) -> u32 {
        let step = self.settings.max_num_batched_tokens.min(self.settings.max_model_len);
        let most = |groups: &KvGroups| groups.most(tokens, step, self.settings.block_size);
        self.windows.as_ref().map_or(0, most)
    }

    /// Gives back what lies before the window of a request.
    pub(super) fn pass_window(&mut self, slot: u32) {
        if self.windows.is_none() {
            return;
        }
        let s = &self.sequences[slot as usize];
        let kept = self.windowed(s.computed + 1, s.computed);
        self.give_back_windowed(slot, kept);
    }

    /// Gives back all but `kept` blocks of windows.
    pub(super) fn give_back_windowed(&mut self, slot: u32, kept: u32) {
        let s = &mut self.sequences[slot as usize];
        let passed = s.windowed.saturating_sub(kept);
        if passed > 0 {
            s.windowed = kept;
            self.pool.give_back(passed, self.settings.enable_prefix_caching);
            self.lacks_memory = false;
        }
    }

    /// Whether a request claims no more blocks of windows as it decodes.
    pub(super) fn has_whole_window(&self, slot: u32) -> bool {
        let windowed = self.sequences[slot as usize].windowed;
        let steady = |groups: &KvGroups| groups.steady(self.settings.block_size);
        self.windows.as_ref().is_none_or(|groups| windowed == steady(groups))
    }
}
