//! Which tokens of prompts are the same, by the tokens themselves.
//!
//! Caches of prompts ask whether two prompts are equal up to some token. All prompts of a while stand in one
//! tree of runs of tokens, in which each run has a name, a stream of [`Segment`]s: two prompts go through
//! the same runs exactly as far as they are equal. Answers stand in it too, as what their words are made
//! from, so that a client that sends an answer back finds it in the caches.
//!
//! The tree holds so many tokens at most. What was asked for longest ago goes first; if it comes again it has
//! a new name, as if it had left the caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::words::Words;
use crate::request::Segment;

/// Runs at most, of which each takes about 150 bytes besides its tokens: short prompts are mostly that.
const MOST_RUNS: usize = 4 << 20;

/// The place of a run in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Run(u32);

const ROOT: Run = Run(0);

#[derive(Debug)]
enum Tokens {
    Kept(Box<[u32]>),
    /// Of an answer, from a place in it on.
    Answer {
        seed: u32,
        from: u32,
        len: u32,
    },
}

#[derive(Debug)]
struct Node {
    parent: Run,
    tokens: Tokens,
    stream: u64,
    /// The first position in the stream.
    start: u32,
    children: FxHashMap<u32, Run>,
    /// When it was last gone through.
    used: u64,
}

/// The tree.
#[derive(Debug)]
pub(super) struct Prefixes {
    words: Arc<Words>,
    nodes: Vec<Node>,
    vacant: Vec<Run>,
    /// Runs without others behind them, by when they were last gone through.
    leaves: BTreeSet<(u64, Run)>,
    /// Tokens that are kept, and how many may be.
    kept: usize,
    limit: usize,
    streams: u64,
    clock: u64,
}

impl Tokens {
    fn len(&self) -> usize {
        match self {
            Self::Kept(tokens) => tokens.len(),
            Self::Answer { len, .. } => *len as usize,
        }
    }

    fn kept(&self) -> usize {
        match self {
            Self::Kept(tokens) => tokens.len(),
            Self::Answer { .. } => 0,
        }
    }

    /// How many tokens at its begin are those of a prompt.
    fn common(&self, prompt: &[u32], words: &Words) -> usize {
        match self {
            Self::Kept(tokens) => {
                tokens.iter().zip(prompt).take_while(|(own, other)| own == other).count()
            }
            Self::Answer { seed, from, len } => (*from..from + len)
                .zip(prompt)
                .take_while(|(place, other)| words.token(*seed, *place) == **other)
                .count(),
        }
    }

    fn first(&self, words: &Words) -> u32 {
        match self {
            Self::Kept(tokens) => tokens[0],
            Self::Answer { seed, from, .. } => words.token(*seed, *from),
        }
    }

    /// What is left behind the first `len` tokens, which stay.
    fn split(&mut self, len: usize) -> Self {
        match self {
            Self::Kept(tokens) => {
                let rest = tokens[len..].into();
                *tokens = tokens[..len].into();
                Self::Kept(rest)
            }
            Self::Answer { seed, from, len: all } => {
                let first = len as u32;
                let rest = Self::Answer { seed: *seed, from: *from + first, len: *all - first };
                *all = first;
                rest
            }
        }
    }
}

impl Prefixes {
    /// A tree of prompts and of answers in these words, which holds so many tokens at most.
    pub(super) fn new(words: Arc<Words>, limit: usize) -> Self {
        let root = Node {
            parent: ROOT,
            tokens: Tokens::Kept(Box::new([])),
            stream: 0,
            start: 0,
            children: FxHashMap::default(),
            used: 0,
        };
        Self {
            words,
            nodes: vec![root],
            vacant: Vec::new(),
            leaves: BTreeSet::new(),
            kept: 0,
            limit,
            streams: 0,
            clock: 0,
        }
    }

    #[cfg(test)]
    fn kept(&self) -> usize {
        self.kept
    }

