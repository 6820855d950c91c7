//! What a step's parts are functions of: rows, contexts, pairs of tokens.

use super::Experts;
use crate::cost::window::Window;
use crate::cost::{StepParts, StepShape};

/// Rows that are priced by a look-up; larger steps are summed when they occur.
pub(super) const TABLE_ROWS: u32 = 8192;
/// Fixed time of the element-wise kernels of a part of a layer, its mixer or its MLP: 0.8 kernels of 3 µs.
pub(in crate::cost) const ELEMENTWISE_SECS: f64 = 2.4e-6;

/// Attention of all layers, in seconds: fixed, of what all contexts have, and of what is read of them at most.
#[derive(Debug, Clone, Copy)]
pub(in crate::cost) struct AttentionSecs {
    pub(super) fixed: f64,
    pub(super) full: Rates,
    /// The layers that do not read everything, by what they read at most.
    pub(super) bounded: [Option<(Window, Rates)>; BOUNDS],
}

/// Different bounds of what layers of one model read; those beyond count as the widest.
pub(super) const BOUNDS: usize = 2;

/// Seconds per token of context, and per pair of tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rates {
    pub(super) decode_token: f64,
    /// Of multiplying alone, for each token that attends.
    pub(super) decode_multiply: f64,
    pub(super) prefill_token: f64,
    pub(super) prefill_pair: f64,
}

impl Rates {
    pub(super) fn add(&mut self, other: Self) {
        self.decode_token += other.decode_token;
        self.decode_multiply += other.decode_multiply;
        self.prefill_token += other.prefill_token;
        self.prefill_pair += other.prefill_pair;
    }

    fn prefill(&self, context_tokens: u64, pairs: u64) -> f64 {
        (self.prefill_token * context_tokens as f64).max(self.prefill_pair * pairs as f64)
    }
}

impl AttentionSecs {
    /// Of the sequences that decode, with what every step takes, and of those that prefill.
    pub(in crate::cost) fn of(&self, shape: &StepShape) -> (f64, f64) {
        let context = shape.decode_context_tokens;
        let mut decode = self.read_once(shape).secs(context);
        if let Some(verified) = self.verified(shape) {
            decode += verified.secs(context);
        }
        let mut prefill = self.full.prefill(shape.prefill_context_tokens, shape.prefill_attention);
        for (window, rates) in self.bounded.iter().flatten() {
            let read = shape.prefill_context_tokens.min(window.most_read(shape.prefill_seqs));
            prefill += rates.prefill(read, window.pairs(shape));
        }
        (decode, prefill)
    }

    /// So many sequences of this mean context.
    pub(in crate::cost) fn decode_secs(&self, sequences: f64, context: f64) -> f64 {
        let mut shape = StepShape::default();
        let seqs = sequences as u32;
        shape.add_decodes(seqs, (sequences * context) as u64, context as u32);
        self.of(&shape).0
    }

    /// The bound of the layers that read the least, if any do not read everything.
    pub(in crate::cost) fn window(&self) -> Option<Window> {
        self.bounded[0].map(|(window, _)| window)
    }

    /// The drafts of a step, if it verifies some.
    fn verified(&self, shape: &StepShape) -> Option<Verified> {
        let drafts = shape.draft_context_tokens;
        (shape.draft_tokens > 0).then(|| Verified {
            full: VerifiedTokens { rates: self.full, most: u64::MAX, drafts },
            bounded: self.bounded.map(|bound| {
                bound.map(|(window, rates)| VerifiedTokens {
                    rates,
                    most: window.most_read(shape.decode_seqs),
                    drafts: drafts.min(window.most_read(shape.draft_tokens)),
                })
            }),
        })
    }

    /// Of steps with these sequences.
    #[inline]
    pub(in crate::cost) fn decodes(&self, shape: &StepShape) -> DecodeTokens {
        DecodeTokens { read: self.read_once(shape), verified: self.verified(shape).map(Box::new) }
    }

    /// The same without what drafts add.
    #[inline]
    fn read_once(&self, shape: &StepShape) -> ReadTokens {
        let fixed = if shape.seqs() > 0 { self.fixed } else { 0.0 };
        let bounded = self.bounded[0].is_some().then(|| {
            self.bounded.map(|bound| match bound {
                None => BoundedTokens { token: 0.0, most: 0 },
                Some((window, rates)) => BoundedTokens {
                    token: rates.decode_token,
                    most: window.most_read(shape.decode_seqs),
                },
            })
        });
        let token = self.full.decode_token;
        ReadTokens { fixed, token, bounded }
    }
}

/// Decode attention by the tokens in the contexts.
#[derive(Debug, Clone)]
pub(in crate::cost) struct DecodeTokens {
    read: ReadTokens,
    /// Few steps verify drafts, and what is moved with every step had better be small.
    verified: Option<Box<Verified>>,
}

