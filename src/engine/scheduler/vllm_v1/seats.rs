//! The places of requests in the scheduler, and who is where.

use super::VllmV1;
use super::sequence::{Sequence, Status};
use crate::ids::RequestId;

impl VllmV1 {
    /// Gives a request a place, that of one that left if there is one.
    #[inline]
    pub(super) fn seat(&mut self, sequence: Sequence) -> u32 {
        let id = sequence.life.id;
        if let Some(slot) = self.vacant.pop() {
            let place = &mut self.sequences[slot as usize];
            // The buffers of the one that left are used again.
            let buffers = place.blocks.take_buffers();
            *place = sequence;
            place.blocks.reuse(buffers);
            self.seated[slot as usize] = id;
            return slot;
        }
        self.sequences.push(sequence);
        self.seated.push(id);
        self.sequences.len() as u32 - 1
    }

    /// The place of a request that has not left.
    pub(super) fn slot_of(&self, id: RequestId) -> Option<u32> {
        let is_here = |slot: &u32| {
            !matches!(self.sequences[*slot as usize].status, Status::Draining | Status::Gone)
        };
        if let Some(slot) = self.handed.get(id) {
            return Some(slot).filter(|slot| self.seated[*slot as usize] == id).filter(is_here);
        }
        let mut from = 0;
        while let Some(place) = self.seated[from..].iter().position(|seated| *seated == id) {
            let slot = (from + place) as u32;
            if is_here(&slot) {
                return Some(slot);
            }
            from += place + 1;
        }
        None
    }
}
