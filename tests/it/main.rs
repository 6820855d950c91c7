//! The one integration binary: laws, conformance, goldens and the command line.

#![allow(clippy::print_stdout, reason = "tests say what they skip and what they compared")]

mod architecture;
mod baselines;
mod bench_report;
#[cfg(feature = "cli")]
mod cli;
mod conformance;
mod docs;
mod fast_forward;
mod laws;
mod models;
mod support;
mod traces;
mod workload;
