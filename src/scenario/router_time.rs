//! What the process of a router takes for each request.

use serde::{Deserialize, Serialize};

/// The time of the process in which a router runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RouterTimeConfig {
    /// Microseconds that it takes for each attempt of a request before it decides.
    pub per_request_us: f64,
    /// Threads that do so, each of them for one request after the other.
    #[serde(default = "one")]
    pub threads: u32,
}

impl RouterTimeConfig {
    /// Threads at most.
    pub const THREADS_MAX: u32 = 1024;
}

const fn one() -> u32 {
    1
}