    /// What a prompt is made of. From now on others find it.
    pub(super) fn segments(&mut self, prompt: &[u32]) -> Vec<Segment> {
        let (mut last, matched, mut segments) = self.walk(prompt);
        if let Some(rest) = prompt.get(matched..).filter(|rest| !rest.is_empty()) {
            self.streams += 1;
            let stream = self.streams;
            last = self.insert(last, Tokens::Kept(rest.into()), (stream, 0));
            segments.push(Segment { stream, start: 0, len: rest.len() as u32 });
        }
        self.used(last);
        self.evict();
        segments
    }

    /// After a prompt comes an answer of so many tokens, which has this stream; from now on prompts that
    /// quote it find it.
    pub(super) fn answered(&mut self, prompt: &[u32], seed: u32, stream: u64, len: u32) {
        let (last, matched, _) = self.walk(prompt);
        let follows = matched == prompt.len() && len > 0;
        let first = self.words.token(seed, 0);
        // Where the same words were said before, they are found already.
        if !follows || self.node(last).children.contains_key(&first) {
            return;
        }
        let answer = self.insert(last, Tokens::Answer { seed, from: 0, len }, (stream, 0));
        self.used(answer);
        self.evict();
    }

    /// Goes along a prompt as far as the tree has it: the last run, which ends there, and the way.
    fn walk(&mut self, prompt: &[u32]) -> (Run, usize, Vec<Segment>) {
        let (mut at, mut matched, mut segments) = (ROOT, 0, Vec::new());
        while let Some(first) = prompt.get(matched)
            && let Some(&next) = self.node(at).children.get(first)
        {
            let node = self.node(next);
            let common = node.tokens.common(&prompt[matched..], &self.words);
            segments.push(Segment { stream: node.stream, start: node.start, len: common as u32 });
            matched += common;
            at = next;
            if common < node.tokens.len() {
                self.split(next, common);
                break;
            }
        }
        (at, matched, segments)
    }

    fn node(&self, run: Run) -> &Node {
        &self.nodes[run.0 as usize]
    }

    fn node_mut(&mut self, run: Run) -> &mut Node {
        &mut self.nodes[run.0 as usize]
    }

    /// A run ends after its first `len` tokens; what follows is a run behind it.
    fn split(&mut self, run: Run, len: usize) {
        let node = self.node_mut(run);
        let (stream, start) = (node.stream, node.start + len as u32);
        let rest = node.tokens.split(len);
        let children = std::mem::take(&mut node.children);
        let used = node.used;
        self.kept -= rest.kept();
        self.leaves.remove(&(used, run));
        let behind = self.insert(run, rest, (stream, start));
        let mut moved: Vec<Run> = children.values().copied().collect();
        moved.sort_unstable();
        for child in moved {
            self.node_mut(child).parent = behind;
        }
        self.leaves.remove(&(self.node(behind).used, behind));
        let node = self.node_mut(behind);
        node.used = used;
        node.children = children;
        if node.children.is_empty() {
            self.leaves.insert((used, behind));
        }
    }

    fn insert(&mut self, parent: Run, tokens: Tokens, (stream, start): (u64, u32)) -> Run {
        let first = tokens.first(&self.words);
        self.kept += tokens.kept();
        let node = Node {
            parent,
            tokens,
            stream,
            start,
            children: FxHashMap::default(),
            used: self.clock,
        };
        let run = if let Some(run) = self.vacant.pop() {
            *self.node_mut(run) = node;
            run
        } else {
            self.nodes.push(node);
            Run(self.nodes.len() as u32 - 1)
        };
        let before = self.node(parent).used;
        self.leaves.remove(&(before, parent));
        self.node_mut(parent).children.insert(first, run);
        self.leaves.insert((self.clock, run));
        run
    }

    /// Somebody has gone as far as this run.
    fn used(&mut self, mut run: Run) {
        self.clock += 1;
        let clock = self.clock;
        while run != ROOT {
            let node = self.node_mut(run);
            let before = std::mem::replace(&mut node.used, clock);
            let parent = node.parent;
            if self.leaves.remove(&(before, run)) {
                self.leaves.insert((clock, run));
            }
            run = parent;
        }
    }

