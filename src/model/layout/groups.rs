//! Groups of layers whose blocks come from one pool (vLLM 0.33.0, `v1/core/kv_cache_planning.py`).
//!
//! A block of any group costs what one of the widest group does. Caches that keep all tokens form one group whatever
//! their pages are; others are dealt out to groups of as many layers as the smallest kind has.

use super::Machine;
use super::specs::{CacheKind, LayerCache};
use crate::model::checkpoint::{Checkpoint, Mixer};
use crate::model::groups::{GroupKind, GroupSpec, Groups};
use crate::units::Bytes;

/// Caches that are allocated together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheGroup {
    /// Their kind.
    pub kind: CacheKind,
    /// How many.
    pub layers: u32,
    /// Tokens of a block.
    pub block_size: u32,
    /// Bytes of a block in one layer; nothing where they differ.
    pub page_bytes: Option<u64>,
    /// Bytes of a block over all of them.
    pub block_bytes: u64,
    /// Bytes of a block over all of them that are used; the rest is padding.
    pub used_bytes: u64,
    /// Whether their pages may differ (`UniformTypeKVCacheSpecs`).
    pub is_mixed: bool,
}

impl CacheGroup {
    /// The name of vLLM's class.
    pub const fn name(&self) -> &'static str {
        if self.is_mixed { "UniformTypeKVCacheSpecs" } else { self.kind.name() }
    }
}

/// The caches of a model in vLLM.
#[derive(Debug, Clone, PartialEq)]
pub struct VllmLayout {
    /// Tokens of a block of the layers that keep all tokens.
    pub block_size: u32,
    /// The groups.
    pub groups: Vec<CacheGroup>,
    /// Bytes of any block in the pool: those of the widest group.
    pub bytes_per_block: u64,
    /// Bytes of the states of one sequence, without padding.
    pub state_bytes_per_seq: u64,
    /// The longest context.
    pub max_model_len: u32,
    /// Tokens that all steps in flight may compute.
    step_tokens: u32,
    /// Tokens that windows keep longer, for modules that draft further ahead.
    retained: u32,
    draft_tokens: u32,
}

/// Blocks of states of a request in each group: two for states of its prefix, one within a prefill. Each drafted token
/// has one more.
const STATE_BLOCKS: u64 = 3;
/// Steps in flight with asynchronous scheduling.
const IN_FLIGHT: u32 = 2;

impl VllmLayout {
    /// Of a checkpoint on a machine, with the budget of tokens that the server takes by default.
    pub fn of(model: &Checkpoint, machine: Machine) -> Self {
        let caches = model.caches(machine);
        let is_v4 =
            model.layers.iter().any(|layer| matches!(layer.mixer, Some(Mixer::Compressed(_))));
        let groups = if is_v4 { compressed(&caches) } else { dealt(&caches) };
        let bytes_per_block = groups.iter().map(|group| group.block_bytes).max().unwrap_or(0);
        let block_size =
            caches.iter().flatten().map(|cache| cache.block_size).filter(|_| !is_v4).max();
        // vLLM 0.33.0, `engine/arg_utils.py`: by the memory of the GPU.
        let budget = if machine.is_blackwell() { 16_384 } else { 8192 };
        Self {
            block_size: block_size.unwrap_or_else(|| model.kernel_block(machine)),
            groups,
            bytes_per_block,
            state_bytes_per_seq: model.state_bytes(machine.tp, machine.draft_tokens),
            max_model_len: model.max_position,
            step_tokens: IN_FLIGHT * budget,
            retained: retained(model, machine.draft_tokens),
            draft_tokens: machine.draft_tokens,
        }
    }

    /// Bytes that each token of a long context takes in the groups that keep all tokens.
    pub fn kv_bytes_per_token(&self) -> f64 {
        let groups = self.groups.iter().filter(|group| group.kind.keeps_all());
        groups.map(|group| group.block_bytes as f64 / f64::from(group.block_size)).sum()
    }

