//! KV in tiers below the GPU (vLLM, `kv_connector/v1/offloading/scheduler.py`, commit 0072b0b; LMCache).
//!
//! A request that is admitted and finds more of its tokens below than on the GPU gets blocks for them, and
//! waits for them as for KV from another machine. Written through, a step that prefills writes its chunks
//! when it ends, and a request those of its answer when it leaves: nobody else can ask for them before.
//! Written back, chunks go down when the first of their blocks is taken by another request.

use super::VllmV1;
use crate::engine::{Entry, Tiers};
use crate::kv::ChunkNames;
use crate::request::Request;
use crate::scenario::TierWrite;

impl VllmV1 {
    /// The same engine with tiers below.
    #[must_use]
    pub fn with_tiers(mut self, tiers: Tiers) -> Self {
        if tiers.write_policy() == TierWrite::Back {
            self.pool.remember_given_up(tiers.chunk_tokens());
        }
        self.tiers = Some(Box::new(tiers));
        self
    }

    /// Whether what the GPU gives up is written to a tier below.
    pub(super) fn writes_back(&self) -> bool {
        self.tiers.as_ref().is_some_and(|tiers| tiers.write_policy() == TierWrite::Back)
    }

    fn writes_through(&self) -> bool {
        self.tiers.as_ref().is_some_and(|tiers| tiers.write_policy() == TierWrite::Through)
    }

    /// A request enters: tiers will know its chunks.
    #[inline]
    pub(super) fn name_chunks(&mut self, slot: u32, request: &Request) {
        let chunk_tokens = match &self.tiers {
            _ if self.offload.is_some() => self.settings.block_size,
            Some(tiers) => tiers.chunk_tokens(),
            None => return,
        };
        let goes_down = self.offload.is_none() && self.writes_back();
        let sequence = &mut self.sequences[slot as usize];
        let names = ChunkNames::new(sequence.life.id, request, chunk_tokens);
        sequence.chunks = Some(Box::new(names));
        if goes_down {
            // Nobody else asks for the blocks of a private sequence, but they go down like others.
            self.pool.reveal(&mut sequence.blocks, 0);
        }
    }

    /// Tokens to fetch from below for a request of which the GPU holds the first `hit`.
    pub(super) fn find_below(&mut self, slot: u32, hit: u32) -> u32 {
        let Some(tiers) = &mut self.tiers else { return 0 };
        let s = &mut self.sequences[slot as usize];
        let Some(chunks) = &mut s.chunks else { return 0 };
        // One that holds blocks has fetched them; what nobody shares is nowhere.
        if !s.blocks.is_empty() || s.blocks.is_private() {
            return 0;
        }
        tiers.find(chunks.of(s.tokens), s.tokens, hit)
    }

    /// A request is admitted that finds the first `hit` of its tokens on the GPU, and fetches `below` more.
    pub(super) fn admit_below(&mut self, slot: u32, hit: u32, below: u32) {
        let Some(tiers) = &mut self.tiers else { return };
        let s = &mut self.sequences[slot as usize];
        let Some(chunks) = &mut s.chunks else { return };
        let names = chunks.of(s.tokens);
        tiers.touch(names);
        if below > 0 {
            let is_first = s.life.first_scheduled.is_none();
            tiers.load((s.life.id, is_first), names, (s.tokens, hit));
        }
    }

    /// A step has computed a share: whole chunks of what is prefilled go down.
    pub(super) fn write_prefilled(&mut self, entry: &Entry) {
        if !self.writes_through() {
            return;
        }
        let s = &self.sequences[entry.slot as usize];
        let prefills = entry.computed < s.life.prompt_tokens || entry.tokens - entry.drafts > 1;
        if prefills && s.stale == 0 {
            self.write_chunks(entry.slot, entry.computed + entry.tokens);
        }
    }

    /// A request has all its tokens: those of its answer go down, but for the last, which is not computed.
    pub(super) fn write_answer(&mut self, slot: u32) {
        if self.writes_through() {
            let s = &self.sequences[slot as usize];
            self.write_chunks(slot, s.computed.min(s.tokens - 1));
        }
    }

    fn write_chunks(&mut self, slot: u32, computed: u32) {
        if let (Some(tiers), Some(chunks)) =
            (&mut self.tiers, &mut self.sequences[slot as usize].chunks)
        {
            tiers.write(chunks.offer(computed));
        }
    }

    /// What the GPU has given up in this step goes down.
    pub(super) fn write_given_up(&mut self) {
        if let Some(tiers) = &mut self.tiers
            && tiers.write_policy() == TierWrite::Back
        {
            tiers.write(&self.pool.take_given_up());
        }
    }
}
