//! When each of many wants to be called again: the earliest of times that change often.
//!
//! Every time is a leaf of a tree, and every node has the earliest of the eight below it. A change
//! goes up only as far as it decides, and one that did not decide and does not looks at nothing else.

const BELOW: usize = 8;

/// Times in nanoseconds, by number.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    /// The root first, below node n nodes 8n + 1 to 8n + 8, the leaves last.
    nodes: Vec<u64>,
    first_leaf: usize,
    count: usize,
}

impl Wakes {
    /// The time of what does not want to be called.
    pub(super) const NEVER: u64 = u64::MAX;

    /// Makes room for one more.
    pub(super) fn push(&mut self) {
        if self.first_leaf + self.count == self.nodes.len() {
            let times = self.nodes.split_off(self.first_leaf);
            self.first_leaf = if times.is_empty() { 0 } else { self.first_leaf * BELOW + 1 };
            self.nodes = vec![Self::NEVER; self.first_leaf * BELOW + 1];
            times.into_iter().enumerate().for_each(|(index, at)| self.set(index, at));
        }
        self.count += 1;
    }

    pub(super) fn set(&mut self, index: usize, mut at: u64) {
        let mut node = self.first_leaf + index;
        loop {
            let before = std::mem::replace(&mut self.nodes[node], at);
            if node == 0 || before == at {
                return;
            }
            node = (node - 1) / BELOW;
            let earliest = self.nodes[node];
            if at > earliest {
                if before != earliest {
                    return;
                }
                let below = &self.nodes[BELOW * node + 1..][..BELOW];
                at = below.iter().fold(at, |earliest, other| earliest.min(*other));
            }
        }
    }

    pub(super) fn clear(&mut self, index: usize) {
        self.set(index, Self::NEVER);
    }

    /// The earliest time.
    pub(super) fn first(&self) -> Option<u64> {
        self.nodes.first().copied().filter(|at| *at != Self::NEVER)
    }

    /// The earliest time and the lowest number that has it.
    pub(super) fn first_of_all(&self) -> Option<(u64, usize)> {
        let at = self.first()?;
        let mut node = 0;
        while node < self.first_leaf {
            let first = BELOW * node + 1;
            let below = &self.nodes[first..][..BELOW];
            node = first + below.iter().position(|time| *time == at).expect("one is the earliest");
        }
        Some((at, node - self.first_leaf))
    }

    /// Calls `is_due` with the numbers whose time is `at`, the earliest, in their order.
    pub(super) fn for_each_at(&self, at: u64, mut is_due: impl FnMut(usize)) {
        if self.first() == Some(at) {
            self.visit(0, at, &mut is_due);
        }
    }

    fn visit(&self, node: usize, at: u64, is_due: &mut impl FnMut(usize)) {
        if let Some(index) = node.checked_sub(self.first_leaf) {
            return is_due(index);
        }
        let first = BELOW * node + 1;
        for (index, time) in self.nodes[first..][..BELOW].iter().enumerate() {
            if *time == at {
                self.visit(first + index, at, is_due);
            }
        }
    }
}
