//! A queue of numbered things by level, in which a thing stands once and can be moved.

/// Lowest level first: a binary heap that knows where everything is. What is at one level comes in
/// an order that depends on nothing but the calls.
#[derive(Debug, Default)]
pub(super) struct Turns {
    heap: Vec<(u64, u32)>,
    /// Where each number stands in the heap; [`NOWHERE`] where it does not.
    places: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Turns {
    /// Makes room for the numbers below `count`.
    pub(super) fn grow(&mut self, count: usize) {
        self.places.resize(count, NOWHERE);
    }

    /// Puts `id` at `level`, from wherever it was.
    pub(super) fn put(&mut self, level: u64, id: u32) {
        let at = self.places[id as usize] as usize;
        if at == NOWHERE as usize {
            self.heap.push((level, id));
            self.rise(self.heap.len() - 1, (level, id));
        } else if level < self.heap[at].0 {
            self.rise(at, (level, id));
        } else {
            self.sink(at, (level, id));
        }
    }

    /// The first, which stays.
    pub(super) fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().copied()
    }

    /// Takes `id` out.
    pub(super) fn remove(&mut self, id: u32) {
        let at = std::mem::replace(&mut self.places[id as usize], NOWHERE) as usize;
        if at == NOWHERE as usize {
            return;
        }
        let last = self.heap.pop().expect("it stands in the heap");
        if at < self.heap.len() {
            if last.0 < self.heap[at].0 {
                self.rise(at, last);
            } else {
                self.sink(at, last);
            }
        }
    }

    /// Takes out what `is_kept` does not want.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(u32) -> bool) {
        let places = &mut self.places;
        self.heap.retain(|(_, id)| {
            let keeps = is_kept(*id);
            if !keeps {
                places[*id as usize] = NOWHERE;
            }
            keeps
        });
        // In order of number of children: every part of the heap is in order before what holds it.
        for at in (0..self.heap.len()).rev() {
            self.sink(at, self.heap[at]);
        }
    }

    fn rise(&mut self, mut at: usize, entry: (u64, u32)) {
        while at > 0 {
            let above = (at - 1) / 2;
            if self.heap[above].0 <= entry.0 {
                break;
            }
            self.set(at, self.heap[above]);
            at = above;
        }
        self.set(at, entry);
    }

    fn sink(&mut self, mut at: usize, entry: (u64, u32)) {
        loop {
            let mut below = 2 * at + 1;
            if below >= self.heap.len() {
                break;
            }
            if below + 1 < self.heap.len() && self.heap[below + 1].0 < self.heap[below].0 {
                below += 1;
            }
            if entry.0 <= self.heap[below].0 {
                break;
            }
            self.set(at, self.heap[below]);
            at = below;
        }
        self.set(at, entry);
    }

    fn set(&mut self, at: usize, entry: (u64, u32)) {
        self.heap[at] = entry;
        self.places[entry.1 as usize] = at as u32;
    }
}
