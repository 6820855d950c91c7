//! Doubly linked lists of indices: every operation is O(1), none allocates for itself.

/// No index: the end of a list. Index 0 is in no list, so it is free to say this.
pub(super) const NONE: u32 = 0;

/// The first and the last index of a list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ends {
    pub(super) first: u32,
    pub(super) last: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Link {
    prev: u32,
    next: u32,
}

/// The neighbours of each index in a set of lists, in which it stands once at most.
#[derive(Debug, Clone, Default)]
pub(super) struct Links(Vec<Link>);

impl Links {
    /// Makes room for indices below `count`.
    pub(super) fn grow(&mut self, count: usize) {
        self.0.resize(self.0.len().max(count), Link::default());
    }

    pub(super) fn prev(&self, at: u32) -> u32 {
        self.0[at as usize].prev
    }

    pub(super) fn next(&self, at: u32) -> u32 {
        self.0[at as usize].next
    }

    /// The indices of a list in order.
    pub(super) fn iter(&self, ends: Ends) -> impl Iterator<Item = u32> {
        let some = |at: u32| (at != NONE).then_some(at);
        std::iter::successors(some(ends.first), move |&at| some(self.next(at)))
    }

    /// Inserts behind `before`, or as the first if that is [`NONE`].
    pub(super) fn insert_after(&mut self, ends: &mut Ends, before: u32, at: u32) {
        let after = if before == NONE { ends.first } else { self.next(before) };
        self.0[at as usize] = Link { prev: before, next: after };
        match before {
            NONE => ends.first = at,
            _ => self.0[before as usize].next = at,
        }
        match after {
            NONE => ends.last = at,
            _ => self.0[after as usize].prev = at,
        }
    }

    pub(super) fn push_back(&mut self, ends: &mut Ends, at: u32) {
        self.insert_after(ends, ends.last, at);
    }

    pub(super) fn unlink(&mut self, ends: &mut Ends, at: u32) {
        let Link { prev, next } = std::mem::take(&mut self.0[at as usize]);
        match prev {
            NONE => ends.first = next,
            _ => self.0[prev as usize].next = next,
        }
        match next {
            NONE => ends.last = prev,
            _ => self.0[next as usize].prev = prev,
        }
    }
}
