//! `prefix_hash`: by a hash of the first tokens. In HTTP mode the router has no tokens, and finds no worker.

use super::policy::Worker;

/// Knows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PrefixHash;

impl PrefixHash {
    /// No worker.
    #[expect(clippy::unused_self, reason = "policies are asked alike")]
    pub(crate) fn choose(self) -> Option<Worker> {
        None
    }
}
