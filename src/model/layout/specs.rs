//! What each layer keeps, and in blocks of how many tokens (vLLM 0.33.0, `v1/kv_cache_interface.py`,
//! `platforms/interface.py`, `v1/attention/backends`).

use super::Machine;
use crate::model::checkpoint::{
    Checkpoint, Compressed, GroupedAttention, LatentAttention, Mixer, Reach,
};
use crate::model::precision::KvDtype;

/// The kind of a cache, by the names of vLLM's classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// Keys and values of all tokens.
    Full,
    /// Keys and values of the latest tokens.
    Sliding(u32),
    /// Keys and values of the tokens since the last multiple of so many.
    Chunked(u32),
    /// Latent vectors of all tokens, or keys of an indexer.
    Latent,
    /// Latent vectors of the latest tokens.
    SlidingLatent(u32),
    /// A state of constant size.
    State,
}

impl CacheKind {
    /// The name of vLLM's class.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "FullAttentionSpec",
            Self::Sliding(_) => "SlidingWindowSpec",
            Self::Chunked(_) => "ChunkedLocalAttentionSpec",
            Self::Latent => "MLAAttentionSpec",
            Self::SlidingLatent(_) => "SlidingWindowMLASpec",
            Self::State => "MambaSpec",
        }
    }

    /// Tokens of the window, if it has one.
    pub const fn window(self) -> Option<u32> {
        match self {
            Self::Sliding(tokens) | Self::Chunked(tokens) | Self::SlidingLatent(tokens) => {
                Some(tokens)
            }
            Self::Full | Self::Latent | Self::State => None,
        }
    }

    /// Whether all tokens are kept.
    pub const fn keeps_all(self) -> bool {
        matches!(self, Self::Full | Self::Latent)
    }
}

/// What one layer keeps in one of its caches, on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerCache {
    /// Its kind.
    pub kind: CacheKind,
    /// Tokens of a block.
    pub block_size: u32,
    /// Bytes of a block.
    pub page_bytes: u64,
    /// Bytes of a block that are used; the rest is padding.
    pub used_bytes: u64,
    /// Which of several caches of a layer it is: those of one kind are told apart by it.
    pub index: u32,
}

/// Tokens to a multiple of which blocks with states are rounded up, by what needs them: `FlashInfer`'s kernels for
/// gated delta nets, those of Kimi-K3 for latent attention, and the smallest block.
const ALIGNED_DELTA: u64 = 64;
const ALIGNED_LATENT: u64 = 128;
const ALIGNED: u64 = 16;

impl Checkpoint {
    /// What vLLM stores keys and values in; 8 bits where it is asked for them, where the checkpoint says so, and for
    /// GLM-5 on Blackwell.
    pub(super) fn stored_kv(&self, machine: Machine) -> KvDtype {
        let is_glm = self.family == "glm_moe_dsa" && machine.is_blackwell();
        match (machine.kv_cache_dtype, self.kv_cache_dtype) {
            (KvDtype::Auto, KvDtype::Auto) if is_glm => KvDtype::Fp8,
            (KvDtype::Auto, of_checkpoint) => of_checkpoint,
            (asked, _) => asked,
        }
    }

    /// What mixes tokens in each layer, those that draft last where they are used.
    fn cached_mixers(&self, machine: Machine) -> impl Iterator<Item = &Mixer> {
        let drafts = self.draft_modules().filter(|_| machine.draft_tokens > 0);
        let drafts = drafts.into_iter().flat_map(|drafts| &drafts.layers);
        self.each_mixer().chain(drafts.filter_map(|layer| layer.mixer.as_ref()))
    }

    /// Tokens of a block where there are no states: what the attention kernels of the machine take.
    pub(super) fn kernel_block(&self, machine: Machine) -> u32 {
        let is_fp8 = self.stored_kv(machine) == KvDtype::Fp8;
        let mut block = 16;
        for mixer in self.cached_mixers(machine) {
            let needs = match mixer {
                Mixer::Compressed(_) => 256,
                Mixer::Grouped(grouped) if grouped.indexer.is_some() => 128,
                Mixer::Latent(latent) if latent.is_expanded => 16,
                Mixer::Latent(latent) if latent.is_sparse => 64,
                Mixer::Latent(_) if machine.is_blackwell() => 32,
                Mixer::Latent(_) if is_fp8 => 64,
                Mixer::Grouped(grouped)
                    if grouped.head_dim > LARGEST_HEAD && (machine.is_blackwell() || is_fp8) =>
                {
                    64
                }
                _ => 16,
            };
            block = block.max(needs);
        }
        block
    }

