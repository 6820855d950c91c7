//! The kinds of layers, and the shape of each.

use std::fmt;

/// One layer: what mixes tokens, and what follows it. Either may be absent (Nemotron-H alternates them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// What mixes tokens.
    pub mixer: Option<Mixer>,
    /// The dense MLP.
    pub dense: Option<DenseMlp>,
    /// The mixture of experts.
    pub experts: Option<Experts>,
    /// Vectors of the width of the residual stream: norms, as a rule two.
    pub norms: u32,
}

/// What lets tokens see one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mixer {
    /// Groups of query heads share a KV head.
    Grouped(GroupedAttention),
    /// Keys and values are compressed to a latent vector.
    Latent(LatentAttention),
    /// Latent vectors of a window, and compressed ones of what lies before it (DeepSeek-V4).
    Compressed(Compressed),
    /// Gated delta net (Yang et al. 2024).
    Delta(DeltaNet),
    /// Kimi delta attention (Kimi Linear, 2025).
    KimiDelta(KimiDelta),
    /// State space (Mamba-2, Dao and Gu 2024).
    StateSpace(StateSpace),
    /// Selective state space (Mamba, Gu and Dao 2023).
    Selective(Selective),
    /// Gated convolution over a few tokens (LFM2).
    ShortConv(ShortConv),
}

/// How far back a layer sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All tokens before.
    Full,
    /// The latest tokens.
    Window(u32),
    /// The tokens since the last multiple of so many.
    Chunk(u32),
}

/// How queries and keys are normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkNorm {
    /// Not, or without weights.
    None,
    /// Each head, with weights that heads share.
    PerHead,
    /// All heads together.
    AllHeads,
}

/// How the output of heads is gated by the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Not.
    None,
    /// Every element, which doubles the query projection.
    Elements,
    /// Every head.
    Heads,
}

/// Attention with keys and values of several heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupedAttention {
    /// Query heads.
    pub heads: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Elements of a query or key head.
    pub head_dim: u32,
    /// Elements of a value head.
    pub value_dim: u32,
    /// Whether the projections of queries, keys and values have biases.
    pub qkv_bias: bool,
    /// Whether the output projection has a bias.
    pub output_bias: bool,
    /// How queries and keys are normalised.
    pub qk_norm: QkNorm,
    /// Whether each head has a learned attention sink.
    pub sinks: bool,
    /// How outputs are gated.
    pub gate: Gate,
    /// How far back it sees.
    pub reach: Reach,
    /// What chooses the blocks of keys that are read, if not all are (MiniMax-M3).
    pub indexer: Option<Indexer>,
}

/// The small attention that chooses which keys are read (DeepSeek sparse attention, DeepSeek-V3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indexer {
    /// Query heads.
    pub heads: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Tokens that are read of those chosen.
    pub tokens: u32,
}

/// Multi-head latent attention (DeepSeek-V2 paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentAttention {
    /// Query heads.
    pub heads: u32,
    /// Width queries are compressed to; projected directly if absent.
    pub q_lora_rank: Option<u32>,
    /// Width keys and values are compressed to.
    pub kv_lora_rank: u32,
    /// Elements per query and key head without position.
    pub qk_nope_head_dim: u32,
    /// Elements per query and key head with rotary position.
    pub qk_rope_head_dim: u32,
    /// Elements per value head.
    pub v_head_dim: u32,
    /// Whether the output is gated (Kimi-K3).
    pub output_gate: bool,
    /// Whether vLLM keeps the keys and values of all heads, not the latent vector (`MiniCPM3`).
    pub is_expanded: bool,
    /// Whether only chosen tokens are read.
    pub is_sparse: bool,
    /// What chooses the tokens; a sparse layer without one takes those of a layer before it.
    pub indexer: Option<Indexer>,
}

/// Attention of DeepSeek-V4: one latent KV head, a window, and compressed entries before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compressed {
    /// Query heads.
    pub heads: u32,
    /// Elements of a head, and of a cached vector.
    pub head_dim: u32,
    /// Width queries are compressed to.
    pub q_lora_rank: u32,
    /// Width a group of outputs is compressed to.
    pub o_lora_rank: u32,
    /// Groups of heads with an output projection of their own.
    pub o_groups: u32,
    /// Tokens of the window.
    pub window: u32,
    /// Tokens that one compressed entry stands for; 0 for a layer with its window alone.
    pub ratio: u32,
    /// What chooses the compressed entries, where not all are read.
    pub indexer: Option<Indexer>,
}

