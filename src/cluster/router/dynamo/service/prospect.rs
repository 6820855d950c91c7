//! Where a request would be sent that is only asked for (NVIDIA Dynamo 1.6.1, `select_without_admission` of
//! `scheduling/queue.rs`): it has no place in a queue, and nothing is booked.

use super::super::choice::Draw;
use super::super::{Ask, Rank};
use super::{KvRouter, Member};
use crate::units::SimTime;

/// Where a request would be sent now, and what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prospect {
    /// The rank.
    pub rank: Rank,
    /// Tokens of the prompt that are cached there, by the weights of tiers.
    pub cached_tokens: u64,
    /// Prefill tokens booked there, without those of the prompt.
    pub prefill_tokens: u64,
    /// The most tokens of a step of the worker.
    pub max_num_batched_tokens: u64,
    /// Active blocks there, with those of the prompt.
    pub blocks: u64,
    /// The KV blocks of the worker, where they are told.
    pub total_kv_blocks: Option<u64>,
}

impl KvRouter {
    /// Where a request would be sent if it came now and none waited; `None` where there is no rank that it may use.
    /// Of equal ranks one is drawn, and not kept for when the request comes.
    pub fn prospect(&mut self, now: SimTime, ask: &Ask, draw: &mut impl Draw) -> Option<Prospect> {
        self.find_eligible(now, ask.options.as_deref());
        if self.scratch.eligible.is_empty() {
            return None;
        }
        let mut overlaps = std::mem::take(&mut self.scratch.overlaps);
        self.look_up(now, &ask.prompt, &mut overlaps);
        self.find_active(ask);
        let (rank, _) = self.choose(ask, &overlaps, draw);
        let state = self.state(ask, &overlaps, rank);
        self.scratch.overlaps = overlaps;
        let member = self.fleet.get(rank);
        Some(Prospect {
            rank,
            cached_tokens: self.cached(state.overlap),
            prefill_tokens: state.prefill_tokens,
            max_num_batched_tokens: member.map_or(0, Member::batch),
            blocks: state.blocks,
            total_kv_blocks: member.and_then(|member| member.total_kv_blocks),
        })
    }
}
