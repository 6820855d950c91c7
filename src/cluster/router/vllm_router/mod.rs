//! vLLM's router (`vllm-router` 0.1.17), decision by decision.
//!
//! A fork of an older state of `SGLang`'s, of which it has the frame, `round_robin`, `random` and `power_of_two`; a
//! file for each policy that is its own. Not modelled: `kv_aware`, prefill and decode apart, programs, evictions.

pub(crate) mod cache_aware;
pub(crate) mod consistent_hash;
mod murmur;
pub(crate) mod sticky_least_loaded;
