//! Attention as functions of the sequences, their contexts and the tokens that are new.

use super::grid::{Surface, between, neighbours};
use super::profile::{DecodeTable, OperatorProfile, PrefillTable};
use crate::cost::contexts::Heads;

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
            if across == 0.0 {
                continue;
            }
            let line = self.shape * table.sequences.len() + row;
            let mut time = 0.0;
            // What reads the context takes time in proportion to it, beside what it takes to begin.
            for (column, along) in between(&table.contexts, context) {
                match table.times.time(line * table.contexts.len() + column) {
                    _ if along == 0.0 => {}
                    Some(measured) => time += along * measured,
                    None => return from_memory,
                }
            }
            ln += across * time.ln();
        }
        from_memory.max(ln.exp())
    }
}

/// Prefill attention of a layer: the times of the most similar heads, and how much more ours
/// multiply.
pub(super) struct Prefill<'a> {
    table: &'a PrefillTable,
    /// Logarithms of µs, by prompts, then tokens; none is missing.
    times: Vec<f64>,
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
        let distance = |shape: usize| {
            let [query, kv] = table.heads[shape].map(f64::from);
            (far(heads.query, query), far(heads.kv, kv))
        };
        let shape = (0..table.heads.len()).min_by(|a, b| {
            let (a, b) = (distance(*a), distance(*b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })?;
        let width = f64::from(table.heads[shape][0]) * f64::from(table.head_dim);
        let scale = heads.query * heads.dim / width;
        Some(Self { table, times: whole_grid(table, shape), scale })
    }

    /// The longest prompt measured.
    pub(super) fn reach(&self) -> f64 {
        self.table.tokens.last().map_or(1.0, |tokens| f64::from(*tokens))
    }

    /// Seconds of whole prompts of one length, by their number and length; beyond the table in
    /// proportion to their number and as the square of the length.
    pub(super) fn surface(&self, layers: f64, most: f64) -> Surface {
        let prompts = self.table.prompts.last().map_or(1.0, |prompts| f64::from(*prompts));
        Surface::sample([prompts, most], |prompts, tokens| {
            1e-6 * layers * self.scale * self.micros(prompts, tokens)
        })
    }

    fn micros(&self, prompts: f64, tokens: f64) -> f64 {
        let table = self.table;
        let mut ln = 0.0;
        for (row, across) in neighbours(&table.prompts, prompts) {
            for (column, along) in neighbours(&table.tokens, tokens) {
                ln += across * along * self.times[row * table.tokens.len() + column];
            }
        }
        let most = table.prompts.last().map_or(1.0, |prompts| f64::from(*prompts));
        let longer = (tokens / self.reach()).max(1.0);
        ln.exp() * (prompts / most).max(1.0) * longer * longer
    }
}

/// The times of one shape of heads. What was not measured goes on from fewer prompts in
/// proportion, from shorter ones as the square.
fn whole_grid(table: &PrefillTable, shape: usize) -> Vec<f64> {
    let (rows, columns) = (table.prompts.len(), table.tokens.len());
    let ln_ratio = |grid: &[u32], at: usize| (f64::from(grid[at]) / f64::from(grid[at - 1])).ln();
    let mut times = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        let measured = |column| table.times.ln((shape * rows + row) * columns + column);
        for column in 0..columns {
            let time = measured(column).unwrap_or_else(|| {
                if row > 0 {
                    times[(row - 1) * columns + column] + ln_ratio(&table.prompts, row)
                } else if column > 0 {
                    times[column - 1] + 2.0 * ln_ratio(&table.tokens, column)
                } else {
                    // Short prompts take as long as the shortest that was measured.
                    (1..columns).find_map(measured).unwrap_or(f64::NEG_INFINITY)
                }
            });
            times.push(time);
        }
    }
    times
}
