//! What follows from the layers of a model: how many of each kind, what they keep of a token, what attention multiplies.

use super::checkpoint::{
    Checkpoint, Compressed, DeltaNet, Experts, GroupedAttention, KimiDelta, LatentAttention, Layer,
    Mixer, Reach, StateSpace,
};
use super::precision::KvDtype;

/// An attention window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindow {
    /// Tokens a windowed layer sees.
    pub tokens: u32,
    /// Layers with the window.
    pub layers: u32,
    /// Whether the window stands still: a layer sees the tokens since the last multiple of `tokens`
    /// (Llama 4).
    pub chunked: bool,
}

impl Checkpoint {
    /// Layers.
    pub fn num_layers(&self) -> u32 {
        self.layers.len() as u32
    }

    fn count(&self, is: impl Fn(&Layer) -> bool) -> u32 {
        self.layers.iter().filter(|layer| is(layer)).count() as u32
    }

    /// Layers whose mixer is so.
    fn count_mixers(&self, is: impl Fn(&Mixer) -> bool) -> u32 {
        self.count(|layer| layer.mixer.as_ref().is_some_and(&is))
    }

    /// Layers with a mixture of experts.
    pub fn sparse_layers(&self) -> u32 {
        self.count(|layer| layer.experts.is_some())
    }

    /// Layers with a dense MLP.
    pub fn dense_layers(&self) -> u32 {
        self.count(|layer| layer.dense.is_some())
    }

    /// Layers with keys and values.
    pub fn attention_layers(&self) -> u32 {
        self.count_mixers(Mixer::has_kv)
    }

    /// Layers that keep a state of constant size in place of keys and values.
    pub fn state_layers(&self) -> u32 {
        self.count_mixers(|mixer| !mixer.has_kv())
    }

    /// Layers with a delta rule.
    pub fn delta_layers(&self) -> u32 {
        let delta = |mixer: &Mixer| matches!(mixer, Mixer::Delta(_) | Mixer::KimiDelta(_));
        self.count_mixers(delta)
    }

    /// Layers with a state space.
    pub fn state_space_layers(&self) -> u32 {
        let states = |mixer: &Mixer| matches!(mixer, Mixer::StateSpace(_) | Mixer::Selective(_));
        self.count_mixers(states)
    }

    /// Layers whose tokens attend to those that an indexer chooses.
    pub fn indexed_layers(&self) -> u32 {
        self.count_mixers(Mixer::has_indexer)
    }

    /// The experts of the layers that have some.
    pub fn experts(&self) -> Option<&Experts> {
        self.layers.iter().find_map(|layer| layer.experts.as_ref())
    }

    /// Width of the widest dense MLP, 0 without one.
    pub fn dense_width(&self) -> u32 {
        let dense = self.layers.iter().filter_map(|layer| layer.dense);
        dense.map(|dense| dense.width).max().unwrap_or(0)
    }

    /// Layers whose keys and values are compressed to latent vectors.
    pub fn latent_layers(&self) -> u32 {
        let latent = |mixer: &Mixer| matches!(mixer, Mixer::Latent(_) | Mixer::Compressed(_));
        self.count_mixers(latent)
    }

    /// Whether keys and values are compressed to latent vectors.
    pub fn is_latent(&self) -> bool {
        self.attentions().any(|mixer| matches!(mixer, Mixer::Latent(_) | Mixer::Compressed(_)))
    }

    /// The mixers with keys and values, in order.
    pub fn attentions(&self) -> impl Iterator<Item = &Mixer> {
        self.each_mixer().filter(|mixer| mixer.has_kv())
    }

    /// The most query heads of a layer.
    pub fn heads(&self) -> u32 {
        self.attentions().map(Mixer::heads).max().unwrap_or(1)
    }

    /// The most heads of a layer whose keys and values are cached; one latent head counts once.
    pub fn kv_heads(&self) -> u32 {
        self.attentions().map(Mixer::kv_heads).max().unwrap_or(1)
    }

    /// The window of the layers that have one, if they have the same.
    pub fn window(&self) -> Option<SlidingWindow> {
        let reaches = || self.attentions().map(Mixer::reach);
        let first = reaches().find(|reach| *reach != Reach::Full)?;
        if reaches().any(|reach| reach != Reach::Full && reach != first) {
            return None;
        }
        let layers = reaches().filter(|reach| *reach == first).count() as u32;
        match first {
            Reach::Window(tokens) => Some(SlidingWindow { tokens, layers, chunked: false }),
            Reach::Chunk(tokens) => Some(SlidingWindow { tokens, layers, chunked: true }),
            Reach::Full => None,
        }
    }

