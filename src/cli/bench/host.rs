//! The processes of the server that a benchmark tool talks to.

use super::args::WorkloadArguments;
use super::tool::Backend;
use crate::load::Override;
use crate::metrics::bench::Tool;
use crate::scenario::{Endpoint, ServerHost, ServerHostConfig};

/// Bytes of a token of the prompts that vLLM's tool makes of random token ids, as measured; the other prompts are
/// text.
const RANDOM_BYTES: f64 = 7.7;

/// Settings that say themselves what the way to the scheduler takes.
const SAID_BY: [&str; 3] = ["cluster.api_", "cluster.engine.host", "cluster.host"];

/// Its processes, unless `--set` says what they take.
pub(super) fn of(
    workload: &WorkloadArguments,
    tool: Tool,
    overrides: &[Override],
) -> Option<ServerHost> {
    let is_said = |given: &Override| SAID_BY.iter().any(|path| given.path.starts_with(path));
    let is_set_apart =
        |given: &Override| is_said(given) && !given.path.starts_with("cluster.host.");
    if overrides.iter().any(is_set_apart) {
        return None;
    }
    let endpoint = match workload.backend_of(tool) {
        Backend::SglangOaiChat | Backend::VllmChat | Backend::OpenaiChat => Endpoint::Chat,
        _ => Endpoint::Completions,
    };
    let default = ServerHostConfig::default();
    let is_random = tool == Tool::Vllm && workload.dataset(tool) == "random";
    let bytes_per_token = if is_random { RANDOM_BYTES } else { default.bytes_per_token };
    Some(ServerHost::Measured(ServerHostConfig { endpoint, bytes_per_token, ..default }))
}
