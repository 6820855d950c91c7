//! The waiting queue of an engine with slots for adapters.
//!
//! vLLM walks the whole queue and passes over requests whose adapter gets no slot. Here those of one
//! adapter stand in a lane of their own, so that lanes are passed over instead of requests; a
//! request's position in the queue says which lane is next.

use std::collections::VecDeque;

use crate::ids::AdapterId;

/// A waiting request: where it stands, and its slot in the arena.
pub(super) type Place = (i64, u32);

/// Waiting requests in order of their positions, lane by lane.
#[derive(Debug, Clone, Default)]
pub(super) struct Lanes {
    /// Requests without an adapter, then those of each adapter.
    by_adapter: Vec<VecDeque<Place>>,
    /// Positions given out so far, before the first request and behind the last.
    front: i64,
    back: i64,
    len: u32,
}

impl Lanes {
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn push_back(&mut self, slot: u32, adapter: Option<AdapterId>) {
        self.back += 1;
        let position = self.back;
        self.lane(adapter).push_back((position, slot));
        self.len += 1;
    }

    /// Puts a request before all others.
    pub(super) fn push_front(&mut self, slot: u32, adapter: Option<AdapterId>) {
        self.front -= 1;
        let position = self.front;
        self.lane(adapter).push_front((position, slot));
        self.len += 1;
    }

    /// Puts a request back to where it stood: those of its lane that stood before it are not there.
    pub(super) fn put_back(&mut self, place: Place, adapter: Option<AdapterId>) {
        self.lane(adapter).push_front(place);
        self.len += 1;
    }

    /// The first request of a lane that is served.
    pub(super) fn head(&self, is_served: impl Fn(Option<AdapterId>) -> bool) -> Option<Place> {
        self.first(is_served).map(|(_, place)| place)
    }

    /// Takes it out.
    pub(super) fn pop(&mut self, is_served: impl Fn(Option<AdapterId>) -> bool) -> Option<Place> {
        let (index, place) = self.first(is_served)?;
        self.by_adapter[index].pop_front();
        self.len -= 1;
        Some(place)
    }

    /// Requests before this position in lanes that are not served.
    pub(super) fn passed_over(
        &self,
        end: i64,
        is_served: impl Fn(Option<AdapterId>) -> bool,
    ) -> u32 {
        let lanes = self.by_adapter.iter().enumerate();
        let waiting = lanes.filter(|(index, lane)| !lane.is_empty() && !is_served(adapter(*index)));
        waiting.map(|(_, lane)| lane.partition_point(|place| place.0 < end) as u32).sum()
    }

    /// Takes a request out wherever it stands, if it is here.
    pub(super) fn remove(&mut self, slot: u32) {
        for lane in &mut self.by_adapter {
            let before = lane.len();
            lane.retain(|place| place.1 != slot);
            self.len -= (before - lane.len()) as u32;
        }
    }

    fn first(&self, is_served: impl Fn(Option<AdapterId>) -> bool) -> Option<(usize, Place)> {
        let heads = self.by_adapter.iter().enumerate();
        let heads = heads.filter_map(|(index, lane)| Some((index, *lane.front()?)));
        heads.filter(|(index, _)| is_served(adapter(*index))).min_by_key(|(_, place)| place.0)
    }

    fn lane(&mut self, adapter: Option<AdapterId>) -> &mut VecDeque<Place> {
        let index = adapter.map_or(0, |adapter| adapter.index() + 1);
        if self.by_adapter.len() <= index {
            self.by_adapter.resize_with(index + 1, VecDeque::new);
        }
        &mut self.by_adapter[index]
    }
}

/// The adapter of a lane.
fn adapter(lane: usize) -> Option<AdapterId> {
    lane.checked_sub(1).map(AdapterId::from_index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Option<AdapterId> = Some(AdapterId(0));
    const B: Option<AdapterId> = Some(AdapterId(1));

    #[test]
    fn lanes_that_are_not_served_are_passed_over_and_keep_their_place() {
        let mut lanes = Lanes::default();
        for (slot, adapter) in [(0, A), (1, B), (2, None), (3, A)] {
            lanes.push_back(slot, adapter);
        }
        lanes.push_front(4, B);
        let slots = |lanes: &mut Lanes, served: &dyn Fn(Option<AdapterId>) -> bool| {
            std::iter::from_fn(|| lanes.pop(served).map(|place| place.1)).collect::<Vec<u32>>()
        };
        assert_eq!(lanes.passed_over(i64::MAX, |adapter| adapter != B), 2);
        assert_eq!(lanes.passed_over(0, |adapter| adapter != B), 1);
        let first = lanes.pop(|adapter| adapter != B).expect("two lanes are served");
        assert_eq!(first.1, 0);
        lanes.put_back(first, A);
        assert_eq!(slots(&mut lanes, &|adapter| adapter != B), [0, 2, 3]);
        assert_eq!(slots(&mut lanes, &|_| true), [4, 1]);
        assert_eq!(lanes.len(), 0);
    }
}