    /// Whether a layer that sees everything keeps something else of a token than another layer does.
    pub fn has_unequal_caches(&self) -> bool {
        let mut bytes =
            self.attentions().map(|mixer| mixer.cached_bytes(1, KvDtype::Auto).to_bits());
        let first = bytes.next();
        bytes.any(|other| Some(other) != first)
    }

    /// KV bytes of one token over all layers on one of `tp` GPUs.
    pub fn kv_bytes_per_token(&self, tp: u32, dtype: KvDtype) -> u64 {
        self.kv_bytes_of(tp, dtype, |_| true)
    }

    /// KV bytes of one token over the layers that reach like this, on one of `tp` GPUs.
    pub(super) fn kv_bytes_of(&self, tp: u32, dtype: KvDtype, is: impl Fn(Reach) -> bool) -> u64 {
        let mixers = self.attentions().filter(|mixer| is(mixer.reach()));
        mixers.map(|mixer| mixer.cached_bytes(tp, dtype)).sum::<f64>() as u64
    }

    /// KV bytes of one token in the layer that keeps most of it, on one of `tp` GPUs.
    pub(super) fn kv_bytes_of_layer(&self, tp: u32, dtype: KvDtype) -> u64 {
        let bytes = self.attentions().map(|mixer| mixer.cached_bytes(tp, dtype));
        bytes.fold(0.0, f64::max) as u64
    }
}

/// Rows of DeepSeek-V4: 448 elements of 8 bits, 64 of 16 bits, eight scales.
pub(crate) const COMPRESSED_ROW: f64 = 584.0;

impl Mixer {
    /// Whether it keeps keys and values, or latent vectors.
    pub const fn has_kv(&self) -> bool {
        matches!(self, Self::Grouped(_) | Self::Latent(_) | Self::Compressed(_))
    }

    /// Whether an indexer chooses the tokens that each attends to.
    pub const fn has_indexer(&self) -> bool {
        match self {
            Self::Grouped(grouped) => grouped.indexer.is_some(),
            Self::Latent(latent) => latent.indexer.is_some(),
            Self::Compressed(compressed) => compressed.indexer.is_some(),
            _ => false,
        }
    }

    /// Query heads, or heads with a state.
    pub const fn heads(&self) -> u32 {
        match self {
            Self::Grouped(grouped) => grouped.heads,
            Self::Latent(latent) => latent.heads,
            Self::Compressed(compressed) => compressed.heads,
            Self::Delta(delta) => delta.value_heads,
            Self::KimiDelta(delta) => delta.heads,
            Self::StateSpace(state) => state.heads,
            Self::Selective(selective) => selective.channels,
            Self::ShortConv(conv) => conv.channels,
        }
    }

    /// Heads whose keys and values are cached.
    pub const fn kv_heads(&self) -> u32 {
        match self {
            Self::Grouped(grouped) => grouped.kv_heads,
            _ => 1,
        }
    }

    /// How far back it sees.
    pub const fn reach(&self) -> Reach {
        match self {
            Self::Grouped(grouped) => grouped.reach,
            _ => Reach::Full,
        }
    }

    /// Bytes that it caches of a token, on average over a long context, on one of `tp` GPUs. KV heads are replicated
    /// where there are more GPUs than KV heads; a latent vector is on every GPU. States are not counted.
    pub fn cached_bytes(&self, tp: u32, dtype: KvDtype) -> f64 {
        let bytes = dtype.bytes() as f64;
        match self {
            Self::Grouped(grouped) => {
                let heads = f64::from(grouped.kv_heads.div_ceil(tp.max(1)));
                let elements = heads * f64::from(grouped.head_dim + grouped.value_dim);
                // Keys of one head of an indexer, always in 16 bits.
                let index = grouped.indexer.map_or(0, |indexer| 2 * indexer.head_dim);
                elements * bytes + f64::from(index)
            }
            Self::Latent(latent) => {
                if latent.is_expanded {
                    // Keys and values of every head, as of grouped attention.
                    let head = latent.qk_nope_head_dim + latent.qk_rope_head_dim;
                    return 2.0
                        * f64::from(latent.heads.div_ceil(tp.max(1)))
                        * f64::from(head)
                        * bytes;
                }
                let elements = latent.kv_lora_rank + latent.qk_rope_head_dim;
                f64::from(elements) * bytes
                    + latent.indexer.map_or(0.0, |indexer| f64::from(indexer.head_dim) + 4.0)
            }
            Self::Compressed(compressed) if compressed.ratio > 0 => {
                let index =
                    compressed.indexer.map_or(0.0, |indexer| f64::from(indexer.head_dim) + 4.0);
                (COMPRESSED_ROW + index) / f64::from(compressed.ratio)
            }
            _ => 0.0,
        }
    }

