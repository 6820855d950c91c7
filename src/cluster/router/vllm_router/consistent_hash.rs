//! `consistent_hash`: by a hash of the session, on a ring of workers; independent of their order, and the same after
//! a restart.

use super::super::sglang::draw::Draw;
use super::super::sglang::policy::{Asked, Worker, Workers};
use super::super::sglang::ring::Ring;
use super::murmur::ring_hash;

/// Headers that name a session, in order of preference.
pub(crate) const SESSIONS: [&str; 6] =
    ["x-session-id", "x-user-id", "x-tenant-id", "x-correlation-id", "x-request-id", "x-trace-id"];

/// Points of a worker on the ring.
const POINTS: u32 = 160;

/// The ring.
#[derive(Debug, Clone)]
pub(crate) struct ConsistentHash {
    /// By worker.
    urls: Vec<String>,
    /// Their points.
    ring: Ring,
}

impl ConsistentHash {
    /// A ring for workers at these addresses, with none on it.
    pub(crate) fn new(urls: Vec<String>) -> Self {
        Self { urls, ring: Ring::default() }
    }

    /// The worker of the next point; any for a request without a session.
    pub(crate) fn choose<T>(
        &self,
        asked: &Asked<'_, T>,
        workers: Workers<'_>,
        draw: &mut impl Draw,
    ) -> Option<Worker> {
        let key = SESSIONS
            .iter()
            .find_map(|name| asked.header(name).map(|value| format!("header:{name}:{value}")));
        let Some(key) = key else {
            return workers.any(draw);
        };
        self.ring.worker(ring_hash(key.as_bytes()), workers)
    }

    /// These workers are on the ring.
    pub(crate) fn register(&mut self, workers: &[Worker]) {
        let place = |worker: Worker, point| {
            ring_hash(format!("{}:{point}", self.urls[worker.index()]).as_bytes())
        };
        self.ring = Ring::of(workers, POINTS, place);
    }
}
