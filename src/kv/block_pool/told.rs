//! What a pool tells of what it caches and forgets, also of what it is going to forget.

use super::{BlockPool, BlockTable};
use crate::kv::events::EventLog;
use crate::kv::given_up::GivenUp;
use crate::kv::{CacheEvent, Order};

/// What is told of its content, and what of it has gone since.
#[derive(Debug, Clone)]
pub(super) struct Events {
    pub(super) log: EventLog,
    pub(super) gone: GivenUp,
    /// Of the blocks that are taken next, those of which it has told already that they lose their content.
    pub(super) foretold: u32,
}

impl Events {
    /// Tells of what has gone, in the order in which it went.
    pub(super) fn tell_gone(&mut self) {
        self.log.removed(self.gone.take_by_runs(), Order::Backward);
    }
}

impl BlockPool {
    /// Tells from now on what it caches and forgets, of blocks of so many tokens.
    pub(in crate::kv) fn tell_events(&mut self, block_size: u32) {
        let (log, gone) = (EventLog::default(), GivenUp::new(block_size));
        self.events = Some(Box::new(Events { log, gone, foretold: 0 }));
    }

    /// So many further blocks are going to be taken before anything else happens to the pool: tells what they forget
    /// as if they were taken now.
    pub(in crate::kv) fn foretell(&mut self, count: u32) {
        let Some(events) = &mut self.events else { return };
        let (mut known, mut left) = (events.foretold, count);
        for id in self.links.iter(self.queue) {
            let extent = &self.extents[id as usize];
            let before = known.min(extent.blocks);
            let taken = left.min(extent.blocks - before);
            if taken > 0 && !extent.is_plain() {
                let end = extent.end() - before;
                self.tree.give_up(extent.branch, end - taken..end, &mut events.gone);
            }
            known -= before;
            left -= taken;
            if left == 0 {
                break;
            }
        }
        events.foretold += count;
        events.tell_gone();
    }

    /// What it has cached and forgotten since this was asked last.
    pub(in crate::kv) fn take_events(&mut self) -> Vec<CacheEvent> {
        self.events.as_mut().map(|events| events.log.take()).unwrap_or_default()
    }

    /// The blocks of a table from this one up to the last that has a name are found, or can be from now on.
    pub(super) fn tell_stored(&mut self, table: &mut BlockTable, from: u32) {
        let Some(events) = &mut self.events else { return };
        let BlockTable { hasher, told, named, .. } = table;
        hasher.extend_by_runs(*named * hasher.block_size + hasher.ahead(), told);
        events.log.stored(hasher, told, (from, *named));
    }

    /// Whether all are taken that it told of before.
    pub(super) fn has_taken_foretold(&self) -> bool {
        self.events.as_ref().is_none_or(|events| events.foretold == 0)
    }
}
