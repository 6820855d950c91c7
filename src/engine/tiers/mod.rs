//! KV memory below that of an engine's GPUs: host memory, a disk, a pool that engines share.
//!
//! A passive machine. The scheduler asks it what it holds of a prompt ([`Tiers::find`]), has it fetched
//! ([`Tiers::load`]), and tells it what is computed or given up ([`Tiers::write`]). The moves that follow
//! are taken by the driver ([`Tiers::take`]), which carries them out and says when each has ended
//! ([`Tiers::end`]).
//!
//! * Whatever goes to the GPU or comes from there passes host memory. What is read from further below is kept
//!   there, if there is room.
//! * Written through, what is computed goes to host memory, and from there to disk and pool. Written back,
//!   what the GPU gives up goes to the next tier below; what that gives up for it goes to the next.
//! * What gives way has been read by then: memory is there at once for what comes, as if a staging
//!   buffer took what leaves.
//!
//! A tier that has no room for all of what comes at once takes nothing of it.
//!
//! * `level.rs`: one tier, of the engine's own or shared
//! * `moves.rs`: what is on its way
//! * `fetch.rs`: whether to fetch or to compute

mod fetch;
mod level;
mod moves;

#[cfg(test)]
mod tests;

pub use fetch::{Fetch, FetchTimes};
pub use level::{Level, TierKind};
pub use moves::{TierLoad, TierMove, TierWay};

use rustc_hash::FxHashSet;

use crate::ids::RequestId;
use crate::kv::BlockHash;
use crate::scenario::TierWrite;
use moves::{Cargo, Moves};

/// The tiers of an engine.
#[derive(Debug, Clone)]
pub struct Tiers {
    chunk_tokens: u32,
    write: TierWrite,
    fetch: Fetch,
    /// By kind.
    levels: [Option<Level>; TierKind::ALL.len()],
    moves: Moves,
    /// What the last lookup found: a tier for each chunk.
    found: Vec<TierKind>,
    looked_up: Option<LookUp>,
}

/// The last look-up. A request that lacks memory asks the same in every step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LookUp {
    /// The last of the chunks, whose name is that of all before it too, and how many they are.
    last: Option<BlockHash>,
    chunks: usize,
    known: u32,
    hit: u32,
    /// Of each tier, as it was.
    changes: [u64; TierKind::ALL.len()],
    /// What came of it.
    tokens: u32,
}

impl Tiers {
    /// Tiers without content.
    ///
    /// # Panics
    /// When a chunk has no tokens.
    pub fn new(
        chunk_tokens: u32,
        (write, fetch): (TierWrite, Fetch),
        levels: [Option<Level>; TierKind::ALL.len()],
    ) -> Self {
        assert!(chunk_tokens > 0, "a chunk has tokens");
        let moves = Moves::default();
        Self { chunk_tokens, write, fetch, levels, moves, found: Vec::new(), looked_up: None }
    }

    /// Tokens of a chunk.
    pub fn chunk_tokens(&self) -> u32 {
        self.chunk_tokens
    }

    /// When KV goes down.
    pub fn write_policy(&self) -> TierWrite {
        self.write
    }

    /// What the tiers hold of a sequence of `known` tokens behind the first `hit`, which the GPU holds:
    /// tokens that are worth fetching, 0 if none. `names` are its whole chunks.
    pub fn find(&mut self, names: &[BlockHash], known: u32, hit: u32) -> u32 {
        let changes = self
            .levels
            .each_ref()
            .map(|level| level.as_ref().map_or(0, |level| level.on(|tier| tier.changes())));
        let (last, chunks) = (names.last().copied(), names.len());
        let asked = LookUp { last, chunks, known, hit, changes, tokens: 0 };
        if let Some(before) = self.looked_up
            && before == (LookUp { tokens: before.tokens, ..asked })
        {
            return before.tokens;
        }
        let tokens = self.look_up(names, known, hit);
        self.looked_up = Some(LookUp { tokens, ..asked });
        tokens
    }

