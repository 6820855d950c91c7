//! The processes of a server around its scheduler.

use super::ScenarioError;
use super::fail;
use super::rules::Rules;
use crate::model::ModelSpec;
use crate::profiles;
use crate::scenario::{
    ClusterConfig, Endpoint, EngineConfig, HostConfig, ServerHost, ServerHostProfile,
    StepTimeConfig,
};

/// Processes that talk HTTP at most.
const API_SERVERS_MAX: u32 = 1024;

pub(super) fn rules(cluster: &ClusterConfig, rules: &mut Rules) {
    let Some(host) = cluster.host.as_ref().and_then(ServerHost::processes) else { return };
    rules.factor("cluster.host.cpu", host.cpu);
    rules.factor("cluster.host.tokenizer", host.tokenizer);
    rules.factor("cluster.host.wakes", host.wakes);
    rules.factor("cluster.host.launches", host.launches);
    let lookup = host.chat_lookup_ms;
    rules.check(
        (0.0..=1e4).contains(&lookup),
        "cluster.host.chat_lookup_ms",
        "from 0 to 10000",
        lookup,
    );
    if lookup > 0.0 && host.endpoint != Endpoint::Chat {
        rules.broken("cluster.host.chat_lookup_ms", "is of chats: set `endpoint = \"chat\"` too");
    }
    let bytes = host.bytes_per_token;
    rules.check(
        (0.0..=1e3).contains(&bytes),
        "cluster.host.bytes_per_token",
        "from 0 to 1000",
        bytes,
    );
    let count = host.api_servers;
    let holds = (1..=API_SERVERS_MAX).contains(&count);
    rules.check(holds, "cluster.host.api_servers", "from 1 to 1024", count);
    rules.count("cluster.host.stream_interval", host.stream_interval);
    if cluster.api_per_request_ms > 0.0 {
        rules.broken(
            "cluster.api_per_request_ms",
            "is what `cluster.host` simulates: only one of the two can be given",
        );
    }
    if host.api_servers > 1 && matches!(cluster.engine, EngineConfig::Sglang(_)) {
        rules.broken(
            "cluster.host.api_servers",
            "must be 1 with sglang: several tokenizer workers are not modelled",
        );
    }
}

/// Fills in whose processes they are. The scheduler's takes what it takes in the profile, unless the engine's
/// own settings say otherwise.
pub(super) fn resolve(cluster: &mut ClusterConfig, model: &ModelSpec) -> Result<(), ScenarioError> {
    let Some(ServerHost::Measured(host)) = &mut cluster.host else { return Ok(()) };
    let Some(engine) = ServerHostProfile::of(&cluster.engine) else {
        let name = cluster.engine.name();
        let problem = format!("was measured of vllm_v1, vllm_v0 and sglang, not of {name}");
        return Err(fail("cluster.host", &problem));
    };
    let given = *host.profile.get_or_insert(engine);
    if engine != given {
        let (engine, given) = (engine.name(), given.name());
        let problem = format!("must be {engine}, which is the engine, got {given}");
        return Err(fail("cluster.host.profile", &problem));
    }
    let host = *host;
    // Times of whole steps have their launches; kernels that are summed up have none.
    let sums_kernels = matches!(
        cluster.step_time,
        StepTimeConfig::Auto { .. }
            | StepTimeConfig::OperatorTable { .. }
            | StepTimeConfig::Roofline { .. }
    );
    // V0 hands over beside the device only if it captures graphs (vLLM 0.7.3, `is_async_output_supported`).
    let is_eager_v0 = matches!(&cluster.engine, EngineConfig::VllmV0(v0) if v0.enforce_eager);
    let times = cluster.engine.host_mut();
    if *times == HostConfig::default()
        && let Some(profile) = profiles::host(engine.name())
    {
        *times = profile.engine_core.on_cpu(host.cpu);
        if is_eager_v0 {
            times.post_process_us += std::mem::take(&mut times.hand_over_us);
            times.post_process_per_sequence_us +=
                std::mem::take(&mut times.hand_over_per_sequence_us);
        }
        if sums_kernels {
            let scale = host.cpu * host.launches;
            times.eager_launch_us = profile.launches.of(model) * scale;
            times.pieces_launch_us = profile.launches.between_pieces(model) * scale;
        }
    }
    Ok(())
}
