//! The shape of a model, and the counts that follow from it.

use serde::{Deserialize, Serialize};

use super::error::ModelError;
use super::precision::{KvDtype, WeightFormat};

/// A decoder-only transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// The name people use, a Hugging Face id where there is one.
    pub name: String,
    /// The class of the implementation, as `architectures` in `config.json` names it.
    pub architecture: String,
    /// Layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Rows of the embedding table.
    pub vocab: u32,
    /// Whether the output head is the embedding table.
    pub tied_embeddings: bool,
    /// Width of the MLP of dense layers; 0 when every layer is a mixture of experts.
    #[serde(default)]
    pub intermediate: u32,
    /// How the MLP of dense layers is made.
    #[serde(default, skip_serializing_if = "Mlp::is_gated")]
    pub mlp: Mlp,
    /// How tokens see one another.
    pub attention: Attention,
    /// Layers that keep a state of constant size in place of keys and values, if any; the others have
    /// [`attention`](Self::attention).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear: Option<LinearAttention>,
    /// The mixture of experts, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moe: Option<Moe>,
    /// Longest context the model was made for, in tokens.
    pub max_position: u32,
    /// The attention window of some layers, if any. What they keep in memory is the
    /// engine's affair ([`KvGroups`](super::KvGroups), [`WindowMemory`](super::WindowMemory)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sliding_window: Option<SlidingWindow>,
    /// Number formats of the weights.
    #[serde(default)]
    pub weights: WeightFormat,
    /// What an engine stores keys and values in that is asked for `auto`: 8 bits where the checkpoint
    /// brings scales for them (`kv_cache_scheme`, `kv_cache_quant_algo`).
    #[serde(default, skip_serializing_if = "KvDtype::is_auto")]
    pub kv_cache_dtype: KvDtype,
}

/// How an MLP is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mlp {
    /// Gate and up projections, then down: three matrices.
    #[default]
    Gated,
    /// Up, then down: two matrices.
    Plain,
}

impl Mlp {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_gated(&self) -> bool {
        *self == Self::Gated
    }
}

/// How tokens see one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Attention {
    /// Groups of query heads share a KV head (GQA); with as many KV heads as heads, MHA.
    Grouped(Grouped),
    /// Keys and values are compressed to one latent vector per token (MLA, DeepSeek-V2 paper).
    Latent(Latent),
}

/// Grouped-query attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a checkpoint")]
pub struct Grouped {
    /// Query heads.
    pub heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Elements per head.
    pub head_dim: u32,
    /// Whether the query, key and value projections have biases.
    #[serde(default)]
    pub qkv_bias: bool,
    /// Whether the output projection has a bias.
    #[serde(default)]
    pub output_bias: bool,
    /// Whether queries and keys are normalised per head.
    #[serde(default)]
    pub qk_norm: bool,
    /// Whether each head has a learned attention sink.
    #[serde(default)]
    pub sinks: bool,
    /// Whether the output of each head is gated by the token, which doubles the query projection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_gate: bool,
}

/// Layers of linear attention: gated delta nets (Yang et al. 2024), as in Qwen3-Next and Qwen3.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearAttention {
    /// Layers that have it, of all layers.
    pub layers: u32,
    /// Heads of keys, and as many of queries.
    pub key_heads: u32,
    /// Heads of values, each with a state.
    pub value_heads: u32,
    /// Elements of a key head.
    pub key_dim: u32,
    /// Elements of a value head.
    pub value_dim: u32,
    /// Tokens that the convolution before it sees.
    pub conv_kernel: u32,
}

impl LinearAttention {
    /// Bytes of the state of one sequence in one layer on one of `tp` GPUs: 32 bits of each product of keys and values,
    /// 16 bits of the tokens that the convolution looks back on.
    pub fn state_bytes(&self, tp: u32) -> u64 {
        let share = |count: u32| u64::from(count.div_ceil(tp.max(1)));
        let state = share(self.value_heads) * u64::from(self.key_dim) * u64::from(self.value_dim);
        let behind = u64::from(self.conv_kernel.saturating_sub(1));
        4 * state + 2 * behind * self.channels(tp)
    }

    /// Channels of the convolution on one of `tp` GPUs: queries, keys and values.
    pub(super) fn channels(&self, tp: u32) -> u64 {
        let share = |count: u32| u64::from(count.div_ceil(tp.max(1)));
        2 * share(self.key_heads) * u64::from(self.key_dim)
            + share(self.value_heads) * u64::from(self.value_dim)
    }

    /// FLOPs of one token in one layer on one of `tp` GPUs: the state decays, is corrected by the token and read.
    pub fn flops_per_token(&self, tp: u32) -> u64 {
        let heads = u64::from(self.value_heads.div_ceil(tp.max(1)));
        7 * heads * u64::from(self.key_dim) * u64::from(self.value_dim)
    }
}

/// Multi-head latent attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latent {
    /// Query heads.
    pub heads: u32,
    /// Width queries are compressed to; queries are projected directly if absent.
    #[serde(default)]
    pub q_lora_rank: Option<u32>,
    /// Width keys and values are compressed to.
    pub kv_lora_rank: u32,
    /// Elements per query and key head without position.
    pub qk_nope_head_dim: u32,
    /// Elements per query and key head with rotary position.
    pub qk_rope_head_dim: u32,
    /// Elements per value head.
    pub v_head_dim: u32,
}