    fn look_up(&mut self, names: &[BlockHash], known: u32, hit: u32) -> u32 {
        self.found.clear();
        let first = (hit / self.chunk_tokens) as usize;
        let levels = self.levels.each_ref().map(|level| level.as_ref().map(Level::lock));
        for name in names.get(first..).unwrap_or_default() {
            let has = |kind: &&TierKind| {
                levels[**kind as usize].as_ref().is_some_and(|tier| tier.has(*name))
            };
            let Some(kind) = TierKind::ALL.iter().find(has) else { break };
            self.found.push(*kind);
        }
        drop(levels);
        let kept = self.fetch.worth(&self.found, (self.chunk_tokens, known, hit));
        self.found.truncate(kept);
        let end = (first + kept) as u32 * self.chunk_tokens;
        // The last token alone is computed anyway.
        if kept == 0 || end.min(known - 1) <= hit { 0 } else { end - hit }
    }

    /// A request that runs from now on, or loads, is the last to ask for these chunks.
    pub fn touch(&mut self, names: &[BlockHash]) {
        for level in self.levels.iter().flatten() {
            level.on(|tier| tier.touch(names));
        }
    }

    /// Begins to fetch what the last lookup found for a request, of whose `known` tokens the GPU holds the
    /// first `hit`. The last token is computed in any case.
    pub fn load(
        &mut self,
        (request, is_first): (RequestId, bool),
        names: &[BlockHash],
        (known, hit): (u32, u32),
    ) {
        let first = (hit / self.chunk_tokens) as usize;
        let found = std::mem::take(&mut self.found);
        let names = &names[first..first + found.len()];
        let mut tokens = [0; TierKind::ALL.len()];
        let mut skipped = hit % self.chunk_tokens;
        for kind in &found {
            tokens[*kind as usize] += self.chunk_tokens - std::mem::take(&mut skipped);
        }
        if let Some(last) = found.last()
            && (first + found.len()) as u32 * self.chunk_tokens == known
        {
            tokens[*last as usize] -= 1;
        }
        // Everything that is read is held before room is made for what is kept on the way.
        let of = |kind: TierKind| {
            let pairs = names.iter().zip(&found).filter(move |(_, at)| **at == kind);
            pairs.map(|(name, _)| *name).collect::<Vec<_>>()
        };
        let parts = TierKind::ALL.map(|kind| (kind, of(kind)));
        for (kind, names) in &parts {
            if let Some(level) = self.level(*kind) {
                level.on(|tier| names.iter().for_each(|name| tier.hold(*name)));
            }
        }
        self.moves.loads.push(TierLoad { request, tokens, is_first });
        for (kind, names) in parts.into_iter().filter(|(_, names)| !names.is_empty()) {
            let kept = match kind {
                TierKind::Host => Vec::new(),
                _ => self.reserve(TierKind::Host, names.clone()),
            };
            let cargo = Cargo { request: Some(request), names, kept };
            self.moves.begin(TierWay::up(kind), cargo);
        }
        self.found = found;
    }

    /// These chunks have been computed, or were given up by the GPU, as the policy asks; two blocks of one
    /// content that go at once give up one chunk. Written through,
    /// they pass host memory if any tier below takes them; written back, the first tier is what they go to.
    pub fn write(&mut self, names: &[BlockHash]) {
        if names.is_empty() {
            return;
        }
        let mut seen = FxHashSet::default();
        let mut names = names.to_vec();
        names.retain(|name| seen.insert(*name));
        let kept = self.reserve(TierKind::Host, names.clone());
        let takers = match (self.write, self.level(TierKind::Host)) {
            (TierWrite::Through, _) => TierKind::ALL.len(),
            (TierWrite::Back, None) => 1,
            (TierWrite::Back, Some(_)) => 0,
        };
        let below = self.levels[TierKind::Disk as usize..].iter().flatten().take(takers);
        let below: Vec<_> = below.map(Level::lock).collect();
        let mut next = kept.iter().peekable();
        names.retain(|name| {
            next.next_if_eq(&name).is_some() || below.iter().any(|tier| !tier.knows(*name))
        });
        drop(below);
        if !names.is_empty() {
            self.moves.begin(TierWay::GpuToHost, Cargo { request: None, names, kept });
        }
    }

