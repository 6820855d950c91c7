//! Groups of layers with KV memory of their own, as vLLM's recordings tell them.

use serde::Deserialize;
use serde_json::Value;

use super::recording::{Recording, RecordingError};
use crate::model::{GroupKind, GroupSpec, Groups};

/// vLLM's settings of hybrid KV memory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HybridSettings {
    #[serde(default)]
    hybrid_kv_cache_manager: Option<bool>,
    #[serde(default)]
    mamba_cache_mode: Option<CacheMode>,
    #[serde(default)]
    prefix_match_unit: Option<u32>,
    #[serde(default)]
    checkpoint_blocks: u32,
    #[serde(default)]
    checkpoint_alignment: Option<u32>,
    /// Name and shape, of which the groups are made.
    #[serde(rename = "model", default)]
    _model: Option<Value>,
}

impl HybridSettings {
    /// Their names.
    pub(super) const KEYS: [&str; 6] = [
        "hybrid_kv_cache_manager",
        "mamba_cache_mode",
        "prefix_match_unit",
        "checkpoint_blocks",
        "checkpoint_alignment",
        "model",
    ];
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum CacheMode {
    None,
    Align,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum GroupLine {
    Full {
        block_size: u32,
        layers: u32,
        page_bytes: u64,
    },
    Sliding {
        block_size: u32,
        layers: u32,
        page_bytes: u64,
        window: u32,
    },
    Chunked {
        block_size: u32,
        layers: u32,
        page_bytes: u64,
        chunk: u32,
    },
    Mamba {
        block_size: u32,
        layers: u32,
        page_bytes: u64,
        #[serde(rename = "state_bytes")]
        _state_bytes: u64,
        mode: CacheMode,
    },
}

impl GroupLine {
    fn spec(self) -> GroupSpec {
        let (kind, block_size, layers, page_bytes) = match self {
            Self::Full { block_size, layers, page_bytes } => {
                (GroupKind::Full, block_size, layers, page_bytes)
            }
            Self::Sliding { block_size, layers, page_bytes, window } => {
                (GroupKind::Sliding { window }, block_size, layers, page_bytes)
            }
            Self::Chunked { block_size, layers, page_bytes, chunk } => {
                (GroupKind::Chunked { chunk }, block_size, layers, page_bytes)
            }
            Self::Mamba { block_size, layers, page_bytes, mode, .. } => {
                let kind = match mode {
                    CacheMode::None => GroupKind::State,
                    CacheMode::Align => GroupKind::AlignedState,
                };
                (kind, block_size, layers, page_bytes)
            }
        };
        GroupSpec { kind, block_size, layers, page_bytes }
    }

    fn has_tokens(&self) -> bool {
        match *self {
            Self::Full { block_size, .. } | Self::Mamba { block_size, .. } => block_size > 0,
            Self::Sliding { block_size, window, .. } => block_size > 0 && window > 0,
            Self::Chunked { block_size, chunk, .. } => block_size > 0 && chunk > 0,
        }
    }

    fn mode(&self) -> Option<CacheMode> {
        if let Self::Mamba { mode, .. } = self { Some(*mode) } else { None }
    }
}

/// The groups of a recording, if it tells them. `interval` is what of windows and states is kept besides
/// what prompts need.
pub(super) fn groups(
    recording: &Recording,
    settings: &HybridSettings,
    (caches, interval): (bool, Option<u32>),
) -> Result<Option<Groups>, RecordingError> {
    let fail = |problem: String| Err(recording.not_modelled(format!("vLLM groups: {problem}")));
    let Some(told) = &recording.groups else {
        let has_states = settings.mamba_cache_mode == Some(CacheMode::Align)
            || settings.checkpoint_blocks > 0
            || settings.checkpoint_alignment.is_some();
        if has_states || settings.prefix_match_unit.is_some() {
            let keys = "mamba_cache_mode, checkpoint_blocks, prefix_match_unit";
            return fail(format!("{keys}: without groups there are no states"));
        }
        return Ok(None);
    };
    let lines: Vec<GroupLine> = serde_json::from_value(told.clone())
        .map_err(|error| recording.not_modelled(format!("vLLM groups: {error}")))?;
    if lines.is_empty() || !lines.iter().all(GroupLine::has_tokens) {
        return fail(
            "there is one at least, and blocks, windows and chunks have tokens".to_owned(),
        );
    }
    let given = settings.mamba_cache_mode.unwrap_or(CacheMode::None);
    if lines.iter().filter_map(GroupLine::mode).any(|mode| mode != given) {
        return fail("mode: must be mamba_cache_mode in every group".to_owned());
    }
    if caches && lines.iter().any(|line| line.mode() == Some(CacheMode::None)) {
        return fail("mode: states are not found without `align`".to_owned());
    }
    if lines.len() > 1 && settings.hybrid_kv_cache_manager == Some(false) {
        return fail("hybrid_kv_cache_manager: without it there is one group".to_owned());
    }
    let groups = Groups::new(lines.into_iter().map(GroupLine::spec).collect(), interval);
    let is_given = settings.checkpoint_blocks > 0 || settings.checkpoint_alignment.is_some();
    let is_modelled = settings.checkpoint_blocks == 1
        && groups.aligned_to().is_some()
        && settings.checkpoint_alignment == groups.aligned_to();
    if is_given && !is_modelled {
        let rule = "one state at the last boundary of aligned blocks is modelled";
        return fail(format!("checkpoint_blocks, checkpoint_alignment: {rule}"));
    }
    let groups = if is_given { groups.with_checkpoints() } else { groups };
    let expected = (Some(groups.scheduler_block()), Some(groups.hash_block()));
    if settings.prefix_match_unit.is_some_and(|unit| unit != groups.hash_block()) {
        return fail("prefix_match_unit: hits that end inside a block are not modelled".to_owned());
    }
    if recording.group_blocks != expected {
        let (told, blocks) = (recording.group_blocks, expected);
        return fail(format!("sched_block, hash_block: {told:?} where {blocks:?} follow"));
    }
    Ok(Some(groups))
}
