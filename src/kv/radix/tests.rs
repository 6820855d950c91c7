//! The radix tree: examples by hand, and random histories beside a slow tree.

use std::collections::BTreeMap;

use super::*;
use crate::ids::RequestId;
use crate::kv::events::Listener;
use crate::kv::{BlockHash, ChainHasher, Lookahead};
use crate::request::Content;

fn run(stream: u64, start: u32, len: u32) -> Segment {
    Segment { stream, start, len }
}

#[test]
fn what_was_cached_is_found_in_whole_pages() {
    let mut tree = RadixTree::new(16);
    let prompt = [run(1, 0, 40)];
    assert_eq!(tree.insert(0, &prompt, 40).tokens, 0);
    assert_eq!(tree.evictable(), 32);
    assert_eq!(tree.find(0, &prompt, 40).tokens, 32);
    assert_eq!(tree.find(0, &prompt, 31).tokens, 16);
    assert_eq!(tree.find(0, &[run(1, 0, 20), run(2, 0, 20)], 40).tokens, 16);
    assert!(tree.is_balanced());
}

#[test]
fn namespaces_share_nothing() {
    let mut tree = RadixTree::new(1);
    tree.insert(0, &[run(1, 0, 8)], 8);
    assert_eq!(tree.find(1, &[run(1, 0, 8)], 8).tokens, 0);
    assert_eq!(tree.insert(1, &[run(1, 0, 8)], 8).tokens, 0);
    assert_eq!(tree.evictable(), 16);
}

#[test]
fn a_split_node_keeps_its_id_and_its_locks() {
    let mut tree = RadixTree::new(1);
    let whole = tree.insert(0, &[run(1, 0, 10)], 10);
    tree.lock(whole.node);
    let front = tree.find(0, &[run(1, 0, 4), run(2, 0, 4)], 8);
    assert_eq!(front.tokens, 4);
    assert_ne!(front.node, whole.node);
    assert_eq!((tree.locked(), tree.evictable()), (10, 0));
    tree.unlock(whole.node);
    assert_eq!((tree.locked(), tree.evictable()), (0, 10));
    assert_eq!(tree.find(0, &[run(1, 0, 10)], 10).node, whole.node);
    assert!(tree.is_balanced());
}

#[test]
fn leaves_go_whole_and_oldest_first_and_locked_ones_never() {
    let mut tree = RadixTree::new(1);
    for stream in 1..=3 {
        tree.insert(0, &[run(stream, 0, 10)], 10);
    }
    tree.find(0, &[run(1, 0, 10)], 10);
    let third = tree.find(0, &[run(3, 0, 10)], 10).node;
    tree.lock(third);
    // one token is wanted, the oldest leaf goes whole: that of stream 2
    assert_eq!(tree.evict(1), 10);
    assert_eq!(tree.find(0, &[run(2, 0, 10)], 10).tokens, 0);
    // then 1; 3 is locked
    assert_eq!(tree.evict(100), 10);
    assert_eq!(tree.find(0, &[run(3, 0, 10)], 10).tokens, 10);
    assert!(tree.is_balanced());
}

#[test]
fn a_parent_goes_after_its_last_child() {
    let mut tree = RadixTree::new(1);
    tree.insert(0, &[run(1, 0, 5), run(2, 0, 5)], 10);
    tree.insert(0, &[run(1, 0, 5), run(3, 0, 5)], 10);
    tree.insert(0, &[run(4, 0, 5)], 5);
    // split: front 1 before back 2 before leaf 3 before 4. Leaves by age: 2, 3, 4; with 3 gone
    // the front is a leaf, older than 4.
    assert_eq!(tree.evict(6), 10);
    assert_eq!(tree.find(0, &[run(1, 0, 5)], 5).tokens, 5);
    tree.insert(0, &[run(4, 0, 5)], 5);
    assert_eq!(tree.evict(1), 5);
    assert_eq!(tree.find(0, &[run(1, 0, 5)], 5).tokens, 0);
    assert!(tree.is_balanced());
}

#[test]
fn a_match_leaves_the_ancestors_older_than_the_leaf() {
    let mut tree = RadixTree::new(1);
    tree.insert(0, &[run(1, 0, 4)], 4);
    tree.insert(0, &[run(1, 0, 8)], 8);
    tree.insert(0, &[run(2, 0, 4)], 4);
    tree.find(0, &[run(1, 0, 8)], 8);
    // stream 2 is the oldest leaf, then the leaf of stream 1 before its parent: a parent is no
    // leaf while a child is there
    assert_eq!(tree.evict(4), 4);
    assert_eq!(tree.find(0, &[run(2, 0, 4)], 4).tokens, 0);
    assert_eq!(tree.evict(1), 4);
    assert_eq!(tree.find(0, &[run(1, 0, 8)], 8).tokens, 4);
}