    /// Gives chunks room in a tier, if there is one; returns those that have none there yet. Written
    /// back, what gives way goes further down.
    fn reserve(&mut self, kind: TierKind, mut names: Vec<BlockHash>) -> Vec<BlockHash> {
        let Some(level) = self.level(kind) else { return Vec::new() };
        let mut evicted = Vec::new();
        level.on(|tier| tier.reserve(&mut names, &mut evicted));
        self.moves.evicted[kind as usize] += evicted.len() as u64;
        if self.write == TierWrite::Back {
            // What gives way first is the end of a sequence.
            evicted.reverse();
            self.move_down(kind, evicted);
        }
        names
    }

    /// What leaves a tier goes to the next one below.
    fn move_down(&mut self, from: TierKind, names: Vec<BlockHash>) {
        let next =
            TierKind::ALL.into_iter().find(|kind| *kind > from && self.level(*kind).is_some());
        let Some(to) = next.filter(|_| !names.is_empty()) else { return };
        let kept = self.reserve(to, names);
        if !kept.is_empty() {
            self.moves
                .begin(TierWay::down(from, to), Cargo { request: None, names: Vec::new(), kept });
        }
    }

    /// What begins now: requests that wait for loads, and moves, in order; how many chunks gave way in
    /// each tier since this was asked last.
    pub fn take(
        &mut self,
        loads: &mut Vec<TierLoad>,
        moves: &mut Vec<TierMove>,
    ) -> [u64; TierKind::ALL.len()] {
        loads.append(&mut self.moves.loads);
        moves.append(&mut self.moves.begun);
        std::mem::take(&mut self.moves.evicted)
    }

    /// A move has ended. Returns the request whose load that completes.
    ///
    /// # Panics
    /// When there is no such move.
    pub fn end(&mut self, id: u32) -> Option<RequestId> {
        let (way, Cargo { request, names, kept }) = self.moves.end(id);
        if let Some(level) = self.level(way.to()) {
            level.on(|tier| kept.iter().for_each(|name| tier.arrive(*name)));
        }
        if let (Some(from), Some(_)) = (way.from(), request)
            && let Some(level) = self.level(from)
        {
            level.on(|tier| names.iter().for_each(|name| tier.let_go(*name)));
        }
        if way == TierWay::GpuToHost {
            self.pass_on(names);
        }
        request.filter(|request| !self.moves.has_load(*request))
    }

    /// What has come to host memory from the GPU goes on.
    fn pass_on(&mut self, names: Vec<BlockHash>) {
        match self.write {
            TierWrite::Through => {
                for to in [TierKind::Disk, TierKind::Pool] {
                    let kept = self.reserve(to, names.clone());
                    if !kept.is_empty() {
                        let cargo = Cargo { request: None, names: Vec::new(), kept };
                        self.moves.begin(TierWay::down(TierKind::Host, to), cargo);
                    }
                }
            }
            TierWrite::Back if self.level(TierKind::Host).is_none() => {
                self.move_down(TierKind::Host, names);
            }
            TierWrite::Back => {}
        }
    }

    /// The engine stops: what it reads from tiers that it shares is read no longer, what it writes there
    /// does not come.
    pub fn abandon(&mut self) {
        let open = self.moves.take();
        let Some(pool) = self.level(TierKind::Pool) else { return };
        for (way, Cargo { request, names, kept }) in open {
            if way.to() == TierKind::Pool {
                pool.on(|tier| kept.iter().for_each(|name| tier.lose(*name)));
            }
            if way.from() == Some(TierKind::Pool) && request.is_some() {
                pool.on(|tier| names.iter().for_each(|name| tier.let_go(*name)));
            }
        }
    }

    /// Whether no tier holds more than it has room for.
    pub fn is_balanced(&self) -> bool {
        self.levels.iter().flatten().all(|level| level.on(|tier| tier.is_balanced()))
    }

    fn level(&self, kind: TierKind) -> Option<&Level> {
        self.levels[kind as usize].as_ref()
    }
}
