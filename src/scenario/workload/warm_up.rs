//! What a cluster serves before the requests that count.

use serde::{Deserialize, Serialize};

/// What the same servers are sent before the requests that count: a benchmark that is repeated finds the
/// prompts of its earlier runs in prefix caches. Each run begins when all requests of the one before are answered.
///
/// Requests come again as they are: prompts are made of the same tokens, as of a client that draws from one
/// seed, and answers too, as of servers that take the likeliest token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct WarmUpConfig {
    /// How many times the whole workload is sent first, in the way of the run that counts.
    pub runs: u32,
    /// Copies of the first request that are sent together before each run, that which counts too
    /// (`--warmup-requests` of `sglang.bench_serving`, `--num-warmups` of `vllm bench serve`, which sends one
    /// of its own to test the server). Answers are as long as the first one, those of `sglang.bench_serving`
    /// 32 tokens at most; of copies only the prompt is the same.
    pub requests: u32,
}

impl WarmUpConfig {
    /// Whether anything is sent first.
    pub fn is_any(self) -> bool {
        self.runs > 0 || self.requests > 0
    }
}
