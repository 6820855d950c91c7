//! One tier, of an engine's own or shared with others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::kv::Tier;

/// Which tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TierKind {
    /// Host memory of the replica.
    Host,
    /// Its disk.
    Disk,
    /// What all replicas share.
    Pool,
}

impl TierKind {
    /// All, from the fastest to the slowest: the order in which they are looked at.
    pub const ALL: [Self; 3] = [Self::Host, Self::Disk, Self::Pool];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Disk => "disk",
            Self::Pool => "pool",
        }
    }
}

/// A tier of an engine. One lock serves own and shared ones alike: whoever is driven holds it for the
/// length of a call, and engines that share a tier are driven one at a time.
#[derive(Debug)]
pub enum Level {
    /// Its own.
    Own(Mutex<Tier>),
    /// Shared with other engines.
    Shared(Arc<Mutex<Tier>>),
}

impl Level {
    /// A tier of an engine's own.
    pub fn own(tier: Tier) -> Self {
        Self::Own(Mutex::new(tier))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Tier> {
        let tier = match self {
            Self::Own(tier) => tier,
            Self::Shared(tier) => tier.as_ref(),
        };
        tier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn on<R>(&self, then: impl FnOnce(&mut Tier) -> R) -> R {
        then(&mut self.lock())
    }
}

impl Clone for Level {
    /// A tier of its own is copied, one that is shared is shared with the copy too.
    fn clone(&self) -> Self {
        match self {
            Self::Own(_) => Self::own(self.on(|tier| tier.clone())),
            Self::Shared(tier) => Self::Shared(Arc::clone(tier)),
        }
    }
}
