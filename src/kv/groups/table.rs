//! The blocks of a request in one group.

use crate::kv::BlockId;

/// The block that stands where a group needs none.
pub(super) const NULL: BlockId = 0;

/// The blocks of a request in one group, by position; [`NULL`] where it has given one back, or never had one.
#[derive(Debug, Clone, Default)]
pub(in crate::kv) struct GroupTable {
    pub(super) blocks: Vec<BlockId>,
    /// How many of the first ones are published, or passed over for good; none before the first time.
    pub(super) cached: Option<u32>,
    /// Aligned states: whether it has taken blocks itself, besides those found.
    pub(super) has_taken: bool,
    /// Aligned states: where the last state stood before the newest.
    pub(super) last_state: Option<u32>,
    /// Aligned states: how many of the first ones have been looked through to give them back.
    pub(super) retired: u32,
}

/// The blocks of a request in all groups.
#[derive(Debug, Clone, Default)]
pub(in crate::kv) struct GroupTables {
    pub(in crate::kv) groups: Vec<GroupTable>,
    /// How far some of the groups, but not all, held it when it was looked for last.
    pub(in crate::kv) junction: u32,
}

impl GroupTables {
    /// Blocks that it holds.
    pub(in crate::kv) fn held(&self) -> u32 {
        self.groups.iter().map(GroupTable::held).sum()
    }
}

impl GroupTable {
    pub(super) fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Takes out a block, if one stands there.
    pub(super) fn take(&mut self, index: u32) -> Option<BlockId> {
        let block = std::mem::replace(&mut self.blocks[index as usize], NULL);
        (block != NULL).then_some(block)
    }

    /// Its blocks by position.
    pub(in crate::kv) fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// Blocks that it holds.
    pub(in crate::kv) fn held(&self) -> u32 {
        self.blocks.iter().filter(|block| **block != NULL).count() as u32
    }

    /// Forgets its blocks and keeps its buffer.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        *self = Self { blocks: std::mem::take(&mut self.blocks), ..Self::default() };
    }
}
