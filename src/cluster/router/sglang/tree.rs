//! The tree of prompts: a radix tree that all workers share, in which nodes know who used them.
//!
//! A node remembers the worker that made it, its *owner*: a match leads there, not to whoever used the node last. Each
//! user has a *stamp*, the number of a use, by which evictions go. A worker that uses a node also uses those above it:
//! every walk marks them, and evictions begin at leaves.

mod eviction;

use rustc_hash::FxHashMap;

use super::draw::Draw;
use super::policy::Worker;
use super::text::Text;

/// Each so many uses a match counts as one of the node.
const STAMPED_EACH: u64 = 8;

type NodeId = u32;

const ROOT: NodeId = 0;

#[derive(Debug, Clone)]
struct Node<T> {
    /// The labels between its parent and it; none at the root.
    text: Option<T>,
    parent: NodeId,
    children: u32,
    users: Vec<(Worker, u64)>,
    owner: Option<Worker>,
}

impl<T: Text> Node<T> {
    fn len(&self) -> u32 {
        self.text.as_ref().map_or(0, Text::len)
    }

    fn has(&self, worker: Worker) -> bool {
        self.users.iter().any(|(user, _)| *user == worker)
    }

    fn stamp(&mut self, worker: Worker, stamp: u64) {
        match self.users.iter_mut().find(|(user, _)| *user == worker) {
            Some(user) => user.1 = stamp,
            None => self.users.push((worker, stamp)),
        }
    }
}

/// A radix tree of prompts.
#[derive(Debug, Clone)]
pub(crate) struct Tree<T: Text> {
    nodes: Vec<Node<T>>,
    /// Places of nodes that are gone.
    free: Vec<NodeId>,
    children: FxHashMap<(NodeId, T::Head), NodeId>,
    /// By worker, labels of the nodes it uses.
    sizes: Vec<u64>,
    /// The number of the next use.
    uses: u64,
    /// Whether an owner may not use its node any more.
    has_lost_owners: bool,
}

impl<T: Text> Tree<T> {
    /// An empty tree, in which the next use has this number.
    pub(crate) fn new(uses: u64) -> Self {
        let root = Node { text: None, parent: ROOT, children: 0, users: Vec::new(), owner: None };
        Self {
            nodes: vec![root],
            free: Vec::new(),
            children: FxHashMap::default(),
            sizes: Vec::new(),
            uses,
            has_lost_owners: false,
        }
    }

    /// By worker, the labels of the nodes that it uses.
    pub(crate) fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Whether a match may draw an owner.
    pub(crate) fn may_draw(&self) -> bool {
        self.has_lost_owners
    }

    /// A worker gets the empty prompt.
    pub(crate) fn register(&mut self, worker: Worker) {
        let stamp = self.count_use();
        self.nodes[ROOT as usize].stamp(worker, stamp);
    }

    /// A worker gets a prompt.
    pub(crate) fn insert(&mut self, text: &T, worker: Worker) {
        let stamp = self.count_use();
        if worker.index() >= self.sizes.len() {
            self.sizes.resize(worker.index() + 1, 0);
        }
        let mut at = ROOT;
        let mut rest = text.clone();
        self.pass(ROOT, worker);
        while rest.len() > 0 {
            let Some(&child) = self.children.get(&(at, rest.head())) else {
                self.add_leaf(at, rest, worker, stamp);
                return;
            };
            let common = self.common(child, &rest);
            let is_whole = common == self.nodes[child as usize].len();
            at = if is_whole { child } else { self.split(child, common) };
            self.pass(at, worker);
            rest = rest.after(common);
        }
        self.nodes[at as usize].stamp(worker, stamp);
    }

    /// How much of a prompt is known, and who owns where the match ends; an owner that does not use the node any more
    /// is followed by any user, which is drawn.
    pub(crate) fn find(&mut self, text: &T, draw: &mut impl Draw) -> (u32, Option<Worker>) {
        let (node, matched) = self.walk(text, |_, _| {});
        let stamp = self.count_use();
        let found = &mut self.nodes[node as usize];
        // Nothing hangs on who owns the root: nothing of the prompt is known.
        if node == ROOT {
            return (0, None);
        }
        let owner = match found.owner.filter(|owner| found.has(*owner)) {
            Some(owner) => Some(owner),
            None if found.users.is_empty() => None,
            None => Some(found.users[draw.below(found.users.len())].0),
        };
        found.owner = owner;
        if let Some(owner) = owner.filter(|_| stamp.is_multiple_of(STAMPED_EACH)) {
            found.stamp(owner, stamp);
        }
        (matched, owner)
    }