type Token = (u64, u32);

/// A slow tree: every node is known by all its tokens from the root on.
#[derive(Default)]
struct Oracle {
    page: usize,
    clock: f64,
    /// Path of tokens up to the node's end → access time and locks.
    nodes: BTreeMap<Vec<Token>, (f64, u32)>,
}

impl Oracle {
    fn tick(&mut self) -> f64 {
        self.clock += 1.0;
        self.clock
    }

    fn parent(&self, path: &[Token]) -> usize {
        let above = |len: &usize| self.nodes.contains_key(&path[..*len]);
        (1..path.len()).rev().find(above).unwrap_or(0)
    }

    /// The node that continues a path, if its first page does: its whole path.
    fn child(&self, path: &[Token], sequence: &[Token]) -> Option<Vec<Token>> {
        let end = path.len() + self.page;
        if sequence.len() < end {
            return None;
        }
        let continues = |node: &&Vec<Token>| {
            node.len() >= end
                && node[..end] == sequence[..end]
                && self.parent(node.as_slice()) == path.len()
        };
        self.nodes.keys().find(continues).cloned()
    }

    fn common(&self, a: &[Token], b: &[Token]) -> usize {
        let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        same - same % self.page
    }

    fn split(&mut self, node: &[Token], at: usize) {
        let front = self.tick();
        let back = self.tick();
        let locks = self.nodes[node].1;
        self.nodes.insert(node[..at].to_vec(), (front, locks));
        self.nodes.insert(node.to_vec(), (back, locks));
    }

    fn find(&mut self, sequence: &[Token]) -> Vec<Token> {
        let sequence = &sequence[..sequence.len() - sequence.len() % self.page];
        let mut path: Vec<Token> = Vec::new();
        while let Some(child) = self.child(&path, sequence) {
            let common = self.common(&child, sequence);
            if common < child.len() {
                self.split(&child, common);
                path = child[..common].to_vec();
                break;
            }
            path = child;
        }
        let mut time = self.tick();
        let mut at = path.clone();
        while !at.is_empty() {
            self.nodes.get_mut(&at).unwrap().0 = time;
            time -= 1e-5;
            at.truncate(self.parent(&at));
        }
        path
    }

    /// The tokens that were there before.
    fn insert(&mut self, sequence: &[Token]) -> usize {
        let sequence = &sequence[..sequence.len() - sequence.len() % self.page];
        let mut path: Vec<Token> = Vec::new();
        while let Some(child) = self.child(&path, sequence) {
            let time = self.tick();
            self.nodes.get_mut(&child).unwrap().0 = time;
            let common = self.common(&child, sequence);
            if common < child.len() {
                self.split(&child, common);
            }
            path = child[..common].to_vec();
        }
        if path.len() < sequence.len() {
            let time = self.tick();
            self.nodes.insert(sequence.to_vec(), (time, 0));
        }
        path.len()
    }

    fn lock(&mut self, path: &[Token], by: i32) {
        for (node, (_, locks)) in &mut self.nodes {
            if path.starts_with(node) {
                *locks = locks.checked_add_signed(by).unwrap();
            }
        }
    }

    fn evict(&mut self, tokens: u32) -> u32 {
        let mut gone = 0;
        while gone < tokens {
            let is_leaf = |path: &Vec<Token>| {
                !self.nodes.keys().any(|other| other.len() > path.len() && other.starts_with(path))
            };
            let due = self
                .nodes
                .iter()
                .filter(|(path, (_, locks))| *locks == 0 && is_leaf(path))
                .min_by(|a, b| a.1.0.total_cmp(&b.1.0))
                .map(|(path, _)| path.clone());
            let Some(path) = due else { break };
            gone += (path.len() - self.parent(&path)) as u32;
            self.nodes.remove(&path);
        }
        gone
    }

    fn tokens(&self, is_locked: bool) -> u32 {
        let counted = self.nodes.iter().filter(|(_, (_, locks))| (*locks > 0) == is_locked);
        counted.map(|(path, _)| (path.len() - self.parent(path)) as u32).sum()
    }
}

