//! The records of requests, by their place among those of a run or of a lane.

use std::ops::Deref;

use super::record::{RequestRecord, Status};

/// Records that have left and are given back together.
const BATCH: usize = 4096;

/// Records by place; all of them, or a window from the first request that has not left.
#[derive(Debug, Default)]
pub struct Records {
    list: Vec<RequestRecord>,
    /// The place of the first one of the list.
    first: usize,
    /// Of the list, the first ones that were forgotten.
    forgotten: usize,
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
        debug_assert!(place >= self.first + self.forgotten, "request {place} was forgotten");
        &mut self.list[place - self.first]
    }

    /// Those that were not forgotten.
    pub(super) fn left_over(&self) -> &[RequestRecord] {
        &self.list[self.forgotten..]
    }

    /// Forgets the earliest requests as far as they have left, each told first.
    #[inline]
    pub(super) fn forget_left(&mut self, mut tell: impl FnMut(&RequestRecord)) {
        while let Some(record) = self.list.get(self.forgotten)
            && record.status != Status::Unfinished
        {
            tell(record);
            self.forgotten += 1;
        }
        if self.forgotten >= BATCH && 2 * self.forgotten >= self.list.len() {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        self.list.drain(..self.forgotten);
        self.first += self.forgotten;
        self.forgotten = 0;
        if self.list.capacity() > 8 * self.list.len().max(BATCH) {
            self.list.shrink_to(2 * self.list.len().max(BATCH));
        }
    }

    /// Forgets all.
    pub(super) fn forget_all(&mut self) {
        *self = Self::forgotten(self.next_place());
    }

    /// Of so many requests, all of which were forgotten.
    pub(super) fn forgotten(requests: usize) -> Self {
        Self { list: Vec::new(), first: requests, forgotten: 0 }
    }

    #[cold]
    fn is_missed(&self) -> ! {
        panic!("records of {} requests were forgotten", self.first + self.forgotten)
    }
}

/// All of them.
///
/// # Panics
/// When some were forgotten: what is computed of the rest would be wrong.
impl Deref for Records {
    type Target = [RequestRecord];

    fn deref(&self) -> &[RequestRecord] {
        if self.first + self.forgotten > 0 {
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
        if records.first + records.forgotten > 0 {
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