    /// Blocks in so much memory.
    pub fn blocks(&self, memory: Bytes) -> u64 {
        memory.0 / self.bytes_per_block.max(1)
    }

    /// Blocks that the engine counts for a request of so many tokens.
    pub fn blocks_of_request(&self, tokens: u32) -> u64 {
        let of = |group: &CacheGroup| {
            let block = group.block_size;
            match group.kind {
                CacheKind::Full | CacheKind::Latent => u64::from(tokens.div_ceil(block)),
                CacheKind::Sliding(window) | CacheKind::SlidingLatent(window) => {
                    let kept = (window - 1).saturating_add(self.retained);
                    let kept = kept.saturating_add(self.step_tokens).min(tokens);
                    u64::from(kept.div_ceil(block)) + 1
                }
                CacheKind::Chunked(chunk) => {
                    u64::from(chunk.saturating_add(self.step_tokens).min(tokens).div_ceil(block))
                }
                CacheKind::State => STATE_BLOCKS + u64::from(self.draft_tokens),
            }
        };
        self.groups.iter().map(of).sum()
    }

    /// The groups as the engine's scheduler keeps them, with states at ends of blocks (`mamba_cache_mode` `align`) and
    /// of windows and states what prompts need to go on (`prefix_cache_retention_interval` 0, the default).
    ///
    /// # Panics
    /// When the model has no caches.
    pub fn scheduled(&self) -> Groups {
        let spec = |group: &CacheGroup| GroupSpec {
            kind: match group.kind {
                CacheKind::Full | CacheKind::Latent => GroupKind::Full,
                CacheKind::Sliding(window) | CacheKind::SlidingLatent(window) => {
                    GroupKind::Sliding { window }
                }
                CacheKind::Chunked(chunk) => GroupKind::Chunked { chunk },
                CacheKind::State => GroupKind::AlignedState,
            },
            block_size: group.block_size,
            layers: group.layers,
            page_bytes: group.page_bytes.unwrap_or(group.block_bytes),
        };
        Groups::new(self.groups.iter().map(spec).collect(), Some(0))
    }

    /// Requests of the longest context that so much memory holds; nothing where the engine would not start, because
    /// one does not fit beside the block that it sets aside.
    pub fn max_concurrency(&self, memory: Bytes) -> Option<f64> {
        let (blocks, needed) = (self.blocks(memory), self.blocks_of_request(self.max_model_len));
        (needed < blocks).then(|| blocks as f64 / needed as f64)
    }

    /// Tokens that the engine says so much memory holds.
    pub fn kv_tokens(&self, memory: Bytes) -> Option<u64> {
        self.max_concurrency(memory).map(|times| (times * f64::from(self.max_model_len)) as u64)
    }
}

/// Tokens that windows keep where several modules draft: the last of them reads that much further ahead, so that a
/// prompt may be computed again from there (vLLM 0.33.0, `config/vllm.py`, `num_prefill_lookahead_tokens`).
fn retained(model: &Checkpoint, draft_tokens: u32) -> u32 {
    let modules = model.draft_modules().and_then(|drafts| drafts.nextn).unwrap_or(1);
    if modules.min(draft_tokens) > 1 { draft_tokens - 1 } else { 0 }
}

/// Layers of one kind and shape.
struct Bucket {
    cache: LayerCache,
    layers: u32,
}

