//! Workloads: arrivals × lengths × content → a sorted stream of requests.

pub mod numpy;
mod trace;

pub use trace::{TraceRow, WorkloadError};
