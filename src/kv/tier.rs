//! A tier of KV memory below the GPU: whole chunks by name, in the order in which they give way (vLLM,
//! `vllm/v1/kv_offload/lru_manager.py`, commit 3a04cf8).
//!
//! A chunk has room from the moment at which a move towards the tier begins, and can be found once that
//! has ended. What is being read, or still arriving, does not give way. Of the chunks of one sequence the
//! last is the first to.

use rustc_hash::{FxHashMap, FxHashSet};

use super::BlockHash;
use super::lists::{Ends, Links};
use crate::scenario::TierEviction;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// On its way here.
    Arriving,
    /// Here, and so many moves read it.
    Here(u32),
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    name: BlockHash,
    state: State,
}

/// Chunks in some memory.
#[derive(Debug, Clone)]
pub struct Tier {
    eviction: TierEviction,
    capacity: usize,
    /// By place; the first is none.
    chunks: Vec<Chunk>,
    vacant: Vec<u32>,
    places: FxHashMap<BlockHash, u32>,
    /// Next to give way first.
    queue: Ends,
    links: Links,
    /// Chunks that can give way.
    idle: usize,
    /// How often it has changed what can be found.
    changes: u64,
}

impl Tier {
    /// Room for so many chunks.
    pub fn new(capacity: usize, eviction: TierEviction) -> Self {
        let none = Chunk { name: BlockHash::of(0), state: State::Arriving };
        Self {
            eviction,
            capacity,
            chunks: vec![none],
            vacant: Vec::new(),
            places: FxHashMap::default(),
            queue: Ends::default(),
            links: Links::default(),
            idle: 0,
            changes: 0,
        }
    }

    /// How often it has changed what can be found: a look-up finds the same as long as this is the same.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Chunks that have room, those on their way included.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Chunks that would give way to others.
    pub fn idle(&self) -> usize {
        self.idle
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether a chunk has room, be it still on its way.
    pub fn knows(&self, name: BlockHash) -> bool {
        self.places.contains_key(&name)
    }

    /// Whether a chunk can be found.
    pub fn has(&self, name: BlockHash) -> bool {
        let place = self.places.get(&name);
        place.is_some_and(|place| self.chunks[*place as usize].state != State::Arriving)
    }

    /// Whether a move reads a chunk.
    pub fn is_read(&self, name: BlockHash) -> bool {
        let place = self.places.get(&name);
        let state = place.map(|place| self.chunks[*place as usize].state);
        matches!(state, Some(State::Here(readers)) if readers > 0)
    }

    /// Gives room to those of these chunks that have none, and leaves them in `names`, each once. What gives way to
    /// them is added to `evicted`. All or nothing: where others cannot give way, none is left.
    pub fn reserve(&mut self, names: &mut Vec<BlockHash>, evicted: &mut Vec<BlockHash>) {
        let mut seen = FxHashSet::default();
        names.retain(|name| !self.knows(*name) && seen.insert(*name));
        let lacking = (self.len() + names.len()).saturating_sub(self.capacity);
        if !self.make_room(lacking, evicted) {
            names.clear();
        }
        for &name in names.iter().rev() {
            let place = self.add(Chunk { name, state: State::Arriving });
            self.places.insert(name, place);
            self.links.push_back(&mut self.queue, place);
        }
    }

    /// Has so many chunks give way; `false` changes nothing.
    fn make_room(&mut self, count: usize, evicted: &mut Vec<BlockHash>) -> bool {
        if self.idle < count {
            return false;
        }
        let idle = |place: &u32| self.chunks[*place as usize].state == State::Here(0);
        let going: Vec<u32> = self.links.iter(self.queue).filter(idle).take(count).collect();
        for place in going {
            let name = self.chunks[place as usize].name;
            self.forget(name);
            self.idle -= 1;
            evicted.push(name);
        }
        true
    }

    /// A chunk that has room has come.
    ///
    /// # Panics
    /// When it was not on its way.
    pub fn arrive(&mut self, name: BlockHash) {
        let state = self.state(name);
        assert_eq!(*state, State::Arriving, "a chunk comes once");
        *state = State::Here(0);
        self.idle += 1;
        self.changes += 1;
    }

    /// A chunk on its way does not come.
    ///
    /// # Panics
    /// When it was not on its way.
    pub fn lose(&mut self, name: BlockHash) {
        assert_eq!(*self.state(name), State::Arriving, "what is lost was on its way");
        self.forget(name);
    }

    /// A move begins to read a chunk, which can be found.
    ///
    /// # Panics
    /// When it cannot.
    pub fn hold(&mut self, name: BlockHash) {
        let State::Here(readers) = self.state(name) else {
            panic!("a chunk is read before it has come")
        };
        *readers += 1;
        let was_idle = *readers == 1;
        self.idle -= usize::from(was_idle);
    }

    /// A move reads a chunk no longer.
    ///
    /// # Panics
    /// When none did.
    pub fn let_go(&mut self, name: BlockHash) {
        let is_idle = match self.state(name) {
            State::Here(readers) if *readers > 0 => {
                *readers -= 1;
                *readers == 0
            }
            state => panic!("a chunk that nobody reads is let go: {state:?}"),
        };
        self.idle += usize::from(is_idle);
    }

    /// A request asks for these chunks, the beginning of a sequence: those that are here are the last to
    /// give way, the last of them first.
    pub fn touch(&mut self, names: &[BlockHash]) {
        if self.eviction == TierEviction::Fifo {
            return;
        }
        for name in names.iter().rev() {
            if let Some(&place) = self.places.get(name) {
                self.links.unlink(&mut self.queue, place);
                self.links.push_back(&mut self.queue, place);
            }
        }
    }

    fn state(&mut self, name: BlockHash) -> &mut State {
        let place = self.places.get(&name).expect("the chunk has room here");
        &mut self.chunks[*place as usize].state
    }

    fn forget(&mut self, name: BlockHash) {
        let place = self.places.remove(&name).expect("the chunk has room here");
        self.links.unlink(&mut self.queue, place);
        self.vacant.push(place);
        self.changes += 1;
    }

    fn add(&mut self, chunk: Chunk) -> u32 {
        if let Some(place) = self.vacant.pop() {
            self.chunks[place as usize] = chunk;
            return place;
        }
        self.chunks.push(chunk);
        self.links.grow(self.chunks.len());
        self.chunks.len() as u32 - 1
    }

    /// Whether no more is here than there is room for, and all of it is in the queue once.
    pub fn is_balanced(&self) -> bool {
        let queued = self.links.iter(self.queue).count();
        let can_go = |place: &u32| self.chunks[*place as usize].state == State::Here(0);
        let idle = self.links.iter(self.queue).filter(can_go).count();
        let places = self.chunks.len() - 1 - self.vacant.len();
        self.len() <= self.capacity
            && queued == self.len()
            && places == self.len()
            && idle == self.idle
    }
}

#[cfg(test)]
mod tests;
