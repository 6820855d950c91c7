//! The blocks of one sequence, and what of them a lookup found.

use super::block_pool::{Hit, Share};
use super::content_tree::Place;
use super::groups::GroupTables;
use super::token_runs::Cursor;
use super::{BlockHash, BlockId, ChainHasher, Names};

/// The blocks of one sequence, first to last, and the names of their content.
#[derive(Debug, Clone)]
pub struct BlockTable {
    pub(super) hasher: ChainHasher,
    /// Whether nobody else can have blocks of this content, so that they need no names.
    pub(super) is_private: bool,
    /// How many of its blocks keep their content when it lets them go: its first ones.
    pub(super) cached: u32,
    /// In a counted pool: shares of extents, then plain blocks.
    pub(super) shares: Vec<Share>,
    pub(super) named: u32,
    pub(super) plain: u32,
    /// Where the first block that is not cached stands in the tree, and its first token.
    pub(super) next: Place,
    pub(super) cursor: Cursor,
    /// In a numbered pool: every block, and the names of blocks.
    pub(super) numbers: Vec<BlockId>,
    pub(super) names: Vec<BlockHash>,
    /// In a counted pool that tells of its blocks: their names.
    pub(super) told: Names,
    /// In a pool that groups of layers share. Beside the table, which most pools have without.
    pub(super) grouped: Option<Box<GroupTables>>,
}

/// The buffers of a table.
#[derive(Debug)]
pub struct Buffers {
    shares: Vec<Share>,
    numbers: Vec<BlockId>,
    names: Vec<BlockHash>,
    told: Names,
    grouped: Option<Box<GroupTables>>,
}

impl BlockTable {
    /// The empty table of a sequence. The content of a private one is named only once it is
    /// [revealed](super::KvPool::reveal).
    #[inline]
    pub fn new(hasher: ChainHasher, is_private: bool) -> Self {
        Self {
            cursor: hasher.tokens.start(),
            hasher,
            is_private,
            cached: 0,
            shares: Vec::new(),
            named: 0,
            plain: 0,
            next: Place::ROOT,
            numbers: Vec::new(),
            names: Vec::new(),
            told: Names::default(),
            grouped: None,
        }
    }

    /// Gives up the buffers of a table that is empty again.
    pub fn take_buffers(&mut self) -> Buffers {
        Buffers {
            shares: std::mem::take(&mut self.shares),
            numbers: std::mem::take(&mut self.numbers),
            names: std::mem::take(&mut self.names),
            told: std::mem::take(&mut self.told),
            grouped: self.grouped.take(),
        }
    }

    /// Uses the buffers that another table gave up.
    #[inline]
    pub fn reuse(&mut self, buffers: Buffers) {
        let Buffers { shares, numbers, mut names, mut told, mut grouped } = buffers;
        names.clear();
        told.clear();
        if let Some(grouped) = &mut grouped {
            grouped.junction = 0;
        }
        (self.shares, self.numbers, self.names) = (shares, numbers, names);
        (self.told, self.grouped) = (told, grouped);
    }

    /// The next `blocks` blocks are cached now, the last of them before `next`.
    pub(super) fn advance(&mut self, blocks: u32, next: Place) {
        self.cursor = self.hasher.tokens.skip(self.cursor, blocks * self.hasher.block_size);
        self.next = next;
    }

    /// The namer of its content.
    pub fn hasher(&self) -> &ChainHasher {
        &self.hasher
    }

    /// Blocks it holds.
    #[inline]
    pub fn len(&self) -> u32 {
        let grouped = self.grouped.as_ref().map_or(0, |grouped| grouped.held());
        self.numbers.len() as u32 + self.named + self.plain + grouped
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its blocks by number, in a pool where they have one.
    pub fn numbers(&self) -> &[BlockId] {
        &self.numbers
    }

    /// Its lists of blocks by number, group by group, one where there are no groups: how long each is.
    pub fn list_lengths(&self) -> Vec<usize> {
        let Some(grouped) = &self.grouped else { return vec![self.numbers.len()] };
        grouped.groups.iter().map(|group| group.blocks().len()).collect()
    }

    /// Those lists from these places on.
    pub fn lists_from(&self, places: &[usize]) -> Vec<Vec<BlockId>> {
        let from = |list: &[BlockId], index: usize| {
            let place = places.get(index).copied().unwrap_or_default();
            list.get(place..).unwrap_or_default().to_vec()
        };
        let Some(grouped) = &self.grouped else { return vec![from(&self.numbers, 0)] };
        let lists = grouped.groups.iter().enumerate();
        lists.map(|(index, group)| from(group.blocks(), index)).collect()
    }

    /// How far some groups of layers, but not all, held it when it was looked for last; 0 where all agreed.
    pub fn junction(&self) -> u32 {
        self.grouped.as_ref().map_or(0, |grouped| grouped.junction)
    }

    /// Its blocks in each of so many groups.
    pub(super) fn in_groups(&mut self, count: usize) -> &mut GroupTables {
        let grouped = self.grouped.get_or_insert_default();
        grouped.groups.resize_with(count, Default::default);
        grouped
    }

    /// Whether others can look for its content.
    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// Counts plain blocks that were taken for it from the pool on behalf of several tables.
    pub fn add_plain(&mut self, blocks: u32) {
        self.plain += blocks;
    }
}

/// What a lookup found: the longest cached beginning of a sequence.
#[derive(Debug, Clone, Default)]
pub struct Hits {
    pub(super) found: Vec<Hit>,
    /// Blocks.
    pub blocks: u32,
    /// Of those, blocks that no request holds.
    pub free: u32,
    /// Tokens.
    pub tokens: u32,
    /// In a pool that groups of layers share: the blocks of each, by position.
    pub(super) groups: Vec<Vec<BlockId>>,
}

impl Hits {
    /// Forgets what was found.
    #[inline]
    pub fn clear(&mut self) {
        self.found.clear();
        (self.blocks, self.free, self.tokens) = (0, 0, 0);
        self.groups.iter_mut().for_each(Vec::clear);
    }

    pub(super) fn add(&mut self, hit: Hit, is_free: bool) {
        self.found.push(hit);
        self.blocks += hit.blocks;
        self.free += if is_free { hit.blocks } else { 0 };
    }
}
