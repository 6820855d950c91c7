//! Offloading to host memory, as vLLM's recordings tell it.

use serde::Deserialize;
use serde_json::Value;

use super::recording::{Recording, RecordingError};
use super::vllm::read;
use crate::engine::scheduler::OffloadSettings;
use crate::units::SimDuration;

/// The names of its settings.
pub(super) const OFFLOAD_KEYS: [&str; 4] =
    ["offload_blocks", "offload_extra", "xfer_base_us", "xfer_us_per_block"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    offload_blocks: Option<u32>,
    #[serde(default)]
    offload_extra: Option<Extra>,
    #[serde(default)]
    xfer_base_us: u64,
    #[serde(default)]
    xfer_us_per_block: u64,
}

/// What vLLM calls `kv_connector_extra_config`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Extra {
    #[serde(default)]
    offload_prompt_only: Option<bool>,
    #[serde(default)]
    store_threshold: u32,
}

/// Transfers of a year.
const TRANSFER_US_MAX: u64 = 1 << 45;

/// What a recorded engine offloads, if it does.
pub(super) fn offload(
    recording: &Recording,
    settings: Value,
) -> Result<Option<OffloadSettings>, RecordingError> {
    let settings: Settings = read(recording, settings)?;
    let times = [settings.xfer_base_us, settings.xfer_us_per_block];
    if times.into_iter().any(|us| us > TRANSFER_US_MAX) {
        let rule = format!("must be at most {TRANSFER_US_MAX}, got {times:?}");
        let message = format!("vLLM settings: xfer_base_us, xfer_us_per_block: {rule}");
        return Err(recording.not_modelled(message));
    }
    let extra = settings.offload_extra.unwrap_or_default();
    Ok(settings.offload_blocks.map(|host_blocks| OffloadSettings {
        host_blocks,
        prompt_only: extra.offload_prompt_only.unwrap_or(true),
        store_threshold: extra.store_threshold,
        base: SimDuration::from_micros(settings.xfer_base_us),
        per_block: SimDuration::from_micros(settings.xfer_us_per_block),
    }))
}
