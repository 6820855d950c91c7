//! How far a plan is.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::load::{Listener, Note, Progress};

/// Counts the runs of a plan and tells of them. How many there will be is not known.
#[derive(Debug, Default)]
pub(super) struct Told {
    listener: Listener,
    ended: AtomicUsize,
}

impl Told {
    pub(super) fn to(listener: &Listener) -> Self {
        Self { listener: listener.clone(), ended: AtomicUsize::default() }
    }

    /// A run begins, of a cluster that is called so.
    pub(super) fn begins(&self, now: impl FnOnce() -> String) {
        let ended = self.ended.load(Ordering::Relaxed);
        self.listener.tell(&Note::Progress(Progress { ended, of: None, now: now() }));
    }

    /// A run has ended.
    pub(super) fn ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}
