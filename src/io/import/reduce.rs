//! Leaves out points of a grid that straight lines between their neighbours replace.

use super::llmservingsim::Measured;
use crate::cost::{AttentionProfile, Numbers};

/// What leaving points out cost, over all points of the measured grid, as a share of a layer's time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reduction {
    /// Points of the grid, and those kept.
    pub points: usize,
    /// Points kept.
    pub kept: usize,
    /// Mean of the errors without sign.
    pub mean: f64,
    /// The error that one in a hundred points exceeds.
    pub p99: f64,
}

const AXES: usize = 4;

/// A dense grid: prefill tokens, sequences that decode, prefill context, decode context. The first
/// two begin at zero.
#[derive(Debug)]
pub(super) struct Tensor {
    axes: [Vec<u64>; AXES],
    /// µs, the last axis running fastest; of mixed batches only those measured.
    us: Vec<f64>,
    mixed_seqs: usize,
}

impl Tensor {
    pub(super) fn new(measured: &Measured) -> Self {
        let from_zero = |points: &[u64]| [&[0], points].concat();
        let axes = [
            from_zero(&measured.prefill_tokens),
            from_zero(&measured.decode_seqs),
            measured.prefill_context.clone(),
            measured.decode_context.clone(),
        ];
        let mut us = Vec::new();
        for &tokens in &axes[0] {
            for (index, &seqs) in axes[1].iter().enumerate() {
                let known = tokens == 0 && seqs > 0 || tokens > 0 && index <= measured.mixed_seqs;
                for &cached in &axes[2] {
                    for &context in &axes[3] {
                        let at = || measured.at(tokens, seqs, cached, context);
                        us.push(if known { at() } else { f64::NAN });
                    }
                }
            }
        }
        Self { axes, us, mixed_seqs: measured.mixed_seqs }
    }

    /// The smallest grid whose straight lines miss each point left out by no more than `tolerance`
    /// of a layer's time, on average over the other axes. `layer_us` is that time without attention,
    /// by tokens of the step.
    pub(super) fn reduced(
        &self,
        tolerance: f64,
        layer_us: &dyn Fn(u64) -> f64,
    ) -> (AttentionProfile, Reduction) {
        let weights = self.weights(layer_us);
        let kept = std::array::from_fn(|axis| self.kept(axis, tolerance, &weights));
        let errors = self.errors(&kept, &weights);
        let count = errors.len().max(1);
        let profile = self.profile(&kept);
        let tables = [&profile.prefill_tenth_us, &profile.decode_tenth_us, &profile.mixed_tenth_us];
        let reduction = Reduction {
            points: self.known(),
            kept: tables.into_iter().map(|table| table.len()).sum(),
            mean: errors.iter().sum::<f64>() / count as f64,
            p99: errors.get(count * 99 / 100).copied().unwrap_or_default(),
        };
        (profile, reduction)
    }

    fn known(&self) -> usize {
        self.us.iter().filter(|us| !us.is_nan()).count()
    }

    fn strides(&self) -> [usize; AXES] {
        let len = |axis: usize| self.axes[axis].len();
        [len(1) * len(2) * len(3), len(2) * len(3), len(3), 1]
    }

    /// 1 / the time of a layer, at every point.
    fn weights(&self, layer_us: &dyn Fn(u64) -> f64) -> Vec<f64> {
        let mut weights = Vec::with_capacity(self.us.len());
        let plane = self.axes[2].len() * self.axes[3].len();
        for &tokens in &self.axes[0] {
            for &seqs in &self.axes[1] {
                let others = layer_us((tokens + seqs).max(1));
                let at = weights.len();
                weights.extend(self.us[at..at + plane].iter().map(|us| 1.0 / (us + others)));
            }
        }
        weights
    }

    /// Indices kept on one axis: the point that is missed least is left out, again and again.
    fn kept(&self, axis: usize, tolerance: f64, weights: &[f64]) -> Vec<usize> {
        let mut kept: Vec<usize> = (0..self.axes[axis].len()).collect();
        let first = if axis < 2 { 2 } else { 1 };
        // Mixed batches are told from one another up to their last measured number of decodes.
        let is_needed = |index: usize| axis == 1 && index == self.mixed_seqs;
        loop {
            let candidates = first..kept.len().saturating_sub(1);
            let candidates = candidates.filter(|place| !is_needed(kept[*place]));
            let missed = candidates.map(|place| (self.missed(axis, &kept, place, weights), place));
            match missed.min_by(|a, b| a.0.total_cmp(&b.0)) {
                Some((error, place)) if error <= tolerance => kept.remove(place),
                _ => return kept,
            };
        }
    }

