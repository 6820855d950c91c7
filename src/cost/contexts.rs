//! What the layers of a model read of the contexts of a step, and multiply with: one [`Reading`] for each kind of
//! attention, and one more for what chooses the keys that sparse attention reads.
//!
//! * Grouped and latent attention read what they cached of every token, or of the latest ones.
//! * Sparse attention (DeepSeek-V3.2, GLM-5, MiniMax-M3) reads the chosen tokens, and its indexer a narrow key of
//!   every token; prefills read chosen tokens as decodes do, with the latent vectors themselves.
//! * DeepSeek-V4 reads latent vectors of a window, and before it entries that stand for several tokens each, all of
//!   them or those that an indexer chose.

use super::shares;
use super::window::Window;
use crate::model::COMPRESSED_ROW;
use crate::model::checkpoint::Indexer;
use crate::model::{KvDtype, Mixer, ModelSpec, Reach};

/// Layers that read contexts alike; figures are of one layer on one GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    /// How many layers.
    pub(super) layers: f64,
    /// The mixer.
    pub(super) mixer: Mixer,
    /// What is read at most; all that is cached if absent.
    pub(super) window: Option<Window>,
    /// Bytes of a token.
    pub(super) bytes: f64,
    /// FLOPs of a decode for each token that it reads.
    pub(super) decode_flops: f64,
    /// FLOPs of a prefill for each pair of tokens.
    pub(super) prefill_flops: f64,
    /// Whether it is what chooses keys.
    pub(super) chooses: bool,
    /// Whether its fixed time is in another reading of the same layer.
    pub(super) is_beside: bool,
}

impl Reading {
    /// The heads on one of `tp` GPUs, where keys and values of several heads are read, and all of them or the latest.
    pub(super) fn heads(&self, tp: u32) -> Option<Heads> {
        let Mixer::Grouped(grouped) = self.mixer else { return None };
        grouped.indexer.is_none().then(|| Heads {
            query: f64::from(grouped.heads.div_ceil(tp.max(1))),
            kv: f64::from(grouped.kv_heads.div_ceil(tp.max(1))),
            dim: f64::from(grouped.head_dim + grouped.value_dim) / 2.0,
        })
    }

    /// Whether keys and values of several heads are read, and all of them or the latest.
    pub(super) fn is_grouped(&self) -> bool {
        self.heads(1).is_some()
    }

    /// Whether it multiplies in 8 bits: indexers of latent attention do, whose keys are stored so.
    pub(super) fn is_narrow(&self) -> bool {
        self.chooses && !matches!(self.mixer, Mixer::Grouped(_))
    }

    /// Seconds of a layer however little is read.
    pub(super) fn fixed_secs(&self, overhead: f64) -> f64 {
        match self.mixer {
            _ if self.is_beside => 0.0,
            Mixer::Grouped(grouped) if grouped.indexer.is_some() => {
                shares::SPARSE_GROUPED_DECODE_SECS
            }
            Mixer::Latent(latent) if latent.is_sparse => shares::SPARSE_LATENT_DECODE_SECS,
            Mixer::Latent(_) => shares::LATENT_DECODE_SECS,
            Mixer::Compressed(_) => shares::COMPRESSED_DECODE_SECS,
            _ => overhead,
        }
    }

    /// Shares of the memory bandwidth, and of the multiplications of decodes and prefills, that are reached, where a
    /// GPU's own are these.
    pub(super) fn shares(&self, own: [f64; 3]) -> [f64; 3] {
        let [bandwidth, decode, prefill] = own;
        match self.mixer {
            _ if self.chooses => [shares::INDEXER_BANDWIDTH, decode, prefill],
            Mixer::Latent(latent) if !latent.is_expanded => {
                let prefill =
                    if latent.is_sparse { prefill } else { shares::LATENT_PREFILL_COMPUTE };
                [shares::LATENT_DECODE_BANDWIDTH, shares::LATENT_DECODE_COMPUTE, prefill]
            }
            Mixer::Compressed(_) => {
                [shares::LATENT_DECODE_BANDWIDTH, shares::LATENT_DECODE_COMPUTE, prefill]
            }
            _ => [bandwidth, decode, prefill],
        }
    }
}

/// Heads as one GPU sees them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Heads {
    pub(super) query: f64,
    pub(super) kv: f64,
    pub(super) dim: f64,
}

