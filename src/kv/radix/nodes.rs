//! The nodes of the tree: how they come, are cut in two and go.

use super::rest::Rest;
use super::{NodeId, RadixTree};
use crate::request::Segment;

/// A run of tokens behind those of its parent.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// The tokens, in segments of which none continues the one before.
    pub(super) key: Vec<Segment>,
    pub(super) tokens: u32,
    pub(super) parent: NodeId,
    /// The name under which the parent knows this node: its first page.
    pub(super) name: u64,
    pub(super) children: u32,
    pub(super) locks: u32,
    pub(super) accessed: u64,
    /// Whether an entry of the eviction queue stands for this node.
    pub(super) is_queued: bool,
    /// Whether it can be found: `key` and `name` are set.
    pub(super) is_named: bool,
}

impl RadixTree {
    /// How many tokens a node stands for.
    pub(in crate::kv) fn length(&self, id: NodeId) -> u32 {
        self.nodes[id as usize].tokens
    }

    pub(in crate::kv) fn parent(&self, id: NodeId) -> NodeId {
        self.nodes[id as usize].parent
    }

    /// Whether it has no children and no request holds it.
    pub(in crate::kv) fn is_free_leaf(&self, id: NodeId) -> bool {
        let node = &self.nodes[id as usize];
        node.children == 0 && node.locks == 0
    }

    /// Indices of nodes are below this.
    pub(in crate::kv) fn nodes_count(&self) -> usize {
        self.nodes.len()
    }

    fn take_node(&mut self) -> NodeId {
        self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            self.nodes.len() as NodeId - 1
        })
    }

    /// Cuts a node after `tokens` tokens. The front part becomes a new node above it, with the
    /// same locks; the node itself keeps its id and the rest.
    pub(in crate::kv) fn split(&mut self, id: NodeId, tokens: u32) -> NodeId {
        let front = self.take_node();
        let front_accessed = self.tick();
        let back_accessed = self.tick();
        let node = &mut self.nodes[id as usize];
        let whole = std::mem::take(&mut node.key);
        let (parent, name, locks, all) = (node.parent, node.name, node.locks, node.tokens);
        let mut rest = Rest::new(&whole, all);
        rest.skip(tokens);
        let back_name = self.name(front, 0, rest);
        let mut key = std::mem::take(&mut self.nodes[front as usize].key);
        Rest::new(&whole, tokens).collect_into(&mut key);
        self.nodes[front as usize] = Node {
            key,
            tokens,
            parent,
            name,
            children: 1,
            locks,
            accessed: front_accessed,
            is_queued: false,
            is_named: true,
        };
        let node = &mut self.nodes[id as usize];
        rest.collect_into(&mut node.key);
        node.tokens -= tokens;
        node.parent = front;
        node.name = back_name;
        node.accessed = back_accessed;
        self.children.insert((parent, name), front);
        self.children.insert((front, back_name), id);
        self.tell_split(id, front);
        front
    }

    pub(in crate::kv) fn add_leaf(
        &mut self,
        parent: NodeId,
        namespace: u64,
        rest: Rest<'_>,
    ) -> NodeId {
        let name = self.name(parent, namespace, rest);
        let id = self.add_unnamed(parent, rest.left);
        let node = &mut self.nodes[id as usize];
        rest.collect_into(&mut node.key);
        (node.name, node.is_named) = (name, true);
        self.children.insert((parent, name), id);
        self.tell_added(id, namespace, rest);
        id
    }

    pub(super) fn add_unnamed(&mut self, parent: NodeId, tokens: u32) -> NodeId {
        let id = self.take_node();
        let accessed = self.tick();
        let key = std::mem::take(&mut self.nodes[id as usize].key);
        self.nodes[id as usize] = Node { key, tokens, parent, accessed, ..Node::default() };
        self.nodes[parent as usize].children += 1;
        self.evictable += tokens;
        self.queue_if_due(id);
        id
    }

    pub(in crate::kv) fn remove_leaf(&mut self, id: NodeId) -> u32 {
        let Node { parent, name, tokens, is_named, .. } = self.nodes[id as usize];
        if is_named {
            self.children.remove(&(parent, name));
            self.tell_removed(id);
        }
        let node = &mut self.nodes[id as usize];
        node.key.clear();
        // The eviction queue may still name it.
        node.tokens = 0;
        self.vacant.push(id);
        self.evictable -= tokens;
        self.nodes[parent as usize].children -= 1;
        if parent != Self::ROOT {
            self.queue_if_due(parent);
        }
        tokens
    }

    pub(super) fn queue_if_due(&mut self, id: NodeId) {
        let node = &mut self.nodes[id as usize];
        if node.locks == 0 && node.children == 0 && !node.is_queued {
            node.is_queued = true;
            self.due.push((node.accessed, id));
        }
    }
}
