//! The blocks of one request: how many it needs, taking them, naming them, giving them back
//! (vLLM 0.33.0, `vllm/v1/core/kv_cache_manager.py`, `allocate_slots`).

use super::VllmV1;
use super::sequence::Status;
use crate::kv::Hits;

/// What a request needs memory for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Need {
    /// Tokens it computes in this step.
    pub(super) tokens: u32,
    /// Slots for draft tokens beyond them.
    pub(super) lookahead: u32,
    /// Tokens whose KV another machine sends.
    pub(super) external: u32,
    /// Blocks promised to others.
    pub(super) reserved: u32,
    /// Whether its whole known sequence has to fit, not only this step.
    pub(super) whole_sequence: bool,
}

impl VllmV1 {
    /// Blocks that a running request lacks for `tokens` more tokens.
    pub(super) fn lacking(&self, slot: u32, tokens: u32) -> u32 {
        let s = &self.sequences[slot as usize];
        let slots = (s.computed + tokens).min(self.settings.max_model_len);
        let windowed = self.windowed(slots, s.computed).saturating_sub(s.windowed);
        slots.div_ceil(self.settings.block_size).saturating_sub(s.blocks.len()) + windowed
    }

    /// Gives a request the blocks it needs on top of those it owns and of cached `hits`. All or
    /// nothing: `false` changes nothing.
    pub(super) fn allocate(&mut self, slot: u32, hits: &Hits, need: Need) -> bool {
        if self.pool.grouped().is_some() {
            return self.allocate_grouped(slot, hits, need);
        }
        let block_size = self.settings.block_size;
        let limit = self.settings.max_model_len;
        let sequence = &self.sequences[slot as usize];
        let owned = hits.blocks + sequence.blocks.len();
        let local = sequence.computed + hits.blocks * block_size;
        let total = (local + need.external).min(limit);
        let is_admission = matches!(sequence.status, Status::Waiting | Status::Preempted);
        let watermark =
            if is_admission && !self.running.is_empty() { self.watermark_blocks } else { 0 };
        let lacking = |tokens: u32| tokens.div_ceil(block_size).saturating_sub(owned);

        let owned_windowed = sequence.windowed;
        let lacks_windowed = |blocks: u32| blocks.saturating_sub(owned_windowed);

        let whole = sequence.tokens.min(limit);
        let most = lacks_windowed(self.most_windowed(whole));
        if need.whole_sequence && lacking(whole) + most + hits.free + watermark > self.pool.free() {
            return false;
        }
        let slots = (total + need.tokens + need.lookahead).min(limit);
        let (fresh, windowed) = (lacking(slots), lacks_windowed(self.windowed(slots, total)));
        if fresh + windowed + hits.free + watermark + need.reserved > self.pool.free() {
            return false;
        }

        let blocks = &mut self.sequences[slot as usize].blocks;
        if hits.blocks > 0 {
            self.pool.hold(blocks, hits);
        }
        self.pool.take(blocks, fresh);
        if windowed > 0 {
            self.pool.take_plain(windowed);
            self.sequences[slot as usize].windowed += windowed;
        }
        if need.external == 0 {
            self.publish(slot, (total + need.tokens).min(self.sequences[slot as usize].tokens));
        }
        true
    }

    /// Makes the full blocks below `tokens` findable by content.
    pub(super) fn publish(&mut self, slot: u32, tokens: u32) {
        let known = self.sequences[slot as usize].tokens;
        self.publish_known(slot, known, tokens);
    }

    /// The same for a request of which `known` tokens are known.
    pub(super) fn publish_known(&mut self, slot: u32, known: u32, tokens: u32) {
        if !self.settings.enable_prefix_caching {
            return;
        }
        let s = &mut self.sequences[slot as usize];
        let (blocks, prompt) = (&mut s.blocks, s.life.prompt_tokens);
        if let Some(pool) = self.pool.grouped() {
            return pool.publish(blocks, (known, prompt), tokens);
        }
        self.pool.cache(blocks, known, tokens / self.settings.block_size);
    }

    /// Names the blocks of a request that will look for them itself.
    pub(super) fn reveal(&mut self, slot: u32) {
        let sequence = &mut self.sequences[slot as usize];
        self.pool.reveal(&mut sequence.blocks, sequence.tokens);
    }

    /// Finds the longest cached beginning of a request's tokens, its last token left out: at least
    /// one token is always computed. The blocks are left in `self.hits`.
    pub(super) fn find_prefix(&mut self, slot: u32) {
        let is_private = self.sequences[slot as usize].blocks.is_private();
        if !self.settings.enable_prefix_caching || is_private && self.pool.grouped().is_none() {
            self.found = None;
            self.hits.clear();
            return;
        }
        self.publish_quoted(slot);
        let sequence = &mut self.sequences[slot as usize];
        // A request that was not admitted finds the same until the cache has changed.
        let found = self.pool.version().map(|version| (sequence.life.id, sequence.tokens, version));
        if found.is_some() && self.found == found {
            return;
        }
        self.found = found;
        let most = (sequence.tokens - 1) / self.settings.block_size;
        self.pool.find(&mut sequence.blocks, sequence.tokens, most, &mut self.hits);
        if self.drops_last_hit && self.hits.blocks > 0 {
            let kept = self.hits.blocks - 1;
            self.pool.find(&mut sequence.blocks, sequence.tokens, kept, &mut self.hits);
        }
    }

    /// Gives back all blocks of a request.
    #[inline]
    pub(super) fn release_blocks(&mut self, slot: u32) {
        self.pool.release(&mut self.sequences[slot as usize].blocks);
        self.give_back_windowed(slot, 0);
        self.lacks_memory = false;
    }

    /// Blocks that a KV load may not take: those that requests in prefill still lack for the tokens
    /// they have, and those that its own first step with drafts takes.
    pub(super) fn promised_blocks(&self) -> u32 {
        let extra = if self.drafts > 0 { 1 + self.drafts + self.lookahead } else { 0 };
        let promised = self.sequences.iter().filter(|s| s.holds_promise).map(|s| {
            let blocks = (s.tokens + extra).div_ceil(self.settings.block_size);
            let windowed = self.most_windowed(s.tokens + extra).saturating_sub(s.windowed);
            blocks.saturating_sub(s.blocks.len()) + windowed
        });
        promised.sum::<u32>() + extra.div_ceil(self.settings.block_size)
    }
}
