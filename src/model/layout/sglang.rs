//! SGLang's pools (0.5.23, `srt/mem_cache/memory_pool.py`, `srt/model_executor/pool_configurator.py`): one of tokens,
//! a second one of tokens in windows, and one of states.

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::model::checkpoint::{Checkpoint, Compressed, Indexer, Mixer, Reach};
use crate::model::precision::KvDtype;
use crate::units::Bytes;

/// The pools of a model in SGLang.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SglangLayout {
    /// Tokens of a page.
    pub page_size: u32,
    /// Bytes of a token of the pool, with its share of the pool of windows.
    pub cell_size: f64,
    /// Tokens of the pool of windows for each of the other; nothing without such a pool.
    pub window_ratio: Option<f64>,
    /// Bytes of the states of one request, if it has any.
    pub state_bytes: u64,
    /// Bytes that do not depend on the number of tokens.
    pub fixed_bytes: u64,
    /// What keys and values are stored in.
    pub kv_cache_dtype: KvDtype,
    /// Tokens that layers of the pool of windows see; nothing without such a pool.
    pub window: Option<u32>,
    /// Which states the tree keeps; nothing without states, or without a tree.
    pub strategy: Option<MambaStrategy>,
    context: u32,
    slots_of_request: u64,
    /// Requests that run at once unless memory holds fewer, where that is not left to memory.
    most_running: Option<u64>,
    /// Slots of states, where they are given.
    given_slots: Option<u64>,
    /// Bytes of states for each of tokens.
    states_per_tokens: f64,
    /// Tokens of a request that one step verifies; 0 where nothing drafts.
    verified: u64,
}

/// What a server is told of its pools, under SGLang's own names; by the model where absent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SglangPoolFlags {
    /// Tokens of a page.
    pub page_size: Option<u32>,
    /// The longest sequence.
    pub context_length: Option<u32>,
    /// Requests that run at once.
    pub max_running_requests: Option<u32>,
    /// Tokens of the pool of windows for each of the other.
    pub swa_full_tokens_ratio: Option<f64>,
    /// Whether layers with a window keep whole contexts.
    pub disable_hybrid_swa_memory: bool,
    /// Bytes of states for each of tokens.
    pub mamba_full_memory_ratio: Option<f64>,
    /// Slots of states.
    pub max_mamba_cache_size: Option<u32>,
    /// Which states the tree keeps.
    pub mamba_radix_cache_strategy: Option<MambaStrategy>,
    /// Whether there is no tree.
    pub disable_radix_cache: bool,
    /// Whether a step is decided only after the one before has ended.
    pub disable_overlap_schedule: bool,
    /// The layers that draft, where something does.
    pub draft_layers: DraftLayers,
}

/// Which states of a request others find (`--mamba-radix-cache-strategy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MambaStrategy {
    /// Those behind the tokens where a prefill step or an answer ends, copied there: pages of one token, without
    /// the overlap schedule.
    NoBuffer,
    /// Those behind tokens on a grid, which steps leave in further slots of the request.
    ExtraBuffer,
}

impl MambaStrategy {
    /// Slots in which the steps of a running request leave states: one, two where they overlap.
    pub(crate) const fn tracking_slots(self, disable_overlap_schedule: bool) -> u32 {
        match self {
            Self::NoBuffer => 0,
            Self::ExtraBuffer if disable_overlap_schedule => 1,
            Self::ExtraBuffer => 2,
        }
    }
}

/// What a memory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SglangPools {
    /// Tokens.
    pub max_total_num_tokens: u64,
    /// Tokens in the pool of windows.
    pub swa_max_total_num_tokens: Option<u64>,
    /// Slots of states.
    pub max_mamba_cache_size: Option<u64>,
    /// Requests that run at once.
    pub max_running_requests: u64,
}

/// Families whose windows have a pool of their own; others keep all tokens in all layers.
const WINDOWED: [&str; 7] =
    ["gemma4_text", "gpt_oss", "laguna", "llama4_text", "mellum", "mimo_v2_flash", "step3p5"];
