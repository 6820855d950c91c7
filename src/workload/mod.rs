//! Workloads: arrivals × lengths × content → a sorted stream of requests.

mod trace;

pub use trace::{TraceRow, WorkloadError};
