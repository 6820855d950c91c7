//! Layers that keep different things: windows, chunks, states (vLLM 0.33.0,
//! `vllm/v1/core/kv_cache_manager.py`, `scheduler.py`, `_mamba_block_aligned_split`).
//!
//! What decides is which block is free, so that such an engine decides every step request by request: neither
//! the group in lock step nor runs of steps ahead serve it.

use super::VllmV1;
use super::build::GROUP_BLOCK_SIZE_MAX;
use super::group::Group;
use super::limits::StepLimits;
use super::memory::Need;
use super::sequence::Status;
use crate::kv::{BlockTable, Demand, GroupedPool, Hits, KvPool};
use crate::model::Groups;

impl VllmV1 {
    /// The same engine with a model of these groups of layers; one group that sees everything is served as
    /// without groups, in its blocks.
    ///
    /// # Panics
    /// When the KV of requests comes from other machines or tiers below, or windows are counted beside.
    #[must_use]
    pub fn with_groups(mut self, groups: Groups) -> Self {
        assert!(
            !self.connector.is_there() && self.tiers.is_none() && self.windows.is_none(),
            "groups of layers hold all KV there is"
        );
        self.settings.block_size = groups.hash_block();
        if groups.is_plain() {
            self.groups &= groups.hash_block() <= GROUP_BLOCK_SIZE_MAX;
            self.group = Group::new(if self.groups { groups.hash_block() } else { 1 });
            return self;
        }
        let blocks = 1 + self.pool.usable();
        let (drafts, limit) = (self.drafts, self.settings.max_model_len);
        self.pool = KvPool::Grouped(Box::new(GroupedPool::new(groups, blocks, drafts, limit)));
        self.groups = false;
        self
    }

    /// Whether several groups of layers share its blocks.
    pub fn has_groups(&self) -> bool {
        matches!(self.pool, KvPool::Grouped(_))
    }

    pub(super) fn begin_step(&mut self) {
        if let Some(pool) = self.pool.grouped() {
            pool.begin_step();
        }
    }

    /// Gives a request the blocks it needs in every group on top of those it owns and of cached `hits`. Where
    /// it cannot have all it gets none, but what its layers have passed is given back.
    pub(super) fn allocate_grouped(&mut self, slot: u32, hits: &Hits, need: Need) -> bool {
        let limit = self.settings.max_model_len;
        let in_flight =
            self.stagger.batches_max(self.is_async()) as u32 * self.settings.max_num_batched_tokens;
        let is_occupied = !self.running.is_empty();
        let s = &mut self.sequences[slot as usize];
        let Some(pool) = self.pool.grouped() else { return false };
        let total = (s.computed + hits.tokens + need.external).min(limit);
        let main = total + need.tokens;
        let demand =
            Demand { total, main, slots: (main + need.lookahead).min(limit), in_flight: None };
        let is_admission = matches!(s.status, Status::Waiting | Status::Preempted);
        let watermark = if is_admission && is_occupied { self.watermark_blocks } else { 0 };
        let fits = |pool: &GroupedPool, blocks: &BlockTable, demand, kept: u32| {
            let lacking = pool.lacking(blocks, hits, demand);
            lacking.is_some_and(|lacking| {
                lacking.saturating_add(watermark).saturating_add(kept) <= pool.free()
            })
        };
        let whole = s.tokens.min(limit);
        let as_a_whole = Demand { total, main: whole, slots: whole, in_flight: Some(in_flight) };
        if need.whole_sequence && !fits(pool, &s.blocks, as_a_whole, 0) {
            return false;
        }
        pool.drop_passed(&mut s.blocks, total.saturating_sub(s.in_flight));
        if !fits(pool, &s.blocks, demand, need.reserved) {
            return false;
        }
        pool.hold(&mut s.blocks, hits, total);
        pool.take(&mut s.blocks, demand);
        if need.external == 0 {
            let known = s.tokens;
            self.publish(slot, main.min(known));
        }
        true
    }

    /// How many of `tokens` tokens from `computed` on a request may compute so that its share ends where a
    /// state is kept; 0 where it has to wait for a larger share.
    #[inline]
    pub(super) fn aligned(
        &self,
        slot: u32,
        (computed, tokens): (u32, u32),
        limits: &StepLimits,
    ) -> u32 {
        let KvPool::Grouped(pool) = &self.pool else { return tokens };
        let Some(block) = pool.groups().aligned_to() else { return tokens };
        let s = &self.sequences[slot as usize];
        let (last, junction) = (s.tokens - 1, s.blocks.junction());
        let prefilled = s.life.prompt_tokens.max(last);
        if computed >= prefilled {
            return tokens;
        }
        let floor = |token: u32| token - token % block;
        let mut end = computed + tokens;
        if end < prefilled {
            let aligned = floor(end);
            let largest = limits.clip(self.settings.max_num_batched_tokens);
            if aligned > computed || block <= largest {
                end = aligned;
            }
        }
        let next = if computed.is_multiple_of(block) { end } else { floor(computed) + block };
        let parts = if computed < junction && junction < end {
            computed + floor(junction - computed)
        } else {
            end
        };
        // Where the kernel gives the state at the last boundary the share goes on to the end.
        let last = if pool.groups().has_checkpoints() { end } else { floor(last) };
        let stops = [next, last, parts].into_iter();
        let end = stops.filter(|stop| (computed + 1..end).contains(stop)).min().unwrap_or(end);
        end.saturating_sub(computed)
    }
}
