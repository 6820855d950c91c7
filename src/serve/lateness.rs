//! How long after its simulated instant a token is written to its connection, on the wall.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::clock::wall;
use crate::stats::{LogBins, Sample};

/// Of all tokens of a server.
#[derive(Debug, Default)]
pub(super) struct Lateness(Mutex<LogBins>);

/// Some figures of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Late {
    /// How many chunks of answers.
    pub chunks: u64,
    /// The median, in seconds.
    pub median_s: f64,
    /// The 99th percentile, in seconds.
    pub p99_s: f64,
    /// The most, in seconds.
    pub most_s: f64,
}

impl Lateness {
    /// A chunk that was due then is written now.
    pub(super) fn written(&self, due: Instant) {
        let late = wall().saturating_duration_since(due);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(late.as_nanos() as u64);
    }

    pub(super) fn figures(&self) -> Late {
        let bins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |share: f64| bins.percentile(share) * 1e-9;
        let most_s = if bins.count() == 0 { 0.0 } else { bins.max() * 1e-9 };
        Late { chunks: bins.count(), median_s: at(50.0), p99_s: at(99.0), most_s }
    }
}
