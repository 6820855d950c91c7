//! KV-cache events as engines publish them, for routers that listen to them.
//!
//! The publisher of vLLM 0.33.0 (`vllm/distributed/kv_events.py`, `vllm/config/kv_events.py`), which SGLang 0.5.23
//! speaks too (`python/sglang/srt/disaggregation/kv_events.py`); both Apache-2.0: batches over `ZeroMQ`, numbered,
//! and a socket that sends those again that somebody missed. Each replica has its ports.
//!
//! * `config.rs`: how it is told to
//! * `batch.rs`: a batch as bytes
//! * `publisher.rs`: the sockets of a replica
//! * `telling.rs`: what the driver does for it

mod batch;
mod config;
mod publisher;
mod telling;

pub(super) use batch::Group;
pub use config::{KvEvents, KvEventsError};
pub(super) use publisher::{Publisher, bind};
pub(super) use telling::{Telling, Told};
