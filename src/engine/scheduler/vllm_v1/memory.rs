//! The blocks of one request: how many it needs, taking them, naming them, giving them back
//! (vLLM 0.33.0, `vllm/v1/core/kv_cache_manager.py`, `allocate_slots`).

use super::sequence::Status;
use super::{BlockId, VllmV1};

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
        let slots = (s.computed + tokens).min(self.model_len);
        slots.div_ceil(self.config.block_size).saturating_sub(s.owned())
    }

    /// Gives a request the blocks it needs on top of those it owns and of cached `hits`. All or
    /// nothing: `false` changes nothing.
    pub(super) fn allocate(&mut self, slot: u32, hits: &[BlockId], need: Need) -> bool {
        let block_size = self.config.block_size;
        let limit = self.model_len;
        let sequence = &self.sequences[slot as usize];
        let owned = hits.len() as u32 + sequence.owned();
        let local = sequence.computed + hits.len() as u32 * block_size;
        let total = (local + need.external).min(limit);
        let is_admission = matches!(sequence.status, Status::Waiting | Status::Preempted);
        let watermark =
            if is_admission && !self.running.is_empty() { self.watermark_blocks } else { 0 };
        let woken = hits.iter().filter(|&&id| self.pool.is_free(id)).count() as u32;
        let lacking = |tokens: u32| tokens.div_ceil(block_size).saturating_sub(owned);

        let whole = sequence.tokens.min(limit);
        if need.whole_sequence && lacking(whole) + woken + watermark > self.pool.free() {
            return false;
        }
        let fresh = lacking((total + need.tokens + need.lookahead).min(limit));
        if fresh + woken + watermark + need.reserved > self.pool.free() {
            return false;
        }

        for &id in hits {
            self.pool.hold(id);
        }
        let sequence = &mut self.sequences[slot as usize];
        sequence.blocks.extend_from_slice(hits);
        sequence.cached_blocks += hits.len() as u32;
        if self.pool.is_numbered() {
            sequence.blocks.extend((0..fresh).map(|_| self.pool.take()));
        } else {
            self.pool.take_plain(fresh);
            sequence.plain += fresh;
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
        if !self.config.enable_prefix_caching {
            return;
        }
        let sequence = &mut self.sequences[slot as usize];
        let full = tokens / self.config.block_size;
        if full <= sequence.cached_blocks {
            return;
        }
        let named = full.min(sequence.hasher.nameable(known));
        if !sequence.is_private {
            sequence.hasher.extend(known, &mut sequence.names);
        }
        for index in sequence.cached_blocks as usize..named as usize {
            match (sequence.names.get(index), sequence.blocks.get(index)) {
                (Some(&name), Some(&block)) => self.pool.cache(block, name),
                (Some(&name), None) => {
                    sequence.plain -= 1;
                    sequence.blocks.push(self.pool.name(name));
                }
                (None, Some(&block)) => self.pool.keep(block),
                (None, None) => break,
            }
        }
        sequence.cached_blocks = sequence.cached_blocks.max(named);
    }

    /// Names the blocks of a request that will look for them itself.
    pub(super) fn reveal(&mut self, slot: u32) {
        let sequence = &mut self.sequences[slot as usize];
        if !std::mem::replace(&mut sequence.is_private, false) {
            return;
        }
        sequence.hasher.extend(sequence.tokens, &mut sequence.names);
        for index in 0..sequence.cached_blocks as usize {
            let name = sequence.names[index];
            if let Some(&block) = sequence.blocks.get(index) {
                self.pool.cache(block, name);
            } else {
                sequence.plain -= 1;
                sequence.blocks.push(self.pool.name(name));
            }
        }
    }

    /// Finds the longest cached beginning of a request's tokens, its last token left out: at least
    /// one token is always computed. The blocks are left in `self.hits`.
    pub(super) fn find_prefix(&mut self, slot: u32) {
        self.hits.clear();
        if !self.config.enable_prefix_caching {
            return;
        }
        if self.sequences[slot as usize].is_private {
            return;
        }
        self.publish_quoted(slot);
        let sequence = &mut self.sequences[slot as usize];
        sequence.hasher.extend(sequence.tokens, &mut sequence.names);
        let most = ((sequence.tokens - 1) / self.config.block_size) as usize;
        let found = sequence.names.iter().take(most).map_while(|&name| self.pool.find(name));
        self.hits.extend(found);
    }

    /// Gives back all blocks of a request.
    pub(super) fn release_blocks(&mut self, slot: u32) {
        let sequence = &mut self.sequences[slot as usize];
        let kept = sequence.cached_blocks.saturating_sub(sequence.blocks.len() as u32);
        let plain = std::mem::take(&mut sequence.plain);
        self.pool.release_plain(kept, plain - kept);
        self.pool.release(&sequence.blocks);
        sequence.blocks.clear();
        sequence.cached_blocks = 0;
    }

    /// Blocks that requests in prefill still lack for the tokens they have: a KV load may not take
    /// them.
    pub(super) fn promised_blocks(&self) -> u32 {
        let extra = if self.drafts > 0 { 1 + self.drafts + self.lookahead } else { 0 };
        self.sequences
            .iter()
            .filter(|s| match s.status {
                Status::Running => s.is_prefill_chunk,
                Status::Loading => true,
                _ => false,
            })
            .map(|s| {
                let blocks = (s.tokens + extra).div_ceil(self.config.block_size);
                blocks.saturating_sub(s.owned())
            })
            .sum()
    }
}
