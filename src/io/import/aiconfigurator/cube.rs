//! Times by three variables, cleaned of outliers and thinned.

use std::collections::BTreeMap;

/// Of the times that a thinner grid leaves out, this share may be further from the interpolation than `CLOSE`.
const FAR_SHARE: f64 = 0.05;
/// Distance of the others.
const CLOSE: f64 = 0.04;
/// Distance of any.
const FAR: f64 = 0.15;

/// Times in µs by three ascending variables; holes were not measured.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cube {
    pub(super) axes: [Vec<u64>; 3],
    pub(super) cells: Vec<Option<f64>>,
}

/// How times go between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    /// As a line.
    Line,
    /// As a power.
    Power,
}

impl Cube {
    pub(super) fn new(axes: [Vec<u64>; 3], time: impl Fn([u64; 3]) -> Option<f64>) -> Self {
        let mut cells = Vec::with_capacity(axes.iter().map(Vec::len).product());
        for a in &axes[0] {
            for b in &axes[1] {
                cells.extend(axes[2].iter().map(|c| time([*a, *b, *c])));
            }
        }
        Self { axes, cells }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cells.iter().all(Option::is_none)
    }

    fn stride(&self, axis: usize) -> usize {
        self.axes[axis + 1..].iter().map(Vec::len).product()
    }

    /// The places of every line along an axis.
    fn lines(&self, axis: usize) -> Vec<Vec<usize>> {
        let (stride, nodes) = (self.stride(axis), self.axes[axis].len());
        let firsts = (0..self.cells.len()).filter(|cell| cell / stride % nodes == 0);
        firsts.map(|first| (0..nodes).map(|node| first + node * stride).collect()).collect()
    }

    /// Each time with another, which is worked out from it and the values of its variables.
    pub(super) fn map(mut self, other: impl Fn([u64; 3], f64) -> Option<f64>) -> Self {
        let nodes = self.axes.clone().map(|axis| axis.len());
        for (place, cell) in self.cells.iter_mut().enumerate() {
            let at = [
                self.axes[0][place / (nodes[1] * nodes[2])],
                self.axes[1][place / nodes[2] % nodes[1]],
                self.axes[2][place % nodes[2]],
            ];
            *cell = cell.and_then(|time| other(at, time));
        }
        self
    }

    /// The first time of each line along the last axis, by the other two variables.
    pub(super) fn firsts(&self) -> BTreeMap<[u64; 2], f64> {
        let pairs = self.axes[0].iter().flat_map(|a| self.axes[1].iter().map(move |b| [*a, *b]));
        let lines = pairs.zip(self.cells.chunks(self.axes[2].len().max(1)));
        lines
            .filter_map(|(pair, line)| Some((pair, line.iter().copied().flatten().next()?)))
            .collect()
    }

    /// Without single times that stick out along the last axis: the median of three stands for each.
    pub(super) fn smoothed(mut self) -> Self {
        for line in self.lines(2) {
            let old: Vec<Option<f64>> = line.iter().map(|place| self.cells[*place]).collect();
            for (window, place) in old.windows(3).zip(&line[1..]) {
                if let [Some(a), Some(b), Some(c)] = *window {
                    self.cells[*place] = Some(a.min(b).max(a.max(b).min(c)));
                }
            }
        }
        self
    }

    /// More of the second and of the third variable never takes less time.
    pub(super) fn rising(mut self) -> Self {
        for axis in [2, 1] {
            for line in self.lines(axis) {
                let mut most: f64 = 0.0;
                for place in line {
                    if let Some(time) = &mut self.cells[place] {
                        most = most.max(*time);
                        *time = most;
                    }
                }
            }
        }
        self
    }

    /// Without the nodes of an axis whose times follow from the others.
    pub(super) fn thinned(mut self, axis: usize, between: Between) -> Self {
        let mut start = 0;
        while start + 2 < self.axes[axis].len() {
            let last = self.axes[axis].len() - 1;
            let ends = (start + 2..=last).rev();
            let end = ends.into_iter().find(|end| self.follows(axis, [start, *end], between));
            if let Some(end) = end {
                for node in (start + 1..end).rev() {
                    self = self.without(axis, node);
                }
            }
            start += 1;
        }
        self
    }

