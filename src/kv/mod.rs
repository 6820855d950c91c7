//! KV memory of one instance: paged blocks, found again by content.
//!
//! * [`KvPool`] keeps every block with its place in the order of eviction, as vLLM's block pool
//!   does, so that which block is evicted next is the real engine's answer: [`BlockPool`] by runs of
//!   blocks that live alike, [`NumberedPool`] one by one, [`GroupedPool`] for [`Groups`](crate::model::Groups) of layers that keep
//!   different things. A [`BlockTable`] is what one sequence holds.
//! * [`RadixTree`] keeps token sequences that share beginnings, as SGLang's radix cache does.
//! * [`HybridTree`] is that of models with sliding windows or states beside full attention.
//! * [`Tier`] keeps chunks of KV below GPU memory, as vLLM's offloading managers and LMCache's backends do.
//! * [`ChainHasher`] names the content of full blocks, each name covering everything before it; [`Names`] keeps names by runs.

mod block_pool;
mod block_table;
mod chain;
mod chunks;
mod content_tree;
mod copies;
mod events;
mod given_up;
mod groups;
mod hybrid_radix;
mod known;
mod lists;
mod name_runs;
mod names;
mod numbered_pool;
mod pool;
mod radix;
mod tier;
mod token_runs;
mod tree_keys;

pub use block_pool::{BlockId, BlockPool};
pub use block_table::{BlockTable, Hits};
pub use chain::{ChainHasher, Lookahead};
pub use chunks::ChunkNames;
pub use events::{CacheEvent, Order};
pub use groups::{Demand, GroupedPool};
pub use hybrid_radix::{
    Evicted, HybridPrefix, HybridTree, PathLock, StateInsert, States, WindowInsert, WindowShare,
    Windows,
};
pub use known::CacheContent;
pub use name_runs::{NameSlice, Names};
pub use names::BlockHash;
pub use numbered_pool::NumberedPool;
pub use pool::KvPool;
pub use radix::{NodeId, Prefix, RadixTree};
pub use tier::Tier;
pub use tree_keys::TreeKeys;