/// `swa_full_tokens_ratio`, and that of DeepSeek-V4.
const WINDOW_RATIO: f64 = 0.8;
const WINDOW_RATIO_V4: f64 = 0.1;
/// `mamba_full_memory_ratio`: bytes of states for each of tokens.
const STATES_PER_TOKENS: f64 = 0.9;
/// Families with states for which Triton or `FlashInfer`, not TRT-LLM, computes attention on Blackwell.
const WITHOUT_PAGES: [&str; 2] = ["falcon_h1", "granitemoehybrid"];
/// Architectures whose latent attention `FlashInfer` computes on Blackwell, by its name.
const LATENT_WITHOUT_PAGES: [&str; 4] = [
    "DeepseekV2ForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "KimiLinearForCausalLM",
    "MiniCPM3ForCausalLM",
];
/// Slots of a running request beside those in which steps leave states: its own, the one that it went on from, and one
/// to copy (`srt/mem_cache/kv_cache_configurator.py`).
const SLOTS_OF_REQUEST: u64 = 3;

/// Requests that run at once where layers draft (`srt/arg_groups/speculative_hook.py`).
const RUNNING_WITH_DRAFTS: u32 = 48;

impl SglangLayout {
    /// Of a checkpoint on a machine. Drafting is that of `--speculative-algorithm NEXTN` with a step for each drafted
    /// token and `--speculative-eagle-topk 1`.
    pub fn of(model: &Checkpoint, machine: Machine) -> Self {
        Self::told(model, machine, &SglangPoolFlags::default())
    }

    /// The same of a server that is told more.
    pub fn told(model: &Checkpoint, machine: Machine, flags: &SglangPoolFlags) -> Self {
        let kv = stored(model, machine);
        let mixers: Vec<&Mixer> = model.each_mixer().collect();
        let has_window =
            WINDOWED.contains(&model.family.as_str()) && !flags.disable_hybrid_swa_memory;
        let compressed = mixers.iter().any(|mixer| matches!(mixer, Mixer::Compressed(_)));
        let tokens: Vec<(f64, f64)> =
            mixers.iter().map(|mixer| token_of(mixer, machine, kv, has_window)).collect();
        let full: f64 = tokens.iter().map(|(all, _)| all).sum();
        let windowed: f64 = tokens.iter().map(|(_, latest)| latest).sum();
        let own_ratio = if compressed { WINDOW_RATIO_V4 } else { WINDOW_RATIO };
        let ratio = flags.swa_full_tokens_ratio.unwrap_or(own_ratio);
        let has_window = has_window || compressed;
        let cell_size = if has_window { full + ratio * windowed } else { full };
        let drafts = machine.draft_tokens > 0;
        let own_most = match (compressed, drafts) {
            (true, _) => Some(RUNNING_V4),
            (false, true) => Some(RUNNING_WITH_DRAFTS),
            (false, false) => None,
        };
        let most_running = flags.max_running_requests.or(own_most).map(u64::from);
        let state_bytes = model.wide_state_bytes(machine.tp);
        let strategy = strategy(&mixers, flags).filter(|_| state_bytes > 0);
        Self {
            page_size: flags.page_size.unwrap_or_else(|| page(model, machine)),
            cell_size: if drafts {
                cell_size + draft_cell(model, (&tokens, cell_size), ratio, flags.draft_layers)
            } else {
                cell_size
            },
            window_ratio: has_window.then_some(ratio),
            window: window_of(&mixers).filter(|_| has_window),
            strategy,
            state_bytes,
            fixed_bytes: mixers.iter().map(|mixer| fixed_of(mixer, drafts)).sum(),
            kv_cache_dtype: kv,
            context: flags.context_length.unwrap_or(model.max_position_sglang),
            most_running,
            given_slots: match (flags.max_mamba_cache_size, flags.disable_radix_cache) {
                (Some(told), _) => Some(u64::from(told)),
                (None, true) => flags.max_running_requests.map(u64::from),
                (None, false) => None,
            },
            states_per_tokens: flags.mamba_full_memory_ratio.unwrap_or(STATES_PER_TOKENS),
            verified: if drafts { 1 + u64::from(machine.draft_tokens) } else { 0 },
            slots_of_request: if flags.disable_radix_cache {
                1
            } else {
                let no_overlap = flags.disable_overlap_schedule;
                let tracking = strategy.map_or(0, |strategy| strategy.tracking_slots(no_overlap));
                SLOTS_OF_REQUEST + u64::from(tracking)
            },
        }
    }

