//! A grid of one dimension, and curves over it.

/// Increasing points, at least two.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    points: Vec<f64>,
    /// 1 / the gap behind each point but the last.
    inverse_gaps: Vec<f64>,
}

/// Between which points a value lies: after point `index` by `share` of the gap. Below the first
/// point the share is 0, above the last it exceeds 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) share: f64,
}

impl Axis {
    /// An axis of at least two increasing points.
    pub(super) fn new(points: Vec<f64>) -> Self {
        assert!(points.len() > 1 && points.is_sorted_by(|a, b| a < b), "{points:?}");
        let inverse_gaps = points.windows(2).map(|pair| 1.0 / (pair[1] - pair[0])).collect();
        Self { points, inverse_gaps }
    }

    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    pub(super) fn last(&self) -> f64 {
        self.points[self.points.len() - 1]
    }

    /// The same, quickest where the value lies behind the point of this index, which becomes that of
    /// the answer.
    #[inline]
    pub(super) fn locate_near(&self, value: f64, index: &mut usize) -> Place {
        let is_behind = self.points[*index] <= value;
        let is_last = *index + 1 == self.inverse_gaps.len();
        if is_behind && (is_last || value < self.points[*index + 1]) {
            let share = (value - self.points[*index]) * self.inverse_gaps[*index];
            return Place { index: *index, share };
        }
        let place = self.locate(value);
        *index = place.index;
        place
    }

    pub(super) fn locate(&self, value: f64) -> Place {
        let above = self.points.partition_point(|point| *point <= value);
        if above == 0 {
            return Place { index: 0, share: 0.0 };
        }
        let index = (above - 1).min(self.inverse_gaps.len() - 1);
        Place { index, share: (value - self.points[index]) * self.inverse_gaps[index] }
    }
}

/// Linear between points, constant below the first. Above the last it goes on at its mean rate over
/// the upper half of the axis: single gaps hold the jumps of kernel choice.
#[derive(Debug, Clone)]
pub(in crate::cost) struct Curve {
    axis: Axis,
    values: Vec<f64>,
    rate_above: f64,
}

impl Curve {
    pub(in crate::cost) fn new(points: Vec<f64>, values: Vec<f64>) -> Self {
        let axis = Axis::new(points);
        let mut curve = Self { axis, values, rate_above: 0.0 };
        let last = curve.axis.last();
        let rise = curve.at(last) - curve.at(last / 2.0);
        curve.rate_above = rise.max(0.0) / (last / 2.0);
        curve
    }

    pub(in crate::cost) fn at(&self, point: f64) -> f64 {
        let last = self.axis.last();
        if point > last {
            return self.values[self.values.len() - 1] + self.rate_above * (point - last);
        }
        let Place { index, share } = self.axis.locate(point);
        self.values[index] + share * (self.values[index + 1] - self.values[index])
    }
}
