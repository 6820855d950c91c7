//! `consistent_hashing`: by a hash of the key of a request.
//!
//! Workers that report the name of their model have no ring: the hash modulo how many are available decides, and
//! most keys move when that number changes.

use super::draw::Draw;
use super::manual::ROUTING_KEY;
use super::policy::{Asked, Worker, Workers};
use super::ring::Ring;

/// The header with the place of a worker among those available.
const TARGET: &str = "x-smg-target-worker";

/// Headers that are keys where there is no better one, in order of preference.
const KEYS: [&str; 4] = [ROUTING_KEY, "authorization", "x-forwarded-for", "cookie"];

/// Points of a worker on the ring.
const POINTS: u32 = 150;

/// Where keys go.
#[derive(Debug, Clone)]
pub(crate) enum ConsistentHashing {
    /// By the hash modulo the number of workers.
    Modulo,
    /// To the next point on the ring.
    Ring {
        /// By worker.
        urls: Vec<String>,
        /// Their points.
        ring: Ring,
    },
}

impl ConsistentHashing {
    /// A ring for workers at these addresses.
    pub(crate) fn ring(urls: Vec<String>) -> Self {
        Self::Ring { urls, ring: Ring::default() }
    }

    /// The worker that the request names, or that its key leads to; any for a request without one.
    pub(crate) fn choose<T>(
        &self,
        asked: &Asked<'_, T>,
        workers: Workers<'_>,
        draw: &mut impl Draw,
    ) -> Option<Worker> {
        if let Some(target) = asked.header(TARGET) {
            let place: usize = target.trim().parse().ok()?;
            return workers.available.get(place).copied();
        }
        let Some(key) = KEYS.iter().find_map(|name| asked.header(name)) else {
            return workers.any(draw);
        };
        let hash = hash(key.as_bytes());
        match self {
            Self::Modulo => {
                let place = hash.checked_rem(workers.available.len() as u64)?;
                Some(workers.available[place as usize])
            }
            Self::Ring { ring, .. } => ring.worker(hash, workers),
        }
    }

    /// The ring of these workers.
    pub(crate) fn register(&mut self, workers: &[Worker]) {
        if let Self::Ring { urls, ring } = self {
            let place = |worker: Worker, point| {
                hash(format!("{}#{point}", urls[worker.index()]).as_bytes())
            };
            *ring = Ring::of(workers, POINTS, place);
        }
    }
}

/// The first 8 bytes of BLAKE3, the first one the lowest.
fn hash(bytes: &[u8]) -> u64 {
    let digest = blake3::hash(bytes);
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_bytes()[..8]);
    u64::from_le_bytes(first)
}