fn expand(sequence: &[Segment]) -> Vec<Token> {
    sequence.iter().flat_map(|s| (s.start..s.start + s.len).map(|at| (s.stream, at))).collect()
}

/// A sequence of a few runs that often shares its beginning with others.
fn random_sequence(draw: &mut impl FnMut(u64) -> u64) -> Vec<Segment> {
    let mut sequence: Vec<Segment> = Vec::new();
    for depth in 0..=draw(4) {
        let stream = depth * 10 + draw(2);
        let len = 1 + draw(9) as u32;
        sequence.push(run(stream, 0, len));
    }
    sequence
}

#[test]
fn random_histories_go_as_in_a_slow_tree() {
    // Sequences without a salt and an adapter.
    let none = BlockHash::namespace(0, None).number();
    for (seed, page) in [(1, 1), (2, 1), (3, 2), (4, 4)] {
        let mut state: u64 = seed;
        let mut draw = |below: u64| {
            state = mix(state);
            state % below
        };
        let mut tree = RadixTree::new(page);
        let mut oracle = Oracle { page: page as usize, ..Oracle::default() };
        let mut locked: Vec<(NodeId, Vec<Token>)> = Vec::new();
        tree.tell_events();
        let mut listener = Listener::default();
        for step in 0..2000 {
            let sequence = random_sequence(&mut draw);
            let tokens = expand(&sequence);
            let all = tokens.len() as u32;
            let place = format!("seed {seed}, page {page}, step {step}");
            match draw(5) {
                0 => {
                    // Asked before: a query is no access and splits nothing.
                    let matched = tree.matched(none, &sequence, all);
                    let found = tree.find(none, &sequence, all);
                    let path = oracle.find(&tokens);
                    assert_eq!(found.tokens as usize, path.len(), "{place}");
                    assert_eq!(matched, found.tokens, "{place}");
                }
                1 => {
                    let there = tree.insert(none, &sequence, all).tokens;
                    assert_eq!(there as usize, oracle.insert(&tokens), "{place}");
                }
                2 => {
                    let found = tree.find(none, &sequence, all);
                    let path = oracle.find(&tokens);
                    tree.lock(found.node);
                    oracle.lock(&path, 1);
                    locked.push((found.node, path));
                }
                3 if !locked.is_empty() => {
                    let (node, path) = locked.swap_remove(draw(locked.len() as u64) as usize);
                    tree.unlock(node);
                    oracle.lock(&path, -1);
                }
                _ => {
                    let wanted = draw(12) as u32;
                    assert_eq!(tree.evict(wanted), oracle.evict(wanted), "{place}");
                }
            }
            assert_eq!(tree.evictable(), oracle.tokens(false), "{place}");
            assert_eq!(tree.locked(), oracle.tokens(true), "{place}");
            assert!(tree.is_balanced(), "{place}");
            listener.hear(tree.take_events());
            let probe = random_sequence(&mut draw);
            let matched = tree.matched(none, &probe, probe.iter().map(|run| run.len).sum());
            let believed = listener.believes(&page_names(&probe, page)) * page;
            assert_eq!(believed, matched, "{place}: {probe:?}");
        }
    }
}

#[test]
fn pages_keep_their_names_when_it_is_asked_to_tell_again() {
    let none = BlockHash::namespace(0, None).number();
    let mut tree = RadixTree::new(4);
    tree.tell_events();
    tree.insert(none, &[run(1, 0, 8)], 8);
    let mut listener = Listener::default();
    listener.hear(tree.take_events());
    tree.tell_events();
    let longer = [run(1, 0, 8), run(2, 0, 8)];
    tree.insert(none, &longer, 16);
    listener.hear(tree.take_events());
    assert_eq!(listener.believes(&page_names(&longer, 4)), 4);
    tree.evict(16);
    listener.hear(tree.take_events());
    assert_eq!(listener.believes(&page_names(&longer, 4)), 0);
}

/// The names of the pages of a sequence, as a router makes them.
fn page_names(sequence: &[Segment], page: u32) -> Vec<BlockHash> {
    let tokens = sequence.iter().map(|run| run.len).sum();
    let content = Content { salt: 0, segments: Some(sequence.into()) };
    let mut hasher = ChainHasher::new(RequestId(0), &content, tokens, None, page, Lookahead::None);
    let mut names = Vec::new();
    hasher.extend(tokens, &mut names);
    names
}
