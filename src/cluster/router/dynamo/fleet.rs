//! The ranks that a router may send to, and which of them a request may use (NVIDIA Dynamo 1.6.1).
//!
//! A rank is one data-parallel part of a worker. Allow lists, taints and sessions name workers, pins name ranks.

use std::sync::Arc;

use super::ranks::RankSet;
use super::{Options, Rank};

/// Prefill tokens of a step of a worker that does not say how many.
const UNKNOWN_BATCH: u64 = 10_000_000;

/// A rank of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The worker that it is a part of.
    pub worker: u32,
    /// The most tokens of a step of the worker, where they are told.
    pub max_num_batched_tokens: Option<u64>,
    /// The KV blocks of the worker, where they are told.
    pub total_kv_blocks: Option<u64>,
    /// What requests may require or prefer of the worker.
    pub taints: Arc<[String]>,
}

impl Member {
    /// Of a worker of which nothing else is known.
    pub fn of(worker: u32) -> Self {
        Self { worker, max_num_batched_tokens: None, total_kv_blocks: None, taints: [].into() }
    }

    pub(super) fn batch(&self) -> u64 {
        self.max_num_batched_tokens.unwrap_or(UNKNOWN_BATCH)
    }

    fn has(&self, taint: &str) -> bool {
        self.taints.iter().any(|one| one == taint)
    }

    /// Whether a request may use it.
    fn suits(&self, rank: Rank, options: &Options) -> bool {
        options.pinned.is_none_or(|pinned| pinned == rank)
            && options.allowed.as_ref().is_none_or(|allowed| allowed.contains(&self.worker))
            && options.required_taints.iter().all(|taint| self.has(taint))
    }

    /// The sum of the weights of preferred taints that it has.
    pub(super) fn preference(&self, options: &Options) -> f64 {
        let had = options.preferred_taints.iter().filter(|(taint, _)| self.has(taint));
        had.map(|(_, weight)| weight).sum()
    }
}

/// The ranks, by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Fleet {
    members: Vec<Option<Member>>,
    here: Vec<Rank>,
    workers: u64,
}

impl Fleet {
    /// A rank comes, or is another from now on.
    pub(super) fn put(&mut self, rank: Rank, member: Member) {
        if self.members.len() <= rank.index() {
            self.members.resize_with(rank.index() + 1, || None);
        }
        self.members[rank.index()] = Some(member);
        self.count();
    }

    /// A rank goes.
    pub(super) fn take(&mut self, rank: Rank) {
        if let Some(member) = self.members.get_mut(rank.index()) {
            *member = None;
        }
        self.count();
    }

    fn count(&mut self) {
        let here = self.members.iter().enumerate().filter(|(_, member)| member.is_some());
        self.here = here.map(|(rank, _)| Rank(rank as u32)).collect();
        let mut workers: Vec<_> = self.members.iter().flatten().map(|one| one.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        self.workers = workers.len() as u64;
    }

    /// The most ranks there have been.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> u64 {
        self.workers
    }

    /// A rank, if it is here.
    pub(super) fn get(&self, rank: Rank) -> Option<&Member> {
        self.members.get(rank.index())?.as_ref()
    }

    /// The ranks that a request may use and that are not down, and only those of the worker its session is bound to if it may use any of
    /// them.
    pub(super) fn eligible(
        &self,
        options: Option<&Options>,
        bound: Option<u32>,
        down: &RankSet,
        into: &mut Vec<Rank>,
    ) {
        into.clear();
        let up = self.here.iter().copied().filter(|rank| !down.contains(*rank));
        match options {
            None if down.is_empty() => into.extend_from_slice(&self.here),
            None => into.extend(up),
            Some(options) => {
                let member = |rank: Rank| self.get(rank).expect("it is here");
                into.extend(up.filter(|rank| member(*rank).suits(*rank, options)));
            }
        }
        if let Some(bound) = bound {
            let is_bound = |rank: &Rank| self.get(*rank).is_some_and(|one| one.worker == bound);
            if into.iter().any(is_bound) {
                into.retain(is_bound);
            }
        }
    }
}
