//! Attention that is not grouped, as functions of the sequences, their contexts and the tokens that are new.
//!
//! A table holds what a layer's attention takes beside its matrix products, for some numbers of heads on a GPU.
//! Between two of them times are linear in the heads. Decode is linear in sequences and in contexts, since kernels
//! take a fixed time and one in proportion to what they read; prefill is interpolated in the logarithms.

use super::grid::{Surface, between, neighbours};
use super::tables::{MixerKind, MixerTable};
use crate::model::KvDtype;

/// Prompts so many times as long as the longest that was measured go on with its power.
const PROMPT_REACH: f64 = 4.0;

/// The times of all layers of one kind.
#[derive(Debug, Clone)]
pub struct MixerTimes {
    pub(super) decode: Surface,
    pub(super) prefill: Option<Surface>,
    /// Sequences, context and prompt of the largest shapes that were measured.
    pub(super) reach: [f64; 3],
}

impl MixerTimes {
    /// Seconds of a step in which so many sequences of a mean context decode.
    pub fn decode_secs(&self, sequences: f64, context: f64) -> f64 {
        self.decode.at(sequences, context)
    }

    /// Seconds of whole prompts of one length side by side; `None` where that was not measured.
    pub fn prefill_secs(&self, prompts: f64, tokens: f64) -> Option<f64> {
        self.prefill.as_ref().map(|surface| surface.at(prompts, tokens))
    }

    /// The most sequences, the longest context and the longest prompt that were measured.
    pub fn reach(&self) -> [f64; 3] {
        self.reach
    }
}

/// The name that tables give to a KV cache.
pub(super) fn kv_name(kv_dtype: KvDtype) -> &'static str {
    match kv_dtype {
        KvDtype::Auto => "bfloat16",
        KvDtype::Fp8 => "fp8",
    }
}

/// What tells one layer of a kind from another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) kind: MixerKind,
    /// Query heads on a GPU.
    pub(super) heads: f64,
    pub(super) cached: f64,
    pub(super) multiplied: f64,
    /// Heads of the indexer, elements of each and tokens that it chooses.
    pub(super) indexer: Option<[u32; 3]>,
    pub(super) ratio: u32,
}

impl Shape {
    /// The table of the most similar layer of the same ratio, with an indexer if this has one: the nearest in
    /// elements that are multiplied and cached, index heads and chosen tokens together.
    pub(super) fn table<'a>(
        &self,
        tables: &'a [MixerTable],
        kv_dtype: &str,
    ) -> Option<&'a MixerTable> {
        let has_index = |indexer: Option<[u32; 3]>| indexer.is_some_and(|[heads, ..]| heads > 0);
        let far = |a: f64, b: f64| (a.max(1.0) / b.max(1.0)).ln().abs();
        let distance = |table: &MixerTable| {
            let index = |place: usize| {
                let of = |indexer: Option<[u32; 3]>| f64::from(indexer.map_or(0, |it| it[place]));
                far(of(self.indexer), of(table.indexer))
            };
            far(self.multiplied, f64::from(table.multiplied))
                + far(self.cached, f64::from(table.cached))
                + index(0)
                + index(2)
        };
        let alike = tables.iter().filter(|table| {
            (table.kind, table.ratio) == (self.kind, self.ratio)
                && table.kv_dtype == kv_dtype
                && has_index(table.indexer) == has_index(self.indexer)
        });
        alike.min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    /// The times of so many layers; `None` where no table has a layer of the kind with this KV cache.
    pub(super) fn times(
        &self,
        tables: &[MixerTable],
        kv_dtype: KvDtype,
        layers: f64,
    ) -> Option<MixerTimes> {
        let table = self.table(tables, kv_name(kv_dtype))?;
        let decode = Grid::decode(table, self.heads);
        // Sequences with larger cached vectors weigh as so many more.
        let scale = self.cached / f64::from(table.cached);
        let [sequences, context] = decode.reach();
        let most = [(sequences / scale).clamp(256.0, 4096.0), context];
        let surface = Surface::sample(most, |sequences, context| {
            1e-6 * layers * decode.linear(sequences * scale, context)
        });
        let prefill = Grid::prefill(table, self.heads);
        let scale = self.multiplied / f64::from(table.multiplied);
        let prompt = prefill.as_ref().map_or(f64::INFINITY, |grid| grid.reach()[1]);
        let prefill = prefill.map(|grid| {
            let most = [grid.reach()[0], context.max(PROMPT_REACH * prompt)];
            Surface::sample(most, |prompts, tokens| {
                1e-6 * layers * scale * grid.powers(prompts, tokens)
            })
        });
        let sequences = sequences / (self.cached / f64::from(table.cached));
        Some(MixerTimes { decode: surface, prefill, reach: [sequences, context, prompt] })
    }
}

/// Times in µs by two variables, none of them missing.
pub(super) struct Grid<'a> {
    pub(super) rows: &'a [u32],
    pub(super) columns: &'a [u32],
    pub(super) times: Vec<f64>,
}

impl<'a> Grid<'a> {
    fn decode(table: &'a MixerTable, heads: f64) -> Self {
        let (rows, columns) = (&*table.sequences, &*table.contexts);
        let time = |line: usize, column: usize| table.decode.time(line * columns.len() + column);
        Self { rows, columns, times: between_heads(&table.heads, heads, rows, columns, time) }
    }