    /// The caches of each layer, in order.
    pub(super) fn caches(&self, machine: Machine) -> Vec<Vec<LayerCache>> {
        let kv = self.stored_kv(machine);
        let mut block = self.kernel_block(machine);
        let state = self.largest_state(machine.tp, machine.draft_tokens);
        let mut page = None;
        let token = self.token_of_full_layer(machine, kv);
        // Without keys beside them states are not padded.
        if state > 0 && token > 0 {
            let tokens = state.div_ceil(token).next_multiple_of(self.state_alignment());
            block = u32::try_from(tokens).unwrap_or(u32::MAX);
            page = Some(tokens * token);
        }
        let of = |mixer: &Mixer| match mixer {
            Mixer::Grouped(grouped) => grouped_caches(grouped, machine.tp, kv, block),
            Mixer::Latent(latent) => latent_caches(latent, machine, kv, block),
            Mixer::Compressed(compressed) => compressed_caches(compressed, block),
            other => {
                let used = Self::state_of(other, machine.tp, machine.draft_tokens, false);
                let page = page.unwrap_or(used);
                vec![LayerCache {
                    kind: CacheKind::State,
                    block_size: block,
                    page_bytes: page,
                    used_bytes: used,
                    index: 0,
                }]
            }
        };
        self.cached_mixers(machine).map(of).collect()
    }

    /// Bytes of the state of one sequence in a layer, on one of `tp` GPUs, in 32 bits where `always_wide` or the
    /// checkpoint says so; convolutions keep what drafts add.
    pub(crate) fn state_of(mixer: &Mixer, tp: u32, draft_tokens: u32, always_wide: bool) -> u64 {
        let bytes = |is_wide: bool| if always_wide || is_wide { 4 } else { 2 };
        let share = |count: u32| u64::from(count.div_ceil(tp.max(1)));
        let behind = |kernel: u32, channels: u64| {
            2 * u64::from(kernel.saturating_sub(1).saturating_add(draft_tokens)) * channels
        };
        match mixer {
            Mixer::Delta(delta) => {
                let (keys, values) = (u64::from(delta.key_dim), u64::from(delta.value_dim));
                let channels =
                    2 * share(delta.key_heads) * keys + share(delta.value_heads) * values;
                let states = share(delta.value_heads) * keys * values;
                behind(delta.conv_kernel, channels) + bytes(delta.is_wide) * states
            }
            Mixer::KimiDelta(delta) => {
                let (heads, dim) = (share(delta.heads), u64::from(delta.head_dim));
                behind(delta.conv_kernel, 3 * heads * dim) + 4 * heads * dim * dim
            }
            Mixer::StateSpace(state) => {
                let (heads, dim) = (share(state.heads), u64::from(state.head_dim));
                let channels = heads * dim + 2 * share(state.groups) * u64::from(state.state);
                let states = heads * dim * u64::from(state.state);
                behind(state.conv_kernel, channels) + bytes(state.is_wide) * states
            }
            Mixer::Selective(selective) => {
                let channels = share(selective.channels);
                let states = channels * u64::from(selective.state);
                behind(selective.conv_kernel, channels) + bytes(false) * states
            }
            Mixer::ShortConv(conv) => behind(conv.conv_kernel, share(conv.channels)),
            Mixer::Grouped(_) | Mixer::Latent(_) | Mixer::Compressed(_) => 0,
        }
    }

    pub(in crate::model) fn largest_state(&self, tp: u32, draft_tokens: u32) -> u64 {
        let mixers = self.each_mixer();
        let bytes = mixers.map(|mixer| Self::state_of(mixer, tp, draft_tokens, false));
        bytes.max().unwrap_or(0)
    }

    /// Bytes of the states of one sequence over all layers, on one of `tp` GPUs, with room for so many drafted tokens,
    /// as vLLM keeps them: in the type of the model where the checkpoint says nothing else.
    pub fn state_bytes(&self, tp: u32, draft_tokens: u32) -> u64 {
        self.each_mixer().map(|mixer| Self::state_of(mixer, tp, draft_tokens, false)).sum()
    }

    /// The same as SGLang keeps them (0.5.23, `srt/configs/mamba_utils.py`): in 32 bits.
    pub(crate) fn wide_state_bytes(&self, tp: u32) -> u64 {
        self.each_mixer().map(|mixer| Self::state_of(mixer, tp, 0, true)).sum()
    }

    /// Tokens that a kernel of its layers with states takes at once: SGLang finds states again on this grid
    /// (0.5.23, `srt/configs/mamba_utils.py`, `mamba_chunk_size`).
    pub(crate) fn state_chunk(&self) -> u32 {
        let chunk = |mixer: &Mixer| match mixer {
            Mixer::StateSpace(state) => Some(state.chunk),
            _ => None,
        };
        self.each_mixer().find_map(chunk).unwrap_or(DELTA_CHUNK)
    }

    pub(in crate::model) fn state_alignment(&self) -> u64 {
        let has = |is: fn(&Mixer) -> bool| self.each_mixer().any(is);
        if has(|mixer| matches!(mixer, Mixer::KimiDelta(_))) {
            ALIGNED_LATENT
        } else if self.family != "olmo_hybrid" && has(|mixer| matches!(mixer, Mixer::Delta(_))) {
            ALIGNED_DELTA
        } else {
            ALIGNED
        }
    }

    /// Bytes of a token in a layer with keys and values.
    fn token_of_full_layer(&self, machine: Machine, kv: KvDtype) -> u64 {
        let bytes = self.cached_mixers(machine).map(|mixer| match mixer {
            Mixer::Grouped(grouped) => grouped_token(grouped, machine.tp, kv),
            Mixer::Latent(latent) => latent_token(latent, machine, kv),
            _ => 0,
        });
        bytes.max().unwrap_or(0)
    }
}

