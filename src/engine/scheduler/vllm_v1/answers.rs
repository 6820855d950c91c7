//! Answers that others look for while their requests decode in lock step: members publish their blocks
//! late, so what somebody quotes is made findable first.

use super::VllmV1;
use crate::request::Segment;

impl VllmV1 {
    /// Makes findable what members have computed of the answers that a prompt quotes: members
    /// publish their blocks late, since nobody else can look for them or make the same ones.
    pub(super) fn publish_quoted(&mut self, slot: u32) {
        if self.group.is_empty() {
            return;
        }
        let Some(segments) = self.sequences[slot as usize].blocks.hasher().segments() else {
            return;
        };
        let quoted: Vec<_> = segments.iter().filter_map(Segment::answer_of).collect();
        for request in quoted {
            if let Some(slot) = self.slot_of(request) {
                self.publish_member(slot);
            }
        }
    }

    /// Blocks of answers that a chunk of a prompt quotes were computed by members first.
    pub(super) fn precede(&mut self, slot: u32) {
        if self.sequences[slot as usize].is_prefill_chunk {
            self.publish_quoted(slot);
        }
    }

    /// Whether a prompt has answers in it, which members may still be writing.
    pub(super) fn quotes_answers(&self, slot: u32) -> bool {
        let segments = self.sequences[slot as usize].blocks.hasher().segments();
        segments.is_some_and(|all| all.iter().any(|segment| segment.answer_of().is_some()))
    }

    fn publish_member(&mut self, slot: u32) {
        let s = &self.sequences[slot as usize];
        let Some(member) = s.member else { return };
        let ticks = self.group.ticks();
        let scheduled = self.ticks_scheduled(&member);
        let done = self.ticks_done(&member);
        let (computed, known) = (s.computed + scheduled, s.tokens + done);
        // Scheduling publishes below the last known token, completing below what is in flight.
        let is_ticked = self.ticked_in == self.executed_steps + 1;
        let is_in_this_step = is_ticked && member.joined < ticks && ticks <= member.last_tick;
        let published = if is_in_this_step || !self.settings.async_scheduling {
            computed.min(known)
        } else {
            computed - (s.in_flight + scheduled - done)
        };
        self.settle_blocks(slot);
        self.publish_known(slot, known, published);
    }

    /// Makes findable, for somebody who looks from outside between two steps, what members have computed of
    /// the answers that these runs quote; of all answers where the runs are not known.
    pub(super) fn show_members(&mut self, quoted: Option<&[Segment]>) {
        if self.group.is_empty() || !self.settings.enable_prefix_caching {
            return;
        }
        match quoted {
            Some(segments) => {
                for request in segments.iter().filter_map(Segment::answer_of) {
                    if let Some(slot) = self.slot_of(request) {
                        self.show_member(slot);
                    }
                }
            }
            None => {
                for index in 0..self.running.len() {
                    self.show_member(self.running[index]);
                }
            }
        }
    }

    fn show_member(&mut self, slot: u32) {
        let s = &self.sequences[slot as usize];
        let Some(member) = s.member else { return };
        let (scheduled, done) = (self.ticks_scheduled(&member), self.ticks_done(&member));
        let (computed, known) = (s.computed + scheduled, s.tokens + done);
        let in_flight = s.in_flight + scheduled - done;
        let published = findable(self.settings.async_scheduling, (computed, known), in_flight);
        self.settle_blocks(slot);
        self.publish_known(slot, known, published);
    }
}

/// What the plain algorithm has made findable between two steps of a request of which so many tokens are
/// computed and so many known.
pub(super) fn findable(is_async: bool, (computed, known): (u32, u32), in_flight: u32) -> u32 {
    if !is_async {
        computed.min(known)
    } else if in_flight > 1 {
        // The second step in flight was decided since the last outcome: what was known by then it has made
        // findable already.
        known
    } else {
        computed - in_flight
    }
}