/// A mixture of experts. Which layers are sparse does not matter, only how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moe {
    /// Routed experts per layer.
    pub experts: u32,
    /// Routed experts a token visits.
    pub experts_per_token: u32,
    /// Width of a routed expert.
    pub intermediate: u32,
    /// Width of all shared experts together, 0 for none.
    #[serde(default)]
    pub shared_intermediate: u32,
    /// Whether the shared expert is gated per token.
    #[serde(default)]
    pub shared_gate: bool,
    /// Layers with a dense MLP instead.
    #[serde(default)]
    pub dense_layers: u32,
    /// Whether the router adds a learned number per expert.
    #[serde(default)]
    pub router_bias: bool,
    /// Whether the experts' matrices have biases.
    #[serde(default)]
    pub expert_bias: bool,
}

/// An attention window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlidingWindow {
    /// Tokens a windowed layer sees.
    pub tokens: u32,
    /// Layers with the window.
    pub layers: u32,
    /// Whether the window stands still: a layer sees the tokens since the last multiple of `tokens`
    /// (Llama 4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chunked: bool,
}

impl Attention {
    /// Query heads.
    pub const fn heads(&self) -> u32 {
        match self {
            Self::Grouped(grouped) => grouped.heads,
            Self::Latent(latent) => latent.heads,
        }
    }

    /// Heads whose keys and values are cached; one latent head counts once.
    pub const fn kv_heads(&self) -> u32 {
        match self {
            Self::Grouped(grouped) => grouped.kv_heads,
            Self::Latent(_) => 1,
        }
    }

    /// Elements cached per token, layer and GPU. KV heads are replicated when there are more GPUs
    /// than KV heads; a latent vector is on every GPU.
    pub fn cached_elements(&self, tp: u32) -> u64 {
        match self {
            Self::Grouped(grouped) => {
                2 * u64::from(grouped.kv_heads.div_ceil(tp.max(1))) * u64::from(grouped.head_dim)
            }
            Self::Latent(latent) => {
                u64::from(latent.kv_lora_rank) + u64::from(latent.qk_rope_head_dim)
            }
        }
    }

    /// FLOPs per layer and GPU of one prefill token seeing one token.
    pub fn prefill_flops_per_pair(&self, tp: u32) -> u64 {
        match self {
            Self::Grouped(grouped) => {
                4 * u64::from(grouped.heads.div_ceil(tp.max(1))) * u64::from(grouped.head_dim)
            }
            Self::Latent(latent) => {
                let per_head =
                    latent.qk_nope_head_dim + latent.qk_rope_head_dim + latent.v_head_dim;
                2 * u64::from(latent.heads.div_ceil(tp.max(1))) * u64::from(per_head)
            }
        }
    }

    /// FLOPs per layer and GPU of one decode token seeing one token; latent attention multiplies
    /// with the compressed vector itself.
    pub fn decode_flops_per_pair(&self, tp: u32) -> u64 {
        match self {
            Self::Grouped(_) => self.prefill_flops_per_pair(tp),
            Self::Latent(latent) => {
                let per_head = 2 * latent.kv_lora_rank + latent.qk_rope_head_dim;
                2 * u64::from(latent.heads.div_ceil(tp.max(1))) * u64::from(per_head)
            }
        }
    }
}

impl ModelSpec {
    /// Layers with a mixture of experts.
    pub fn sparse_layers(&self) -> u32 {
        self.moe.map_or(0, |moe| self.layers - moe.dense_layers)
    }

    /// Layers with keys and values.
    pub fn attention_layers(&self) -> u32 {
        self.layers - self.linear.map_or(0, |linear| linear.layers)
    }

    /// Bytes of the states of one sequence in all layers with linear attention, on one of `tp` GPUs.
    pub fn state_bytes(&self, tp: u32) -> u64 {
        self.linear.map_or(0, |linear| u64::from(linear.layers) * linear.state_bytes(tp))
    }

    /// Layers with a dense MLP.
    pub fn dense_layers(&self) -> u32 {
        self.layers - self.sparse_layers()
    }

    /// Whether this many GPUs can share the heads, as vLLM requires.
    ///
    /// # Errors
    /// When the heads do not divide evenly.
    pub fn check_tensor_parallel(&self, tp: u32) -> Result<(), ModelError> {
        let (heads, kv_heads) = (self.attention.heads(), self.attention.kv_heads());
        let shares =
            |count: u32| count.is_multiple_of(tp) || (tp > count && tp.is_multiple_of(count));
        if tp >= 1 && heads.is_multiple_of(tp) && (kv_heads == 1 || shares(kv_heads)) {
            return Ok(());
        }
        Err(ModelError::TensorParallel { model: self.name.clone(), heads, kv_heads, tp })
    }

    /// KV bytes of one token over all layers on one of `tp` GPUs.
    pub fn kv_bytes_per_token(&self, tp: u32, dtype: KvDtype) -> u64 {
        self.kv_bytes_of_layers(self.attention_layers(), tp, dtype)
    }

    /// KV bytes of one token over so many layers on one of `tp` GPUs.
    pub(super) fn kv_bytes_of_layers(&self, layers: u32, tp: u32, dtype: KvDtype) -> u64 {
        u64::from(layers) * self.attention.cached_elements(tp) * dtype.bytes()
    }

    /// FLOPs of one token through all matrices, two per parameter it meets; attention to its
    /// context not included.
    pub fn flops_per_token(&self) -> u64 {
        let looked_up =
            if self.moe.is_none() && !self.tied_embeddings { self.embedding_params() } else { 0 };
        2 * (self.params_active() - looked_up)
    }

    pub(super) fn embedding_params(&self) -> u64 {
        u64::from(self.vocab) * u64::from(self.hidden)
    }
}
