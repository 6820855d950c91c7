//! What a cache tells of itself: which blocks can be found in it from now on, and which no more (vLLM 0.33.0,
//! `vllm/v1/core/block_pool.py`; SGLang 0.5.23, `sglang/srt/mem_cache/events.py`).

use super::{BlockHash, ChainHasher, Names};
use crate::ids::RequestId;

/// A change of what a cache holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheEvent {
    /// Blocks of a sequence that follow each other can be found. An engine of blocks tells that also of blocks
    /// that it has already, and of those that a request found.
    Stored {
        /// The request that brought them, or found them.
        request: RequestId,
        /// Where in its sequence the first of them begins, in tokens.
        start: u32,
        /// The name of the block before, if there is one.
        parent: Option<BlockHash>,
        /// Their names.
        names: Names,
    },
    /// Blocks cannot be found any more; of an engine of blocks, a copy of each.
    Removed {
        /// Their names.
        names: Names,
        /// In which order they went.
        order: Order,
    },
    /// Nothing is cached any more.
    Cleared,
}

/// In which order the blocks of a list went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The first one first.
    Forward,
    /// The last one first.
    Backward,
}

/// The changes of a cache since somebody asked last.
#[derive(Debug, Clone, Default)]
pub(super) struct EventLog(Vec<CacheEvent>);

impl EventLog {
    /// Blocks `from..to` of a sequence are stored. `names` has the names of its blocks up to there.
    pub(super) fn stored(&mut self, hasher: &ChainHasher, names: &Names, (from, to): (u32, u32)) {
        if from == to {
            return;
        }
        let before = from.checked_sub(1).and_then(|before| names.get(before as usize));
        self.0.push(CacheEvent::Stored {
            request: hasher.tokens.request(),
            start: from * hasher.block_size,
            parent: before.map(BlockHash::numbered),
            names: names.slice(from as usize..to as usize).to_names(),
        });
    }

    /// Something has changed.
    pub(super) fn add(&mut self, event: CacheEvent) {
        self.0.push(event);
    }

    /// Blocks are removed.
    pub(super) fn removed(&mut self, names: Names, order: Order) {
        if !names.is_empty() {
            self.0.push(CacheEvent::Removed { names, order });
        }
    }

    /// Nothing is left.
    pub(super) fn cleared(&mut self) {
        self.0.push(CacheEvent::Cleared);
    }

    /// All since this was asked last.
    pub(super) fn take(&mut self) -> Vec<CacheEvent> {
        std::mem::take(&mut self.0)
    }
}

/// What somebody believes a cache to hold who heard of its changes only.
#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct Listener {
    names: rustc_hash::FxHashSet<BlockHash>,
    /// Blocks told of as stored.
    pub(super) heard: usize,
}

#[cfg(test)]
impl Listener {
    pub(super) fn hear(&mut self, events: Vec<CacheEvent>) {
        for event in events {
            match event {
                CacheEvent::Stored { start, parent, names, .. } => {
                    assert!(!names.is_empty(), "nothing is stored");
                    assert_eq!(parent.is_none(), start == 0, "what begins has no parent");
                    self.heard += names.len();
                    self.names.extend(names.all().iter().map(BlockHash::numbered));
                }
                CacheEvent::Removed { names, .. } => {
                    for name in names.all().iter() {
                        self.names.remove(&BlockHash::numbered(name));
                    }
                }
                CacheEvent::Cleared => self.names.clear(),
            }
        }
    }

    /// How many of the first blocks of a sequence it believes to be there.
    pub(super) fn believes(&self, names: &[BlockHash]) -> u32 {
        names.iter().take_while(|name| self.names.contains(name)).count() as u32
    }
}
