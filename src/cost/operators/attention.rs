//! Attention as functions of the sequences, their contexts and the tokens that are new.

use super::grid::{Line, Surface, neighbours};
use super::profile::{DecodeTable, OperatorProfile, PrefillTable};

/// Heads as one GPU sees them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) query: f64,
    pub(super) kv: f64,
    pub(super) dim: f64,
}

/// Decode attention of a layer: the lines of the most similar heads, and how many of their
/// sequences one of ours weighs.
pub(super) struct Decode<'a> {
    table: &'a DecodeTable,
    shape: usize,
    scale: f64,
}

impl<'a> Decode<'a> {
    /// Those of the same head size, or else of another whose heads weigh as much; of the nearest
    /// ratio of query to KV heads, then of the nearest number of KV heads.
    pub(super) fn choose(
        profile: &'a OperatorProfile,
        kv_dtype: &str,
        heads: &Heads,
    ) -> Option<Self> {
        let mut nearest: Option<([f64; 3], Self)> = None;
        for table in profile.decode_attention.iter().filter(|table| table.kv_dtype == kv_dtype) {
            let dim = f64::from(table.head_dim);
            for (shape, [query, kv]) in table.heads.iter().enumerate() {
                let (query, kv) = (f64::from(*query), f64::from(*kv));
                let scale = heads.kv * heads.dim / (kv * dim);
                let ratio = heads.query / heads.kv * kv / query;
                let distance = [heads.dim / dim, ratio, scale].map(|factor| factor.ln().abs());
                if nearest.as_ref().is_none_or(|(least, _)| distance < *least) {
                    nearest = Some((distance, Self { table, shape, scale }));
                }
            }
        }
        nearest.map(|(_, chosen)| chosen)
    }

    /// Sequences and context of the largest shape measured.
    pub(super) fn reach(&self) -> [f64; 2] {
        let last = |grid: &[u32]| grid.last().map_or(1.0, |node| f64::from(*node));
        [last(&self.table.sequences) / self.scale, last(&self.table.contexts)]
    }

    /// Seconds by sequences and mean context.
    pub(super) fn surface(&self, layers: f64) -> Surface {
        let [sequences, context] = self.reach();
        let most = [sequences.clamp(256.0, 4096.0), context];
        Surface::sample(most, |sequences, context| {
            1e-6 * layers * self.micros(sequences * self.scale, context)
        })
    }

    /// The measured time, or what reading the KV from memory takes if that is longer: the
    /// measurement reads the same KV again and again, from the L2 cache where it fits.
    fn micros(&self, sequences: f64, context: f64) -> f64 {
        let table = self.table;
        let kv_bytes = if table.kv_dtype == "fp8" { 1.0 } else { 2.0 };
        let kv_heads = f64::from(table.heads[self.shape][1]);
        let token_bytes = 2.0 * kv_bytes * kv_heads * f64::from(table.head_dim);
        let from_memory = table.fixed_us[self.shape]
            + sequences * context * token_bytes / table.bytes_per_us[self.shape];
        let mut ln = 0.0;
        for (row, across) in neighbours(&table.sequences, sequences) {
            for (column, along) in neighbours(&table.contexts, context) {
                let weight = across * along;
                if weight == 0.0 {
                    continue;
                }
                let line = self.shape * table.sequences.len() + row;
                match table.times.ln(line * table.contexts.len() + column) {
                    Some(time) => ln += weight * time,
                    None => return from_memory,
                }
            }
        }
        from_memory.max(ln.exp())
    }
}

/// Prefill attention of a layer: the line of the most similar heads, and how much more ours
/// multiply.
pub(super) struct Prefill<'a> {
    table: &'a PrefillTable,
    line: usize,
    scale: f64,
}

impl<'a> Prefill<'a> {
    /// The line of the nearest number of query heads, then of KV heads, of the nearest head size.
    pub(super) fn choose(profile: &'a OperatorProfile, heads: &Heads) -> Option<Self> {
        let far = |a: f64, b: f64| (a / b).ln().abs();
        let table = profile.prefill_attention.iter().min_by(|a, b| {
            let distance = |t: &PrefillTable| far(heads.dim, f64::from(t.head_dim));
            distance(a).total_cmp(&distance(b))
        })?;
        let distance = |line: usize| {
            let [query, kv] = table.heads[line].map(f64::from);
            (far(heads.query, query), far(heads.kv, kv))
        };
        let line = (0..table.heads.len()).min_by(|a, b| {
            let (a, b) = (distance(*a), distance(*b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })?;
        let width = f64::from(table.heads[line][0]) * f64::from(table.head_dim);
        Some(Self { table, line, scale: heads.query * heads.dim / width })
    }

    /// The longest prompt measured.
    pub(super) fn reach(&self) -> f64 {
        self.table.tokens.last().map_or(1.0, |tokens| f64::from(*tokens))
    }

    /// Seconds of a whole prompt by its length; beyond the table as its square.
    pub(super) fn line(&self, layers: f64, most: f64) -> Line {
        Line::sample(most, |tokens| 1e-6 * layers * self.scale * self.micros(tokens))
    }

    fn micros(&self, tokens: f64) -> f64 {
        let reach = self.reach();
        let first = self.line * self.table.tokens.len();
        let (mut ln, mut weights) = (0.0, 0.0);
        for (column, weight) in neighbours(&self.table.tokens, tokens) {
            if let Some(time) = self.table.times.ln(first + column) {
                ln += weight * time;
                weights += weight;
            }
        }
        let beyond = (tokens / reach).max(1.0);
        if weights > 0.0 { (ln / weights).exp() * beyond * beyond } else { 0.0 }
    }
}