    /// What was gone through longest ago leaves. Runs of answers count as one token.
    fn evict(&mut self) {
        let is_full = |tree: &Self| {
            let runs = tree.nodes.len() - tree.vacant.len();
            tree.kept + runs > tree.limit || runs > MOST_RUNS
        };
        while is_full(self) {
            let Some(&(used, run)) = self.leaves.first() else { return };
            if used == self.clock {
                // Only the prompt of the moment is left.
                return;
            }
            self.leaves.pop_first();
            let (parent, first) = (self.node(run).parent, self.node(run).tokens.first(&self.words));
            self.kept -= self.node(run).tokens.kept();
            self.node_mut(run).tokens = Tokens::Kept(Box::new([]));
            self.vacant.push(run);
            let node = self.node_mut(parent);
            node.children.remove(&first);
            let (is_leaf, used) = (node.children.is_empty(), node.used);
            if is_leaf && parent != ROOT {
                self.leaves.insert((used, parent));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Arc<Words> {
        Arc::new(Words::of_bytes(4))
    }

    /// The position of each token, as caches see it.
    fn names(segments: &[Segment]) -> Vec<(u64, u32)> {
        let each = segments.iter();
        each.flat_map(|it| (it.start..it.start + it.len).map(|place| (it.stream, place))).collect()
    }

    #[test]
    fn prompts_are_equal_as_far_as_their_tokens_are() {
        use rand::RngExt;
        let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|it| it.parse().ok());
        let seed: u64 = seed.unwrap_or(7);
        let mut draw = crate::rng::Seed(seed).stream("prefixes", 0);
        for _ in 0..200 {
            let mut tree = Prefixes::new(words(), usize::MAX / 2);
            let prompts: Vec<Vec<u32>> = (0..20)
                .map(|_| (0..draw.random_range(1..12)).map(|_| draw.random_range(0..2)).collect())
                .collect();
            let all: Vec<_> = prompts.iter().map(|prompt| names(&tree.segments(prompt))).collect();
            for (one, of_one) in prompts.iter().zip(&all) {
                assert_eq!(one.len(), of_one.len());
                for (other, of_other) in prompts.iter().zip(&all) {
                    let common = |pairs: &mut dyn Iterator<Item = bool>| {
                        pairs.take_while(|is_same| *is_same).count()
                    };
                    let tokens = common(&mut one.iter().zip(other).map(|(a, b)| a == b));
                    let named = common(&mut of_one.iter().zip(of_other).map(|(a, b)| a == b));
                    assert_eq!(tokens, named, "seed {seed}: {one:?} and {other:?}");
                    let behind = of_one[tokens..].iter().any(|name| of_other.contains(name));
                    assert!(!behind, "what comes after a difference is never the same");
                }
            }
        }
    }

    #[test]
    fn who_quotes_an_answer_finds_it() {
        let words = words();
        let mut tree = Prefixes::new(words.clone(), 1000);
        let prompt = [1, 2, 3];
        tree.segments(&prompt);
        tree.answered(&prompt, 9, 77, 5);
        let answer = (0..5).map(|place| words.token(9, place));
        let next: Vec<u32> = prompt.into_iter().chain(answer).chain([4, 5]).collect();
        let segments = tree.segments(&next);
        assert_eq!(segments[1], Segment { stream: 77, start: 0, len: 5 });
        assert_eq!(segments.iter().map(|segment| segment.len).sum::<u32>(), 10);
    }

    #[test]
    fn the_tree_keeps_to_its_limit() {
        let mut tree = Prefixes::new(words(), 1000);
        for prompt in 0..500 {
            let tokens: Vec<u32> = (0..90).map(|place| prompt * 3 / 2 + place / 30).collect();
            tree.segments(&tokens);
            tree.answered(&tokens, prompt, u64::from(prompt), 10);
            assert!(tree.kept() <= 1000, "{}", tree.kept());
        }
        assert!(tree.kept() > 500, "{}: it forgets no more than it must", tree.kept());
        assert!(tree.nodes.len() < 1000);
    }
}