    fn prefill(table: &'a MixerTable, heads: f64) -> Option<Self> {
        if table.prompts.is_empty() {
            return None;
        }
        let (rows, columns) = (&*table.prompts, &*table.tokens);
        let time = |line: usize, column: usize| table.prefill.time(line * columns.len() + column);
        let times = between_heads(&table.heads, heads, rows, columns, time);
        Some(Self { rows, columns, times })
    }

    pub(super) fn reach(&self) -> [f64; 2] {
        [self.rows, self.columns].map(|grid| f64::from(grid[grid.len() - 1]))
    }

    fn time(&self, row: usize, column: usize) -> f64 {
        self.times[row * self.columns.len() + column]
    }

    /// Linear in both, also beyond the last nodes.
    fn linear(&self, row: f64, column: f64) -> f64 {
        let mut sum = 0.0;
        for (r, down) in onward(self.rows, row) {
            for (c, right) in onward(self.columns, column) {
                sum += down * right * self.time(r, c);
            }
        }
        sum
    }

    /// A power of both between nodes; beyond the last in proportion to the rows, and of the columns a line and a
    /// square.
    pub(super) fn powers(&self, row: f64, column: f64) -> f64 {
        let [most, longest] = self.reach();
        let mut ln = 0.0;
        for (r, down) in neighbours(self.rows, row) {
            for (c, right) in neighbours(self.columns, column) {
                ln += down * right * self.time(r, c).ln();
            }
        }
        let time = ln.exp() * (row / most).max(1.0);
        let last = self.columns.len() - 1;
        if column <= longest || last == 0 {
            return time;
        }
        // A part in proportion to the length and one to its square, through the last two nodes.
        let before = f64::from(self.columns[last - 1]);
        let rates = [self.time(0, last - 1) / before, self.time(0, last) / longest];
        let square = ((rates[1] - rates[0]) / (longest - before)).max(0.0);
        let linear = (rates[1] - square * longest).max(0.0);
        let at = |tokens: f64| linear * tokens + square * tokens * tokens;
        time * at(column) / at(longest)
    }
}

/// The neighbours of a value and their weights in proportion to the distance; beyond the last node the line through
/// the last two goes on.
fn onward(grid: &[u32], value: f64) -> [(usize, f64); 2] {
    let last = grid.len() - 1;
    let end = f64::from(grid[last]);
    if last == 0 || value <= end {
        return between(grid, value);
    }
    let before = f64::from(grid[last - 1]);
    let share = (value - before) / (end - before);
    [(last - 1, 1.0 - share), (last, share)]
}

/// The times of so many heads: in proportion to the distance between the two measured numbers, or those of the
/// nearest; of more heads than were measured in proportion to them. `time` has a line for each heads and row.
fn between_heads(
    grid: &[u32],
    heads: f64,
    rows: &[u32],
    columns: &[u32],
    time: impl Fn(usize, usize) -> Option<f64>,
) -> Vec<f64> {
    let of = |shape: usize| {
        let lines = (0..rows.len()).map(|row| {
            let line = shape * rows.len() + row;
            (0..columns.len()).map(|column| time(line, column)).collect()
        });
        filled(&lines.collect::<Vec<_>>(), rows, columns)
    };
    let more = (heads / f64::from(grid[grid.len() - 1])).max(1.0);
    let mut sum = vec![0.0; rows.len() * columns.len()];
    for (shape, weight) in between(grid, heads) {
        if weight > 0.0 {
            for (total, time) in sum.iter_mut().zip(of(shape)) {
                *total += more * weight * time;
            }
        }
    }
    sum
}

/// A grid without holes, in which more never takes less time. What short shapes lack, which held the time of a launch,
/// is in proportion to the first that was measured; what lies between measured ones is on the line; what large ones lack
/// rises as a row with fewer does, in proportion to the rows.
pub(super) fn filled(lines: &[Vec<Option<f64>>], rows: &[u32], columns: &[u32]) -> Vec<f64> {
    let mut whole: Vec<Vec<f64>> = Vec::with_capacity(lines.len());
    for (row, line) in lines.iter().enumerate() {
        let fewer = row
            .checked_sub(1)
            .map(|above| (&*whole[above], f64::from(rows[row]) / f64::from(rows[above])));
        let times = filled_line(line, columns, fewer);
        whole.push(times);
    }
    whole.concat()
}

/// One row of a grid, beneath the row with fewer and how many times as many it stands for.
fn filled_line(line: &[Option<f64>], columns: &[u32], fewer: Option<(&[f64], f64)>) -> Vec<f64> {
    let node = |column: usize| f64::from(columns[column]);
    let measured = |column: usize| line[column].map(|time| (column, time));
    let mut times: Vec<f64> = Vec::with_capacity(columns.len());
    for column in 0..columns.len() {
        let before = (0..column).rev().find_map(measured);
        let after = (column..columns.len()).find_map(measured);
        let time = match (before, after, fewer) {
            (_, Some((place, time)), _) if place == column => time,
            (Some((low, begin)), Some((high, end)), _) => {
                let share = (node(column) - node(low)) / (node(high) - node(low));
                begin + share * (end - begin)
            }
            (None, Some((high, end)), _) => end * node(column) / node(high),
            (_, None, Some((above, by))) => match column.checked_sub(1) {
                Some(left) => times[left] + by * (above[column] - above[left]),
                None => by * above[column],
            },
            (_, None, None) => match column.checked_sub(1) {
                Some(left) => times[left] * node(column) / node(left),
                None => 1.0,
            },
        };
        let above = fewer.map_or(0.0, |(above, _)| above[column]);
        let left = times.last().copied().unwrap_or(0.0);
        times.push(time.max(above).max(left));
    }
    times
}

#[cfg(test)]
mod tests;
