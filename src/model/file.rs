//! A model as a file of the catalogue describes it: by what its `config.json` says, or in few words where all layers are
//! alike but for windows, states and experts.

use serde::Deserialize;
use serde_json::Value;

use super::checkpoint::{
    Checkpoint, DeltaNet, DenseMlp, DraftModules, Drafts, Experts, Gate, GroupedAttention, Join,
    LatentAttention, Layer, Mixer, QkNorm, QuantizedWeights, Reach, Router,
};
use super::error::ModelError;
use super::precision::{KvDtype, WeightFormat};

/// A model of the catalogue.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum ModelFile {
    /// By its config.
    Config(ConfigFile),
    /// In few words.
    Uniform(Box<UniformFile>),
}

/// What a checkpoint's own files say, without what only describes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigFile {
    /// The name people use, a Hugging Face id where there is one.
    name: String,
    /// `config.json`.
    config: Value,
    /// `hf_quant_config.json`, if there is one.
    #[serde(default)]
    hf_quant_config: Option<Value>,
}

impl TryFrom<ModelFile> for Checkpoint {
    type Error = ModelError;

    fn try_from(file: ModelFile) -> Result<Self, ModelError> {
        match file {
            ModelFile::Uniform(file) => Ok((*file).into()),
            ModelFile::Config(file) => {
                let beside = file.hf_quant_config.map(|beside| beside.to_string());
                Self::from_hf_config(&file.config.to_string(), beside.as_deref(), &file.name)
            }
        }
    }
}

/// A decoder-only transformer, in few words.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UniformFile {
    /// The name people use, a Hugging Face id where there is one.
    name: String,
    /// The class of the implementation, as `architectures` in `config.json` names it.
    architecture: String,
    /// Layers.
    layers: u32,
    /// Width of the residual stream.
    hidden: u32,
    /// Rows of the embedding table.
    vocab: u32,
    /// Whether the output head is the embedding table.
    tied_embeddings: bool,
    /// Width of the MLP of dense layers; 0 when every layer is a mixture of experts.
    #[serde(default)]
    intermediate: u32,
    /// How the MLP of dense layers is made.
    #[serde(default)]
    mlp: Mlp,
    /// How tokens see one another.
    attention: Attention,
    /// Layers that keep a state of constant size in place of keys and values, if any.
    #[serde(default)]
    linear: Option<LinearAttention>,
    /// The mixture of experts, if any.
    #[serde(default)]
    moe: Option<Moe>,
    /// Longest context the model was made for, in tokens.
    max_position: u32,
    /// The attention window of some layers, if any.
    #[serde(default)]
    sliding_window: Option<SlidingWindow>,
    /// Layers that draft, each a module like the last layer, with a matrix that every GPU has in front and an output
    /// head of its own: as DeepSeek-V3's.
    #[serde(default)]
    draft_layers: u32,
    /// Number formats of the weights.
    #[serde(default)]
    weights: WeightFormat,
    /// What an engine stores keys and values in that is asked for `auto`.
    #[serde(default)]
    kv_cache_dtype: KvDtype,
}

/// How an MLP is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mlp {
    /// Gate and up projections, then down: three matrices.
    #[default]
    Gated,
    /// Up, then down: two matrices.
    Plain,
}

/// How tokens see one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Attention {
    /// Groups of query heads share a KV head.
    Grouped(Grouped),
    /// Keys and values are compressed to one latent vector per token.
    Latent(Latent),
}

/// Grouped-query attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a checkpoint")]
struct Grouped {
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    #[serde(default)]
    qkv_bias: bool,
    #[serde(default)]
    output_bias: bool,
    /// Whether queries and keys are normalised per head.
    #[serde(default)]
    qk_norm: bool,
    /// Whether each head has a learned attention sink.
    #[serde(default)]
    sinks: bool,
    /// Whether the output of each head is gated by the token.
    #[serde(default)]
    output_gate: bool,
}

/// Layers with gated delta nets. Every so many layers the last one has keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinearAttention {
    /// Layers that have it, of all layers.
    layers: u32,
    key_heads: u32,
    value_heads: u32,
    key_dim: u32,
    value_dim: u32,
    conv_kernel: u32,
    /// Whether the config asks for states of 32 bits.
    #[serde(default)]
    wide_states: bool,
}

/// Multi-head latent attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Latent {
    heads: u32,
    /// Width queries are compressed to; queries are projected directly if absent.
    #[serde(default)]
    q_lora_rank: Option<u32>,
    kv_lora_rank: u32,
    qk_nope_head_dim: u32,
    qk_rope_head_dim: u32,
    v_head_dim: u32,
}

/// A mixture of experts. Layers without come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Moe {
    /// Routed experts per layer.
    experts: u32,
    /// Routed experts a token visits.
    experts_per_token: u32,
    /// Width of a routed expert.
    intermediate: u32,
    /// Width of all shared experts together, 0 for none.
    #[serde(default)]
    shared_intermediate: u32,
    /// Whether the shared expert is gated per token.
    #[serde(default)]
    shared_gate: bool,
    /// Layers with a dense MLP instead.
    #[serde(default)]
    dense_layers: u32,
    /// Whether the router adds a learned number per expert.
    #[serde(default)]
    router_bias: bool,
    /// Whether the experts' matrices have biases.
    #[serde(default)]
    expert_bias: bool,
}

