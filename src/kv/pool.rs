//! The pools behind one face.

use super::{
    BlockHash, BlockId, BlockPool, BlockTable, CacheEvent, GroupedPool, Hits, NumberedPool,
};

/// Said where groups of layers would have to guess what a request wants blocks for.
const NEEDS_DEMAND: &str = "groups of layers give blocks for a demand, by the pool's own methods";

/// A pool of KV blocks: counted, with the number of every block, or shared by groups of layers.
#[derive(Debug, Clone)]
pub enum KvPool {
    /// Blocks without numbers, by extents.
    Counted(BlockPool),
    /// Blocks with numbers, one by one.
    Numbered(NumberedPool),
    /// Blocks with numbers of several groups of layers, which take them at [`GroupedPool`].
    Grouped(Box<GroupedPool>),
}

impl KvPool {
    /// Whether every block has its number.
    pub fn is_numbered(&self) -> bool {
        matches!(self, Self::Numbered(_) | Self::Grouped(_))
    }

    /// The pool of several groups of layers, if it is one.
    pub fn grouped(&mut self) -> Option<&mut GroupedPool> {
        match self {
            Self::Grouped(pool) => Some(pool),
            Self::Counted(_) | Self::Numbered(_) => None,
        }
    }

    /// Blocks that no request holds.
    pub fn free(&self) -> u32 {
        match self {
            Self::Counted(pool) => pool.free(),
            Self::Numbered(pool) => pool.free(),
            Self::Grouped(pool) => pool.free(),
        }
    }

    /// Blocks that requests can ever hold.
    pub fn usable(&self) -> u32 {
        match self {
            Self::Counted(pool) => pool.usable(),
            Self::Numbered(pool) => pool.usable(),
            Self::Grouped(pool) => pool.usable(),
        }
    }

    /// A number that is another one after every change of what is cached or of who holds it; a
    /// numbered pool has none.
    pub fn version(&self) -> Option<u64> {
        match self {
            Self::Counted(pool) => Some(pool.version()),
            Self::Numbered(_) | Self::Grouped(_) => None,
        }
    }

    /// Finds the longest cached beginning of a sequence of which `known` tokens are known, at most
    /// `most` blocks of it; of groups of layers all but the last token.
    pub fn find(&self, table: &mut BlockTable, known: u32, most: u32, hits: &mut Hits) {
        hits.clear();
        match self {
            Self::Grouped(pool) => return pool.find(table, known, hits),
            Self::Counted(_) | Self::Numbered(_) if table.is_private => return,
            Self::Counted(pool) => pool.find(table, most, hits),
            Self::Numbered(pool) => pool.find(table, known, most, hits),
        }
        hits.tokens = hits.blocks * table.hasher.block_size;
    }

    /// Gives the blocks that a lookup found to the table it was made for, which holds none. Nothing
    /// may have changed in between.
    ///
    /// # Panics
    /// When groups of layers share the pool.
    pub fn hold(&mut self, table: &mut BlockTable, hits: &Hits) {
        match self {
            Self::Counted(pool) => pool.hold(table, hits),
            Self::Numbered(pool) => pool.hold(table, hits),
            Self::Grouped(_) => panic!("{NEEDS_DEMAND}"),
        }
        table.cached += hits.blocks;
    }

    /// Gives the next free blocks to a table; their old content is forgotten.
    ///
    /// # Panics
    /// When fewer are free: check [`free`](Self::free) first; or when groups of layers share the pool.
    #[inline]
    pub fn take(&mut self, table: &mut BlockTable, count: u32) {
        match self {
            Self::Counted(pool) => {
                pool.take_plain(count);
                table.plain += count;
            }
            Self::Numbered(pool) => pool.take(table, count),
            Self::Grouped(_) => panic!("{NEEDS_DEMAND}"),
        }
    }

    /// Takes the next free blocks on behalf of several tables, which are told of them later
    /// ([`BlockTable::add_plain`]).
    ///
    /// # Panics
    /// When fewer are free, or blocks have numbers.
    pub fn take_plain(&mut self, count: u32) {
        match self {
            Self::Counted(pool) => pool.take_plain(count),
            Self::Numbered(_) | Self::Grouped(_) => {
                panic!("blocks with numbers are taken for a table")
            }
        }
    }

    /// Takes back blocks that were [taken](Self::take_plain) on nobody's table, with a content that
    /// nothing finds: it goes when its turn comes, as of blocks with one.
    ///
    /// # Panics
    /// When blocks have numbers.
    pub fn give_back(&mut self, count: u32, has_content: bool) {
        match self {
            Self::Counted(pool) => pool.give_back(count, has_content),
            Self::Numbered(_) | Self::Grouped(_) => {
                panic!("blocks with numbers are given back by a table")
            }
        }
    }

