//! Sweeps: which points there are, and results that do not depend on how they were come by.

#![cfg_attr(
    feature = "cli",
    expect(clippy::unwrap_used, reason = "helpers of tests fail with their test")
)]

mod designs;
#[cfg(all(feature = "cli", unix))]
mod machines;
#[cfg(feature = "cli")]
mod points;
#[cfg(feature = "cli")]
mod refused;
#[cfg(feature = "cli")]
mod resume;
#[cfg(feature = "cli")]
mod shards;
