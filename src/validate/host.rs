//! The processes of the server of a record, as far as it tells of them.

use super::flags::Settings;
use super::record::Record;
use crate::scenario::{ClusterConfig, Endpoint, EngineConfig, ServerHost, ServerHostConfig};

/// Those of the engine; none where their times are in what was fitted of such servers, where the client has the
/// engine in its own process, or where no such server was measured.
pub(super) fn of(
    record: &Record,
    settings: &Settings,
    cluster: &ClusterConfig,
) -> Option<ServerHost> {
    let client = record.workload_text("client").to_lowercase();
    let is_measured = matches!(cluster.engine, EngineConfig::VllmV1(_) | EngineConfig::Sglang(_));
    if !is_measured || cluster.api_delay_ms > 0.0 || client.contains("in-process") {
        return None;
    }
    let default = ServerHostConfig::default();
    let is_random = record.workload_text("dataset") == "random" && !client.contains("sglang.bench");
    Some(ServerHost::Measured(ServerHostConfig {
        endpoint: if client.contains("chat") { Endpoint::Chat } else { default.endpoint },
        bytes_per_token: if is_random {
            ServerHostConfig::RANDOM_BYTES_PER_TOKEN
        } else {
            default.bytes_per_token
        },
        stream_interval: settings.stream_interval.unwrap_or(1).max(1),
        ..default
    }))
}
