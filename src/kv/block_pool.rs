//! The paged block pool of vLLM V1 (vLLM 0.33.0, `vllm/v1/core/block_pool.py` and
//! `kv_cache_utils.py`).
//!
//! Free blocks stand in one queue, next to be taken first. A block with a known content stays
//! findable while it waits there; it is forgotten only when it is taken. Blocks without a content
//! return to the front of the queue, blocks with one to the back. Block 0 is reserved: one block
//! fewer can be used than the pool counts.
//!
//! Blocks that nobody can look for are alike: which of them a request gets decides nothing. Such
//! *plain* blocks are counted, and neighbours in the queue stand there as one run, so that they
//! cost O(1) however many they are. All else is O(1) per block. A pool that has to tell the
//! numbers of its blocks ([`numbered`](BlockPool::numbered)) has no plain ones.

use rustc_hash::FxHashMap;

use super::BlockHash;

/// The index of a block in its pool; 0 is the reserved null block. In a numbered pool it is the
/// block's number; elsewhere a block with a name has one until it loses its name.
pub type BlockId = u32;

/// No block: the end of a list. The null block is in no list, so its index is free to say this.
const NONE: BlockId = 0;

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// Requests that hold it.
    refs: u32,
    /// Blocks it stands for: more than one only for a run of plain ones in the queue.
    run: u32,
    /// Neighbours in the free queue while `refs` is 0.
    free_prev: BlockId,
    free_next: BlockId,
    /// Neighbours among the blocks of equal content, earliest cached first.
    same_prev: BlockId,
    same_next: BlockId,
    /// The content, while it is known.
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

/// The ends of the free queue.
#[derive(Debug, Clone, Copy)]
enum Side {
    Front,
    Back,
}

/// The first and last cached of the blocks with one content.
#[derive(Debug, Clone, Copy)]
struct Equals {
    first: BlockId,
    last: BlockId,
}

/// A pool of KV blocks.
#[derive(Debug, Clone)]
pub struct BlockPool {
    blocks: Vec<Block>,
    by_hash: FxHashMap<BlockHash, Equals>,
    head: BlockId,
    tail: BlockId,
    free: u32,
    usable: u32,
    /// Plain blocks that requests hold.
    plain: u32,
    /// Indices that stand for no block.
    vacant: Vec<BlockId>,
    is_numbered: bool,
}

impl BlockPool {
    /// A pool of `blocks` blocks, the null block included.
    ///
    /// # Panics
    /// When `blocks` is 0: there is always a null block.
    pub fn new(blocks: u32) -> Self {
        assert!(blocks > 0, "a pool has at least its null block");
        let mut pool = Self {
            blocks: vec![Block::default()],
            by_hash: FxHashMap::default(),
            head: NONE,
            tail: NONE,
            free: 0,
            usable: blocks - 1,
            plain: 0,
            vacant: Vec::new(),
            is_numbered: false,
        };
        pool.queue_plain(Side::Back, blocks - 1);
        pool
    }

    /// The same pool, in which every block has its number.
    ///
    /// # Panics
    /// When `blocks` is 0: there is always a null block.
    pub fn numbered(blocks: u32) -> Self {
        let mut pool = Self { is_numbered: true, ..Self::new(1) };
        pool.blocks = vec![Block { run: 1, ..Block::default() }; blocks as usize];
        pool.usable = blocks - 1;
        for id in 1..blocks {
            pool.push_back(id);
        }
        pool
    }

    /// Whether every block has its number.
    pub fn is_numbered(&self) -> bool {
        self.is_numbered
    }

    /// Blocks that no request holds.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Blocks that requests can ever hold.
    pub fn usable(&self) -> u32 {
        self.usable
    }

    /// Whether no request holds the block.
    pub fn is_free(&self, id: BlockId) -> bool {
        self.blocks[id as usize].refs == 0
    }

    /// The block with this content that was cached first.
    pub fn find(&self, hash: BlockHash) -> Option<BlockId> {
        self.by_hash.get(&hash).map(|equals| equals.first)
    }

    /// Takes the next free blocks as plain ones; their old content is forgotten.
    ///
    /// # Panics
    /// When fewer are free: check [`free`](Self::free) first.
    pub fn take_plain(&mut self, count: u32) {
        debug_assert!(!self.is_numbered, "a numbered pool has no plain blocks");
        let mut left = count;
        while left > 0 {
            let id = self.head;
            assert!(id != NONE, "a block is taken from an empty pool");
            let run = &mut self.blocks[id as usize].run;
            if *run > left {
                *run -= left;
                self.free -= left;
                break;
            }
            left -= *run;
            self.unlink_free(id);
            self.forget(id);
            self.vacant.push(id);
        }
        self.plain += count;
    }

    /// Makes a plain block findable by its content: it has an index from now on.
    pub fn name(&mut self, hash: BlockHash) -> BlockId {
        let id = self.index();
        self.plain -= 1;
        self.blocks[id as usize] = Block { refs: 1, run: 1, ..Block::default() };
        self.cache(id, hash);
        id
    }

    /// Gives back plain blocks of one request: those whose content is `kept` before those that
    /// hold nothing, as [`release`](Self::release) would.
    pub fn release_plain(&mut self, kept: u32, empty: u32) {
        self.plain -= kept + empty;
        self.queue_plain(Side::Front, empty);
        self.queue_plain(Side::Back, kept);
    }

