//! The longest prefix that all groups hold (`HybridKVCacheCoordinator.find_longest_cache_hit`).

use std::ops::Range;

use super::pool::name;
use super::table::NULL;
use super::{GroupedPool, chunked, full, sliding, state};
use crate::kv::{BlockId, BlockTable, Hits};
use crate::model::GroupKind;

impl GroupedPool {
    /// Finds the longest cached prefix of a sequence of which `known` tokens are known, at least one of which is
    /// computed.
    ///
    /// Each class of groups shortens it to what it holds, until all agree.
    pub(in crate::kv) fn find(&self, table: &mut BlockTable, known: u32, hits: &mut Hits) {
        hits.clear();
        table.hasher.extend(known, &mut table.names);
        hits.groups.resize_with(self.groups.specs().len(), Vec::new);
        let mut length = known - 1;
        let mut longest = 0;
        // What classes that see everything hold from the first token on: they are looked up once.
        let mut whole: Vec<Option<u32>> = vec![None; self.classes.len()];
        loop {
            let mut limit = length;
            for (class, whole) in self.classes.iter().zip(&mut whole) {
                let spec = self.groups.specs()[class[0]];
                limit = match *whole {
                    Some(found) => (limit - limit % spec.block_size).min(found),
                    None => self.find_class(table, class, limit, hits),
                };
                if spec.kind == GroupKind::Full {
                    whole.get_or_insert(limit);
                }
                longest = longest.max(limit);
            }
            let is_agreed = limit >= length;
            length = limit;
            // What sees everything holds every prefix of what it holds.
            let is_settled = self.classes.len() == 2 && whole[0].is_some();
            if is_agreed || is_settled {
                break;
            }
        }
        for class in &self.classes {
            let spec = self.groups.specs()[class[0]];
            if spec.kind == GroupKind::Full {
                for &group in class {
                    hits.groups[group].truncate(length.div_ceil(spec.block_size) as usize);
                }
            }
        }
        hits.tokens = length;
        let count = self.groups.specs().len();
        table.in_groups(count).junction = if longest > length { longest } else { 0 };
    }

    /// Finds what a class holds of the first `limit` tokens; returns the tokens.
    fn find_class(&self, table: &BlockTable, class: &[usize], limit: u32, hits: &mut Hits) -> u32 {
        let spec = self.groups.specs()[class[0]];
        let size = spec.block_size;
        let is_cached =
            |block: u32| class.iter().all(|&group| self.block(table, block, group).is_some());
        let range: Range<u32> = match spec.kind {
            GroupKind::Full => {
                0..full::found(limit, size, self.groups.scheduler_block(), is_cached)
            }
            GroupKind::Sliding { window } => sliding::found(limit, window, size, is_cached),
            GroupKind::Chunked { chunk } => chunked::found(limit, chunk, size, is_cached),
            GroupKind::State | GroupKind::AlignedState => {
                state::found(limit, size, is_cached).map_or(0..0, |block| block..block + 1)
            }
        };
        for &group in class {
            let found = &mut hits.groups[group];
            found.clear();
            found.resize(range.start as usize, NULL);
            found.extend(range.clone().filter_map(|block| self.block(table, block, group)));
        }
        range.end * size
    }

    /// The block of a group that holds the content of a block of a sequence.
    fn block(&self, table: &BlockTable, block: u32, group: usize) -> Option<BlockId> {
        let spec = &self.groups.specs()[group];
        let hash = self.groups.hash_block();
        self.blocks.first_of(name(&table.names, spec, hash, (block, group)))
    }
}
