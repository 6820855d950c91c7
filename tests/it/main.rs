//! The one integration binary: laws, conformance, goldens and the command line.

#![allow(clippy::print_stdout, reason = "tests say what they skip and what they compared")]

mod architecture;
mod baselines;
mod bench_report;
mod breakdown;
#[cfg(feature = "cli")]
mod cli;
mod conformance;
mod docs;
mod fast_forward;
mod laws;
mod layer_table;
mod models;
mod support;
mod timeline;
mod traces;
mod workload;
