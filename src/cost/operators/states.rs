//! Layers with states from measured times: gated delta nets and Kimi delta attention.
//!
//! The tables hold the convolution and the kernel of the state. A sequence that decodes reads and writes its state
//! whatever its context; prompts are computed in chunks, about in proportion to their tokens, and several short ones
//! side by side fill the GPU. Norms and gates of the outputs are not in them, nor is a matrix product. No table has the
//! state kernels of Mamba-2: `AIConfigurator` measured its convolution alone.

use super::grid::{Polyline, Surface};
use super::mixers::{Grid, filled};
use super::profile::OperatorProfile;
use super::tables::{StateKind, StateTable};
use crate::model::checkpoint::{DeltaNet, KimiDelta};

/// The times of all layers of one kind.
#[derive(Debug, Clone)]
pub struct StateTimes {
    decode: Polyline,
    prefill: Surface,
}

impl StateTimes {
    /// Seconds of a step in which so many sequences decode.
    pub fn decode_secs(&self, sequences: f64) -> f64 {
        if sequences > 0.0 { self.decode.at(sequences) } else { 0.0 }
    }

    /// Seconds of so many prompts, or parts of prompts, of so many tokens each.
    pub fn prefill_secs(&self, prompts: f64, tokens: f64) -> f64 {
        if prompts > 0.0 && tokens > 0.0 { self.prefill.at(prompts, tokens) } else { 0.0 }
    }
}

impl OperatorProfile {
    /// The states of gated delta nets in so many layers, on one of `tp` GPUs that share the heads; `None` where
    /// the GPU has no table of them.
    pub fn delta_net(&self, delta: &DeltaNet, tp: u32, layers: f64) -> Option<StateTimes> {
        let heads = [delta.key_heads, delta.value_heads];
        let shape = Shape::of(StateKind::GatedDelta, heads, [delta.key_dim, delta.value_dim], tp);
        shape.times(&self.states, layers)
    }

    /// The same of Kimi delta attention.
    pub fn kimi_delta(&self, delta: &KimiDelta, tp: u32, layers: f64) -> Option<StateTimes> {
        let shape = Shape::of(StateKind::KimiDelta, [delta.heads; 2], [delta.head_dim; 2], tp);
        shape.times(&self.states, layers)
    }
}

/// A layer as one GPU sees it: heads of keys and values, and elements of each.
struct Shape {
    kind: StateKind,
    heads: [f64; 2],
    dims: [f64; 2],
}

impl Shape {
    fn of(kind: StateKind, heads: [u32; 2], dims: [u32; 2], tp: u32) -> Self {
        let heads = heads.map(|heads| f64::from(heads.div_ceil(tp.max(1))));
        Self { kind, heads, dims: dims.map(f64::from) }
    }

    /// By the line of the nearest ratio of key to value heads, then of the nearest number of value heads. Elements of
    /// states weigh as so many more sequences or prompts: half the heads take as long as half the sequences.
    fn times(&self, tables: &[StateTable], layers: f64) -> Option<StateTimes> {
        let table = tables.iter().find(|table| table.kind == self.kind)?;
        let far = |a: f64, b: f64| (a / b).ln().abs();
        let [keys, values] = self.heads;
        let distance = |place: &usize| {
            let [own_keys, own_values] = table.heads[*place].map(f64::from);
            [far(values / keys, own_values / own_keys), far(values, own_values)]
        };
        let nearest = |a: &usize, b: &usize| {
            let ([a, c], [b, d]) = (distance(a), distance(b));
            a.total_cmp(&b).then(c.total_cmp(&d))
        };
        let shape = (0..table.heads.len()).min_by(nearest)?;
        let own = f64::from(table.heads[shape][1])
            * f64::from(table.key_dim)
            * f64::from(table.value_dim);
        let scale = values * self.dims[0] * self.dims[1] / own;
        Some(StateTimes {
            decode: decode(table, shape, scale, layers),
            prefill: prefill(table, shape, scale, layers),
        })
    }
}

