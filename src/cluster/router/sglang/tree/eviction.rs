//! Which prompts are forgotten: those whose last use is longest ago, from their ends, worker by worker.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::super::policy::Worker;
use super::super::text::Text;
use super::{NodeId, ROOT, Tree};

impl<T: Text> Tree<T> {
    /// Leaves every worker `limit` labels at most. Nodes that a worker uses with none below them go in the order of
    /// their stamps; a node that was only passed has the lowest.
    pub(crate) fn evict(&mut self, limit: u64) {
        if self.sizes.iter().all(|size| *size <= limit) {
            return;
        }
        let is_over = |tree: &Self, worker: Worker| {
            tree.sizes.get(worker.index()).is_some_and(|size| *size > limit)
        };
        let mut below: FxHashMap<(NodeId, Worker), u32> = FxHashMap::default();
        for node in self.nodes.iter().filter(|node| node.text.is_some()) {
            for &(worker, _) in node.users.iter().filter(|(worker, _)| is_over(self, *worker)) {
                *below.entry((node.parent, worker)).or_default() += 1;
            }
        }
        let mut leaves = BinaryHeap::new();
        for (id, node) in self.nodes.iter().enumerate() {
            let id = id as NodeId;
            for &(worker, stamp) in node.users.iter().filter(|(worker, _)| is_over(self, *worker)) {
                if !below.contains_key(&(id, worker)) {
                    leaves.push(Reverse((stamp, worker, id)));
                }
            }
        }
        while let Some(Reverse((_, worker, id))) = leaves.pop() {
            if !is_over(self, worker) {
                continue;
            }
            let node = &mut self.nodes[id as usize];
            self.sizes[worker.index()] -= u64::from(node.len());
            node.users.retain(|(user, _)| *user != worker);
            self.has_lost_owners = true;
            let parent = node.parent;
            self.drop_unused(id);
            if id == ROOT {
                continue;
            }
            let others = below.get_mut(&(parent, worker)).expect("a child was counted");
            *others -= 1;
            if *others == 0 {
                let above = &self.nodes[parent as usize];
                if let Some(&(_, stamp)) = above.users.iter().find(|(user, _)| *user == worker) {
                    leaves.push(Reverse((stamp, worker, parent)));
                }
            }
        }
    }
}
