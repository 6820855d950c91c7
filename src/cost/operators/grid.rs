//! Interpolation: in logarithms while a model is built, with products only while it is used.

/// Bits of a float's mantissa below the ones that cut an octave into parts.
const BITS: u32 = 50;
/// Parts of an octave: two bits of the mantissa.
const PARTS: u64 = 4;
/// The exponent of 1.0, in parts.
const ORIGIN: u64 = 1023 * PARTS;

/// Nodes at which every octave from 1 on is cut into four equal parts: the place of a value is in
/// the bits of its float.
#[derive(Debug, Clone, Copy)]
pub(super) struct OctaveAxis {
    nodes: usize,
}

impl OctaveAxis {
    /// From 1 to at least `most`.
    pub(super) fn up_to(most: f64) -> Self {
        let last = most.max(2.0).to_bits() >> BITS;
        Self { nodes: (last - ORIGIN) as usize + 2 }
    }

    pub(super) fn nodes(self) -> impl Iterator<Item = f64> {
        (0..self.nodes).map(Self::node)
    }

    fn node(index: usize) -> f64 {
        f64::from_bits((index as u64 + ORIGIN) << BITS)
    }

    /// The cell of a value and the value's place in it, from 0 to 1; above 1 beyond the last node.
    #[inline]
    fn place(self, value: f64) -> (usize, f64) {
        let bits = value.max(1.0).to_bits();
        let index = ((bits >> BITS) - ORIGIN) as usize;
        if index + 1 < self.nodes {
            let mantissa = bits & ((1 << BITS) - 1);
            return (index, mantissa as f64 / (1_u64 << BITS) as f64);
        }
        let (low, high) = (Self::node(self.nodes - 2), Self::node(self.nodes - 1));
        (self.nodes - 2, (value - low) / (high - low))
    }
}

/// A function of two variables from 1 on, linear in each between nodes and beyond the last.
#[derive(Debug, Clone)]
pub(super) struct Surface {
    across: OctaveAxis,
    along: OctaveAxis,
    values: Box<[f64]>,
}

impl Surface {
    pub(super) fn sample(most: [f64; 2], value: impl Fn(f64, f64) -> f64) -> Self {
        let [across, along] = most.map(OctaveAxis::up_to);
        let values = across.nodes().flat_map(|x| {
            let value = &value;
            along.nodes().map(move |y| round(value(x, y)))
        });
        Self { values: values.collect(), across, along }
    }

    pub(super) fn at(&self, x: f64, y: f64) -> f64 {
        self.along(x).at(y)
    }

    /// The function of the second variable at a value of the first.
    #[inline]
    pub(super) fn along(&self, x: f64) -> Along<'_> {
        let (row, down) = self.across.place(x);
        let width = self.along.nodes;
        let (near, far) = self.values[row * width..(row + 2) * width].split_at(width);
        Along { axis: self.along, near, far, down, cell: usize::MAX, edge: (0.0, 0.0) }
    }
}

/// A surface at a value of its first variable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Along<'a> {
    axis: OctaveAxis,
    /// The rows on both sides, and where between them.
    near: &'a [f64],
    far: &'a [f64],
    down: f64,
    /// The cell of the last value, where the function begins there and how far it rises.
    cell: usize,
    edge: (f64, f64),
}

impl Along<'_> {
    #[inline]
    pub(super) fn at(&mut self, y: f64) -> f64 {
        let (cell, right) = self.axis.place(y);
        if cell != self.cell {
            self.enter(cell);
        }
        let (begin, rise) = self.edge;
        begin + right * rise
    }

    #[inline(never)]
    fn enter(&mut self, cell: usize) {
        let at = |node: usize| self.near[node] + self.down * (self.far[node] - self.near[node]);
        let begin = at(cell);
        let rise = at(cell + 1) - begin;
        (self.cell, self.edge) = (cell, (begin, rise));
    }
}

/// A function given at some points, linear between them, constant before the first, proportional
/// beyond the last.
#[derive(Debug, Clone, Default)]
pub(super) struct Polyline {
    points: Box<[(f64, f64)]>,
}

impl Polyline {
    /// Points in ascending order.
    pub(super) fn new(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { points: points.into_iter().map(|(x, y)| (x, round(y))).collect() }
    }

