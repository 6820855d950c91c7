//! Which blocks of prompts were sent to which instance, as llm-d's approximate prefix cache remembers them.
//!
//! A prompt is cut into blocks that are named in a chain; a last block that is not full counts as one, and blocks beyond
//! a number are not looked at. A prompt is followed until a block that nobody has; an instance has in common with it every
//! block on the way that it has, one behind another or not. Each instance remembers so many blocks, those that were sent
//! to it longest ago forgotten first.
//!
//! Blocks of a prompt that shares nothing are counted, not named: nobody will look for them, but they push others out.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::ids::InstanceId;
use crate::request::{RequestView, Segment};
use crate::rng::mix;

/// Tokens of a block: 64 letters of text, four to a token.
const BLOCK_TOKENS: u32 = 16;
/// Blocks of a prompt that are looked at.
const BLOCKS_MAX: u32 = 256;

/// The blocks sent to each instance.
#[derive(Debug, Clone)]
pub(super) struct BlockIndex {
    capacity: u32,
    holders: FxHashMap<u64, Vec<InstanceId>>,
    memories: Vec<Memory>,
    /// The prompt at hand: its blocks, and their names unless it shares nothing.
    blocks: u32,
    names: Vec<u64>,
    matched: Vec<u32>,
}

/// What an instance is remembered for.
#[derive(Debug, Clone, Default)]
struct Memory {
    /// Of each block that has a name, its last turn.
    turns: FxHashMap<u64, u64>,
    /// In the order they were sent; those of turns that are not the last any more are void.
    sent: VecDeque<Sent>,
    turn: u64,
    blocks: u32,
}

#[derive(Debug, Clone, Copy)]
enum Sent {
    Named { name: u64, turn: u64 },
    Nameless { blocks: u32 },
}

impl BlockIndex {
    /// Of so many blocks for each instance.
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            capacity,
            holders: FxHashMap::default(),
            memories: Vec::new(),
            blocks: 0,
            names: Vec::new(),
            matched: Vec::new(),
        }
    }

    /// Takes a prompt at hand.
    pub(super) fn read(&mut self, request: RequestView<'_>, instances: u32) {
        self.memories.resize_with(instances as usize, Memory::default);
        self.blocks = request.prompt_tokens.div_ceil(BLOCK_TOKENS).min(BLOCKS_MAX);
        self.names.clear();
        if let Some(segments) = request.content.segments.as_deref() {
            let adapter = request.adapter.map_or(0, |adapter| 1 + u64::from(adapter.0));
            let namespace = mix(request.content.salt).rotate_left(32) ^ adapter;
            name_blocks(segments, namespace, self.blocks, &mut self.names);
        }
        self.matched.clear();
        self.matched.resize(instances as usize, 0);
        for name in &self.names {
            let Some(holders) = self.holders.get(name) else { break };
            for holder in holders {
                self.matched[holder.index()] += 1;
            }
        }
    }

    /// The share of the blocks of the prompt at hand that an instance has.
    pub(super) fn match_rate(&self, instance: InstanceId) -> f64 {
        f64::from(self.matched[instance.index()]) / f64::from(self.blocks.max(1))
    }

    /// The prompt at hand is sent to an instance.
    pub(super) fn insert(&mut self, instance: InstanceId) {
        let memory = &mut self.memories[instance.index()];
        for &name in &self.names {
            memory.turn += 1;
            memory.sent.push_back(Sent::Named { name, turn: memory.turn });
            if memory.turns.insert(name, memory.turn).is_none() {
                memory.blocks += 1;
                self.holders.entry(name).or_default().push(instance);
            }
        }
        let nameless = self.blocks - self.names.len() as u32;
        if nameless > 0 {
            memory.sent.push_back(Sent::Nameless { blocks: nameless });
            memory.blocks += nameless;
        }
        while memory.blocks > self.capacity {
            let excess = memory.blocks - self.capacity;
            match memory.sent.front_mut().expect("what is remembered was sent") {
                Sent::Nameless { blocks } if *blocks > excess => {
                    *blocks -= excess;
                    memory.blocks -= excess;
                    continue;
                }
                Sent::Nameless { blocks } => memory.blocks -= *blocks,
                Sent::Named { name, turn } => {
                    if memory.turns.get(name) == Some(turn) {
                        memory.turns.remove(name);
                        memory.blocks -= 1;
                        forget(&mut self.holders, *name, instance);
                    }
                }
            }
            memory.sent.pop_front();
        }
        memory.tidy();
    }
}

impl Memory {
    /// Void entries are thrown away where they are more than half.
    fn tidy(&mut self) {
        if self.sent.len() > 2 * self.blocks as usize + 2 * BLOCKS_MAX as usize {
            let turns = &self.turns;
            self.sent.retain(|sent| match sent {
                Sent::Named { name, turn } => turns.get(name) == Some(turn),
                Sent::Nameless { .. } => true,
            });
        }
    }
}

fn forget(holders: &mut FxHashMap<u64, Vec<InstanceId>>, name: u64, instance: InstanceId) {
    if let Entry::Occupied(mut of_block) = holders.entry(name) {
        of_block.get_mut().retain(|holder| *holder != instance);
        if of_block.get().is_empty() {
            of_block.remove();
        }
    }
}

