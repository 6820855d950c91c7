//! What a KV connector changes: an engine whose requests get their KV from another machine, or have
//! it fetched by one (vLLM 0.33.0, `vllm/v1/core/sched/scheduler.py`, `config/vllm.py`,
//! `kv_connector/v1/base.py`).

use std::collections::VecDeque;

use super::VllmV1;
use super::sequence::Status;
use crate::ids::RequestId;
use crate::kv::Lookahead;

/// Which ends of KV transfers an engine is (`kv_role`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvRole {
    /// Others fetch what it computes.
    Producer,
    /// It fetches what others compute.
    Consumer,
    /// Both.
    Both,
}

/// The connector of an engine, if it has one.
#[derive(Debug, Clone, Default)]
pub(super) struct Connector {
    role: Option<KvRole>,
    /// Whether a load goes on when its request is aborted, and keeps its blocks until it has ended.
    finishes_loads: bool,
    /// Requests that have left while a step may still write to their blocks, each with the last step
    /// that was decided by then.
    draining: VecDeque<(u64, u32)>,
    /// Blocks of requests that have left, each counted for every one of them.
    lingering: u32,
}

impl Connector {
    pub(super) fn is_there(&self) -> bool {
        self.role.is_some()
    }

    pub(super) fn lingering(&self) -> u32 {
        self.lingering
    }

    pub(super) fn finishes_loads(&self) -> bool {
        self.finishes_loads
    }

    /// Whether no block waits for a step to end.
    pub(super) fn is_drained(&self) -> bool {
        self.draining.is_empty()
    }

    /// Whether an answer counts only with the KV it was computed from: tokens of a step before a
    /// preemption are dropped, since the blocks are gone that another machine would fetch.
    pub(super) fn requires_delivery(&self) -> bool {
        matches!(self.role, Some(KvRole::Producer | KvRole::Both))
    }

    fn is_consumer(&self) -> bool {
        matches!(self.role, Some(KvRole::Consumer | KvRole::Both))
    }
}

impl VllmV1 {
    /// The same engine at these ends of KV transfers.
    #[must_use]
    pub fn with_connector(mut self, role: KvRole) -> Self {
        self.connector.role = Some(role);
        // Other engines know blocks by their own tokens alone.
        if self.naming == Lookahead::OneToken {
            self.naming = Lookahead::None;
            self.drops_last_hit = true;
        }
        self
    }

    /// The same engine, where the load of an aborted request goes on until its end is told.
    #[must_use]
    pub fn finishing_loads(mut self) -> Self {
        self.connector.finishes_loads = true;
        self
    }

    /// Tokens of a request, which may have left, whose KV is computed; those of steps in flight count.
    /// `None` once its blocks are given back.
    pub fn computed_tokens(&self, id: RequestId) -> Option<u32> {
        self.slot_of(id).map(|slot| self.sequences[slot as usize].computed)
    }

    /// Whether blocks stay with a request while a step in flight computes it: a load into them would
    /// not wait for that step.
    pub(super) fn defers_frees(&self) -> bool {
        self.settings.async_scheduling && self.connector.is_consumer()
    }

    /// Whether a running request could give up its blocks now.
    pub(super) fn can_be_freed(&self, slot: u32) -> bool {
        self.sequences[slot as usize].in_flight == 0 || !self.defers_frees()
    }

    /// A request leaves, and its memory is given back or kept. A step in flight may still compute it.
    pub(super) fn part(&mut self, slot: u32) {
        self.wait_no_more(slot);
        self.pass_images(slot, u32::MAX);
        let s = &mut self.sequences[slot as usize];
        s.holds_promise = false;
        if s.in_flight > 0 {
            s.fence = self.executed_steps;
        }
    }

    /// Takes back the memory and the place of a request that has left, once no step computes it.
    #[inline]
    pub(super) fn give_back(&mut self, slot: u32) {
        if self.defers_frees() && self.sequences[slot as usize].fence > self.processed_steps {
            self.linger(slot, Status::Draining);
            self.connector.draining.push_back((self.executed_steps, slot));
        } else {
            self.remove(slot);
        }
    }

    /// A request that has left keeps its blocks for a while.
    pub(super) fn linger(&mut self, slot: u32, status: Status) {
        self.linger_no_more(slot);
        let s = &mut self.sequences[slot as usize];
        s.status = status;
        self.connector.lingering += s.blocks.len();
    }

    pub(super) fn linger_no_more(&mut self, slot: u32) {
        let s = &self.sequences[slot as usize];
        if matches!(s.status, Status::Sending | Status::Draining) {
            self.connector.lingering -= s.blocks.len();
        }
    }

    /// A step has ended: blocks that waited for it come free.
    pub(super) fn drain(&mut self) {
        while let Some(&(fence, slot)) = self.connector.draining.front()
            && fence <= self.processed_steps
        {
            self.connector.draining.pop_front();
            self.remove(slot);
        }
    }
}