    /// The same with every value times a function of its place.
    pub(super) fn scaled(&self, factor: impl Fn(f64) -> f64) -> Self {
        Self::new(self.points.iter().map(|(x, y)| (*x, y * factor(*x))))
    }

    #[inline]
    pub(super) fn at(&self, x: f64) -> f64 {
        let above = self.points.partition_point(|point| point.0 <= x);
        let Some(low) = above.checked_sub(1).map(|index| self.points[index]) else {
            return self.points.first().map_or(0.0, |first| first.1);
        };
        match self.points.get(above) {
            Some(high) => low.1 + (x - low.0) / (high.0 - low.0) * (high.1 - low.1),
            None => low.1 * x / low.0,
        }
    }
}

/// Seconds to whole picoseconds. The last bits of a logarithm differ between machines; those of
/// what follows from it do not.
fn round(secs: f64) -> f64 {
    (secs * 1e12).round() / 1e12
}

/// The neighbours of a value on a grid, and their weights in the logarithm; the ends of the grid
/// stand for what is beyond.
#[inline]
pub(super) fn neighbours(grid: &[u32], value: f64) -> [(usize, f64); 2] {
    weigh(grid, value, |low, high| (value / low).ln() / (high / low).ln())
}

/// The same with weights in proportion to the distance.
#[inline]
pub(super) fn between(grid: &[u32], value: f64) -> [(usize, f64); 2] {
    weigh(grid, value, |low, high| (value - low) / (high - low))
}

fn weigh(grid: &[u32], value: f64, share: impl Fn(f64, f64) -> f64) -> [(usize, f64); 2] {
    let last = grid.len() - 1;
    let above = grid.partition_point(|node| f64::from(*node) <= value);
    if above == 0 {
        return [(0, 1.0), (0, 0.0)];
    }
    if above > last {
        return [(last, 1.0), (last, 0.0)];
    }
    let (low, high) = (f64::from(grid[above - 1]), f64::from(grid[above]));
    let share = share(low, high);
    [(above - 1, 1.0 - share), (above, share)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bilinear_function_is_met_everywhere_and_beyond_the_nodes() {
        let exact = |x: f64, y: f64| 1e-6 * (3.0 + 2.0 * x + 5.0 * y + 0.5 * x * y);
        let surface = Surface::sample([64.0, 1000.0], exact);
        for x in [1.0, 1.1, 2.0, 3.7, 63.0, 64.0, 90.0, 1000.0] {
            for y in [1.0, 1.9, 17.0, 999.0, 5000.0] {
                let (found, wanted) = (surface.along(x).at(y), exact(x, y));
                assert!((found / wanted - 1.0).abs() < 1e-5, "{x} {y}: {found} {wanted}");
            }
        }
    }

    #[test]
    fn a_surface_meets_its_function_at_its_nodes_and_a_value_below_one_counts_as_one() {
        let surface = Surface::sample([100.0, 10.0], |x, y| 1e-6 * x * x * y);
        for x in [1.0, 1.25, 1.5, 2.0, 3.5, 96.0] {
            assert!((surface.at(x, 5.0) / (5e-6 * x * x) - 1.0).abs() < 1e-9, "{x}");
        }
        assert!((surface.at(0.2, 0.7) - 1e-6).abs() < 1e-12);
    }

    #[test]
    fn a_polyline_is_constant_before_linear_between_and_proportional_beyond() {
        let line = Polyline::new([(2.0, 1.0), (4.0, 3.0)]);
        for (x, y) in [(1.0, 1.0), (2.0, 1.0), (3.0, 2.0), (4.0, 3.0), (8.0, 6.0)] {
            assert!((line.at(x) - y).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    fn neighbours_share_in_the_logarithm_or_by_distance() {
        let [(low, a), (high, b)] = neighbours(&[1, 4, 16], 8.0);
        assert_eq!((low, high), (1, 2));
        assert!((a - 0.5).abs() < 1e-12 && (b - 0.5).abs() < 1e-12);
        assert_eq!(neighbours(&[1, 4, 16], 0.5)[0], (0, 1.0));
        assert_eq!(neighbours(&[1, 4, 16], 99.0)[0], (2, 1.0));
        assert_eq!(between(&[1, 4, 16], 7.0), [(1, 0.75), (2, 0.25)]);
        assert_eq!(between(&[1, 4, 16], 99.0)[0], (2, 1.0));
    }
}
