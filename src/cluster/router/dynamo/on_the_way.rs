//! Events of engines on their way to the router, in the order in which they come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Rank;
use crate::kv::CacheEvent;
use crate::units::SimTime;

/// Events that have not come yet.
#[derive(Debug, Default)]
pub(super) struct OnTheWay {
    /// When each comes, the how manieth it is, and its place.
    due: BinaryHeap<Reverse<(SimTime, u64, u32)>>,
    events: Vec<Option<(Rank, CacheEvent)>>,
    vacant: Vec<u32>,
    heard: u64,
}

impl OnTheWay {
    /// An event comes at a moment, behind those that were added before and come then too.
    pub(super) fn add(&mut self, at: SimTime, rank: Rank, event: CacheEvent) {
        self.heard += 1;
        let place = self.vacant.pop().unwrap_or(self.events.len() as u32);
        if place as usize == self.events.len() {
            self.events.push(None);
        }
        self.events[place as usize] = Some((rank, event));
        self.due.push(Reverse((at, self.heard, place)));
    }

    /// Nothing comes any more of what a rank told.
    pub(super) fn forget(&mut self, rank: Rank) {
        let Self { due, events, vacant, .. } = self;
        due.retain(|Reverse((.., place))| {
            let event = &mut events[*place as usize];
            let is_other = event.as_ref().is_some_and(|(of, _)| *of != rank);
            if !is_other {
                *event = None;
                vacant.push(*place);
            }
            is_other
        });
    }

    /// The next event that has come by now.
    #[inline]
    pub(super) fn next(&mut self, now: SimTime) -> Option<(Rank, CacheEvent)> {
        let Reverse((at, ..)) = self.due.peek()?;
        if *at > now {
            return None;
        }
        let Reverse((.., place)) = self.due.pop()?;
        self.vacant.push(place);
        self.events[place as usize].take()
    }
}
