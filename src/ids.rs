//! Dense arena indices: each kind of thing has its own 32-bit id, handed out from zero.

/// Declares id types that index a `Vec` of their kind.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The position of this id in its arena.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The id at a position of its arena.
            ///
            /// # Panics
            /// When `index` does not fit in 32 bits.
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("an arena holds at most 2^32 things"))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

impl AdapterId {
    /// Where an adapter stands in a list that begins with what is without one.
    pub fn place(adapter: Option<Self>) -> usize {
        adapter.map_or(0, |adapter| adapter.index() + 1)
    }
}

/// A class of requests, by its place among those of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClassId(pub u16);

/// A model that is served, by its place among those that requests ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ModelId(pub u16);

impl ModelId {
    /// Its place.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

ids! {
    /// A request of the workload, or a retry of one, numbered in order of arrival.
    RequestId,
    /// One engine replica with its GPUs.
    InstanceId,
    /// A conversation: requests that continue one another.
    SessionId,
    /// A LoRA adapter.
    AdapterId,
    /// A directed link of a network.
    LinkId,
    /// A route of a network: the links a flow takes.
    RouteId,
    /// A flow of a network; the number is given again once the flow has ended.
    FlowId,
}
