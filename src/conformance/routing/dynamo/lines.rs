//! The lines of recordings of the selection service.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::scenario::DynamoPolicy;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingsLine {
    #[serde(rename = "k")]
    pub(super) _kind: String,
    #[serde(rename = "name")]
    pub(super) _name: String,
    #[serde(rename = "seed")]
    pub(super) _seed: Option<u64>,
    #[serde(rename = "source")]
    pub(super) _source: String,
    pub(super) version: String,
    pub(super) block_size: u32,
    pub(super) env: Map<String, Value>,
    pub(super) policy: Option<DynamoPolicy>,
    #[serde(default)]
    pub(super) worker_selection: Option<Value>,
    #[serde(default)]
    pub(super) session_affinity_ttl_secs: Option<f64>,
    pub(super) indexer_threads: u32,
    #[serde(rename = "note")]
    pub(super) _note: Option<String>,
}

/// A prompt: streams, and how many blocks of each follow.
pub(super) type Path = Vec<(u64, u32)>;

#[derive(Deserialize)]
#[expect(clippy::large_enum_variant, reason = "lines live as long as they are read")]
#[serde(tag = "k", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    Worker {
        op: Op,
        id: u32,
        #[serde(default)]
        dp: Option<u32>,
        #[serde(default)]
        max_num_batched_tokens: Option<u64>,
        #[serde(rename = "total_kv_blocks", default)]
        _total_kv_blocks: Option<u64>,
        #[serde(default)]
        taints: Vec<String>,
    },
    Arrive {
        id: String,
        t: f64,
        p: Path,
        isl: u32,
        #[serde(default)]
        opts: OptionsLine,
        overlap: BTreeMap<String, OverlapLine>,
        potential: BTreeMap<String, (u64, u64, u32)>,
    },
    Decision {
        id: String,
        t: f64,
        w: u32,
        r: u32,
        cost: f64,
    },
    Admitted {
        id: String,
        w: u32,
        r: u32,
        prefill_tokens: u64,
        potential_decode_blocks: u64,
    },
    Rejected {
        id: String,
        error: String,
    },
    PrefillDone {
        id: String,
        t: f64,
    },
    OutputBlock {
        id: String,
        #[serde(default)]
        decay: Option<f64>,
    },
    Free {
        id: String,
        t: f64,
    },
    Kv {
        ev: Event,
        w: (u32, u32),
        #[serde(default)]
        p: Path,
        #[serde(default)]
        idx: Vec<(u32, u32)>,
        #[serde(default)]
        tier: Option<String>,
    },
    Sleep {
        #[serde(rename = "s")]
        _s: f64,
        t: f64,
    },
    End {
        #[serde(rename = "t")]
        _t: f64,
        unfinished: usize,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Op {
    Add,
    Remove,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    Stored,
    Removed,
    Cleared,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OverlapLine {
    Device(u32),
    Tiers(u32, u32, u32),
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OptionsLine {
    pub(super) r#override: Override,
    pub(super) allowed_worker_ids: Option<Vec<u32>>,
    pub(super) routing_constraints: Constraints,
    pub(super) pinned_worker: Option<Pin>,
    pub(super) strict_priority: Option<u32>,
    pub(super) priority_jump: Option<f64>,
    pub(super) session_id: Option<String>,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Override {
    pub(super) assume_kv_reuse: Option<bool>,
    pub(super) track_prefill_tokens: Option<bool>,
    /// Accepted by the real router, and not looked at.
    #[serde(rename = "overlap_score_credit")]
    pub(super) _overlap_score_credit: Option<f64>,
    #[serde(rename = "prefill_load_scale")]
    pub(super) _prefill_load_scale: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Constraints {
    pub(super) required_taints: Vec<String>,
    pub(super) preferred_taints: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    pub(super) worker_id: u32,
    pub(super) dp_rank: u32,
}