    /// What so much memory holds.
    pub fn pools(&self, memory: Bytes) -> SglangPools {
        let left = memory.0.saturating_sub(self.fixed_bytes);
        let slots = self.slots(left);
        let left = left.saturating_sub(slots.map_or(0, |slots| self.bytes_of_states(slots)));
        let page = u64::from(self.page_size);
        self.holding((left as f64 / self.cell_size) as u64 / page * page, slots)
    }

    /// Pools of so many tokens, with the slots of states that are given, or that the requests need.
    pub fn pools_of(&self, tokens: u64) -> SglangPools {
        let needed = self.running(tokens) * self.slots_of_request;
        let slots = (self.state_bytes > 0).then(|| self.given_slots.unwrap_or(needed));
        self.holding(tokens, slots)
    }

    /// Pools of so many tokens and slots of states.
    pub fn holding(&self, tokens: u64, slots: Option<u64>) -> SglangPools {
        let page = u64::from(self.page_size);
        let in_window = |ratio: f64| (tokens as f64 * ratio) as u64 / page * page;
        let running = self.running(tokens);
        SglangPools {
            max_total_num_tokens: tokens,
            swa_max_total_num_tokens: self.window_ratio.map(in_window),
            max_mamba_cache_size: slots,
            max_running_requests: slots
                .map_or(running, |slots| running.min(slots / self.slots_of_request)),
        }
    }

    /// Requests that run at once on so many tokens.
    fn running(&self, tokens: u64) -> u64 {
        let by_tokens = (tokens as f64 / f64::from(self.context) * 512.0) as u64;
        self.most_running.unwrap_or_else(|| by_tokens.clamp(2048, 4096)).min(tokens / 2)
    }

    /// Slots of states in so much memory, of which these take a share; one more is set aside. Where layers draft,
    /// each running request, and one more, also has a state for every token that is verified.
    fn slots(&self, memory: u64) -> Option<u64> {
        if let Some(told) = self.given_slots.filter(|_| self.state_bytes > 0) {
            return Some(told);
        }
        let share = memory as f64 * (self.states_per_tokens / (1.0 + self.states_per_tokens));
        let (state, verified) = (self.state_bytes as f64, self.verified as f64);
        let aside = state * (1.0 + verified);
        let slot = state * (1.0 + verified / self.slots_of_request as f64);
        (self.state_bytes > 0).then(|| ((share - aside) / slot).max(0.0) as u64)
    }

    /// Bytes of so many slots, with the one set aside and the states of tokens that are verified.
    fn bytes_of_states(&self, slots: u64) -> u64 {
        let running = self.most_running.unwrap_or(u64::MAX).min(slots / self.slots_of_request);
        (slots + 1 + (running + 1) * self.verified) * self.state_bytes
    }
}

/// Tokens that the layers of the pool of windows see.
fn window_of(mixers: &[&Mixer]) -> Option<u32> {
    mixers.iter().find_map(|mixer| match mixer {
        Mixer::Compressed(compressed) => Some(compressed.window),
        _ => match mixer.reach() {
            Reach::Window(tokens) | Reach::Chunk(tokens) => Some(tokens),
            Reach::Full => None,
        },
    })
}

/// Which states the tree keeps (`srt/arg_groups/overrides.py`, `_mamba_radix_cache_resolution`): those on a grid, but
/// for models that cannot, and where steps do not overlap and pages are of one token.
fn strategy(mixers: &[&Mixer], flags: &SglangPoolFlags) -> Option<MambaStrategy> {
    if flags.disable_radix_cache {
        return None;
    }
    let is_plain = mixers.iter().any(|mixer| matches!(mixer, Mixer::ShortConv(_)));
    let overlaps = !flags.disable_overlap_schedule || flags.page_size.is_some_and(|page| page > 1);
    let own =
        if overlaps && !is_plain { MambaStrategy::ExtraBuffer } else { MambaStrategy::NoBuffer };
    let asked = flags.mamba_radix_cache_strategy.filter(|_| !is_plain);
    Some(asked.unwrap_or(own))
}

