//! What a tree tells of its pages: the names under which it told of them, node by node.

use rustc_hash::FxHashMap;

use super::{NodeId, RadixTree, Rest};
use crate::ids::RequestId;
use crate::kv::events::EventLog;
use crate::kv::{BlockHash, CacheEvent};
use crate::rng::mix;

/// The pages of the nodes that can be found, and what became of them.
#[derive(Debug, Clone)]
pub(super) struct Told {
    log: EventLog,
    /// By node, the names of its pages.
    names: FxHashMap<NodeId, Vec<BlockHash>>,
    /// Whose tokens come next.
    request: RequestId,
}

impl RadixTree {
    /// Tells from now on which pages it caches and forgets.
    pub fn tell_events(&mut self) {
        // Whoever listened before, in the runs that warm up, knows its pages by the names that it has.
        if self.told.is_some() {
            return;
        }
        let mut told =
            Told { log: EventLog::default(), names: FxHashMap::default(), request: RequestId(0) };
        // What it has already is known by names that nobody was told.
        for id in 1..self.nodes.len() as NodeId {
            let node = &self.nodes[id as usize];
            if node.is_named && node.tokens > 0 {
                let pages = 0..u64::from(node.tokens / self.page_size);
                let name = |page| BlockHash::of(mix(u64::from(id)) ^ page);
                told.names.insert(id, pages.map(name).collect());
            }
        }
        self.told = Some(Box::new(told));
    }

    /// What is [inserted](Self::insert) next is of this request.
    pub fn tell_of(&mut self, request: RequestId) {
        if let Some(told) = &mut self.told {
            told.request = request;
        }
    }

    /// What it has cached and forgotten since this was asked last.
    pub fn take_events(&mut self) -> Vec<CacheEvent> {
        self.told.as_mut().map(|told| told.log.take()).unwrap_or_default()
    }

    /// The tokens with which `rest` begins can be found as those of a node.
    pub(super) fn tell_added(&mut self, id: NodeId, namespace: u64, rest: Rest<'_>) {
        let Some(mut told) = self.told.take() else { return };
        let parent = self.nodes[id as usize].parent;
        let before = told.names.get(&parent).and_then(|names| names.last()).copied();
        let mut name = before.unwrap_or(BlockHash::numbered(namespace));
        let mut names = Vec::with_capacity((rest.left / self.page_size) as usize);
        let mut pages = rest;
        while pages.left >= self.page_size {
            name = pages.first(self.page_size).name(name);
            names.push(name);
            pages.skip(self.page_size);
        }
        let mut start = 0;
        let mut at = parent;
        while at != Self::ROOT {
            start += self.nodes[at as usize].tokens;
            at = self.nodes[at as usize].parent;
        }
        told.log.add(CacheEvent::Stored {
            request: told.request,
            start,
            parent: before,
            names: names.clone(),
        });
        told.names.insert(id, names);
        self.told = Some(told);
    }

    /// A node has been cut in two: `front` has its first tokens.
    pub(super) fn tell_split(&mut self, id: NodeId, front: NodeId) {
        let pages = self.nodes[front as usize].tokens / self.page_size;
        let Some(told) = &mut self.told else { return };
        if let Some(names) = told.names.get_mut(&id) {
            let back = names.split_off(pages as usize);
            let names = std::mem::replace(names, back);
            told.names.insert(front, names);
        }
    }

    /// A node is gone.
    pub(super) fn tell_removed(&mut self, id: NodeId) {
        if let Some(told) = &mut self.told
            && let Some(names) = told.names.remove(&id)
        {
            told.log.removed(names);
        }
    }
}
