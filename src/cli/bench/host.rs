//! The processes of the server that a benchmark tool talks to.

use super::args::WorkloadArguments;
use super::tool::Backend;
use crate::load::Override;
use crate::metrics::bench::Tool;
use crate::scenario::{Endpoint, ServerHost, ServerHostConfig};

/// Its processes, unless `--set` says what they take, or what the way to the scheduler does.
pub(super) fn of(
    workload: &WorkloadArguments,
    tool: Tool,
    overrides: &[Override],
) -> Option<ServerHost> {
    let says_itself = |given: &Override| {
        let path = given.path.as_str();
        path == "cluster.host"
            || ["cluster.api_", "cluster.engine.host"].iter().any(|part| path.starts_with(part))
    };
    if overrides.iter().any(says_itself) {
        return None;
    }
    let endpoint = match workload.backend_of(tool) {
        Backend::SglangOaiChat | Backend::VllmChat | Backend::OpenaiChat => Endpoint::Chat,
        _ => Endpoint::Completions,
    };
    let default = ServerHostConfig::default();
    let is_random = tool == Tool::Vllm && workload.dataset(tool) == "random";
    let bytes_per_token =
        if is_random { ServerHostConfig::RANDOM_BYTES_PER_TOKEN } else { default.bytes_per_token };
    Some(ServerHost::Measured(ServerHostConfig { endpoint, bytes_per_token, ..default }))
}
