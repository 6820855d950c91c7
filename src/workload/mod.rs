//! Workloads: arrivals × lengths × content → a sorted stream of requests.

mod client;
mod trace;

pub use client::{Client, Offer};
pub use trace::{TraceRow, WorkloadError};
