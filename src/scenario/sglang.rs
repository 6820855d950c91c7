//! How SGLang is configured, in its own names.

use serde::{Deserialize, Serialize};

use super::{HostConfig, SglangSpeculationConfig};
use crate::model::layout::MambaStrategy;
use crate::units::Bytes;

/// The flags of SGLang that decide schedules, under SGLang's own names
/// (SGLang 0.5.23, `sglang/srt/server_args.py`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the engine's own switches")]
pub struct SglangConfig {
    /// Share of GPU memory for weights and KV cache, above 0 and below 1; by
    /// [`Self::mem_fraction_static_for`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_fraction_static: Option<f64>,
    /// Tokens that layers with a sliding window hold, as a share of those of the others, above 0 and at
    /// most 1; 0.8 if absent, 0.1 for DeepSeek-V4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swa_full_tokens_ratio: Option<f64>,
    /// Whether layers with a window keep whole contexts in KV memory, as all others do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_hybrid_swa_memory: bool,
    /// Memory for the states of layers with linear attention or state-space models, as a multiple of that for
    /// tokens, above 0; 0.9 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mamba_full_memory_ratio: Option<f64>,
    /// Slots for such states; if absent, as many as that memory holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_mamba_cache_size: Option<u32>,
    /// Which states other requests find again; if absent, `extra_buffer` where the model has it, and either steps
    /// overlap or pages hold several tokens, else `no_buffer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mamba_radix_cache_strategy: Option<MambaStrategy>,
    /// With `extra_buffer`, behind which tokens of an answer states are kept: multiples of this; 256 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mamba_track_interval: Option<u32>,
    /// Tokens of KV memory; if absent, what the weights leave of `mem_fraction_static`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<u32>,
    /// Requests with KV memory at most. If absent, 256 for DeepSeek-V4, 48 with speculation, and else 512 for each
    /// context that fits, from 2048 to 4096; no more than half the tokens, and than slots for states allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running_requests: Option<u32>,
    /// Longest sequence, prompt and answer together; the model's own limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u32>,
    /// Whether a request is refused whose prompt and `max_tokens` together reach the longest sequence, as
    /// the tokenizer manager of SGLang 0.5.5 does (`managers/tokenizer_manager.py`,
    /// `_validate_one_request`); its answer is cut short if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refuse_beyond_context: bool,
    /// Tokens of a prefill batch at most, longer prompts are cut; no cutting if 0 or less, by
    /// [`Self::chunked_prefill_size_for`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunked_prefill_size: Option<i32>,
    /// Tokens of a prefill batch after which no more requests are added.
    pub max_prefill_tokens: u32,
    /// Requests added to a prefill batch at most; no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_max_requests: Option<u32>,
    /// Tokens per KV page; if absent, as many as the attention kernels take that SGLang chooses for the model and
    /// the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// Order of admission.
    pub schedule_policy: SglangPolicy,
    /// How much memory is kept for answers still to come: the first estimate of the share of
    /// `max_tokens` that they use is 0.7 times this.
    pub schedule_conservativeness: f64,
    /// Whether prefixes are computed anew for every request.
    pub disable_radix_cache: bool,
    /// Whether decoding requests ride along in prefill batches.
    pub enable_mixed_chunk: bool,
    /// Whether a batch is scheduled only after the one before has ended.
    pub disable_overlap_schedule: bool,
    /// Steps that only decode between two looks at what has come: new requests wait for the next one.
    pub scheduler_recv_interval: u32,
    /// Whether requests are ordered by priority, larger first, and may displace running ones.
    pub enable_priority_scheduling: bool,
    /// A waiting request displaces running ones whose priority is lower by more than this.
    pub priority_scheduling_preemption_threshold: i32,
    /// Distinct adapters in a batch at most, where "no adapter" counts as one (SGLang's default
    /// is 8 when it serves adapters); no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_loras_per_batch: Option<u32>,
    /// Whether no CUDA graphs are captured.
    pub disable_cuda_graph: bool,
    /// Whether none are captured for prefill batches; by model and GPU if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_prefill_cuda_graph: Option<bool>,
    /// Whether a decode batch replays only a graph of just its size.
    pub disable_cuda_graph_padding: bool,
    /// Requests of the largest decode batch that is captured; by
    /// [`Self::cuda_graph_max_bs_for`] if absent.
    #[serde(alias = "cuda_graph_max_bs", skip_serializing_if = "Option::is_none")]
    pub cuda_graph_max_bs_decode: Option<u32>,
    /// The decode batches captured, ascending; by [`Self::decode_capture_sizes`] if absent.
    #[serde(alias = "cuda_graph_bs", skip_serializing_if = "Option::is_none")]
    pub cuda_graph_bs_decode: Option<Vec<u32>>,
    /// Tokens of the largest prefill batch that is captured; `chunked_prefill_size` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_graph_max_bs_prefill: Option<u32>,
    /// Tokens of the prefill batches captured, ascending; by [`Self::prefill_capture_sizes`] if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_graph_bs_prefill: Option<Vec<u32>>,
    /// Speculative decoding, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speculation: Option<SglangSpeculationConfig>,
    /// Host time of each step.
    pub host: HostConfig,
}

