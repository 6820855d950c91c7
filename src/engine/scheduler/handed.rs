//! Where the requests are whose KV travels, between engines or from tiers below: found by their ids, of which a transfer tells one, without a look at
//! all others.

use rustc_hash::FxHashMap;

use crate::ids::RequestId;

/// The places of those requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Handed(FxHashMap<RequestId, u32>);

impl Handed {
    /// A request has got this place, and its KV travels, or may.
    pub(super) fn insert(&mut self, id: RequestId, slot: u32) {
        self.0.insert(id, slot);
    }

    /// A request has left its place.
    #[inline]
    pub(super) fn remove(&mut self, id: RequestId) {
        if !self.0.is_empty() {
            self.0.remove(&id);
        }
    }

    /// The place of a request; nothing where its KV does not travel, or it has left.
    pub(super) fn get(&self, id: RequestId) -> Option<u32> {
        self.0.get(&id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_whose_kv_travels_are_kept_until_they_leave() {
        let mut handed = Handed::default();
        handed.insert(RequestId(7), 3);
        handed.insert(RequestId(8), 5);
        assert_eq!([7, 8, 9].map(|id| handed.get(RequestId(id))), [Some(3), Some(5), None]);
        handed.remove(RequestId(7));
        handed.remove(RequestId(9));
        assert_eq!([7, 8].map(|id| handed.get(RequestId(id))), [None, Some(5)]);
    }
}