    /// FLOPs on one of `tp` GPUs of one prefill token seeing one token.
    pub fn prefill_flops_per_pair(&self, tp: u32) -> u64 {
        let heads = u64::from(self.heads().div_ceil(tp.max(1)));
        let per_head = match self {
            Self::Grouped(GroupedAttention { head_dim, value_dim, .. }) => head_dim + value_dim,
            Self::Latent(LatentAttention {
                qk_nope_head_dim,
                qk_rope_head_dim,
                v_head_dim,
                is_sparse: false,
                ..
            }) => qk_nope_head_dim + qk_rope_head_dim + v_head_dim,
            _ => return self.decode_flops_per_pair(tp),
        };
        2 * heads * u64::from(per_head)
    }

    /// FLOPs on one of `tp` GPUs of one decode token seeing one token; latent attention multiplies with the
    /// compressed vector itself, and so does a prefill that reads chosen tokens only.
    pub fn decode_flops_per_pair(&self, tp: u32) -> u64 {
        let heads = u64::from(self.heads().div_ceil(tp.max(1)));
        let per_head = match self {
            Self::Grouped(grouped) => grouped.head_dim + grouped.value_dim,
            Self::Latent(latent) if latent.is_expanded => {
                latent.qk_nope_head_dim + latent.qk_rope_head_dim + latent.v_head_dim
            }
            Self::Latent(latent) => 2 * latent.kv_lora_rank + latent.qk_rope_head_dim,
            Self::Compressed(compressed) => 2 * compressed.head_dim,
            _ => 0,
        };
        2 * heads * u64::from(per_head)
    }

    /// FLOPs of one token in a layer with states, on one of `tp` GPUs: the state decays, is corrected by the token
    /// where it is a delta net, and read.
    pub fn state_flops_per_token(&self, tp: u32) -> u64 {
        let share = |count: u32| u64::from(count.div_ceil(tp.max(1)));
        match self {
            Self::Delta(DeltaNet { value_heads, key_dim, value_dim, .. }) => {
                7 * share(*value_heads) * u64::from(*key_dim) * u64::from(*value_dim)
            }
            Self::KimiDelta(KimiDelta { heads, head_dim, .. }) => {
                7 * share(*heads) * u64::from(*head_dim) * u64::from(*head_dim)
            }
            Self::StateSpace(StateSpace { heads, head_dim, state, .. }) => {
                5 * share(*heads) * u64::from(*head_dim) * u64::from(*state)
            }
            Self::Selective(selective) => {
                5 * share(selective.channels) * u64::from(selective.state)
            }
            // Products of neighbours, nothing beside them.
            Self::ShortConv(conv) => 2 * share(conv.channels) * u64::from(conv.conv_kernel),
            Self::Grouped(_) | Self::Latent(_) | Self::Compressed(_) => 0,
        }
    }
}

impl Compressed {
    /// Tokens of the context that a token reads at most of the compressed entries: all where nothing chooses.
    pub fn chosen_tokens(&self) -> Option<u32> {
        self.indexer.map(|indexer| indexer.tokens.saturating_mul(self.ratio))
    }
}

#[cfg(test)]
impl Checkpoint {
    /// The same, the first layers of which see a window only.
    pub(crate) fn with_windows(&self, tokens: u32, layers: u32) -> Self {
        let mut model = self.clone();
        for layer in &mut model.layers[..layers as usize] {
            if let Some(Mixer::Grouped(grouped)) = &mut layer.mixer {
                grouped.reach = Reach::Window(tokens);
            }
        }
        model
    }

    /// The same, whose layers all see everything.
    pub(crate) fn seeing_all(&self) -> Self {
        let mut model = self.clone();
        for layer in &mut model.layers {
            if let Some(Mixer::Grouped(grouped)) = &mut layer.mixer {
                grouped.reach = Reach::Full;
            }
        }
        model
    }

    /// The same with so many layers, all like the first.
    pub(crate) fn with_layers(&self, layers: u32) -> Self {
        Self { layers: vec![self.layers[0]; layers as usize], ..self.clone() }
    }
}
