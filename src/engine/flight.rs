//! The steps in flight, in buffers that stay where they are.

use super::instance::Batch;

/// The steps in flight, oldest first. Buffers of those that ended are used again.
#[derive(Debug, Clone, Default)]
pub(super) struct Flight {
    /// A ring: those in flight are from `first` on.
    batches: Vec<Batch>,
    first: usize,
    len: usize,
}

impl Flight {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Batch> {
        (0..self.len).map(|index| &self.batches[self.place(index)])
    }

    /// The oldest one.
    #[inline]
    pub(super) fn front(&self) -> Option<&Batch> {
        (self.len > 0).then(|| &self.batches[self.first])
    }

    /// The same, to change.
    pub(super) fn front_mut(&mut self) -> Option<&mut Batch> {
        (self.len > 0).then(|| &mut self.batches[self.first])
    }

    /// Takes the oldest one out; it stays in the buffer that is returned until the next
    /// [`launch`](Self::launch).
    #[inline]
    pub(super) fn pop(&mut self) -> Option<usize> {
        let ended = self.first;
        if self.len == 0 {
            return None;
        }
        self.first = self.place(1);
        self.len -= 1;
        Some(ended)
    }

    /// A batch by its buffer.
    #[inline]
    pub(super) fn buffer(&self, index: usize) -> &Batch {
        &self.batches[index]
    }

    /// The buffer of the next step.
    #[inline]
    pub(super) fn next(&self) -> &Batch {
        &self.batches[self.place(self.len)]
    }

    /// The same, to write to; a new one if all are in flight.
    #[inline]
    pub(super) fn next_mut(&mut self) -> &mut Batch {
        if self.len == self.batches.len() {
            self.grow();
        }
        let place = self.place(self.len);
        &mut self.batches[place]
    }

    #[cold]
    fn grow(&mut self) {
        self.batches.rotate_left(self.first);
        self.first = 0;
        self.batches.push(Batch::default());
    }

    /// The step in the next buffer is in flight from now on.
    #[inline]
    pub(super) fn launch(&mut self) {
        self.len += 1;
    }

    #[inline]
    fn place(&self, index: usize) -> usize {
        let place = self.first + index;
        if place < self.batches.len() { place } else { place - self.batches.len() }
    }
}
