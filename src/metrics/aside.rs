//! What a lane leaves to be counted while it goes on: gaps between tokens, and requests that are not remembered.
//!
//! A lane notes a list of each, and gets the list of the round before, emptied, for the next: nothing is copied.

use super::folded::Folded;
use super::gaps::GapCounter;
use super::record::RequestRecord;
use super::recorder::Recorder;

/// Room for so many requests is kept from one round to the next.
const ROOM_MAX: usize = 1 << 15;

/// What a lane noted last, and what was counted of all that it noted before.
#[derive(Debug, Default)]
pub struct Aside {
    noted: Vec<u64>,
    gaps: Option<GapCounter>,
    gone: Vec<RequestRecord>,
    folded: Option<Box<Folded>>,
}

impl Aside {
    /// Takes what a lane has noted.
    pub(super) fn take(&mut self, lane: &mut Recorder) {
        lane.gaps.exchange(&mut self.noted);
        let gaps = self.gaps.get_or_insert_with(|| GapCounter::in_parts(lane.lane.count));
        let Some(folded) = &lane.folded else { return };
        if self.folded.is_none() {
            // That of the lane is as it began.
            self.folded = Some(folded.clone());
            gaps.bound();
        }
        if lane.requests.is_full() {
            lane.requests.give_up(&mut self.gone);
        }
    }

    /// Counts it.
    pub(super) fn count(&mut self) {
        if let Some(gaps) = &mut self.gaps {
            gaps.count(&mut self.noted);
        }
        if let Some(folded) = &mut self.folded {
            folded.add_all(&self.gone);
        }
        self.gone.clear();
        self.gone.shrink_to(ROOM_MAX);
    }

    /// Gives a lane, whose run is over, what was counted of it.
    pub(super) fn give_back(mut self, lane: &mut Recorder) {
        self.take(lane);
        self.count();
        if let Some(gaps) = self.gaps {
            lane.gaps.join_with(gaps);
        }
        if let (Some(all), Some(folded)) = (&mut lane.folded, self.folded) {
            all.join(&folded);
        }
    }
}
