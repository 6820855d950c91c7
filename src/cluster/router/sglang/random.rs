//! `random`: any available worker, each as likely as the others.

use super::draw::Draw;
use super::policy::{Worker, Workers};

/// Knows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Random;

impl Random {
    /// Any available worker.
    #[expect(clippy::unused_self, reason = "policies are asked alike")]
    pub(crate) fn choose(self, workers: Workers<'_>, draw: &mut impl Draw) -> Option<Worker> {
        workers.any(draw)
    }
}