    /// Takes the next free block of a numbered pool for one request; its old content is forgotten.
    ///
    /// # Panics
    /// When no block is free: check [`free`](Self::free) first.
    pub fn take(&mut self) -> BlockId {
        debug_assert!(self.is_numbered, "only numbered blocks are taken one by one");
        let id = self.head;
        assert!(id != NONE, "a block is taken from an empty pool");
        self.unlink_free(id);
        self.forget(id);
        self.blocks[id as usize].refs = 1;
        id
    }

    /// Holds a block, found by its content, for one more request.
    pub fn hold(&mut self, id: BlockId) {
        if self.blocks[id as usize].refs == 0 {
            self.unlink_free(id);
        }
        self.blocks[id as usize].refs += 1;
    }

    /// Makes a held block findable by its content. A block that already is keeps its place.
    pub fn cache(&mut self, id: BlockId, hash: BlockHash) {
        let content = &mut self.blocks[id as usize].content;
        debug_assert!(!matches!(content, Known::Named(_)), "block {id} has a name already");
        *content = Known::Named(hash);
        match self.by_hash.get_mut(&hash) {
            None => {
                self.by_hash.insert(hash, Equals { first: id, last: id });
            }
            Some(equals) => {
                let before = std::mem::replace(&mut equals.last, id);
                self.blocks[before as usize].same_next = id;
                self.blocks[id as usize].same_prev = before;
            }
        }
    }

    /// Keeps the content of a held block that nobody can look for: it returns to the back of the
    /// queue like a block that can be found.
    pub fn keep(&mut self, id: BlockId) {
        self.blocks[id as usize].content = Known::Unnamed;
    }

    /// Gives back the blocks of one request, given from the first to the last of its sequence.
    ///
    /// They are let go from the last to the first; those that nobody else holds go, in that
    /// order, to the front of the queue without a content and to the back with one.
    pub fn release(&mut self, blocks: &[BlockId]) {
        let mut front_last = NONE;
        for &id in blocks.iter().rev() {
            let block = &mut self.blocks[id as usize];
            debug_assert!(block.refs > 0, "block {id} is given back twice");
            block.refs -= 1;
            if block.refs > 0 {
                continue;
            }
            if block.content == Known::Nothing {
                self.insert_after(front_last, id);
                front_last = id;
            } else {
                self.push_back(id);
            }
        }
    }

    /// Whether every block is either free and in the queue, or held: law L3.
    pub fn is_balanced(&self) -> bool {
        let mut queued = 0;
        let mut at = self.head;
        while at != NONE {
            queued += self.blocks[at as usize].run;
            at = self.blocks[at as usize].free_next;
        }
        let held = self.blocks[1..].iter().filter(|block| block.refs > 0).count() as u32;
        queued == self.free && queued + held + self.plain == self.usable
    }

    /// An index for a block or a run.
    fn index(&mut self) -> BlockId {
        self.vacant.pop().unwrap_or_else(|| {
            self.blocks.push(Block::default());
            self.blocks.len() as BlockId - 1
        })
    }

    /// Puts plain blocks into the queue, beside those that are there.
    fn queue_plain(&mut self, side: Side, count: u32) {
        if count == 0 {
            return;
        }
        let end = match side {
            Side::Front => self.head,
            Side::Back => self.tail,
        };
        let block = &mut self.blocks[end as usize];
        if end != NONE && block.content == Known::Nothing {
            block.run += count;
            self.free += count;
            return;
        }
        let id = self.index();
        self.blocks[id as usize] = Block { run: count, ..Block::default() };
        match side {
            Side::Front => self.insert_after(NONE, id),
            Side::Back => self.push_back(id),
        }
    }

    fn forget(&mut self, id: BlockId) {
        let content = std::mem::take(&mut self.blocks[id as usize].content);
        let Known::Named(hash) = content else { return };
        let Block { same_prev, same_next, .. } = self.blocks[id as usize];
        self.blocks[id as usize].same_prev = NONE;
        self.blocks[id as usize].same_next = NONE;
        if same_prev == NONE && same_next == NONE {
            self.by_hash.remove(&hash);
            return;
        }
        if same_prev != NONE {
            self.blocks[same_prev as usize].same_next = same_next;
        }
        if same_next != NONE {
            self.blocks[same_next as usize].same_prev = same_prev;
        }
        if let Some(equals) = self.by_hash.get_mut(&hash) {
            if same_prev == NONE {
                equals.first = same_next;
            }
            if same_next == NONE {
                equals.last = same_prev;
            }
        }
    }

    fn push_back(&mut self, id: BlockId) {
        self.insert_after(self.tail, id);
    }

    /// Inserts into the free queue behind `before`, or at the front if that is `NONE`.
    fn insert_after(&mut self, before: BlockId, id: BlockId) {
        let after = if before == NONE { self.head } else { self.blocks[before as usize].free_next };
        self.blocks[id as usize].free_prev = before;
        self.blocks[id as usize].free_next = after;
        match before {
            NONE => self.head = id,
            _ => self.blocks[before as usize].free_next = id,
        }
        match after {
            NONE => self.tail = id,
            _ => self.blocks[after as usize].free_prev = id,
        }
        self.free += self.blocks[id as usize].run;
    }

    fn unlink_free(&mut self, id: BlockId) {
        let Block { free_prev, free_next, run, .. } = self.blocks[id as usize];
        match free_prev {
            NONE => self.head = free_next,
            _ => self.blocks[free_prev as usize].free_next = free_next,
        }
        match free_next {
            NONE => self.tail = free_prev,
            _ => self.blocks[free_next as usize].free_prev = free_prev,
        }
        self.free -= run;
    }
}

#[cfg(test)]
mod tests;
