//! The paged block pool of vLLM V1 (vLLM 0.33.0, `vllm/v1/core/block_pool.py` and
//! `kv_cache_utils.py`), by extents instead of block by block.
//!
//! Free blocks stand in one queue, next to be taken first. A block with a known content stays
//! findable while it waits there; it is forgotten only when it is taken. A request lets its blocks
//! go from the last to the first: those without a content return to the front of the queue, those
//! with one to the back. A lookup finds of equal blocks the one cached first. One block fewer can
//! be used than the pool counts: vLLM reserves its block 0.
//!
//! An *extent* is a run of blocks that live alike. It is one of
//!
//! * *plain* blocks in the queue: nobody can look for them, so which of them a request gets decides
//!   nothing. While requests hold them they are only counted;
//! * neighbouring blocks of one branch of the [`ContentTree`], cached together, with the same holders.
//!   In the queue the extent stands for its blocks from the last to the first.
//!
//! So all is O(1) per extent:
//!
//! * Taking blocks shortens the first extent of the queue from its end.
//! * A hit on a part of an extent splits it. The back part becomes an extent of its own, stands
//!   before the front part in the queue, and counts as cached together with it.
//! * A request holds [`Share`]s: an extent and a number of blocks. An extent that was split since
//!   has fewer; the rest is found by `rest`, extent after extent. All of these have the request as
//!   a holder, so none is gone, and none has grown.
//! * An extent grows only while one request holds it, all of it, and none of its branch was cached
//!   after it, so that what it gains was cached last.

mod told;

use super::content_tree::{BranchId, ContentTree, Place};
use super::given_up::GivenUp;
use super::lists::{Ends, Links, NONE};
use super::{BlockHash, BlockTable, Hits};
use told::Events;

/// The number of a block in its pool; 0 is the reserved null block.
pub type BlockId = u32;

/// The index of an extent; 0 is none.
pub(super) type ExtentId = u32;

#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    /// The branch of its blocks; that of the root for plain ones.
    branch: BranchId,
    /// The first of its blocks in the branch.
    first: u32,
    blocks: u32,
    /// Requests that hold it.
    refs: u32,
    /// What was split off its end last, while a request holds both.
    rest: ExtentId,
}

impl Extent {
    fn end(&self) -> u32 {
        self.first + self.blocks
    }

    fn is_plain(&self) -> bool {
        self.branch == Place::ROOT.branch
    }
}

/// Blocks that a request holds: of an extent and of what was split off it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    extent: ExtentId,
    blocks: u32,
}

/// Blocks that a lookup found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub(super) extent: ExtentId,
    /// The first one in its branch.
    pub(super) first: u32,
    pub(super) blocks: u32,
}

/// The ends of the free queue.
#[derive(Debug, Clone, Copy)]
enum Side {
    Front,
    Back,
}

/// A pool of KV blocks.
#[derive(Debug, Clone)]
pub struct BlockPool {
    extents: Vec<Extent>,
    /// Indices that stand for no extent.
    vacant: Vec<ExtentId>,
    tree: ContentTree,
    /// The order of extents of one branch: the one cached first is found.
    copies: Links,
    queue: Ends,
    links: Links,
    free: u32,
    usable: u32,
    /// Plain blocks that requests hold.
    plain: u32,
    version: u64,
    /// Where what is forgotten goes to a tier below.
    given_up: Option<Box<GivenUp>>,
    events: Option<Box<Events>>,
}

impl BlockPool {
    /// A pool of `blocks` blocks, the null block included.
    ///
    /// # Panics
    /// When `blocks` is 0: there is always a null block.
    pub fn new(blocks: u32) -> Self {
        assert!(blocks > 0, "a pool has at least its null block");
        let mut pool = Self {
            extents: vec![Extent::default()],
            vacant: Vec::new(),
            tree: ContentTree::default(),
            copies: Links::default(),
            queue: Ends::default(),
            links: Links::default(),
            free: 0,
            usable: blocks - 1,
            plain: 0,
            version: 0,
            given_up: None,
            events: None,
        };
        pool.queue_plain(Side::Back, blocks - 1);
        pool
    }

    /// Remembers which chunks of so many tokens it forgets from now on.
    pub(super) fn remember_given_up(&mut self, chunk_tokens: u32) {
        self.given_up = Some(Box::new(GivenUp::new(chunk_tokens)));
    }

    /// The chunks that it has forgotten since it was asked last, first to last.
    pub(super) fn take_given_up(&mut self) -> Vec<BlockHash> {
        self.given_up.as_mut().map(|given_up| given_up.take()).unwrap_or_default()
    }

    /// Blocks that no request holds.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Blocks that requests can ever hold.
    pub fn usable(&self) -> u32 {
        self.usable
    }