    /// By worker, how much of a prompt it got before.
    pub(crate) fn known(&self, text: &T) -> Vec<u32> {
        let mut known = vec![0; self.sizes.len()];
        self.walk(text, |users, matched| {
            for (user, _) in users {
                known[user.index()] = matched;
            }
        });
        known
    }

    /// Walks down as far as a prompt is known; a node that is known in part is the last. Tells of each node its users
    /// and how much is known with it.
    fn walk(&self, text: &T, mut each: impl FnMut(&[(Worker, u64)], u32)) -> (NodeId, u32) {
        let (mut at, mut matched) = (ROOT, 0);
        let mut rest = text.clone();
        while rest.len() > 0 {
            let Some(&child) = self.children.get(&(at, rest.head())) else {
                break;
            };
            let common = self.common(child, &rest);
            let node = &self.nodes[child as usize];
            at = child;
            matched += common;
            each(&node.users, matched);
            if common < node.len() {
                break;
            }
            rest = rest.after(common);
        }
        (at, matched)
    }

    /// A worker goes; prompts that only it got are forgotten.
    pub(crate) fn remove(&mut self, worker: Worker) {
        for node in &mut self.nodes {
            let users = node.users.len();
            node.users.retain(|(user, _)| *user != worker);
            self.has_lost_owners |= node.users.len() < users;
        }
        if let Some(size) = self.sizes.get_mut(worker.index()) {
            *size = 0;
        }
        (0..self.nodes.len()).for_each(|id| self.drop_unused(id as NodeId));
    }

    fn count_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses - 1
    }

    fn common(&self, node: NodeId, rest: &T) -> u32 {
        self.nodes[node as usize].text.as_ref().map_or(0, |text| rest.common(text))
    }

    /// A worker uses a node on the way to another.
    fn pass(&mut self, node: NodeId, worker: Worker) {
        let node = &mut self.nodes[node as usize];
        if !node.has(worker) {
            node.users.push((worker, 0));
            self.sizes[worker.index()] += u64::from(node.len());
        }
    }

    fn add_leaf(&mut self, parent: NodeId, text: T, worker: Worker, stamp: u64) {
        self.sizes[worker.index()] += u64::from(text.len());
        let head = text.head();
        let leaf = self.add(Node {
            text: Some(text),
            parent,
            children: 0,
            users: vec![(worker, stamp)],
            owner: Some(worker),
        });
        self.children.insert((parent, head), leaf);
        self.nodes[parent as usize].children += 1;
    }

    /// Cuts a node in two. The new upper one has its users and its owner.
    fn split(&mut self, lower: NodeId, place: u32) -> NodeId {
        let node = &mut self.nodes[lower as usize];
        let text = node.text.as_ref().expect("the root is not split");
        let (head, rest) = (text.before(place), text.after(place));
        let upper = Node {
            text: Some(head.clone()),
            parent: node.parent,
            children: 1,
            users: node.users.clone(),
            owner: node.owner,
        };
        let parent = node.parent;
        let rest_head = rest.head();
        node.text = Some(rest);
        let id = self.add(upper);
        self.nodes[lower as usize].parent = id;
        self.children.insert((parent, head.head()), id);
        self.children.insert((id, rest_head), lower);
        id
    }

    fn add(&mut self, node: Node<T>) -> NodeId {
        if let Some(id) = self.free.pop() {
            self.nodes[id as usize] = node;
            return id;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as NodeId
    }

    /// A node that nobody uses and nothing hangs on goes, and so those above it.
    fn drop_unused(&mut self, mut id: NodeId) {
        loop {
            let node = &mut self.nodes[id as usize];
            if id == ROOT || !node.users.is_empty() || node.children > 0 {
                return;
            }
            let Some(text) = node.text.take() else {
                return;
            };
            let parent = node.parent;
            self.children.remove(&(parent, text.head()));
            self.free.push(id);
            self.nodes[parent as usize].children -= 1;
            id = parent;
        }
    }
}

#[cfg(test)]
mod tests;
