//! When each of many wants to be called again: the earliest of times that change often.
//!
//! A tournament: every time is a leaf of a binary tree, and every node has the earlier of the two
//! below it. A change goes up only as far as it decides, which most often is one or two nodes.

/// Times in nanoseconds, by number.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    /// The root at 1, below node n nodes 2n and 2n + 1, the leaves last.
    nodes: Vec<u64>,
    count: usize,
}

impl Wakes {
    /// The time of what does not want to be called.
    pub(super) const NEVER: u64 = u64::MAX;

    fn first_leaf(&self) -> usize {
        self.nodes.len() / 2
    }

    /// Makes room for one more.
    pub(super) fn push(&mut self) {
        let leaves = self.first_leaf();
        if self.count == leaves {
            let times = self.nodes.split_off(leaves);
            self.nodes = vec![Self::NEVER; 4 * leaves.max(1)];
            times.into_iter().enumerate().for_each(|(index, at)| self.set(index, at));
        }
        self.count += 1;
    }

    pub(super) fn set(&mut self, index: usize, at: u64) {
        let mut node = self.first_leaf() + index;
        self.nodes[node] = at;
        while node > 1 {
            node /= 2;
            let earlier = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == earlier {
                return;
            }
            self.nodes[node] = earlier;
        }
    }

    pub(super) fn clear(&mut self, index: usize) {
        self.set(index, Self::NEVER);
    }

    /// The earliest time.
    pub(super) fn first(&self) -> Option<u64> {
        self.nodes.get(1).copied().filter(|at| *at != Self::NEVER)
    }

    /// Calls `is_due` with the numbers whose time is `at`, the earliest, in their order.
    pub(super) fn for_each_at(&self, at: u64, mut is_due: impl FnMut(usize)) {
        let leaves = self.first_leaf();
        let mut node = usize::from(self.first() == Some(at));
        while node > 0 {
            if self.nodes[node] == at && node < leaves {
                node *= 2;
                continue;
            }
            if self.nodes[node] == at {
                is_due(node - leaves);
            }
            // To the right, from the lowest node above that is the left one of two.
            node >>= node.trailing_ones();
            node += usize::from(node > 0);
        }
    }
}