    /// Caches the first `full` blocks of a sequence of which `known` tokens are known, as far as
    /// they can be named. Those that are cached keep their place.
    ///
    /// # Panics
    /// When groups of layers share the pool.
    #[inline]
    pub fn cache(&mut self, table: &mut BlockTable, known: u32, full: u32) {
        if full <= table.cached {
            return;
        }
        let to = full.min(table.hasher.nameable(known)).max(table.cached);
        match self {
            Self::Counted(_) if table.is_private => {}
            Self::Counted(pool) => pool.cache(table, to - table.cached),
            Self::Numbered(pool) => pool.cache(table, known, table.cached..to),
            Self::Grouped(_) => panic!("{NEEDS_DEMAND}"),
        }
        table.cached = to;
    }

    /// Names the cached blocks of a private sequence of which `known` tokens are known: it will
    /// look for them itself.
    pub fn reveal(&mut self, table: &mut BlockTable, known: u32) {
        if !std::mem::replace(&mut table.is_private, false) {
            return;
        }
        match self {
            Self::Counted(pool) => pool.cache(table, table.cached),
            Self::Numbered(pool) => pool.cache(table, known, 0..table.cached),
            // They are named from the start.
            Self::Grouped(_) => {}
        }
    }

    /// Takes back all blocks of a table.
    ///
    /// They are let go from the last to the first; those that nobody else holds go, in that
    /// order, to the front of the queue without a content and to the back with one.
    #[inline]
    pub fn release(&mut self, table: &mut BlockTable) {
        match self {
            Self::Counted(pool) => pool.release(table),
            Self::Numbered(pool) => pool.release(table),
            Self::Grouped(pool) => pool.release(table),
        }
        table.cached = 0;
    }

    /// How many times a block was taken with its content forgotten.
    ///
    /// # Panics
    /// When blocks have no numbers of a single group.
    pub fn times_taken(&self, id: BlockId) -> u32 {
        match self {
            Self::Numbered(pool) => pool.times_taken(id),
            Self::Counted(_) | Self::Grouped(_) => panic!("block {id} is not told from others"),
        }
    }

    /// Remembers which chunks of so many tokens lose a block from now on.
    ///
    /// # Panics
    /// When blocks have numbers: recorded engines have no tiers.
    pub fn remember_given_up(&mut self, chunk_tokens: u32) {
        match self {
            Self::Counted(pool) => pool.remember_given_up(chunk_tokens),
            Self::Numbered(_) | Self::Grouped(_) => {
                panic!("blocks with numbers have no tier below")
            }
        }
    }

    /// Chunks that have lost a block since this was asked last, first to last of each sequence.
    pub fn take_given_up(&mut self) -> Vec<BlockHash> {
        match self {
            Self::Counted(pool) => pool.take_given_up(),
            Self::Numbered(_) | Self::Grouped(_) => Vec::new(),
        }
    }

    /// Tells from now on what it caches and forgets, of blocks of so many tokens, and whether it can: blocks with
    /// numbers are not told of.
    pub fn tell_events(&mut self, block_size: u32) -> bool {
        match self {
            Self::Counted(pool) => {
                pool.tell_events(block_size);
                true
            }
            Self::Numbered(_) | Self::Grouped(_) => false,
        }
    }

    /// What it has cached and forgotten since this was asked last.
    pub fn take_events(&mut self) -> Vec<CacheEvent> {
        match self {
            Self::Counted(pool) => pool.take_events(),
            Self::Numbered(_) | Self::Grouped(_) => Vec::new(),
        }
    }

    /// So many further blocks are going to be [taken](Self::take_plain) before anything else happens to the pool: tells
    /// what they forget as if they were taken now.
    ///
    /// # Panics
    /// When blocks have numbers: they are not told of.
    pub fn foretell(&mut self, count: u32) {
        match self {
            Self::Counted(pool) => pool.foretell(count),
            Self::Numbered(_) | Self::Grouped(_) => panic!("blocks with numbers are not told of"),
        }
    }

    /// Blocks that can be taken before content is forgotten, as far as is known.
    pub fn takes_without_loss(&self) -> u32 {
        match self {
            Self::Counted(pool) => pool.takes_without_loss(),
            Self::Numbered(_) | Self::Grouped(_) => 0,
        }
    }

    /// Forgets the content of blocks that nobody holds.
    pub fn forget_cached(&mut self) {
        match self {
            Self::Counted(pool) => pool.forget_cached(),
            Self::Numbered(pool) => pool.forget_cached(),
            Self::Grouped(pool) => pool.forget_cached(),
        }
    }

    /// Whether every block is either free and in the queue, or held: law L3.
    pub fn is_balanced(&self) -> bool {
        match self {
            Self::Counted(pool) => pool.is_balanced(),
            Self::Numbered(pool) => pool.is_balanced(),
            Self::Grouped(pool) => pool.is_balanced(),
        }
    }
}