    /// Whether all between two nodes follows from them.
    fn follows(&self, axis: usize, [start, end]: [usize; 2], between: Between) -> bool {
        let node = |node: usize| self.axes[axis][node] as f64;
        let (mut count, mut far) = (0, 0);
        for line in self.lines(axis) {
            let [low, high] = [start, end].map(|node| self.cells[line[node]]);
            for (inside, place) in line.iter().enumerate().take(end).skip(start + 1) {
                let Some(time) = self.cells[*place] else { continue };
                let (Some(low), Some(high)) = (low, high) else { return false };
                let (x, a, b) = (node(inside), node(start), node(end));
                let guess = match between {
                    Between::Line => low + (x - a) / (b - a) * (high - low),
                    Between::Power => low * (high / low).powf((x / a).ln() / (b / a).ln()),
                };
                let distance = (guess / time - 1.0).abs();
                count += 1;
                far += usize::from(distance > CLOSE);
                if distance > FAR {
                    return false;
                }
            }
        }
        f64::from(far as u32) <= FAR_SHARE * f64::from(count as u32)
    }

    fn without(&self, axis: usize, node: usize) -> Self {
        let (stride, nodes) = (self.stride(axis), self.axes[axis].len());
        let kept =
            self.cells.iter().enumerate().filter(|(place, _)| place / stride % nodes != node);
        let cells = kept.map(|(_, cell)| *cell).collect();
        let mut axes = self.axes.clone();
        axes[axis].remove(node);
        Self { axes, cells }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cube(time: impl Fn([f64; 3]) -> f64) -> Cube {
        let axes = [vec![8, 16, 128], vec![1, 2, 4, 8, 16], vec![64, 128, 256, 512, 1024, 2048]];
        Cube::new(axes, |at| Some(time(at.map(|value| value as f64))))
    }

    #[test]
    fn what_follows_from_its_neighbours_is_left_out_and_what_does_not_is_kept() {
        let law = cube(|[h, b, c]| 10.0 + 1e-3 * h * b * c);
        let mut thin = law.clone();
        for axis in [0, 1, 2] {
            thin = thin.thinned(axis, Between::Line);
        }
        assert_eq!(thin.axes, [vec![8, 128], vec![1, 16], vec![64, 2048]]);
        assert_eq!(thin.cells[0], law.cells[0]);
        assert_eq!(thin.cells[7], law.cells[89]);
        let knee = cube(|[_, b, c]| 10.0 + b * c.min(512.0));
        assert_eq!(knee.thinned(2, Between::Line).axes[2], [64, 512, 2048]);
        let power = cube(|[h, b, c]| h * b * c * c);
        assert_eq!(power.clone().thinned(2, Between::Power).axes[2], [64, 2048]);
        assert_eq!(power.thinned(2, Between::Line).axes[2].len(), 6);
    }

    #[test]
    fn holes_keep_the_nodes_that_stand_for_them() {
        let law = cube(|[_, b, c]| 10.0 + b * c)
            .map(|[_, b, c], time| Some(time).filter(|_| b * c <= 4096));
        // 16 sequences were measured up to 256 tokens only.
        assert!(law.thinned(2, Between::Line).axes[2].contains(&256));
    }

    #[test]
    fn single_outliers_vanish_and_times_rise() {
        let law = cube(|[_, b, c]| 10.0 + b * c);
        let stray =
            law.clone().map(|at, time| Some(if at == [16, 4, 256] { 3.0 * time } else { time }));
        let smooth = stray.smoothed();
        let distance = smooth.cells.iter().zip(&law.cells).map(|(a, b)| a.unwrap() / b.unwrap());
        assert!(distance.fold(1.0, f64::max) < 2.0);
        let falling = cube(|[_, b, c]| 1000.0 - b - c / 10.0).rising();
        assert!(falling.cells.windows(2).take(5).all(|pair| pair[0] <= pair[1]));
    }
}