/// SGLang's order of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SglangPolicy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Longest cached prefix first.
    Lpm,
    /// Longest output first, by the limit of the answer.
    Lof,
}

impl SglangPolicy {
    /// Whether it goes with priorities.
    pub fn knows_priorities(self) -> bool {
        matches!(self, Self::Fcfs | Self::Lof)
    }
}

impl SglangConfig {
    /// Tokens of a page; one where nothing says otherwise.
    pub fn page_tokens(&self) -> u32 {
        self.page_size.unwrap_or(1)
    }

    /// Tokens of a page at most: what is counted for every place in a page stays small, and no
    /// attention kernel knows pages of more than some hundred tokens.
    pub const PAGE_SIZE_MAX: u32 = 1 << 16;

    /// Drafts that a step verifies for each request; 0 without speculation.
    pub fn drafts(&self) -> u32 {
        self.speculation.as_ref().map_or(0, SglangSpeculationConfig::drafts)
    }

    /// The default of `chunked_prefill_size` on a GPU with this much memory.
    pub fn chunked_prefill_size_for(gpu_memory: Bytes) -> i32 {
        match gpu_memory.as_gib() {
            gib if gib < 20.0 => 2048,
            gib if gib < 60.0 => 4096,
            gib if gib < 160.0 => 8192,
            _ => 16384,
        }
    }

    /// The default of `cuda_graph_max_bs_decode` on GPUs with this much memory (SGLang 0.5.23,
    /// `sglang/srt/arg_groups/memory_hook.py`, as the next one).
    pub fn cuda_graph_max_bs_for(gpu_memory: Bytes, tensor_parallel_size: u32) -> u32 {
        let is_wide = tensor_parallel_size >= 4;
        match gpu_memory.as_gib() {
            gib if gib < 20.0 => 8,
            gib if gib < 35.0 => {
                if is_wide {
                    160
                } else {
                    48
                }
            }
            gib if gib < 60.0 => {
                if is_wide {
                    160
                } else {
                    32
                }
            }
            gib if gib < 160.0 => {
                if is_wide {
                    512
                } else {
                    256
                }
            }
            _ => 512,
        }
    }

    /// The default of `mem_fraction_static`: what is left of the memory beside 512 MiB,
    /// 1.5 MiB per token of a prefill batch (2048 at least), 128 MiB per GPU of the group, and the
    /// `graphs_mib` of captured graphs; on GPUs beyond 60 GiB at least 10 GiB are left out.
    pub fn mem_fraction_static_for(
        gpu_memory: Bytes,
        tensor_parallel_size: u32,
        prefill_tokens: u32,
        graphs_mib: f64,
    ) -> f64 {
        let memory = gpu_memory.as_gib() * 1024.0;
        let activations = 1.5 * f64::from(prefill_tokens.max(2048));
        let reserved = 512.0 + activations + 128.0 * f64::from(tensor_parallel_size) + graphs_mib;
        let reserved = if memory > 60.0 * 1024.0 { reserved.max(10_240.0) } else { reserved };
        ((memory - reserved) / memory * 1000.0).round_ties_even() / 1000.0
    }
}

impl Default for SglangConfig {
    /// SGLang's defaults.
    fn default() -> Self {
        Self {
            mem_fraction_static: None,
            swa_full_tokens_ratio: None,
            disable_hybrid_swa_memory: false,
            mamba_full_memory_ratio: None,
            max_mamba_cache_size: None,
            mamba_radix_cache_strategy: None,
            mamba_track_interval: None,
            max_total_tokens: None,
            max_running_requests: None,
            context_length: None,
            refuse_beyond_context: false,
            chunked_prefill_size: None,
            max_prefill_tokens: 16_384,
            prefill_max_requests: None,
            page_size: None,
            schedule_policy: SglangPolicy::Fcfs,
            schedule_conservativeness: 1.0,
            disable_radix_cache: false,
            enable_mixed_chunk: false,
            disable_overlap_schedule: false,
            scheduler_recv_interval: 1,
            enable_priority_scheduling: false,
            priority_scheduling_preemption_threshold: 10,
            max_loras_per_batch: None,
            disable_cuda_graph: false,
            disable_prefill_cuda_graph: None,
            disable_cuda_graph_padding: false,
            cuda_graph_max_bs_decode: None,
            cuda_graph_bs_decode: None,
            cuda_graph_max_bs_prefill: None,
            cuda_graph_bs_prefill: None,
            speculation: None,
            host: HostConfig::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_grow_with_the_memory_of_the_gpu() {
        let size = |gib: f64| SglangConfig::chunked_prefill_size_for(Bytes::from_gib(gib));
        assert_eq!([16.0, 24.0, 48.0].map(size), [2048, 4096, 4096]);
        assert_eq!([80.0, 141.0, 180.0].map(size), [8192, 8192, 16384]);
    }

    #[test]
    fn a_misspelt_flag_is_refused() {
        let error = toml::from_str::<SglangConfig>("chunked_prefil_size = 5").unwrap_err();
        assert!(error.to_string().contains("unknown field"), "{error}");
    }
}
