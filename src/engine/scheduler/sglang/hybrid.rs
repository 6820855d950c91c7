//! What a hybrid model keeps beside the KV of its layers with full attention, and with what it goes together
//! (SGLang 0.5.23, `sglang/srt/server_args.py`, `sglang/srt/arg_groups/mamba_hook.py`).

use super::SglangSettings;
use crate::model::layout::MambaStrategy;

/// Longest window and interval in tokens, and coarsest grid of states: sums with the longest sequence fit in 32 bits.
const WINDOW_MAX: u32 = 1 << 28;
const GRID_MAX: u32 = 1 << 15;

/// The memory of a hybrid model beside the KV of its layers with full attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SglangHybrid {
    /// Slots of layers that read a window of their sequence.
    Window(SglangWindowPool),
    /// States of layers with state-space models or linear attention.
    State(SglangStatePool),
}

/// The slots of layers that read a window of their sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SglangWindowPool {
    /// Tokens of a window.
    pub window: u32,
    /// Tokens of the pool.
    pub tokens: u32,
    /// Tokens behind the window that a decoding request keeps before it gives them back
    /// (`SGLANG_SWA_EVICTION_INTERVAL`).
    pub eviction_interval: u32,
}

/// The states of layers with state-space models or linear attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SglangStatePool {
    /// States, each of one sequence in all those layers.
    pub slots: u32,
    /// Which of them the tree keeps (`--mamba-radix-cache-strategy`).
    pub strategy: StateStrategy,
}

/// Which states of a request others find: [`MambaStrategy`], with its grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateStrategy {
    /// [`MambaStrategy::NoBuffer`].
    NoBuffer,
    /// [`MambaStrategy::ExtraBuffer`].
    ExtraBuffer {
        /// Tokens that a kernel of those layers takes at once: multiples of it are tracked in a prefill
        /// (`mamba_chunk_size`, else 64).
        chunk: u32,
        /// Multiples of it are tracked while a request decodes (`--mamba-track-interval`).
        track_interval: u32,
    },
}

impl StateStrategy {
    /// `track_interval` unless told otherwise.
    pub const TRACK_INTERVAL: u32 = 256;

    const fn without_grid(self) -> MambaStrategy {
        match self {
            Self::NoBuffer => MambaStrategy::NoBuffer,
            Self::ExtraBuffer { .. } => MambaStrategy::ExtraBuffer,
        }
    }
}

impl SglangWindowPool {
    /// `eviction_interval` unless the environment says otherwise.
    pub const EVICTION_INTERVAL: u32 = 128;
}

impl SglangStatePool {
    /// Slots of a running request beside its own.
    pub(super) fn tracking(&self, settings: &SglangSettings) -> u32 {
        if settings.disable_radix_cache {
            return 0;
        }
        self.strategy.without_grid().tracking_slots(settings.disable_overlap_schedule)
    }

    /// Slots that as many requests need as may run: each its own, beside that the one that it went on from, and
    /// one to copy.
    fn needed(&self, settings: &SglangSettings) -> u64 {
        let requests = u64::from(settings.max_running_requests);
        if settings.disable_radix_cache {
            return requests;
        }
        requests * u64::from(2 + self.tracking(settings)) + 1
    }
}

impl SglangSettings {
    /// Whether layers of its model read a window of their sequence.
    pub fn has_windows(&self) -> bool {
        matches!(self.hybrid, Some(SglangHybrid::Window(_)))
    }

    /// What does not go together among drafts, windows and states, if anything does not, and the flag that it is of:
    /// SGLang refuses it, would break down, or it is not modelled.
    pub fn conflict(&self) -> Option<(&'static str, String)> {
        let drafts = self.speculative_num_steps;
        if self.enable_mixed_chunk && (drafts > 0 || self.hybrid.is_some()) {
            let rule = "is not modelled with drafts, sliding windows or layers with states";
            return Some(("enable_mixed_chunk", rule.to_owned()));
        }
        match self.hybrid? {
            SglangHybrid::Window(pool) => self.conflict_of_windows(pool),
            SglangHybrid::State(pool) => self.conflict_of_states(pool),
        }
    }

    fn conflict_of_windows(&self, pool: SglangWindowPool) -> Option<(&'static str, String)> {
        let page = self.page_size;
        if !(1..=WINDOW_MAX).contains(&pool.window) {
            let rule = format!("must be 1 to {WINDOW_MAX} tokens, got {}", pool.window);
            return Some(("window", rule));
        }
        if pool.eviction_interval > WINDOW_MAX {
            let rule = format!("must be at most {WINDOW_MAX}, got {}", pool.eviction_interval);
            return Some(("eviction_interval", rule));
        }
        (pool.tokens < page).then(|| {
            let rule =
                format!("must leave windows a page of {page} tokens, leaves {}", pool.tokens);
            ("swa_full_tokens_ratio", rule)
        })
    }

    fn conflict_of_states(&self, pool: SglangStatePool) -> Option<(&'static str, String)> {
        let (needed, slots) = (pool.needed(self), pool.slots);
        if u64::from(slots) < needed {
            let requests = self.max_running_requests;
            let rule =
                format!("must be at least {needed} for {requests} running requests, got {slots}");
            return Some(("max_mamba_cache_size", rule));
        }
        let (page, drafts) = (self.page_size, self.speculative_num_steps);
        match pool.strategy {
            _ if self.disable_radix_cache => None,
            StateStrategy::NoBuffer if page > 1 || !self.disable_overlap_schedule => {
                let rule = "`no_buffer` goes with pages of 1 token and disable_overlap_schedule";
                Some(("mamba_radix_cache_strategy", rule.to_owned()))
            }
            StateStrategy::ExtraBuffer { chunk, .. } if !(1..=GRID_MAX).contains(&chunk) => {
                Some(("chunk of states", format!("must be 1 to {GRID_MAX} tokens, got {chunk}")))
            }
            StateStrategy::ExtraBuffer { track_interval, .. }
                if !(1..=GRID_MAX).contains(&track_interval)
                    || !track_interval.is_multiple_of(page)
                    || track_interval < drafts + 1 =>
            {
                let rule = format!(
                    "must be a multiple of the page of {page}, {} to {GRID_MAX}, got {track_interval}",
                    drafts + 1
                );
                Some(("mamba_track_interval", rule))
            }
            StateStrategy::NoBuffer | StateStrategy::ExtraBuffer { .. } => None,
        }
    }
}