/// Tokens that the kernels of linear attention take at once.
const DELTA_CHUNK: u32 = 64;

/// The largest head of `FlashAttention` and `FlashInfer`.
const LARGEST_HEAD: u32 = 256;

fn grouped_token(grouped: &GroupedAttention, tp: u32, kv: KvDtype) -> u64 {
    let heads = u64::from(grouped.kv_heads.div_ceil(tp.max(1)));
    heads * u64::from(grouped.head_dim + grouped.value_dim) * kv.bytes()
}

/// DeepSeek's rows of 8 bits: 512 elements, four scales, and 64 elements of 16 bits.
const DS_MLA_ROW: u64 = 656;

fn latent_token(latent: &LatentAttention, machine: Machine, kv: KvDtype) -> u64 {
    let is_asked = machine.kv_cache_dtype == KvDtype::Fp8;
    if latent.is_sparse && is_asked && !machine.is_blackwell() {
        return DS_MLA_ROW;
    }
    if latent.is_expanded {
        // Values are as wide as keys.
        let heads = u64::from(latent.heads.div_ceil(machine.tp.max(1)));
        return heads
            * 2
            * u64::from(latent.qk_nope_head_dim + latent.qk_rope_head_dim)
            * kv.bytes();
    }
    u64::from(latent.kv_lora_rank + latent.qk_rope_head_dim) * kv.bytes()
}

fn cache(kind: CacheKind, block: u32, token: u64, index: u32) -> LayerCache {
    let bytes = token * u64::from(block);
    LayerCache { kind, block_size: block, page_bytes: bytes, used_bytes: bytes, index }
}

fn grouped_caches(grouped: &GroupedAttention, tp: u32, kv: KvDtype, block: u32) -> Vec<LayerCache> {
    let kind = match grouped.reach {
        Reach::Full => CacheKind::Full,
        Reach::Window(tokens) => CacheKind::Sliding(tokens),
        Reach::Chunk(tokens) => CacheKind::Chunked(tokens),
    };
    let mut caches = vec![cache(kind, block, grouped_token(grouped, tp, kv), 0)];
    if let Some(indexer) = &grouped.indexer {
        // Keys of one head, always in 16 bits.
        caches.push(cache(CacheKind::Latent, block, 2 * u64::from(indexer.head_dim), 1));
    }
    caches
}

fn latent_caches(
    latent: &LatentAttention,
    machine: Machine,
    kv: KvDtype,
    block: u32,
) -> Vec<LayerCache> {
    let kind = if latent.is_expanded { CacheKind::Full } else { CacheKind::Latent };
    let mut caches = vec![cache(kind, block, latent_token(latent, machine, kv), 0)];
    if let Some(indexer) = &latent.indexer {
        caches.push(cache(CacheKind::Latent, block, indexer_token(indexer.head_dim), 1));
    }
    caches
}

/// Keys of an indexer in 8 bits with a scale of 32.
fn indexer_token(head_dim: u32) -> u64 {
    u64::from(head_dim) + 4
}

/// DeepSeek-V4's pages are padded to multiples of this.
const V4_ALIGNED: u64 = 576;
/// Its rows: 448 elements of 8 bits, 64 of 16 bits, eight scales.
const V4_ROW: u64 = 584;
/// Tokens of a block of its windows.
const V4_WINDOW_BLOCK: u32 = 64;

fn compressed_caches(compressed: &Compressed, block: u32) -> Vec<LayerCache> {
    let padded = |kind, block: u32, used: u64, index| LayerCache {
        kind,
        block_size: block,
        page_bytes: used.next_multiple_of(V4_ALIGNED),
        used_bytes: used,
        index,
    };
    let window = CacheKind::SlidingLatent(compressed.window);
    let mut caches = vec![padded(window, V4_WINDOW_BLOCK, u64::from(V4_WINDOW_BLOCK) * V4_ROW, 0)];
    let ratio = compressed.ratio;
    if ratio == 0 {
        return caches;
    }
    let entries = u64::from(block / ratio);
    caches.push(padded(CacheKind::Latent, block, entries * V4_ROW, ratio));
    // Sums of the entry that is being made, and of the one before where they overlap: values and weights in 32 bits.
    let (tokens, overlap) = if ratio == Compressed::OVERLAPPING { (4, 2) } else { (8, 1) };
    let window = CacheKind::SlidingLatent(if overlap == 2 { 2 * ratio } else { ratio });
    let sums = |dim: u32| u64::from(tokens) * 4 * 2 * overlap * u64::from(dim);
    caches.push(padded(window, tokens, sums(compressed.head_dim), 1000 + ratio));
    if let Some(indexer) = &compressed.indexer {
        caches.push(padded(CacheKind::Latent, block, entries * indexer_token(indexer.head_dim), 1));
        caches.push(padded(window, tokens, sums(indexer.head_dim), 1001));
    }
    caches
}
