//! The KV router of NVIDIA Dynamo 1.6.1 and its queue, decision by decision.
//!
//! Sources: the maker's sources of this version (`dynamo-kv-router`) and what the program decided in recorded runs, which
//! `conformance::routing` replays.
//!
//! A request goes to the rank with the least cost (in KV blocks) of prefill tokens and active blocks that
//! the router booked itself, less what it believes to be cached there: by events of engines ([`Index`]), or by what it sent
//! ([`Sent`]). Requests may wait at the router while all ranks are busy.
//!
//! * `cost.rs`, `two_tier.rs`, `choice.rs`: which rank
//! * `load.rs`: what is booked
//! * `knowledge.rs`, `index.rs`, `approximate.rs`, `owners.rs`, `ranks.rs`: what is cached
//! * `paths.rs`: paths of blocks, by who holds them
//! * `fleet.rs`, `sessions.rs`: which ranks a request may use
//! * `waiting.rs`, `classes.rs`: who waits, and who is next
//! * `service.rs`: all of it, from arrival to departure
//! * `routing.rs`, `on_the_way.rs`: that as a router of the simulation
//! * `conditional.rs`: which prompts are computed where they are decoded
//!
//! Prompts are chains of block names: equal names mean equal content from the begin of the prompt on. Left out: load models
//! of prefills (`router_prefill_load_model`), `router_approximate_cache_policy=lru`, shared caches, synchronisation of
//! several routers, deadlines, thresholds of the frontend that reject, `thunderagent`, the fresh look at caches for
//! requests that waited 10 s. None of them has a setting here.

mod approximate;
mod choice;
mod classes;
pub mod conditional;
mod cost;
mod fleet;
mod index;
mod knowledge;
mod load;
mod on_the_way;
mod owners;
mod paths;
mod ranks;
mod routing;
mod service;
mod sessions;
mod two_tier;
mod waiting;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::kv::Names;

pub use approximate::Sent;
pub use choice::{Draw, probabilities};
pub use cost::Pool;
pub use fleet::Member;
pub use index::{Index, Threads};
pub use knowledge::Tier;
pub use load::{Load, Loads};
pub use routing::Dynamo;
pub use service::{Decision, KvRouter, Outcome, Potential, Prospect};

/// A rank of a router's workers, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

impl Rank {
    /// Its number as a place.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A request, by the number of who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey(pub u64);

/// The complete blocks of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The names of the first ones, chained.
    pub named: Arc<Names>,
    /// How many there are. Those without a name are like no others.
    pub blocks: u32,
}

impl Prompt {
    /// Blocks that are like no others.
    pub fn unnamed(&self) -> u32 {
        self.blocks - self.named.len() as u32
    }
}

/// Blocks of a prompt that the tiers of a rank hold, each from where the one before ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overlap {
    /// In device memory.
    pub device: u32,
    /// In host memory.
    pub host: u32,
    /// On disk, or further away.
    pub disk: u32,
}

impl Overlap {
    /// Whether there are none.
    #[inline]
    pub const fn is_none(&self) -> bool {
        self.device | self.host | self.disk == 0
    }
}

/// A request that asks for a rank.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Which one it is.
    pub key: RequestKey,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// The complete blocks of it.
    pub prompt: Prompt,
    /// What else it asks for.
    pub options: Option<Arc<Options>>,
}

/// What a request may ask for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    /// The workers it may use; all if absent.
    pub allowed: Option<Vec<u32>>,
    /// The rank it goes to, whatever it costs.
    pub pinned: Option<Rank>,
    /// Taints that a worker must have.
    pub required_taints: Vec<String>,
    /// Taints that make a worker cheaper, or dearer by a negative weight.
    pub preferred_taints: Vec<(String, f64)>,
    /// Its session.
    pub session: Option<u64>,
    /// Whether its prefill tokens count, other than the router's setting.
    pub tracks_prefill: Option<bool>,
    /// Whether it shares blocks, other than the router's setting.
    pub assumes_reuse: Option<bool>,
    /// How many seconds earlier it counts.
    pub priority_jump: f64,
    /// Requests with more of this are sent before all others.
    pub strict_priority: u32,
    /// Its family of classes, or its class by name.
    pub class: Option<String>,
}

/// Why a request is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// There is no rank that it may use.
    NoEndpoints,
    /// A limit of its class is reached.
    QueueFull {
        /// The class.
        class: String,
        /// What is limited, in the maker's words.
        what: &'static str,
        /// How much of it waits.
        current: u64,
        /// How much may.
        limit: u64,
    },
}