/// Of all layers with keys and values on one of `tp` GPUs, in the order of the first of each kind.
pub(super) fn readings(model: &ModelSpec, tp: u32, dtype: KvDtype) -> Vec<Reading> {
    let mut kinds = model.distinct_mixers();
    kinds.retain(|(mixer, _)| mixer.has_kv());
    let chosen = kinds.iter().find_map(|(mixer, _)| indexer(mixer)).map(|indexer| indexer.tokens);
    let of = |(mixer, count): (Mixer, u32)| of_mixer(mixer, f64::from(count), (tp, dtype), chosen);
    kinds.into_iter().flat_map(of).collect()
}

fn indexer(mixer: &Mixer) -> Option<Indexer> {
    match mixer {
        Mixer::Grouped(grouped) => grouped.indexer,
        Mixer::Latent(latent) => latent.indexer,
        Mixer::Compressed(compressed) => compressed.indexer,
        _ => None,
    }
}

/// Bytes of a key of an indexer of latent attention: 8 bits, and a scale of 32.
fn key_bytes(indexer: Indexer) -> f64 {
    f64::from(indexer.head_dim) + 4.0
}

fn of_mixer(
    mixer: Mixer,
    layers: f64,
    (tp, dtype): (u32, KvDtype),
    chosen: Option<u32>,
) -> Vec<Reading> {
    let all = Reading {
        layers,
        mixer,
        window: None,
        bytes: mixer.cached_bytes(tp, dtype),
        decode_flops: mixer.decode_flops_per_pair(tp) as f64,
        prefill_flops: mixer.prefill_flops_per_pair(tp) as f64,
        chooses: false,
        is_beside: false,
    };
    let choosing = |indexer: Indexer, heads: u32, bytes: f64| {
        let flops = 2.0 * f64::from(heads) * f64::from(indexer.head_dim);
        let all = Reading { is_beside: true, ..all };
        Reading { bytes, decode_flops: flops, prefill_flops: flops, chooses: true, ..all }
    };
    match mixer {
        Mixer::Grouped(grouped) => match grouped.indexer {
            None => {
                let window = match grouped.reach {
                    Reach::Full => None,
                    Reach::Window(tokens) | Reach::Chunk(tokens) => Some(Window::of_keys(tokens)),
                };
                vec![Reading { window, ..all }]
            }
            Some(indexer) => {
                let key = 2.0 * f64::from(indexer.head_dim);
                let window = Some(Window::chosen(indexer.tokens));
                let heads = indexer.heads.div_ceil(tp.max(1));
                vec![
                    Reading { window, bytes: all.bytes - key, ..all },
                    choosing(indexer, heads, key),
                ]
            }
        },
        Mixer::Latent(latent) if latent.is_sparse => {
            let key = latent.indexer.map_or(0.0, key_bytes);
            let window = chosen.map(Window::chosen);
            let main = Reading { window, bytes: all.bytes - key, ..all };
            let index = latent.indexer.map(|indexer| choosing(indexer, indexer.heads, key));
            std::iter::once(main).chain(index).collect()
        }
        Mixer::Compressed(compressed) => {
            let near = Window::exact(compressed.window);
            let near = Reading { window: Some(near), bytes: COMPRESSED_ROW, ..all };
            if compressed.ratio == 0 {
                return vec![near];
            }
            let each = |figure: f64| figure / f64::from(compressed.ratio);
            // One kernel reads the window and the entries before it.
            let far = Reading {
                window: compressed.chosen_tokens().map(Window::chosen),
                bytes: each(COMPRESSED_ROW),
                decode_flops: each(all.decode_flops),
                prefill_flops: each(all.prefill_flops),
                is_beside: true,
                ..all
            };
            let index = compressed.indexer.map(|indexer| {
                let index = choosing(indexer, indexer.heads, each(key_bytes(indexer)));
                let (decode, prefill) = (each(index.decode_flops), each(index.prefill_flops));
                Reading { decode_flops: decode, prefill_flops: prefill, ..index }
            });
            [near, far].into_iter().chain(index).collect()
        }
        _ => vec![all],
    }
}

/// What of sparse and windowed attention is said in the provenance of a cost model.
pub(super) fn said(model: &ModelSpec) -> String {
    let readings = readings(model, 1, KvDtype::Auto);
    let mut said = String::new();
    for reading in readings.iter().filter(|reading| !reading.chooses) {
        if let Some(window) = &reading.window {
            let (window, layers) = (window.named(), reading.layers);
            said.extend(["; ", &window, " in ", &layers.to_string(), " layers"]);
        }
    }
    said
}
