//! The records of requests, by their place among those of a run or of a lane.

use std::ops::Deref;

use super::record::{RequestRecord, Status};

/// A shorter list is left as it is.
const BATCH: usize = 16;

/// Records by place; all of them, or a window from the first request that has not left.
#[derive(Debug, Default)]
pub struct Records {
    list: Vec<RequestRecord>,
    /// The place of the first one of the list.
    first: usize,
    /// How long the list is when some are given up next, if that is more than a batch.
    full_at: usize,
}

impl Records {
    /// The place of the next request.
    pub fn next_place(&self) -> usize {
        self.first + self.list.len()
    }

    /// The record of the next request.
    #[inline]
    pub fn push(&mut self, record: RequestRecord) {
        self.list.push(record);
    }

    /// The record of the request in a place, which was not forgotten.
    #[inline]
    pub(super) fn at(&mut self, place: usize) -> &mut RequestRecord {
        debug_assert!(place >= self.first, "request {place} was forgotten");
        &mut self.list[place - self.first]
    }

    /// Those that were not forgotten.
    pub(super) fn left_over(&self) -> &[RequestRecord] {
        &self.list
    }

    /// Whether there are so many that some are worth giving up.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= self.full_at.max(BATCH)
    }

    /// Gives up the earliest requests as far as they have left, if they are at least half: they are the list
    /// `gone` then, which was empty.
    pub(super) fn give_up(&mut self, gone: &mut Vec<RequestRecord>) {
        debug_assert!(gone.is_empty(), "records that were given up before are in the way");
        let left = self.list.iter().take_while(|record| record.status != Status::Unfinished);
        let left = left.count();
        if 2 * left >= self.list.len() {
            // Fewer stay: they are what is copied.
            gone.extend_from_slice(&self.list[left..]);
            std::mem::swap(gone, &mut self.list);
            gone.truncate(left);
            self.first += left;
        }
        self.full_at = 2 * self.list.len();
    }

    /// Forgets all.
    pub(super) fn forget_all(&mut self) {
        *self = Self::forgotten(self.next_place());
    }

    /// Of so many requests, all of which were forgotten.
    pub(super) fn forgotten(requests: usize) -> Self {
        Self { first: requests, ..Self::default() }
    }

    #[cold]
    fn is_missed(&self) -> ! {
        panic!("records of {} requests were forgotten", self.first)
    }
}

/// All of them.
///
/// # Panics
/// When some were forgotten: what is computed of the rest would be wrong.
impl Deref for Records {
    type Target = [RequestRecord];

    #[inline]
    fn deref(&self) -> &[RequestRecord] {
        if self.first > 0 {
            self.is_missed();
        }
        &self.list
    }
}

impl<'a> IntoIterator for &'a Records {
    type Item = &'a RequestRecord;
    type IntoIter = std::slice::Iter<'a, RequestRecord>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Records {
    type Item = RequestRecord;
    type IntoIter = std::vec::IntoIter<RequestRecord>;

    fn into_iter(self) -> Self::IntoIter {
        Vec::from(self).into_iter()
    }
}

impl From<Vec<RequestRecord>> for Records {
    fn from(list: Vec<RequestRecord>) -> Self {
        Self { list, ..Self::default() }
    }
}

impl From<Records> for Vec<RequestRecord> {
    fn from(records: Records) -> Self {
        if records.first > 0 {
            records.is_missed();
        }
        records.list
    }
}

impl PartialEq for Records {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<Records> for Vec<RequestRecord> {
    fn eq(&self, other: &Records) -> bool {
        **self == **other
    }
}

/// The records of all requests, which went to lanes in turn.
pub(super) fn in_turn(mut lanes: Vec<Records>) -> Records {
    if let [lane] = &mut lanes[..] {
        // Nothing to put between: half the memory of a copy.
        return std::mem::take(lane);
    }
    let count = lanes.iter().map(|lane| lane.len()).sum();
    let mut all = Vec::with_capacity(count);
    let mut each: Vec<_> = lanes.iter().map(|lane| lane.iter()).collect();
    while all.len() < count {
        all.extend(each.iter_mut().filter_map(Iterator::next));
    }
    all.into()
}
