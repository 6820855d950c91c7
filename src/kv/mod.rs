//! KV memory of one instance: paged blocks, found again by content.
//!
//! * [`BlockPool`] keeps every block with its place in the order of eviction, as vLLM's block pool
//!   does, so that which block is evicted next is the real engine's answer.
//! * [`RadixTree`] keeps token sequences that share beginnings, as SGLang's radix cache does.
//! * [`ChainHasher`] names the content of full blocks, each name covering everything before it.

mod block_pool;
mod chain;
mod radix;

pub use block_pool::{BlockId, BlockPool};
pub use chain::{BlockHash, ChainHasher, Lookahead};
pub use radix::{NodeId, Prefix, RadixTree};
