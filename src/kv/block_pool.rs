//! The paged block pool of vLLM V1 (vLLM 0.33.0, `vllm/v1/core/block_pool.py` and
//! `kv_cache_utils.py`).
//!
//! Free blocks stand in one queue, next to be taken first. A block with a known content stays
//! findable while it waits there; it is forgotten only when it is taken. Blocks without a content
//! return to the front of the queue, blocks with one to the back. Block 0 is reserved: one block
//! fewer can be used than the pool counts.
//!
//! All operations are O(1) per block.

use rustc_hash::FxHashMap;

use super::BlockHash;

/// The index of a block in its pool; 0 is the reserved null block.
pub type BlockId = u32;

/// No block: the end of a list. The null block is in no list, so its index is free to say this.
const NONE: BlockId = 0;

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// Requests that hold it.
    refs: u32,
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
}

impl BlockPool {
    /// A pool of `blocks` blocks, the null block included.
    ///
    /// # Panics
    /// When `blocks` is 0: there is always a null block.
    pub fn new(blocks: u32) -> Self {
        assert!(blocks > 0, "a pool has at least its null block");
        let mut pool = Self {
            blocks: vec![Block::default(); blocks as usize],
            by_hash: FxHashMap::default(),
            head: NONE,
            tail: NONE,
            free: 0,
        };
        for id in 1..blocks {
            pool.push_back(id);
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

    /// Whether no request holds the block.
    pub fn is_free(&self, id: BlockId) -> bool {
        self.blocks[id as usize].refs == 0
    }

    /// The block with this content that was cached first.
    pub fn find(&self, hash: BlockHash) -> Option<BlockId> {
        self.by_hash.get(&hash).map(|equals| equals.first)
    }

    /// Takes the next free block for one request; its old content is forgotten.
    ///
    /// # Panics
    /// When no block is free: check [`free`](Self::free) first.
    pub fn take(&mut self) -> BlockId {
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
            queued += 1;
            at = self.blocks[at as usize].free_next;
        }
        let unheld = self.blocks[1..].iter().filter(|block| block.refs == 0).count() as u32;
        queued == self.free && unheld == self.free
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
        self.free += 1;
    }

    fn unlink_free(&mut self, id: BlockId) {
        let Block { free_prev, free_next, .. } = self.blocks[id as usize];
        match free_prev {
            NONE => self.head = free_next,
            _ => self.blocks[free_prev as usize].free_next = free_next,
        }
        match free_next {
            NONE => self.tail = free_prev,
            _ => self.blocks[free_next as usize].free_prev = free_prev,
        }
        self.free -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: u64) -> BlockHash {
        BlockHash::of(name)
    }

    #[test]
    fn blocks_are_taken_in_order_and_the_null_block_never() {
        let mut pool = BlockPool::new(4);
        assert_eq!((pool.free(), pool.usable()), (3, 3));
        assert_eq!([pool.take(), pool.take(), pool.take()], [1, 2, 3]);
        assert_eq!(pool.free(), 0);
        assert!(pool.is_balanced());
    }

    #[test]
    fn unnamed_blocks_return_to_the_front_and_named_ones_to_the_back() {
        let mut pool = BlockPool::new(7);
        let held: Vec<_> = (0..4).map(|_| pool.take()).collect();
        pool.cache(held[0], hash(10));
        pool.cache(held[1], hash(11));
        pool.release(&held);
        // unnamed 4, 3 to the front (tail-most first), then the untouched 5, 6, then named 2, 1
        let order: Vec<_> = (0..6).map(|_| pool.take()).collect();
        assert_eq!(order, [4, 3, 5, 6, 2, 1]);
    }

    #[test]
    fn a_block_is_found_until_it_is_taken_again() {
        let mut pool = BlockPool::new(3);
        let first = pool.take();
        pool.cache(first, hash(7));
        pool.release(&[first]);
        assert_eq!(pool.find(hash(7)), Some(first));
        assert_eq!(pool.take(), 2);
        assert_eq!(pool.find(hash(7)), Some(first));
        assert_eq!(pool.take(), first);
        assert_eq!(pool.find(hash(7)), None);
    }

    #[test]
    fn of_equal_blocks_the_one_cached_first_is_found() {
        let mut pool = BlockPool::new(4);
        let (a, b, c) = (pool.take(), pool.take(), pool.take());
        for id in [b, a, c] {
            pool.cache(id, hash(5));
        }
        assert_eq!(pool.find(hash(5)), Some(b));
        pool.release(&[b]);
        assert_eq!(pool.take(), b);
        assert_eq!(pool.find(hash(5)), Some(a));
    }

    #[test]
    fn a_block_held_twice_stays_until_both_let_go() {
        let mut pool = BlockPool::new(3);
        let id = pool.take();
        pool.cache(id, hash(1));
        pool.hold(id);
        pool.release(&[id]);
        assert!(!pool.is_free(id));
        pool.release(&[id]);
        assert!(pool.is_free(id));
        assert!(pool.is_balanced());
    }
}
