//! A batch of events as bytes: `MessagePack`, a list of time, events and rank, each event a map with its type.

use serde::Serialize;

/// Where events are of.
const MEDIUM: &str = "GPU";

/// Seconds since 1970, what happened, and the rank of the engine.
#[derive(Debug, Serialize)]
pub(super) struct Batch<'a>(pub(super) f64, pub(super) &'a [Event<'a>], pub(super) u32);

#[derive(Debug, Serialize)]
#[serde(tag = "type")]
pub(super) enum Event<'a> {
    BlockStored {
        block_hashes: Vec<u64>,
        parent_block_hash: Option<u64>,
        token_ids: Vec<u32>,
        block_size: u32,
        lora_id: Option<u32>,
        medium: &'static str,
        lora_name: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        extra_keys: Option<Vec<Vec<&'a str>>>,
        #[serde(flatten)]
        group: Option<Group>,
    },
    BlockRemoved {
        block_hashes: Vec<u64>,
        medium: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        group_idx: Option<u32>,
    },
    AllBlocksCleared {},
}

/// What vLLM says of the layers whose blocks they are.
#[derive(Debug, Clone, Copy, Serialize)]
pub(in crate::serve) struct Group {
    pub(super) group_idx: u32,
    pub(super) kv_cache_spec_kind: &'static str,
}

impl Group {
    /// The only group of a model, whose caches are latent or not.
    pub(in crate::serve) const fn of(is_latent: bool) -> Self {
        let kv_cache_spec_kind = if is_latent { "mla_attention" } else { "full_attention" };
        Self { group_idx: 0, kv_cache_spec_kind }
    }
}

impl Event<'_> {
    pub(super) fn removed(block_hashes: Vec<u64>, group: Option<Group>) -> Self {
        let group_idx = group.map(|group| group.group_idx);
        Self::BlockRemoved { block_hashes, medium: MEDIUM, group_idx }
    }
}

/// Blocks of a prompt or an answer.
#[derive(Debug)]
pub(super) struct Blocks<'a> {
    pub(super) names: Vec<u64>,
    pub(super) parent: Option<u64>,
    pub(super) tokens: Vec<u32>,
    pub(super) block_size: u32,
    /// The adapter, by its number from 1 on and its name.
    pub(super) adapter: Option<(u32, &'a str)>,
    pub(super) group: Option<Group>,
}

impl<'a> From<Blocks<'a>> for Event<'a> {
    fn from(blocks: Blocks<'a>) -> Self {
        let name = blocks.adapter.map(|(_, name)| name);
        // vLLM says what else a name was made of; SGLang does not.
        let keys = name.filter(|_| blocks.group.is_some());
        Self::BlockStored {
            extra_keys: keys.map(|name| vec![vec![name]; blocks.names.len()]),
            block_hashes: blocks.names,
            parent_block_hash: blocks.parent,
            token_ids: blocks.tokens,
            block_size: blocks.block_size,
            lora_id: blocks.adapter.map(|(id, _)| id),
            medium: MEDIUM,
            lora_name: name,
            group: blocks.group,
        }
    }
}

impl Batch<'_> {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
        // The batch is a list though its events are maps.
        let batch = (self.0, self.1, self.2);
        batch.serialize(&mut writer).expect("numbers and texts can be written");
        bytes
    }
}
