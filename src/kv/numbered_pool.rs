//! The block pool in which every block has its number, as recordings of vLLM tell them. All is
//! O(1) per block: the plain form of [`BlockPool`](super::BlockPool), and its oracle.

use std::ops::Range;

use super::block_pool::Hit;
use super::copies::Copies;
use super::lists::{Ends, Links, NONE};
use super::{BlockHash, BlockId, BlockTable, Hits};

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// Requests that hold it.
    refs: u32,
    /// How many times it was taken anew.
    taken: u32,
    content: Known,
}

/// What is known of a block's content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Known {
    #[default]
    Nothing,
    /// It is kept, but nobody looks for it.
    Unnamed,
    /// It can be found by this name.
    Named(BlockHash),
}

/// A pool of KV blocks with numbers.
#[derive(Debug, Clone)]
pub struct NumberedPool {
    blocks: Vec<Block>,
    copies: Copies,
    queue: Ends,
    links: Links,
    free: u32,
}

impl NumberedPool {
    /// A pool of `blocks` blocks, the null block included.
    ///
    /// # Panics
    /// When `blocks` is 0: there is always a null block.
    pub fn new(blocks: u32) -> Self {
        assert!(blocks > 0, "a pool has at least its null block");
        let mut pool = Self {
            blocks: vec![Block::default(); blocks as usize],
            copies: Copies::default(),
            queue: Ends::default(),
            links: Links::default(),
            free: blocks - 1,
        };
        pool.copies.grow(blocks as usize);
        pool.links.grow(blocks as usize);
        for id in 1..blocks {
            pool.links.push_back(&mut pool.queue, id);
        }
        pool
    }

    /// Blocks that no request holds.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Blocks that requests can ever hold.
    pub fn usable(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    /// How many times a block was taken anew.
    pub(super) fn times_taken(&self, id: BlockId) -> u32 {
        self.blocks[id as usize].taken
    }

    /// Whether no request holds a block.
    pub(super) fn is_free(&self, id: BlockId) -> bool {
        self.blocks[id as usize].refs == 0
    }

    /// The block that was given this name first, of those that carry it.
    pub(super) fn first_of(&self, name: BlockHash) -> Option<BlockId> {
        self.copies.of(name).next()
    }

    pub(super) fn find(&self, table: &mut BlockTable, known: u32, most: u32, hits: &mut Hits) {
        table.hasher.extend(known, &mut table.names);
        for &name in table.names.iter().take(most as usize) {
            let Some(id) = self.first_of(name) else { return };
            hits.add(Hit { extent: id, first: 0, blocks: 1 }, self.is_free(id));
        }
    }

    pub(super) fn hold(&mut self, table: &mut BlockTable, hits: &Hits) {
        for hit in &hits.found {
            self.touch(hit.extent);
            table.numbers.push(hit.extent);
        }
    }

    /// One request more holds a block.
    pub(super) fn touch(&mut self, id: BlockId) {
        let block = &mut self.blocks[id as usize];
        block.refs += 1;
        if block.refs == 1 {
            self.links.unlink(&mut self.queue, id);
            self.free -= 1;
        }
    }

    pub(super) fn take(&mut self, table: &mut BlockTable, count: u32) {
        for _ in 0..count {
            let id = self.pop();
            table.numbers.push(id);
        }
    }

    /// Takes the next free block; its old content is forgotten.
    pub(super) fn pop(&mut self) -> BlockId {
        let id = self.queue.first;
        assert!(id != NONE, "a block is taken from an empty pool");
        self.links.unlink(&mut self.queue, id);
        self.free -= 1;
        let before = &mut self.blocks[id as usize];
        let taken = before.taken.wrapping_add(1);
        let content = std::mem::replace(before, Block { refs: 1, taken, content: Known::Nothing });
        if let Known::Named(name) = content.content {
            self.copies.remove(name, id);
        }
        id
    }

    /// Forgets what is cached and held by nobody.
    pub(super) fn forget_cached(&mut self) {
        for (id, block) in (0..).zip(&mut self.blocks).filter(|(_, block)| block.refs == 0) {
            if let Known::Named(name) = std::mem::take(&mut block.content) {
                self.copies.remove(name, id);
            }
        }
    }

    /// Keeps the content of some blocks of a table.
    pub(super) fn cache(&mut self, table: &mut BlockTable, known: u32, blocks: Range<u32>) {
        if !table.is_private {
            table.hasher.extend(known, &mut table.names);
        }
        for index in blocks.start as usize..blocks.end as usize {
            let id = table.numbers[index];
            if table.is_private {
                self.blocks[id as usize].content = Known::Unnamed;
            } else {
                self.name(id, table.names[index]);
            }
        }
    }

    /// Gives the content of a held block a name by which it is found.
    pub(super) fn name(&mut self, id: BlockId, name: BlockHash) {
        let content = &mut self.blocks[id as usize].content;
        debug_assert!(!matches!(content, Known::Named(_)), "block {id} has a name already");
        *content = Known::Named(name);
        self.copies.add(name, id);
    }

    pub(super) fn release(&mut self, table: &mut BlockTable) {
        self.let_go(table.numbers.drain(..).rev());
    }

    /// Takes back blocks from a holder. Those that nobody else holds go, in this order, to the front of the
    /// queue without a content and to the back with one.
    pub(super) fn let_go(&mut self, blocks: impl Iterator<Item = BlockId>) {
        let mut front_last = NONE;
        for id in blocks {
            let block = &mut self.blocks[id as usize];
            debug_assert!(block.refs > 0, "block {id} is given back twice");
            block.refs -= 1;
            if block.refs > 0 {
                continue;
            }
            self.free += 1;
            if block.content == Known::Nothing {
                self.links.insert_after(&mut self.queue, front_last, id);
                front_last = id;
            } else {
                self.links.push_back(&mut self.queue, id);
            }
        }
    }

    /// Whether every block is either free and in the queue, or held: law L3.
    pub fn is_balanced(&self) -> bool {
        let queued = self.links.iter(self.queue).count() as u32;
        let held = self.blocks[1..].iter().filter(|block| block.refs > 0).count() as u32;
        queued == self.free && queued + held == self.usable()
    }
}