fn decode(table: &StateTable, shape: usize, scale: f64, layers: f64) -> Polyline {
    let first = shape * table.sequences.len();
    let points = table.sequences.iter().enumerate().filter_map(|(index, sequences)| {
        let micros = table.decode.time(first + index)?;
        Some((f64::from(*sequences) / scale, 1e-6 * layers * micros))
    });
    Polyline::new(points)
}

fn prefill(table: &StateTable, shape: usize, scale: f64, layers: f64) -> Surface {
    let (rows, columns) = (&*table.prompts, &*table.tokens);
    let lines = (0..rows.len()).map(|row| {
        let first = (shape * rows.len() + row) * columns.len();
        (0..columns.len()).map(|column| table.prefill.time(first + column)).collect()
    });
    let grid = Grid { rows, columns, times: filled(&lines.collect::<Vec<_>>(), rows, columns) };
    let [prompts, tokens] = grid.reach();
    Surface::sample([prompts / scale, tokens], |prompts, tokens| {
        1e-6 * layers * grid.powers(prompts * scale, tokens)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::profile::Codes;

    /// 8 µs, and two for each sequence and value head; prompts 20 µs and 0.01 for each token and value head.
    fn profile() -> StateTable {
        let (heads, sequences) = ([[4, 8], [16, 32]], [1, 16, 256]);
        let (prompts, tokens) = ([1, 16], [64, 1024, 8192]);
        let values = heads.map(|[_, values]| f64::from(values));
        let decode = values.iter().flat_map(|values| {
            sequences.map(|count| Codes::of(Some(8.0 + 2.0 * values * f64::from(count))))
        });
        let prefill = values.iter().flat_map(|values| {
            prompts.into_iter().flat_map(move |count| {
                tokens.map(|tokens| Codes::of(Some(0.01 * values * f64::from(count * tokens))))
            })
        });
        StateTable {
            kind: StateKind::GatedDelta,
            key_dim: 128,
            value_dim: 128,
            heads: heads.to_vec(),
            sequences: sequences.to_vec(),
            decode: Codes(decode.collect()),
            prompts: prompts.to_vec(),
            tokens: tokens.to_vec(),
            prefill: Codes(prefill.collect()),
        }
    }

    fn times(values: f64) -> StateTimes {
        let shape =
            Shape { kind: StateKind::GatedDelta, heads: [values / 2.0, values], dims: [128.0; 2] };
        shape.times(&[profile()], 2.0).expect("there is a table")
    }

    #[test]
    fn times_meet_their_nodes_and_rise_with_sequences_prompts_and_tokens() {
        for values in [8.0, 32.0] {
            let times = times(values);
            for sequences in [1.0, 16.0, 100.0, 256.0] {
                let wanted = 2e-6 * (8.0 + 2.0 * values * sequences);
                let ratio = times.decode_secs(sequences) / wanted;
                assert!((ratio - 1.0).abs() < 0.01, "{values} {sequences}: {ratio}");
            }
            for (prompts, tokens) in [(1.0, 64.0), (1.0, 8192.0), (16.0, 1024.0), (64.0, 32_768.0)]
            {
                let ratio =
                    times.prefill_secs(prompts, tokens) / (2e-8 * values * prompts * tokens);
                assert!((ratio - 1.0).abs() < 0.01, "{values} {prompts} {tokens}: {ratio}");
            }
        }
        assert!(times(8.0).decode_secs(0.0) == 0.0 && times(8.0).prefill_secs(0.0, 64.0) == 0.0);
    }

    #[test]
    fn half_the_heads_take_as_long_as_half_the_sequences_and_the_fixed_time_stays() {
        let (half, whole) = (times(16.0), times(32.0));
        for sequences in [2.0, 64.0, 200.0] {
            let ratio = half.decode_secs(2.0 * sequences) / whole.decode_secs(sequences);
            assert!((ratio - 1.0).abs() < 0.05, "{sequences}: {ratio}");
        }
        assert!(half.decode_secs(1.0) > 0.5 * whole.decode_secs(1.0));
    }

    #[test]
    fn a_kind_without_a_table_has_no_times() {
        let shape = Shape::of(StateKind::KimiDelta, [96; 2], [128; 2], 8);
        assert!(shape.times(&[profile()], 1.0).is_none());
    }
}
