//! What sequences have been cached, as a tree of their tokens.
//!
//! A *branch* is a run of blocks that one sequence brought. Another one that follows it for some blocks
//! and then differs, or goes on where it ends, does so in a branch of its own, which stands at the block
//! at which they part. So a sequence is compared run of tokens by run of tokens and looked up by name
//! once for each branch, however many blocks it has.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::given_up::GivenUp;
use super::lists::{Ends, NONE};
use super::names::Chain;
use super::token_runs::{Cursor, TokenRuns};
use super::{BlockHash, ChainHasher};

/// The index of a branch.
pub(super) type BranchId = u32;

/// A block of a branch, or the one that would come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) branch: BranchId,
    pub(super) block: u32,
}

impl Place {
    /// Before the first block of any sequence, in a branch that has no blocks.
    pub(super) const ROOT: Self = Self { branch: 0, block: 0 };

    /// The place some blocks further in the same branch.
    pub(super) fn after(self, blocks: u32) -> Self {
        Self { block: self.block + blocks, ..self }
    }
}

#[derive(Debug, Clone)]
struct Branch {
    /// The sequence that brought it, and its first token there, with how many are before that.
    tokens: TokenRuns,
    start: Cursor,
    position: u32,
    blocks: u32,
    /// What sets sequences of other adapters or salts apart, and the tokens of a block.
    namespace: BlockHash,
    block_size: u32,
    /// Where it stands, and the name of its first block there.
    origin: (Place, BlockHash),
    /// The block before its first one, where its name was known.
    before: Option<Chain>,
    /// The extents that hold blocks of it, in the order in which they were cached.
    copies: Ends,
}

/// The branches of what is cached.
#[derive(Debug, Clone)]
pub(super) struct ContentTree {
    /// Branches by index; none for the root and at vacant indices.
    branches: Vec<Option<Branch>>,
    vacant: Vec<BranchId>,
    by_origin: FxHashMap<(Place, BlockHash), BranchId>,
}

impl Default for ContentTree {
    fn default() -> Self {
        Self { branches: vec![None], vacant: Vec::new(), by_origin: FxHashMap::default() }
    }
}

impl ContentTree {
    /// The extents that hold blocks of a branch. One without is to be [removed](Self::remove).
    pub(super) fn copies(&self, branch: BranchId) -> Ends {
        self.branches[branch as usize].as_ref().map(|branch| branch.copies).unwrap_or_default()
    }

    pub(super) fn copies_mut(&mut self, branch: BranchId) -> &mut Ends {
        &mut self.branches[branch as usize].as_mut().expect("the branch of an extent").copies
    }

    /// Where the blocks of a sequence that come after `at` stand, and how many of `most` stand there
    /// one after the other.
    pub(super) fn follow(
        &self,
        hasher: &ChainHasher,
        cursor: Cursor,
        at: Place,
        most: u32,
    ) -> Option<(Place, u32)> {
        let blocks = self.common(hasher, cursor, at, most);
        if blocks > 0 {
            return Some((at, blocks));
        }
        let branch = *self.by_origin.get(&Self::origin(hasher, cursor, at))?;
        let start = Place { branch, block: 0 };
        let blocks = self.common(hasher, cursor, start, most);
        debug_assert!(blocks > 0, "blocks of one name at one place are equal");
        Some((start, blocks))
    }

    /// Adds blocks of a sequence that stand nowhere after `at`. Returns where they stand.
    pub(super) fn grow(
        &mut self,
        hasher: &ChainHasher,
        cursor: Cursor,
        at: Place,
        blocks: u32,
    ) -> Place {
        if let Some(branch) = &mut self.branches[at.branch as usize]
            && branch.tokens.is_same_sequence(&hasher.tokens)
            && branch.blocks == at.block
        {
            branch.blocks += blocks;
            return at;
        }
        let origin = Self::origin(hasher, cursor, at);
        let (tokens, copies) = (hasher.tokens.clone(), Ends::default());
        let (namespace, block_size) = (hasher.namespace, hasher.block_size);
        let (start, before) = (cursor, hasher.chain_to(cursor));
        let branch = self.add(Branch {
            position: tokens.position(start),
            tokens,
            start,
            blocks,
            namespace,
            block_size,
            origin,
            before,
            copies,
        });
        self.by_origin.insert(origin, branch);
        Place { branch, block: 0 }
    }

    /// These blocks of a branch are forgotten.
    ///
    /// # Panics
    /// When there is no such branch.
    pub(super) fn give_up(&self, branch: BranchId, blocks: Range<u32>, given_up: &mut GivenUp) {
        let branch = self.branches[branch as usize].as_ref().expect("the branch of an extent");
        let token = |block: u32| branch.position + block * branch.block_size;
        let lost = token(blocks.start)..token(blocks.end);
        let begin = branch.before.map(|chain| (chain, branch.start, branch.position));
        let begin = begin.filter(|_| branch.block_size == given_up.chunk_tokens());
        given_up.add((&branch.tokens, branch.namespace), begin, lost);
    }

    /// Removes a branch of which nothing is cached. Nothing is cached of those that stand at it
    /// either: the end of a sequence is forgotten first.
    pub(super) fn remove(&mut self, branch: BranchId) {
        if let Some(gone) = self.branches[branch as usize].take() {
            self.by_origin.remove(&gone.origin);
            self.vacant.push(branch);
        }
    }

    /// Whether something is cached of every branch and of those at which it stands.
    pub(super) fn is_sound(&self) -> bool {
        let is_cached = |branch: BranchId| self.copies(branch).first != NONE;
        self.branches.iter().flatten().all(|branch| {
            let (at, _) = branch.origin;
            branch.copies.first != NONE && (at == Place::ROOT || is_cached(at.branch))
        })
    }

    /// How many of the blocks of a branch from a place on are those of a sequence.
    fn common(&self, hasher: &ChainHasher, mut cursor: Cursor, at: Place, most: u32) -> u32 {
        let Some(branch) = &self.branches[at.branch as usize] else { return 0 };
        let most = most.min(branch.blocks - at.block);
        if most == 0 {
            return 0;
        }
        let limit = most * hasher.block_size + hasher.ahead();
        let mut theirs = branch.tokens.skip(branch.start, at.block * hasher.block_size);
        let mut same = 0;
        while same < limit {
            let their = branch.tokens.piece(theirs, limit - same);
            let piece = hasher.tokens.piece(cursor, their.len);
            if (their.stream, their.start) != (piece.stream, piece.start) {
                break;
            }
            theirs = branch.tokens.skip(theirs, piece.len);
            cursor = hasher.tokens.skip(cursor, piece.len);
            same += piece.len;
        }
        hasher.nameable(same)
    }

    fn origin(hasher: &ChainHasher, cursor: Cursor, at: Place) -> (Place, BlockHash) {
        (at, hasher.own_name(cursor))
    }

    fn add(&mut self, branch: Branch) -> BranchId {
        if let Some(id) = self.vacant.pop() {
            self.branches[id as usize] = Some(branch);
            return id;
        }
        self.branches.push(Some(branch));
        self.branches.len() as BranchId - 1
    }
}
