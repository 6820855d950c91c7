//! The processes of the server of a record, as far as it tells of them.

use super::flags::Settings;
use super::record::Record;
use crate::model::EngineVersion;
use crate::scenario::{
    ClusterConfig, Endpoint, EngineConfig, ServerHost, ServerHostConfig, ServerHostProfile,
};

/// Those of the engine; none where their times are in what was fitted of such servers, where the client has the
/// engine in its own process, or where no such server was measured.
pub(super) fn of(
    record: &Record,
    settings: &Settings,
    cluster: &ClusterConfig,
) -> Option<ServerHost> {
    let client = record.workload_text("client").to_lowercase();
    let is_measured = ServerHostProfile::of(&cluster.engine).is_some();
    if !is_measured || cluster.api_delay_ms > 0.0 || client.contains("in-process") {
        return None;
    }
    let default = ServerHostConfig::default();
    let is_chat = client.contains("chat");
    let is_random = record.workload_text("dataset") == "random" && !client.contains("sglang.bench");
    Some(ServerHost::Measured(ServerHostConfig {
        endpoint: if is_chat { Endpoint::Chat } else { default.endpoint },
        chat_lookup_ms: if is_chat { chat_lookup_ms(record, cluster) } else { 0.0 },
        bytes_per_token: if is_random {
            ServerHostConfig::RANDOM_BYTES_PER_TOKEN
        } else {
            default.bytes_per_token
        },
        stream_interval: settings.stream_interval.unwrap_or(1).max(1),
        ..default
    }))
}

/// vLLM looked for a processor of the model for each request to a chat, and did not keep that there is none
/// (pull request 25341). Eight bursts of 1,000 chats to 0.9 and 0.11.0 (`gpustack`) begin to be answered after 5 to
/// 17 s, half of them after 12; of gpt-oss, whose chats have a renderer of their own, after 1.5.
const CHAT_LOOKUP_MS: f64 = 12.0;
/// The first vLLM that does not.
const WITHOUT_LOOKUP: EngineVersion = EngineVersion::patched(0, 11, 1);

fn chat_lookup_ms(record: &Record, cluster: &ClusterConfig) -> f64 {
    let version = super::version::of(record);
    let looks = matches!(cluster.engine, EngineConfig::VllmV1(_))
        && version.is_some_and(|version| version < WITHOUT_LOOKUP)
        && !cluster.model.contains("gpt-oss");
    if looks { CHAT_LOOKUP_MS } else { 0.0 }
}
