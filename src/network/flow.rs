//! One flow: where it stands, and what it carries.

use crate::ids::RouteId;
use crate::network::quantity::Work;

/// Where a flow stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// The slot is free.
    #[default]
    Free,
    /// The latency of its route is not over yet.
    Latent,
    /// On its links.
    Flowing,
    /// Everything that was fed has flown, and more is to come.
    Dry,
}

/// A flow. How far one on its links has come is what its [`Clocks`](super::clocks) say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    pub stage: Stage,
    pub route: RouteId,
    /// Fed since it joined its links, or before it does.
    pub fed: Work,
    /// Payload that is to be fed.
    pub unfed_bytes: u64,
}

impl Flow {
    pub(super) const FREE: Self =
        Self { stage: Stage::Free, route: RouteId(0), fed: 0, unfed_bytes: 0 };
}
