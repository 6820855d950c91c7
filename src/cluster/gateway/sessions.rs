//! How many conversations have requests at each instance.

use rustc_hash::FxHashMap;

use crate::ids::{InstanceId, RequestId, SessionId};

/// The conversations of outstanding requests.
#[derive(Debug)]
pub(super) struct Sessions {
    of: FxHashMap<RequestId, (InstanceId, SessionId)>,
    /// By instance and conversation, its requests there.
    requests: Vec<FxHashMap<SessionId, u32>>,
    counts: Vec<u32>,
}

impl Sessions {
    pub(super) fn new(instances: u32) -> Self {
        let count = instances as usize;
        Self {
            of: FxHashMap::default(),
            requests: vec![FxHashMap::default(); count],
            counts: vec![0; count],
        }
    }

    /// By instance, how many conversations have requests there.
    pub(super) fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// A request of a conversation is sent to an instance.
    pub(super) fn begin(&mut self, id: RequestId, instance: InstanceId, session: SessionId) {
        self.of.insert(id, (instance, session));
        let requests = &mut self.requests[instance.index()];
        *requests.entry(session).or_default() += 1;
        self.counts[instance.index()] = requests.len() as u32;
    }

    /// A request has left, of a conversation or not.
    pub(super) fn end(&mut self, id: RequestId) {
        let Some((instance, session)) = self.of.remove(&id) else { return };
        let requests = &mut self.requests[instance.index()];
        if let Some(count) = requests.get_mut(&session) {
            *count -= 1;
            if *count == 0 {
                requests.remove(&session);
            }
        }
        self.counts[instance.index()] = requests.len() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_counts_once_where_it_has_requests() {
        let mut sessions = Sessions::new(2);
        let begin = |sessions: &mut Sessions, id, at, of| {
            sessions.begin(RequestId(id), InstanceId(at), SessionId(of));
        };
        begin(&mut sessions, 0, 0, 7);
        begin(&mut sessions, 1, 0, 7);
        begin(&mut sessions, 2, 0, 8);
        begin(&mut sessions, 3, 1, 7);
        assert_eq!(sessions.counts(), [2, 1]);
        for id in [0, 2, 9] {
            sessions.end(RequestId(id));
        }
        assert_eq!(sessions.counts(), [1, 1]);
        for id in [1, 3] {
            sessions.end(RequestId(id));
        }
        assert_eq!(sessions.counts(), [0, 0]);
    }
}