    /// Another number after every change of what is cached or of who holds it.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn find(&self, table: &BlockTable, most: u32, hits: &mut Hits) {
        let BlockTable { ref hasher, mut cursor, mut next, .. } = *table;
        while hits.blocks < most {
            let followed = self.tree.follow(hasher, cursor, next, most - hits.blocks);
            let Some((start, blocks)) = followed else { return };
            next = start.after(blocks);
            let mut at = start;
            while at != next {
                let Some(hit) = self.find_at(at, next.block) else { return };
                hits.add(hit, self.extents[hit.extent as usize].refs == 0);
                at = at.after(hit.blocks);
            }
            cursor = hasher.tokens.skip(cursor, blocks * hasher.block_size);
        }
    }

    /// Blocks of a branch from one place up to another, all in the first copy of each.
    fn find_at(&self, at: Place, mut to: u32) -> Option<Hit> {
        for id in self.copies.iter(self.tree.copies(at.branch)) {
            let extent = &self.extents[id as usize];
            if extent.first > at.block {
                to = to.min(extent.first);
            } else if extent.end() > at.block {
                let blocks = to.min(extent.end()) - at.block;
                return Some(Hit { extent: id, first: at.block, blocks });
            }
        }
        None
    }

    pub(super) fn hold(&mut self, table: &mut BlockTable, hits: &Hits) {
        debug_assert!(table.is_empty(), "hits are the beginning of a sequence");
        debug_assert!(self.has_taken_foretold(), "blocks that will be taken are held");
        self.version += 1;
        // From the last to the first: a split leaves the front of an extent its index.
        for &hit in hits.found.iter().rev() {
            let id = self.carve(hit);
            let extent = &mut self.extents[id as usize];
            extent.refs += 1;
            if extent.refs == 1 {
                self.free -= extent.blocks;
                self.links.unlink(&mut self.queue, id);
            }
            table.shares.push(Share { extent: id, blocks: hit.blocks });
        }
        table.shares.reverse();
        table.named = hits.blocks;
        if let Some(&Hit { extent, first, blocks }) = hits.found.last() {
            let branch = self.extents[extent as usize].branch;
            table.advance(hits.blocks, Place { branch, block: first + blocks });
        }
        self.tell_stored(table, 0);
    }

    /// Plain blocks that are taken before others, behind those of which it has told what they forget.
    pub(super) fn takes_without_loss(&self) -> u32 {
        let mut told = self.events.as_ref().map_or(0, |events| events.foretold);
        for id in self.links.iter(self.queue) {
            let extent = &self.extents[id as usize];
            if told < extent.blocks {
                return if extent.is_plain() { extent.blocks - told } else { 0 };
            }
            told -= extent.blocks;
        }
        0
    }

    /// Takes the next free blocks as plain ones; their old content is forgotten.
    ///
    /// # Panics
    /// When fewer are free: check [`free`](Self::free) first.
    #[inline]
    pub fn take_plain(&mut self, count: u32) {
        let mut left = count;
        while left > 0 {
            let id = self.queue.first;
            assert!(id != NONE, "a block is taken from an empty pool");
            let extent = &mut self.extents[id as usize];
            let taken = extent.blocks.min(left);
            extent.blocks -= taken;
            left -= taken;
            let Extent { branch, blocks, .. } = *extent;
            let is_plain = extent.is_plain();
            self.version += u64::from(!is_plain);
            if let Some(given_up) = self.given_up.as_mut().filter(|_| !is_plain) {
                let end = extent.end();
                self.tree.give_up(branch, end..end + taken, given_up);
            }
            if let Some(events) = &mut self.events {
                let told = events.foretold.min(taken);
                events.foretold -= told;
                let end = self.extents[id as usize].end();
                if !is_plain && told < taken {
                    self.tree.give_up(branch, end..end + taken - told, &mut events.gone);
                }
            }
            if blocks == 0 {
                self.links.unlink(&mut self.queue, id);
                if !is_plain {
                    self.forget(id, branch);
                }
                self.vacant.push(id);
            }
        }
        self.free -= count;
        self.plain += count;
        if let Some(events) = &mut self.events {
            events.tell_gone();
        }
    }

    /// Forgets what is cached and held by nobody.
    pub(super) fn forget_cached(&mut self) {
        let free = self.free;
        let events = if free == self.usable { self.events.take() } else { None };
        self.take_plain(free);
        self.plain -= free;
        self.queue_plain(Side::Back, free);
        self.take_given_up();
        if let Some(mut events) = events {
            events.log.cleared();
            self.events = Some(events);
        }
    }

    /// Nothing is left of an extent of a branch.
    fn forget(&mut self, id: ExtentId, branch: BranchId) {
        let copies = self.tree.copies_mut(branch);
        self.copies.unlink(copies, id);
        if copies.first == NONE {
            self.tree.remove(branch);
        }
    }

    /// Names the next blocks of a table that are not cached: plain ones until now.
    pub(super) fn cache(&mut self, table: &mut BlockTable, blocks: u32) {
        self.version += 1;
        let mut left = blocks;
        while left > 0 {
            let BlockTable { ref hasher, cursor, next, .. } = *table;
            let (start, blocks) = match self.tree.follow(hasher, cursor, next, left) {
                Some(known) => known,
                None => (self.tree.grow(hasher, cursor, next, left), left),
            };
            self.name(table, start, blocks);
            table.advance(blocks, start.after(blocks));
            left -= blocks;
        }
        table.named += blocks;
        table.plain -= blocks;
        self.plain -= blocks;
        self.tell_stored(table, table.named - blocks);
    }

    fn name(&mut self, table: &mut BlockTable, at: Place, blocks: u32) {
        if let Some(share) = table.shares.last_mut() {
            let extent = &mut self.extents[share.extent as usize];
            let is_continued = extent.branch == at.branch && extent.end() == at.block;
            let is_whole = extent.blocks == share.blocks && extent.refs == 1;
            if is_continued && is_whole && self.copies.next(share.extent) == NONE {
                extent.blocks += blocks;
                share.blocks += blocks;
                return;
            }
        }
        let Place { branch, block } = at;
        let id = self.add(Extent { branch, first: block, blocks, refs: 1, rest: NONE });
        self.copies.push_back(self.tree.copies_mut(branch), id);
        table.shares.push(Share { extent: id, blocks });
    }

    /// Takes back plain blocks, to be taken next, or with a content that nothing finds after all others.
    pub(super) fn give_back(&mut self, count: u32, has_content: bool) {
        self.plain -= count;
        self.queue_plain(if has_content { Side::Back } else { Side::Front }, count);
    }

    pub(super) fn release(&mut self, table: &mut BlockTable) {
        let plain = std::mem::take(&mut table.plain);
        let named = std::mem::take(&mut table.named);
        let kept = table.cached.saturating_sub(named);
        self.plain -= plain;
        self.version += u64::from(named > 0);
        self.queue_plain(Side::Front, plain - kept);
        self.queue_plain(Side::Back, kept);
        while let Some(share) = table.shares.pop() {
            self.let_go(share.extent, share.blocks);
        }
        (table.next, table.cursor) = (Place::ROOT, table.hasher.tokens.start());
    }

    /// Takes back `blocks` blocks of an extent and of what was split off it, the last first.
    fn let_go(&mut self, id: ExtentId, blocks: u32) {
        let Extent { blocks: own, rest, .. } = self.extents[id as usize];
        if own < blocks {
            self.let_go(rest, blocks - own);
        }
        let extent = &mut self.extents[id as usize];
        debug_assert!(extent.refs > 0, "extent {id} is given back twice");
        extent.refs -= 1;
        if extent.refs == 0 {
            self.free += own;
            self.links.push_back(&mut self.queue, id);
        }
    }

    /// The extent of exactly these blocks.
    fn carve(&mut self, hit: Hit) -> ExtentId {
        let extent = self.extents[hit.extent as usize];
        if hit.first + hit.blocks < extent.end() {
            self.split(hit.extent, hit.first + hit.blocks);
        }
        if hit.first > extent.first { self.split(hit.extent, hit.first) } else { hit.extent }
    }

    /// Splits an extent before a block of its branch. The back part, which is returned, has another
    /// index.
    fn split(&mut self, id: ExtentId, place: u32) -> ExtentId {
        let whole = self.extents[id as usize];
        debug_assert!(!whole.is_plain(), "only what can be found is split");
        let back = self.add(Extent { first: place, blocks: whole.end() - place, ..whole });
        let front = &mut self.extents[id as usize];
        front.blocks = place - whole.first;
        front.rest = back;
        self.copies.insert_after(self.tree.copies_mut(whole.branch), id, back);
        if whole.refs == 0 {
            self.links.insert_after(&mut self.queue, self.links.prev(id), back);
        }
        back
    }

    fn add(&mut self, extent: Extent) -> ExtentId {
        if let Some(id) = self.vacant.pop() {
            self.extents[id as usize] = extent;
            return id;
        }
        self.extents.push(extent);
        self.links.grow(self.extents.len());
        self.copies.grow(self.extents.len());
        self.extents.len() as ExtentId - 1
    }

    /// Puts plain blocks into the queue, beside those that are there.
    #[inline]
    fn queue_plain(&mut self, side: Side, count: u32) {
        if count == 0 {
            return;
        }
        debug_assert!(self.has_taken_foretold(), "blocks stand before those that will be taken");
        self.free += count;
        let end = match side {
            Side::Front => self.queue.first,
            Side::Back => self.queue.last,
        };
        let extent = &mut self.extents[end as usize];
        if end != NONE && extent.is_plain() {
            extent.blocks += count;
            return;
        }
        let id = self.add(Extent { blocks: count, ..Extent::default() });
        let before = match side {
            Side::Front => NONE,
            Side::Back => end,
        };
        self.links.insert_after(&mut self.queue, before, id);
    }

    /// Whether every block is either free and in the queue, or held: law L3.
    pub fn is_balanced(&self) -> bool {
        let blocks = |id: ExtentId| self.extents[id as usize].blocks;
        let queued: u32 = self.links.iter(self.queue).map(blocks).sum();
        let held = self.extents.iter().filter(|extent| extent.refs > 0);
        let held: u32 = held.map(|extent| extent.blocks).sum();
        let is_counted = queued == self.free && queued + held + self.plain == self.usable;
        is_counted && self.tree.is_sound()
    }
}

#[cfg(test)]
mod tests;