/// The same of one token of each sequence.
#[derive(Debug, Clone, Copy)]
struct ReadTokens {
    fixed: f64,
    token: f64,
    bounded: Option<[BoundedTokens; BOUNDS]>,
}

/// Drafts that attend to contexts beside the tokens that decode: what is read is read once, but each multiplies.
#[derive(Debug, Clone, Copy)]
struct Verified {
    full: VerifiedTokens,
    bounded: [Option<VerifiedTokens>; BOUNDS],
}

/// The same of some layers, which read so many tokens at most.
#[derive(Debug, Clone, Copy)]
struct VerifiedTokens {
    rates: Rates,
    most: u64,
    drafts: u64,
}

impl Verified {
    fn secs(&self, context_tokens: u64) -> f64 {
        let bounded = self.bounded.iter().flatten();
        bounded
            .fold(self.full.secs(context_tokens), |secs, layers| secs + layers.secs(context_tokens))
    }
}

impl VerifiedTokens {
    /// By how much multiplying takes longer than one token of each sequence does.
    fn secs(&self, context_tokens: u64) -> f64 {
        let read = context_tokens.min(self.most);
        let multiply = self.rates.decode_multiply * (read + self.drafts) as f64;
        (multiply - self.rates.decode_token * read as f64).max(0.0)
    }
}

/// The same of layers that read so many tokens of all contexts together at most.
#[derive(Debug, Clone, Copy)]
struct BoundedTokens {
    token: f64,
    most: u64,
}

impl DecodeTokens {
    #[inline]
    pub(in crate::cost) fn secs(&self, context_tokens: u64) -> f64 {
        let mut secs = self.read.secs(context_tokens);
        if let Some(verified) = &self.verified {
            secs += verified.secs(context_tokens);
        }
        secs
    }
}

impl ReadTokens {
    #[inline]
    fn secs(&self, context_tokens: u64) -> f64 {
        let mut secs = self.fixed + self.token * context_tokens.cast_signed() as f64;
        for bounded in self.bounded.iter().flatten() {
            secs += bounded.token * context_tokens.min(bounded.most).cast_signed() as f64;
        }
        secs
    }
}

/// The sampler, in seconds: fixed and per row.
#[derive(Debug, Clone, Copy)]
pub(in crate::cost) struct Sampling {
    pub(super) fixed: f64,
    pub(super) row: f64,
}

impl Sampling {
    pub(in crate::cost) fn secs(&self, rows: u32) -> f64 {
        if rows == 0 { 0.0 } else { self.fixed + self.row * f64::from(rows) }
    }
}

/// A matrix product of `rows` rows: max(`read` + `read_row`·rows, `multiply_row`·rows) + `fixed`.
#[derive(Debug, Clone, Copy)]
pub(in crate::cost) struct Product {
    pub(super) read: f64,
    pub(super) read_row: f64,
    pub(super) multiply_row: f64,
    pub(super) fixed: f64,
}

impl Product {
    pub(in crate::cost) fn secs(&self, rows: f64) -> f64 {
        (self.read + self.read_row * rows).max(self.multiply_row * rows) + self.fixed
    }
}

/// What a layer does to its rows, attention apart.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) count: f64,
    pub(super) products: Vec<Product>,
    pub(super) experts: Option<Experts>,
    pub(super) elementwise: f64,
    pub(super) elementwise_row: f64,
}

/// All layers and their all-reduces.
#[derive(Debug, Clone)]
pub(super) struct Layers {
    pub(super) kinds: Vec<Layer>,
    pub(super) all_reduce: f64,
    pub(super) all_reduce_row: f64,
}

impl Layers {
    /// Seconds of all layers at so many rows, attention apart.
    pub(super) fn parts(&self, rows: u32) -> StepParts {
        if rows == 0 {
            return StepParts::default();
        }
        let count = f64::from(rows);
        let mut parts = StepParts {
            all_reduce: self.all_reduce + self.all_reduce_row * count,
            ..StepParts::default()
        };
        for layer in &self.kinds {
            let products: f64 = layer.products.iter().map(|product| product.secs(count)).sum();
            let experts = layer.experts.map_or(0.0, |experts| experts.secs(rows));
            let elementwise = layer.elementwise + layer.elementwise_row * count;
            parts.products += layer.count * products;
            parts.experts += layer.count * experts;
            parts.elementwise += layer.count * elementwise;
        }
        parts
    }
}

impl Layers {
    /// The experts of all layers, where the busiest GPU has so many times its usual share.
    pub(super) fn expert_secs(&self, rows: u32, by: f64) -> f64 {
        if rows == 0 {
            return 0.0;
        }
        let experts = |layer: &Layer| layer.experts.map_or(0.0, |e| e.skewed(by).secs(rows));
        self.kinds.iter().map(|layer| layer.count * experts(layer)).sum()
    }
}

/// `base` to a whole power by squaring: the same bits on every machine, which `powi` does not promise.
pub(in crate::cost) fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            result *= base;
        }
        base *= base;
        exponent /= 2;
    }
    result
}
