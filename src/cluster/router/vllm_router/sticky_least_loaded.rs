//! `sticky_least_loaded`: a session stays with its worker; a new one goes to the fewest sessions.
//!
//! Sessions end by an explicit call or after two hours; here they do not end.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::super::sglang::draw::Draw;
use super::super::sglang::policy::{Asked, Worker, Workers};
use super::consistent_hash::SESSIONS;
use super::murmur::ring_hash;

/// Which workers sessions have.
#[derive(Debug, Clone)]
pub(crate) struct StickyLeastLoaded {
    /// By worker.
    urls: Vec<String>,
    sessions: FxHashMap<Box<str>, Worker>,
    /// By worker, its sessions.
    counts: Vec<u32>,
}

impl StickyLeastLoaded {
    /// Workers at these addresses, without sessions.
    pub(crate) fn new(urls: Vec<String>) -> Self {
        let counts = vec![0; urls.len()];
        Self { urls, sessions: FxHashMap::default(), counts }
    }

    /// The worker of the session; of those with the fewest sessions that with the greatest hash.
    pub(crate) fn choose<T>(
        &mut self,
        asked: &Asked<'_, T>,
        workers: Workers<'_>,
        draw: &mut impl Draw,
    ) -> Option<Worker> {
        let Some(session) = SESSIONS.iter().find_map(|name| asked.header(name)) else {
            return workers.any(draw);
        };
        let known = self.sessions.get(session).copied();
        if let Some(worker) = known.filter(|worker| workers.has(*worker)) {
            return Some(worker);
        }
        let rank = |worker: &Worker| {
            let (count, url) = (self.counts[worker.index()], &self.urls[worker.index()]);
            (count, Reverse(ring_hash(format!("{session}:{url}").as_bytes())))
        };
        let worker = workers.available.iter().copied().min_by_key(rank)?;
        if let Some(old) = self.sessions.insert(session.into(), worker) {
            self.counts[old.index()] -= 1;
        }
        self.counts[worker.index()] += 1;
        Some(worker)
    }
}