fn dealt(caches: &[Vec<LayerCache>]) -> Vec<CacheGroup> {
    let all: Vec<LayerCache> = caches.iter().flatten().copied().collect();
    let mut buckets: Vec<Bucket> = Vec::new();
    for cache in &all {
        match buckets.iter_mut().find(|bucket| bucket.cache == *cache) {
            Some(bucket) => bucket.layers += 1,
            None => buckets.push(Bucket { cache: *cache, layers: 1 }),
        }
    }
    let keeps_all = all.iter().all(|cache| cache.kind.keeps_all());
    if keeps_all && buckets.len() > 1 {
        let bytes = all.iter().map(|cache| cache.page_bytes).sum();
        let used_bytes = all.iter().map(|cache| cache.used_bytes).sum();
        let first = buckets[0].cache;
        return vec![CacheGroup {
            kind: first.kind,
            layers: all.len() as u32,
            block_size: first.block_size,
            page_bytes: None,
            block_bytes: bytes,
            used_bytes,
            is_mixed: true,
        }];
    }
    // Pages are made equal by more tokens in blocks of small ones.
    let widest = buckets.iter().map(|bucket| bucket.cache.page_bytes).max().unwrap_or(0);
    for Bucket { cache, .. } in &mut buckets {
        if cache.page_bytes > 0 && widest.is_multiple_of(cache.page_bytes) {
            let times = u32::try_from(widest / cache.page_bytes).unwrap_or(u32::MAX);
            cache.block_size = cache.block_size.saturating_mul(times);
            cache.used_bytes = cache.used_bytes.saturating_mul(u64::from(times));
        }
        cache.page_bytes = widest;
    }
    let least = buckets.iter().map(|bucket| bucket.layers).min().unwrap_or(1);
    let most = buckets.iter().map(|bucket| bucket.layers).max().unwrap_or(1);
    // Two kinds of nearly equal size are padded to the larger one.
    let size = if 2 * u64::from(most) < 3 * u64::from(least) { most } else { least };
    let groups = buckets.iter().flat_map(|Bucket { cache, layers }| {
        let count = layers.div_ceil(size);
        (0..count).map(move |index| {
            let layers = layers / count + u32::from(index < layers % count);
            CacheGroup {
                kind: cache.kind,
                layers,
                block_size: cache.block_size,
                page_bytes: Some(cache.page_bytes),
                block_bytes: u64::from(layers) * cache.page_bytes,
                used_bytes: u64::from(layers) * cache.used_bytes,
                is_mixed: false,
            }
        })
    });
    groups.collect()
}

/// DeepSeek-V4: caches of one kind and block size form a group, those of windows several where one would be wider
/// than the group that keeps all tokens.
fn compressed(caches: &[Vec<LayerCache>]) -> Vec<CacheGroup> {
    let mut groups: Vec<CacheGroup> = Vec::new();
    let mut order: Vec<LayerCache> = caches.iter().flatten().copied().collect();
    // Windows, all tokens, and what is kept of entries that are being made, in order of appearance.
    order.sort_by_key(|cache| match (cache.kind.keeps_all(), cache.index) {
        (true, _) => 1,
        (false, 0) => 0,
        (false, _) => 2,
    });
    for cache in order {
        let same = |group: &&mut CacheGroup| {
            group.kind == cache.kind && group.block_size == cache.block_size
        };
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.layers += 1;
                group.block_bytes += cache.page_bytes;
                group.used_bytes += cache.used_bytes;
                group.page_bytes = group.page_bytes.filter(|page| *page == cache.page_bytes);
            }
            None => groups.push(CacheGroup {
                kind: cache.kind,
                layers: 1,
                block_size: cache.block_size,
                page_bytes: Some(cache.page_bytes),
                block_bytes: cache.page_bytes,
                used_bytes: cache.used_bytes,
                is_mixed: true,
            }),
        }
    }
    let width =
        groups.iter().filter(|group| group.kind.keeps_all()).map(|group| group.block_bytes).max();
    let width = width.unwrap_or(u64::MAX).max(1);
    let split = groups.into_iter().flat_map(|group| {
        let count = match group.page_bytes {
            Some(_) => u32::try_from(group.block_bytes.div_ceil(width)).unwrap_or(1),
            None => 1,
        };
        (0..count).map(move |index| {
            let layers = group.layers / count + u32::from(index < group.layers % count);
            let block_bytes =
                group.page_bytes.map_or(group.block_bytes, |page| u64::from(layers) * page);
            // Caches that are split are all of one size.
            let used_bytes = group.used_bytes / u64::from(group.layers) * u64::from(layers);
            let used_bytes = if count > 1 { used_bytes } else { group.used_bytes };
            CacheGroup { layers, block_bytes, used_bytes, ..group }
        })
    });
    split.collect()
}