/// Layers that draft, as pools are sized by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DraftLayers {
    /// Those that the model brings.
    #[default]
    Own,
    /// So many of a head, or of a model of its own.
    Beside(u32),
}

/// Bytes of a token that layers which draft add. SGLang sizes pools as if they were like the model's own. Of those that
/// the model brings it goes by `num_nextn_predict_layers`: a config without this key gets pools as if nothing drafted,
/// and the memory of the layers that draft comes on top.
fn draft_cell(
    model: &Checkpoint,
    (tokens, cell_size): (&[(f64, f64)], f64),
    ratio: f64,
    layers: DraftLayers,
) -> f64 {
    let drafts = match layers {
        DraftLayers::Own => {
            model.draft_modules().and_then(|drafts| drafts.nextn).map_or(0.0, f64::from)
        }
        DraftLayers::Beside(layers) => f64::from(layers),
    };
    let has = |is: fn(&Mixer) -> bool| model.each_mixer().any(is);
    if has(|mixer| matches!(mixer, Mixer::Compressed(_))) {
        let layers = tokens.len() as f64;
        // Sums of entries that are being made have twice the room.
        let sums: f64 = model.each_mixer().map(sums_of).sum();
        return (cell_size + ratio * sums) * (layers + 1.0) / layers - cell_size;
    }
    if let Some((_, windowed)) = tokens.iter().find(|(_, windowed)| *windowed > 0.0) {
        // Layers of others see everything.
        let whole = tokens.iter().map(|(all, _)| *all).find(|all| *all > 0.0);
        return match layers {
            DraftLayers::Own => drafts * ratio * windowed,
            DraftLayers::Beside(_) => drafts * whole.unwrap_or(*windowed),
        };
    }
    let layers = tokens.iter().filter(|(all, _)| *all > 0.0).count().max(1) as f64;
    let keys = |mixer: &Mixer| match mixer {
        Mixer::Latent(latent) => latent.indexer.map(|indexer| f64::from(key_of(indexer))),
        _ => None,
    };
    let all_keys: f64 = model.each_mixer().filter_map(keys).sum();
    let own_keys = model.each_mixer().find_map(keys).unwrap_or(0.0);
    ((cell_size - all_keys) * drafts / layers).floor() + own_keys * drafts
}

/// What keys and values are stored in: sparse attention goes by the machine, others by what the files say.
pub(super) fn stored(model: &Checkpoint, machine: Machine) -> KvDtype {
    let has = |is: fn(&Mixer) -> bool| model.each_mixer().any(is);
    if has(|mixer| matches!(mixer, Mixer::Compressed(_))) {
        return KvDtype::Fp8;
    }
    if !machine.kv_cache_dtype.is_auto() {
        return machine.kv_cache_dtype;
    }
    if has(|mixer| matches!(mixer, Mixer::Latent(latent) if latent.is_sparse)) {
        return if machine.is_blackwell() { KvDtype::Fp8 } else { KvDtype::Auto };
    }
    model.kv_cache_dtype_sglang
}

/// Bytes of a token in the pool of all tokens and in that of windows.
fn token_of(mixer: &Mixer, machine: Machine, kv: KvDtype, has_window: bool) -> (f64, f64) {
    match mixer {
        Mixer::Grouped(grouped) => {
            let heads = u64::from(grouped.kv_heads.div_ceil(machine.tp.max(1)));
            let bytes = heads * u64::from(grouped.head_dim + grouped.value_dim) * kv.bytes();
            let keys =
                grouped.indexer.map_or(0, |indexer| kv.bytes() * u64::from(indexer.head_dim));
            let all = (bytes + keys) as f64;
            if has_window && grouped.reach != Reach::Full { (0.0, all) } else { (all, 0.0) }
        }
        Mixer::Latent(latent) => {
            let dims = u64::from(latent.kv_lora_rank + latent.qk_rope_head_dim);
            let bytes =
                dims * kv.bytes() + latent.indexer.map_or(0, |indexer| u64::from(key_of(indexer)));
            (bytes as f64, 0.0)
        }
        Mixer::Compressed(compressed) => compressed_token(compressed),
        Mixer::Delta(_)
        | Mixer::KimiDelta(_)
        | Mixer::StateSpace(_)
        | Mixer::Selective(_)
        | Mixer::ShortConv(_) => (0.0, 0.0),
    }
}

