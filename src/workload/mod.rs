//! Workloads: arrivals × lengths × content → a sorted stream of requests.
//!
//! [`Workload`] is the front; [`Client`] stands between it and the system. The draws of the
//! benchmark tools, bit for bit, are in [`Tools`] and [`numpy`].

mod adapter_counts;
mod adapters;
mod arrivals;
mod classes;
mod client;
mod content;
mod draft;
mod early_stop;
mod lengths;
pub mod numpy;
mod replay;
mod rows;
mod session;
mod source;
mod stretch;
mod tools;
mod trace;

pub use adapter_counts::AdapterCounts;
pub use arrivals::{VllmRate, vllm_arrivals_s};
pub use client::{Client, Offer};
pub use rows::TraceRows;
pub use source::{Notice, Workload};
pub use stretch::{STRETCH_BLOCKS, STRETCH_DRAWS_MAX, resample, resampled_rows};
pub use tools::Tools;
pub use trace::{TraceRow, WorkloadError};
