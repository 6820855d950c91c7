//! What a tree tells of its pages: the names under which it told of them, node by node.

use rustc_hash::FxHashMap;

use super::nodes::Node;
use super::{NodeId, RadixTree, Rest};
use crate::ids::RequestId;
use crate::kv::events::EventLog;
use crate::kv::names::{Chain, NameRun};
use crate::kv::{BlockHash, CacheEvent, Names, Order};
use crate::request::Segment;
use crate::rng::mix;

/// The pages of the nodes that can be found, and what became of them.
#[derive(Debug, Clone)]
pub(super) struct Told {
    log: EventLog,
    nodes: FxHashMap<NodeId, Pages>,
    /// Whose tokens come next.
    request: RequestId,
}

/// The pages of a node.
#[derive(Debug, Clone)]
struct Pages {
    names: Names,
    /// What is before the first of them, if they are named by that.
    begin: Option<Chain>,
    /// The last of them.
    end: Chain,
}

impl Pages {
    /// Pages of names that say nothing.
    fn of(names: Names) -> Self {
        let last = BlockHash::numbered(names.all().last().unwrap_or(0));
        Self { names, begin: None, end: Chain::behind(last) }
    }

    /// These tokens, page by page, behind what is before them.
    fn behind(begin: Chain, mut rest: Rest<'_>, size: u32) -> Self {
        let mut end = begin;
        let mut names = Names::default();
        while rest.left >= size {
            let run = rest.run().expect("tokens are left");
            let whole = run.len / size;
            if whole == 0 {
                let block = rest.first(size).block(end.last());
                names.push_run(NameRun::of(end.push(block, size)));
                rest.skip(size);
            } else {
                names.push_run(end.push_run(Segment { len: size, ..run }, size, whole));
                rest.skip(whole * size);
            }
        }
        Self { names, begin: Some(begin), end }
    }
}

impl RadixTree {
    /// Tells from now on which pages it caches and forgets.
    pub fn tell_events(&mut self) {
        // Whoever listened before, in the runs that warm up, knows its pages by the names that it has.
        if self.told.is_some() {
            return;
        }
        let mut told =
            Told { log: EventLog::default(), nodes: FxHashMap::default(), request: RequestId(0) };
        // What it has already is known by names that nobody was told.
        for id in 1..self.nodes.len() as NodeId {
            let node = &self.nodes[id as usize];
            if node.is_named && node.tokens > 0 {
                let pages = 0..u64::from(node.tokens / self.page_size);
                let name = |page| BlockHash::of(mix(u64::from(id)) ^ page).number();
                told.nodes.insert(id, Pages::of(pages.map(name).collect()));
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
        let before = told.nodes.get(&parent).filter(|before| !before.names.is_empty());
        let before = before.map(|before| before.end);
        let begin = before.unwrap_or(Chain::behind(BlockHash::numbered(namespace)));
        let pages = Pages::behind(begin, rest, self.page_size);
        let mut start = 0;
        let mut at = parent;
        while at != Self::ROOT {
            start += self.nodes[at as usize].tokens;
            at = self.nodes[at as usize].parent;
        }
        told.log.add(CacheEvent::Stored {
            request: told.request,
            start,
            parent: before.map(Chain::last),
            names: pages.names.clone(),
        });
        told.nodes.insert(id, pages);
        self.told = Some(told);
    }

    /// A node has been cut in two: `front` has its first tokens.
    pub(super) fn tell_split(&mut self, id: NodeId, front: NodeId) {
        let Some(told) = &mut self.told else { return };
        if let Some(pages) = told.nodes.get_mut(&id) {
            let Node { key, tokens, .. } = &self.nodes[front as usize];
            let count = tokens / self.page_size;
            let back = pages.names.split_off(count as usize);
            let names = std::mem::replace(&mut pages.names, back);
            let first = match pages.begin {
                Some(begin) => {
                    let named = Pages::behind(begin, Rest::new(key, *tokens), self.page_size);
                    pages.begin = Some(named.end);
                    Pages { names, ..named }
                }
                None => Pages::of(names),
            };
            told.nodes.insert(front, first);
        }
    }

    /// A node is gone.
    pub(super) fn tell_removed(&mut self, id: NodeId) {
        if let Some(told) = &mut self.told
            && let Some(pages) = told.nodes.remove(&id)
        {
            told.log.removed(pages.names, Order::Forward);
        }
    }
}