/// Keys of an indexer: 8 bits each, and a scale of 32.
const fn key_of(indexer: Indexer) -> u32 {
    indexer.head_dim + 4
}

/// DeepSeek-V4's rows of 584 bytes in pages of 256 tokens that are padded to multiples of 576 bytes; pages of two rows
/// take three times as much.
const ROW_V4: f64 = 585.0;
const ROW_V4_SHORT_PAGE: f64 = 864.0;
/// Requests that run at once by default.
const RUNNING_V4: u32 = 256;

fn compressed_token(compressed: &Compressed) -> (f64, f64) {
    let ratio = f64::from(compressed.ratio);
    match (compressed.ratio, compressed.indexer) {
        (0, _) => (0.0, ROW_V4),
        (Compressed::OVERLAPPING, Some(indexer)) => {
            let sums = sums_of(&Mixer::Compressed(*compressed));
            ((ROW_V4 + f64::from(key_of(indexer))) / ratio, ROW_V4 + sums)
        }
        _ => (ROW_V4_SHORT_PAGE / ratio, ROW_V4),
    }
}

/// Bytes of a token in a window for sums of overlapping entries that are being made: eight in each page of 256.
fn sums_of(mixer: &Mixer) -> f64 {
    match mixer {
        Mixer::Compressed(Compressed {
            ratio: Compressed::OVERLAPPING,
            head_dim,
            indexer: Some(indexer),
            ..
        }) => 4.0 * 4.0 * f64::from(head_dim + indexer.head_dim) / 32.0,
        _ => 0.0,
    }
}

/// Sums of the entries that requests are making, where these do not overlap: for each request, and two more, a row of
/// values and weights in 32 bits for each token of an entry, twice as many where layers draft, and one row more
/// (`_get_c128_state_fixed_bytes`).
fn fixed_of(mixer: &Mixer, drafts: bool) -> u64 {
    match mixer {
        Mixer::Compressed(compressed) if compressed.ratio > Compressed::OVERLAPPING => {
            let ratio = u64::from(compressed.ratio);
            let ring = if drafts { 2 * ratio } else { ratio };
            let rows = ((u64::from(RUNNING_V4) + 2) * ring + 1).next_multiple_of(ratio);
            rows * 4 * 2 * u64::from(compressed.head_dim)
        }
        _ => 0,
    }
}

/// Tokens of a page: what the attention kernels of the machine take.
fn page(model: &Checkpoint, machine: Machine) -> u32 {
    let has = |is: fn(&Mixer) -> bool| model.each_mixer().any(is);
    if has(|mixer| matches!(mixer, Mixer::Compressed(_))) {
        256
    } else if has(|mixer| matches!(mixer, Mixer::Grouped(grouped) if grouped.indexer.is_some())) {
        128
    } else if has(|mixer| matches!(mixer, Mixer::Latent(latent) if latent.is_sparse)) {
        64
    } else if !machine.is_blackwell()
        || LATENT_WITHOUT_PAGES.contains(&model.architecture.as_str())
        || has(|mixer| matches!(mixer, Mixer::ShortConv(_)))
        || (WITHOUT_PAGES.contains(&model.family.as_str())
            && has(|mixer| matches!(mixer, Mixer::StateSpace(_))))
    {
        1
    } else if has(|mixer| matches!(mixer, Mixer::Delta(_))) {
        // Where nothing drafts, their back end is another (`arg_groups/model_overrides/qwen3_5.py`).
        if machine.draft_tokens > 0 { 64 } else { 1 }
    } else if ["mimo_v2_flash", "step3p5"].contains(&model.family.as_str()) {
        // FlashAttention 4.
        128
    } else {
        64
    }
}
