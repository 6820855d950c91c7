//! `SGLang`'s router (`sglang-router` 0.3.2, HTTP mode), decision by decision.
//!
//! * a file for each policy under its maker's name
//! * `policy.rs`: what all of them are asked; `build.rs`: policies from settings
//! * `tree.rs`, `tree/eviction.rs`, `text.rs`: the tree of prompts of `cache_aware`
//! * `ring.rs`: where keys go; `balance.rs`: when the load is imbalanced
//! * `breaker.rs`, `health.rs`, `backoff.rs`: which workers are asked, and when again; `checks.rs`,
//!   `known.rs`: health checks, and all of this in a simulation
//! * `registry.rs`: what the router knows of each worker
//! * `route.rs`: the router of a simulation
//! * `token_bucket.rs`, `limit.rs`: how fast requests may come
//!
//! A *worker* is a replica, as the router calls it. The order of workers is that of a hash map with random keys:
//! another one at each start, and fixed while the workers are.
//!
//! Not modelled: gRPC mode, several models in one router (`--enable-igw`), service discovery, API keys, history.

pub(crate) mod backoff;
pub(crate) mod balance;
pub(crate) mod breaker;
pub(crate) mod bucket;
pub(crate) mod build;
pub(crate) mod cache_aware;
mod checks;
pub(crate) mod consistent_hashing;
pub(crate) mod draw;
pub(crate) mod health;
mod known;
pub(crate) mod limit;
pub(crate) mod manual;
pub(crate) mod policy;
pub(crate) mod power_of_two;
pub(crate) mod prefix_hash;
pub(crate) mod random;
pub(crate) mod registry;
pub(crate) mod ring;
pub(crate) mod round_robin;
mod route;
pub(crate) mod text;
pub(crate) mod token_bucket;
pub(crate) mod tree;

pub(crate) use route::Serves;
pub use route::SglangFrame;
