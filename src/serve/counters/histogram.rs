//! Distributions, and the buckets that servers put them in.

/// A distribution in fixed buckets.
#[derive(Debug, Clone)]
pub(in crate::serve) struct Histogram {
    /// The upper bounds of all buckets but the last, in order.
    pub(in crate::serve) bounds: &'static [f64],
    /// What is in each, not in those below too.
    pub(in crate::serve) counts: Vec<u64>,
    pub(in crate::serve) sum: f64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub(super) fn add_many(&mut self, value: f64, count: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += count;
        self.sum += value * count as f64;
    }

    pub(super) fn add(&mut self, value: f64) {
        self.add_many(value, 1);
    }
}

/// The upper bounds of the buckets of an engine's distributions.
#[derive(Debug, Clone, Copy)]
pub(in crate::serve) struct Buckets {
    pub(in crate::serve) first_token_s: &'static [f64],
    pub(in crate::serve) gap_s: &'static [f64],
    pub(in crate::serve) request_s: &'static [f64],
    pub(in crate::serve) queue_s: &'static [f64],
    pub(in crate::serve) tokens: &'static [f64],
    pub(in crate::serve) step_tokens: &'static [f64],
}
