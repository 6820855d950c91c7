//! When the scheduler reads what has come (`scheduler_recv_interval`, SGLang 0.5.23,
//! `sglang/srt/managers/scheduler_components/recv_skipper.py`).
//!
//! With an interval above 1, new requests are looked for only once the steps since the last look
//! weigh as much: a step that only decodes weighs 1, one that prefills 1000. An engine without work
//! turns so fast that it looks at once.
//!
//! Left out: that clients leave is heard of at a look, too; here at once.

use super::Sglang;
use crate::engine::StepPlan;

/// What a step that prefills weighs (`SGLANG_SCHEDULER_RECV_SKIPPER_WEIGHT_DEFAULT`).
const PREFILL_WEIGHT: u32 = 1000;

/// Requests that have come, and when they are read.
#[derive(Debug, Clone)]
pub(super) struct Inbox {
    /// Weight of the steps between two looks.
    interval: u32,
    /// Weight of those since the last look.
    weight: u32,
    /// Weight of the latest step, none if there was nothing to do.
    latest: Option<u32>,
    unread: Vec<u32>,
}

impl Inbox {
    pub(super) fn new(interval: u32) -> Self {
        Self { interval, weight: 0, latest: None, unread: Vec::new() }
    }

    /// Whether what comes is read before every step.
    pub(super) fn is_always_open(&self) -> bool {
        self.interval <= 1
    }

    pub(super) fn put(&mut self, slot: u32) {
        self.unread.push(slot);
    }

    /// Takes out a request whose client has left.
    pub(super) fn withdraw(&mut self, slot: u32) {
        self.unread.retain(|&other| other != slot);
    }

    /// Requests that have come and are not read.
    pub(super) fn unread(&self) -> u32 {
        self.unread.len() as u32
    }

    /// The first of them.
    pub(super) fn head(&self) -> Option<u32> {
        self.unread.first().copied()
    }

    /// Remembers what the step does.
    pub(super) fn remember(&mut self, plan: &StepPlan) {
        let prefills = plan.shape.prefill_seqs > 0;
        let weight = if prefills { PREFILL_WEIGHT } else { 1 };
        self.latest = (!plan.is_empty()).then_some(weight);
    }

    /// Whether it is time to look before this step.
    fn opens(&mut self) -> bool {
        let Some(latest) = self.latest else {
            self.weight = 0;
            return true;
        };
        self.weight += latest;
        let is_time = self.weight >= self.interval;
        if is_time {
            self.weight = 0;
        }
        is_time
    }
}

impl Sglang {
    /// Reads what has come, if it is time to.
    pub(super) fn read_in_time(&mut self) {
        if !self.inbox.is_always_open() && self.inbox.opens() {
            self.read_all();
        }
    }

    /// Reads what has come; whether there was something.
    pub(super) fn read_all(&mut self) -> bool {
        let mut unread = std::mem::take(&mut self.inbox.unread);
        let is_news = !unread.is_empty();
        for slot in unread.drain(..) {
            self.accept(slot);
        }
        self.inbox.unread = unread;
        is_news
    }
}