    /// The largest mean error of a point between the neighbours of `place` if it is left out.
    fn missed(&self, axis: usize, kept: &[usize], place: usize, weights: &[f64]) -> f64 {
        let (low, high) = (kept[place - 1], kept[place + 1]);
        let mean = |point: usize| {
            let [alone, mixed] = self.mean_error(axis, low, point, high, weights);
            alone.max(mixed)
        };
        (low + 1..high).map(mean).fold(0.0, f64::max)
    }

    /// Mean error of the line from `low` to `high` at `point`, of batches that do one thing only and
    /// of mixed ones.
    fn mean_error(
        &self,
        axis: usize,
        low: usize,
        point: usize,
        high: usize,
        weights: &[f64],
    ) -> [f64; 2] {
        let stride = self.strides()[axis];
        let points = &self.axes[axis];
        let gap = (points[high] - points[low]) as f64;
        let share = (points[point] - points[low]) as f64 / gap;
        let (mut sums, mut counts) = ([0.0; 2], [0.0; 2]);
        for at in self.at_point(axis, point) {
            let (place, weight) = (self.place(at), weights[at]);
            let (below, above) = (at - (point - low) * stride, at + (high - point) * stride);
            let line = self.us[below] + share * (self.us[above] - self.us[below]);
            let error = (line - self.us[at]).abs() * weight;
            if error.is_nan() {
                continue;
            }
            let is_mixed = usize::from(place[0] > 0 && place[1] > 0);
            sums[is_mixed] += error;
            counts[is_mixed] += 1.0;
        }
        [0, 1].map(|kind| if counts[kind] > 0.0 { sums[kind] / counts[kind] } else { 0.0 })
    }

    /// All places with this point of an axis.
    fn at_point(&self, axis: usize, point: usize) -> impl Iterator<Item = usize> {
        let stride = self.strides()[axis];
        let block = stride * self.axes[axis].len();
        let first = (0..self.us.len() / block).map(move |outer| outer * block + point * stride);
        first.flat_map(move |first| first..first + stride)
    }

    fn place(&self, at: usize) -> [usize; AXES] {
        let strides = self.strides();
        std::array::from_fn(|axis| at / strides[axis] % self.axes[axis].len())
    }

    /// Errors at all points of the kept grid's lines, in order of size.
    fn errors(&self, kept: &[Vec<usize>; AXES], weights: &[f64]) -> Vec<f64> {
        let mut lines = self.us.clone();
        for (axis, kept) in kept.iter().enumerate() {
            let (stride, points) = (self.strides()[axis], &self.axes[axis]);
            for at in 0..lines.len() {
                let point = self.place(at)[axis];
                let above = kept.partition_point(|index| *index < point);
                if kept.get(above) == Some(&point) {
                    continue;
                }
                let (low, high) = (kept[above - 1], kept[above]);
                let gap = (points[high] - points[low]) as f64;
                let share = (points[point] - points[low]) as f64 / gap;
                let (below, beyond) = (at - (point - low) * stride, at + (high - point) * stride);
                lines[at] = lines[below] + share * (lines[beyond] - lines[below]);
            }
        }
        let error = |at: usize| (lines[at] - self.us[at]).abs() * weights[at];
        let mut errors: Vec<f64> = (0..lines.len()).map(error).filter(|e| !e.is_nan()).collect();
        errors.sort_unstable_by(f64::total_cmp);
        errors
    }

    fn profile(&self, kept: &[Vec<usize>; AXES]) -> AttentionProfile {
        let points = |axis: usize, from: usize| {
            Numbers(kept[axis][from..].iter().map(|index| self.axes[axis][*index]).collect())
        };
        let strides = self.strides();
        let tenths = |place: [usize; AXES]| {
            let at: usize = place.iter().zip(strides).map(|(index, stride)| index * stride).sum();
            (self.us[at] * 10.0).round() as u64
        };
        let (tokens, seqs) = (&kept[0][1..], &kept[1][1..]);
        let (mut prefill, mut decode, mut mixed) = (Vec::new(), Vec::new(), Vec::new());
        for &p in tokens {
            prefill.extend(kept[2].iter().map(|&k| tenths([p, 0, k, 0])));
            for &d in seqs.iter().filter(|d| **d <= self.mixed_seqs) {
                for &k in &kept[2] {
                    mixed.extend(kept[3].iter().map(|&c| tenths([p, d, k, c])));
                }
            }
        }
        for &d in seqs {
            decode.extend(kept[3].iter().map(|&c| tenths([0, d, 0, c])));
        }
        AttentionProfile {
            prefill_tokens: points(0, 1),
            prefill_context: points(2, 0),
            decode_seqs: points(1, 1),
            decode_context: points(3, 0),
            prefill_tenth_us: Numbers(prefill),
            decode_tenth_us: Numbers(decode),
            mixed_tenth_us: Numbers(mixed),
        }
    }
}