/// An attention window. Of every so many layers the last has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlidingWindow {
    /// Tokens a windowed layer sees.
    tokens: u32,
    /// Layers with the window.
    layers: u32,
    /// Whether the window stands still: a layer sees the tokens since the last multiple of `tokens`.
    #[serde(default)]
    chunked: bool,
}

impl From<UniformFile> for Checkpoint {
    fn from(file: UniformFile) -> Self {
        let quantization = file
            .weights
            .quantization
            .as_ref()
            .map(|made| QuantizedWeights::of_modules(made.scheme, &made.modules));
        let layers: Vec<Layer> = (0..file.layers).map(|index| file.layer(index)).collect();
        Self {
            drafts: drafts(&layers, file.draft_layers, file.linear.is_some()),
            layers,
            family: Self::family_of(&file.architecture).to_owned(),
            name: file.name,
            architecture: file.architecture,
            hidden: file.hidden,
            streams: 1,
            vocab: file.vocab,
            tied_embeddings: file.tied_embeddings,
            max_position: file.max_position,
            max_position_sglang: file.max_position,
            dtype: file.weights.dtype,
            quantization,
            kv_cache_dtype: file.kv_cache_dtype,
            kv_cache_dtype_sglang: file.kv_cache_dtype,
            tower: None,
        }
    }
}

/// So many modules that draft, each of a layer like the last one. Configs of models with linear attention do not call them
/// `num_nextn_predict_layers`, and share what joins them.
fn drafts(layers: &[Layer], modules: u32, is_linear: bool) -> Drafts {
    match layers.last() {
        Some(last) if modules > 0 => Drafts::Read(DraftModules {
            modules,
            layers: vec![*last; modules as usize],
            join: if is_linear { Join::Shared("fc") } else { Join::Whole(None) },
            is_joined_once: false,
            has_head: true,
            nextn: (!is_linear).then_some(modules),
        }),
        _ => Drafts::None,
    }
}

impl UniformFile {
    fn layer(&self, index: u32) -> Layer {
        // The layers without are spread evenly: of every so many the last.
        let is_among = |some: u32| {
            let others = u64::from(self.layers.saturating_sub(some));
            let before = |index: u32| others * u64::from(index) / u64::from(self.layers.max(1));
            before(index + 1) == before(index)
        };
        let window = self.sliding_window.filter(|window| is_among(window.layers));
        let delta = self.linear.filter(|linear| is_among(linear.layers));
        let mixer = match (delta, self.attention) {
            (Some(linear), _) => Mixer::Delta(linear.shape()),
            (None, Attention::Grouped(grouped)) => Mixer::Grouped(grouped.shape(window)),
            (None, Attention::Latent(latent)) => Mixer::Latent(latent.shape()),
        };
        let experts = self.moe.filter(|moe| index >= moe.dense_layers).map(Moe::shape);
        let gated = self.mlp == Mlp::Gated;
        let dense = DenseMlp { width: self.intermediate, gated, bias: false };
        Layer { mixer: Some(mixer), dense: experts.is_none().then_some(dense), experts, norms: 2 }
    }
}

impl Grouped {
    fn shape(self, window: Option<SlidingWindow>) -> GroupedAttention {
        let reach = match window {
            None => Reach::Full,
            Some(window) if window.chunked => Reach::Chunk(window.tokens),
            Some(window) => Reach::Window(window.tokens),
        };
        GroupedAttention {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            value_dim: self.head_dim,
            qkv_bias: self.qkv_bias,
            output_bias: self.output_bias,
            qk_norm: if self.qk_norm { QkNorm::PerHead } else { QkNorm::None },
            sinks: self.sinks,
            gate: if self.output_gate { Gate::Elements } else { Gate::None },
            reach,
            indexer: None,
        }
    }
}

impl Latent {
    fn shape(self) -> LatentAttention {
        LatentAttention {
            heads: self.heads,
            q_lora_rank: self.q_lora_rank,
            kv_lora_rank: self.kv_lora_rank,
            qk_nope_head_dim: self.qk_nope_head_dim,
            qk_rope_head_dim: self.qk_rope_head_dim,
            v_head_dim: self.v_head_dim,
            output_gate: false,
            is_sparse: false,
            is_expanded: false,
            indexer: None,
        }
    }
}

impl LinearAttention {
    fn shape(self) -> DeltaNet {
        DeltaNet {
            key_heads: self.key_heads,
            value_heads: self.value_heads,
            key_dim: self.key_dim,
            value_dim: self.value_dim,
            conv_kernel: self.conv_kernel,
            is_wide: self.wide_states,
        }
    }
}

impl Moe {
    fn shape(self) -> Experts {
        Experts {
            count: self.experts,
            per_token: self.experts_per_token,
            width: self.intermediate,
            latent: None,
            latent_norm: false,
            gated: true,
            bias: self.expert_bias,
            shared_width: self.shared_intermediate,
            shared_gate: self.shared_gate,
            router: Router { bias: self.router_bias, ..Router::default() },
        }
    }
}