/// The names of the first blocks of a prompt. Equal tokens have equal names, however they are cut into runs.
fn name_blocks(segments: &[Segment], namespace: u64, blocks: u32, names: &mut Vec<u64>) {
    let mut name = namespace;
    let mut left = BLOCK_TOKENS;
    let mut piece: Option<Segment> = None;
    let absorb = |name: u64, run: Segment| {
        mix(mix(name ^ mix(run.stream)) ^ (u64::from(run.start) << 32 | u64::from(run.len)))
    };
    for run in segments.iter().filter(|run| run.len > 0) {
        let mut run = *run;
        while run.len > 0 && (names.len() as u32) < blocks {
            let taken = run.len.min(left);
            let front = Segment { len: taken, ..run };
            piece = match piece {
                Some(before)
                    if before.stream == run.stream && before.start + before.len == run.start =>
                {
                    Some(Segment { len: before.len + taken, ..before })
                }
                Some(before) => {
                    name = absorb(name, before);
                    Some(front)
                }
                None => Some(front),
            };
            (run.start, run.len, left) = (run.start + taken, run.len - taken, left - taken);
            if left == 0 {
                name = absorb(name, piece.take().expect("a block has tokens"));
                names.push(name);
                left = BLOCK_TOKENS;
            }
        }
    }
    if let Some(piece) = piece.filter(|_| (names.len() as u32) < blocks) {
        names.push(absorb(name, piece));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A prompt as its tokens, and the runs it is cut into.
    fn prompts() -> impl Strategy<Value = Vec<(u64, u32)>> {
        prop::collection::vec((0..3_u64, 1..40_u32), 1..6)
    }

    fn segments(runs: &[(u64, u32)]) -> Vec<Segment> {
        let mut at = 0;
        let segment = |&(stream, len): &(u64, u32)| {
            at += len;
            Segment { stream, start: at - len, len }
        };
        runs.iter().map(segment).collect()
    }

    fn tokens(segments: &[Segment]) -> Vec<(u64, u32)> {
        let of = |it: &Segment| (it.start..it.start + it.len).map(|at| (it.stream, at)).collect();
        segments.iter().flat_map(|segment: &Segment| -> Vec<_> { of(segment) }).collect()
    }

    proptest! {
        #[test]
        fn equal_blocks_have_equal_names_and_others_do_not(
            a in prompts(), b in prompts(), cut in 1..20_u32,
        ) {
            let name = |segments: &[Segment]| {
                let total: u32 = segments.iter().map(|segment| segment.len).sum();
                let mut names = Vec::new();
                name_blocks(segments, 7, total.div_ceil(BLOCK_TOKENS), &mut names);
                names
            };
            let (a, b) = (segments(&a), segments(&b));
            // The same tokens in smaller runs.
            let pieces = |segment: &Segment| {
                let segment = *segment;
                (0..segment.len.div_ceil(cut)).map(move |piece| {
                    let start = segment.start + piece * cut;
                    Segment { start, len: cut.min(segment.start + segment.len - start), ..segment }
                })
            };
            let again: Vec<Segment> = a.iter().flat_map(pieces).collect();
            prop_assert_eq!(name(&a), name(&again));
            let (of_a, of_b) = (tokens(&a), tokens(&b));
            let (names_a, names_b) = (name(&a), name(&b));
            prop_assert_eq!(names_a.len(), of_a.len().div_ceil(16));
            for place in 0..names_a.len().min(names_b.len()) {
                let upto = |tokens: &[(u64, u32)]| tokens[..tokens.len().min(16 * (place + 1))].to_vec();
                prop_assert_eq!(names_a[place] == names_b[place], upto(&of_a) == upto(&of_b));
            }
        }

        #[test]
        fn what_is_remembered_is_a_list_of_those_sent_last(
            sends in prop::collection::vec((prop::option::of(prompts()), 0..3_u32), 1..40),
            capacity in 1..40_u32,
        ) {
            use crate::ids::RequestId;
            use crate::request::{Content, Request};
            use crate::units::SimTime;

            let mut index = BlockIndex::new(capacity);
            // For each instance the names of blocks, the last sent at the end; blocks without a name are none's.
            let mut lists = vec![Vec::<Option<u64>>::new(); 3];
            for (turn, (runs, instance)) in sends.iter().enumerate() {
                let segments = runs.as_deref().map(segments);
                let total = segments.as_ref().map_or(100, |all| all.iter().map(|it| it.len).sum());
                let mut request = Request::new(SimTime::ZERO, total, 1);
                request.content = Content { salt: 0, segments: segments.map(Into::into) };
                index.read(request.view(RequestId(turn as u32)), 3);
                let names = index.names.clone();
                let known = |name: &u64| lists.iter().any(|list| list.contains(&Some(*name)));
                let walked: Vec<u64> = names.iter().copied().take_while(known).collect();
                for (id, list) in lists.iter().enumerate() {
                    let has = walked.iter().filter(|name| list.contains(&Some(**name))).count();
                    prop_assert_eq!(index.matched[id] as usize, has);
                }
                index.insert(InstanceId(*instance));
                let list = &mut lists[*instance as usize];
                let named = names.iter().map(|name| Some(*name));
                let nameless = (names.len() as u32..index.blocks).map(|_| None);
                for name in named.chain(nameless) {
                    list.retain(|known| name.is_none() || *known != name);
                    list.push(name);
                }
                let excess = list.len().saturating_sub(capacity as usize);
                list.drain(..excess);
                prop_assert_eq!(index.memories[*instance as usize].blocks as usize, list.len());
            }
        }
    }
}