/// A gated delta net, as in Qwen3-Next and Qwen3.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaNet {
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
    /// Whether the checkpoint asks for states in 32 bits.
    pub is_wide: bool,
}

/// Kimi delta attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KimiDelta {
    /// Heads, each with a state.
    pub heads: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Tokens that the convolutions see.
    pub conv_kernel: u32,
    /// Whether gates are projected directly, not by way of a narrow layer.
    pub has_full_rank_gate: bool,
}

/// A Mamba-2 layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a checkpoint")]
pub struct StateSpace {
    /// Heads, each with a state.
    pub heads: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Elements of the state for each element of a head.
    pub state: u32,
    /// Groups of heads that share their input and output matrices.
    pub groups: u32,
    /// Tokens that the convolution sees.
    pub conv_kernel: u32,
    /// Whether the convolution has a bias.
    pub conv_bias: bool,
    /// Whether the projections have biases.
    pub proj_bias: bool,
    /// Whether outputs are normalised with weights before they are projected.
    pub has_norm: bool,
    /// Whether the checkpoint asks for states in 32 bits.
    pub is_wide: bool,
    /// Tokens of a prompt that a kernel takes at once.
    pub chunk: u32,
}

/// A Mamba layer of the first kind, as Jamba has it: with norms of steps, inputs and outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selective {
    /// Channels, each with a state.
    pub channels: u32,
    /// Elements of the state of a channel.
    pub state: u32,
    /// Width that steps are compressed to.
    pub step_rank: u32,
    /// Tokens that the convolution sees.
    pub conv_kernel: u32,
    /// Whether the convolution has a bias.
    pub conv_bias: bool,
    /// Whether the projections have biases.
    pub proj_bias: bool,
}

/// A gated short convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortConv {
    /// Channels.
    pub channels: u32,
    /// Tokens that it sees.
    pub conv_kernel: u32,
    /// Whether convolution and projections have biases.
    pub bias: bool,
}

/// An MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenseMlp {
    /// Its width.
    pub width: u32,
    /// Whether it has a gate beside the up projection.
    pub gated: bool,
    /// Whether its matrices have biases.
    pub bias: bool,
}

/// A mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a checkpoint")]
pub struct Experts {
    /// Routed experts.
    pub count: u32,
    /// Routed experts that a token visits.
    pub per_token: u32,
    /// Width of a routed expert.
    pub width: u32,
    /// Width of what goes into routed experts, where it is not that of the residual stream.
    pub latent: Option<u32>,
    /// Whether that is normalised.
    pub latent_norm: bool,
    /// Whether experts have a gate beside the up projection.
    pub gated: bool,
    /// Whether the experts' matrices have biases.
    pub bias: bool,
    /// Width of all shared experts together, 0 for none.
    pub shared_width: u32,
    /// Whether the shared expert is gated per token.
    pub shared_gate: bool,
    /// What the router has beside its matrix.
    pub router: Router,
}

/// A router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a checkpoint")]
pub struct Router {
    /// Whether it adds a learned number per expert.
    pub bias: bool,
    /// Whether a table of the vocabulary chooses in its place (DeepSeek-V4's first layers).
    pub table: bool,
    /// Whether its matrix is in 32 bits.
    pub is_wide: bool,
    /// Whether it scales its input and each expert (Gemma 4).
    pub scales: bool,
    /// Experts that pass on what they get (LongCat-Flash), which it chooses among too.
    pub idle: u32,
}

impl fmt::Display for Mixer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grouped(attention) if attention.indexer.is_some() => "sparse attention",
            Self::Grouped(attention) => match attention.reach {
                Reach::Full => "attention",
                Reach::Window(_) => "sliding window",
                Reach::Chunk(_) => "chunked attention",
            },
            Self::Latent(latent) if latent.is_sparse => "sparse latent attention",
            Self::Latent(_) => "latent attention",
            Self::Compressed(_) => "compressed latent attention",
            Self::Delta(_) => "gated delta net",
            Self::KimiDelta(_) => "Kimi delta attention",
            Self::StateSpace(_) => "state space",
            Self::Selective(_) => "selective state space",
            Self::ShortConv(_) => "short convolution",
        })
    }
}
