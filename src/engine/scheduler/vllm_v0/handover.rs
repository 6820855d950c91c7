//! KV caches between instances as vLLM 0.6 hands them over (`vllm/distributed/kv_transfer`: the lookup
//! buffer of `simple_buffer.py`, and `send_kv_caches_…`/`recv_kv_caches_…` of the model runner).

use std::collections::VecDeque;

use crate::engine::Life;
use crate::ids::RequestId;
use crate::units::SimTime;

/// Where prompts are prefilled: copies of their KV caches, until they are fetched.
#[derive(Debug, Clone)]
pub(super) struct SendBuffer {
    /// Prompt tokens above which nothing is added.
    limit_tokens: u64,
    tokens: u64,
    /// Whose copies there are and their tokens, oldest first.
    copies: VecDeque<(RequestId, u32)>,
    /// Requests of a step that waits for room, which nobody knows to be done.
    held: Vec<Life>,
}

impl SendBuffer {
    pub(super) fn new(limit_tokens: u64) -> Self {
        Self { limit_tokens, tokens: 0, copies: VecDeque::new(), held: Vec::new() }
    }

    /// Takes the KV caches of requests whose prompts were computed in one step; without room, the
    /// requests too.
    pub(super) fn insert(&mut self, prefilled: impl Iterator<Item = Life>) -> Inserted {
        if self.tokens > self.limit_tokens {
            self.held.extend(prefilled);
            return Inserted::Held;
        }
        for life in prefilled {
            self.add(&life);
        }
        Inserted::Done
    }

    /// A copy was fetched, or nobody will; the requests that waited for its room leave.
    pub(super) fn remove(&mut self, id: RequestId) -> Vec<Life> {
        if let Some(index) = self.copies.iter().position(|(other, _)| *other == id) {
            let (_, tokens) = self.copies.remove(index).expect("it is there");
            self.tokens -= u64::from(tokens);
        }
        if self.tokens > self.limit_tokens {
            return Vec::new();
        }
        let held = std::mem::take(&mut self.held);
        for life in &held {
            self.add(life);
        }
        held
    }

    /// Takes out a request that waits for room.
    pub(super) fn abort(&mut self, id: RequestId) -> Option<Life> {
        let index = self.held.iter().position(|life| life.id == id)?;
        Some(self.held.remove(index))
    }

    /// The requests that wait for room: while there are some, the engine stands still.
    pub(super) fn held(&self) -> &[Life] {
        &self.held
    }

    fn add(&mut self, life: &Life) {
        self.tokens += u64::from(life.prompt_tokens);
        self.copies.push_back((life.id, life.prompt_tokens));
    }
}

/// What became of KV caches that should be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inserted {
    Done,
    /// There is no room; their requests wait too.
    Held,
}

/// Where prompts were prefilled elsewhere: those admitted to one step, whose KV caches are fetched one
/// after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Reception {
    slots: Vec<u32>,
    /// The first that is neither fetched nor found missing.
    next: usize,
    is_underway: bool,
    /// Requests that have to be computed here.
    misses: usize,
    since: SimTime,
}

impl Reception {
    /// A request is admitted.
    pub(super) fn admit(&mut self, slot: u32, now: SimTime) {
        if self.slots.is_empty() {
            self.since = now;
        }
        self.slots.push(slot);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whose KV cache is on its way.
    pub(super) fn underway(&self) -> Option<u32> {
        self.is_underway.then(|| self.slots[self.next])
    }

    /// The next request to fetch for; none once all have been asked for.
    pub(super) fn next(&self) -> Option<u32> {
        self.slots.get(self.next).copied()
    }

    /// The KV cache of the next request is asked for.
    pub(super) fn begin(&mut self) {
        self.is_underway = true;
    }

    /// It has arrived.
    pub(super) fn arrived(&mut self) {
        self.is_underway = false;
        self.next += 1;
    }

    /// It will not: nobody has it any more.
    pub(super) fn lose(&mut self) {
        self.is_underway = false;
        self.miss();
    }

    /// Whether a request is among them.
    pub(super) fn has(&self, slot: u32) -> bool {
        self.slots.contains(&slot)
    }

    /// Nobody has the KV of the next request.
    pub(super) fn miss(&mut self) {
        self.misses += 1;
        self.next += 1;
    }

    pub(super) fn has_misses(&self) -> bool {
        self.misses > 0
    }

    /// A request left.
    pub(super) fn drop(&mut self, slot: u32) {
        let Some(index) = self.slots.iter().position(|&other| other == slot) else { return };
        self.slots.remove(index);
        if index < self.next {
            self.next -= 1;
        } else if index == self.next {
            self.is_underway = false;
        }
    }

    /// The requests and when the first was admitted; what follows is another step.
    pub(super) fn finish(&mut self) -> (Vec<u32>, SimTime) {
        let slots = std::mem::take(&mut self.slots);
        (self.next, self.misses) = (0, 0);
        (slots, self.since)
    }
}
