//! Which worker a session is bound to (NVIDIA Dynamo 1.6.1, `session_affinity_ttl_secs`): that of its first booking,
//! until it has been idle for a time.

use rustc_hash::FxHashMap;

use crate::units::{SimDuration, SimTime};

/// Workers of sessions.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    ttl: SimDuration,
    bound: FxHashMap<u64, (u32, SimTime)>,
    swept: usize,
}

impl Sessions {
    /// Sessions that are bound so long after their last use.
    pub(super) fn new(ttl: SimDuration) -> Self {
        Self { ttl, bound: FxHashMap::default(), swept: 0 }
    }

    /// The worker of a session.
    pub(super) fn worker(&self, now: SimTime, session: u64) -> Option<u32> {
        self.bound.get(&session).filter(|(_, until)| *until > now).map(|(worker, _)| *worker)
    }

    /// A request of a session goes to a worker.
    pub(super) fn use_worker(&mut self, now: SimTime, session: u64, worker: u32) {
        self.bound.insert(session, (worker, now + self.ttl));
        if self.bound.len() > 2 * self.swept.max(512) {
            self.bound.retain(|_, (_, until)| *until > now);
            self.swept = self.bound.len();
        }
    }
}
