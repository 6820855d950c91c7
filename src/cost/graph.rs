//! Captured CUDA graphs: a step that fits is padded to the next captured size and replayed; any
//! other is launched kernel by kernel (eager).

use super::StepShape;

/// Sizes for which graphs are captured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapturedSizes {
    /// The size that holds as many rows as the index; 0 where there is none.
    padded: Vec<u32>,
}

impl CapturedSizes {
    /// The given sizes, in any order; smaller steps are padded.
    pub fn new(sizes: impl IntoIterator<Item = u32>) -> Self {
        let mut sizes: Vec<u32> = sizes.into_iter().collect();
        sizes.sort_unstable();
        let mut padded = Vec::new();
        for size in sizes {
            padded.resize((size as usize + 1).max(padded.len()), size);
        }
        Self { padded }
    }

    /// The given sizes, and no others: nothing is padded.
    pub fn exact(sizes: impl IntoIterator<Item = u32>) -> Self {
        let mut padded = Vec::new();
        for size in sizes {
            padded.resize((size as usize + 1).max(padded.len()), 0);
            padded[size as usize] = size;
        }
        Self { padded }
    }

    /// The captured size that `rows` rows are padded to; `None` when there is none.
    #[inline]
    pub fn pad(&self, rows: u32) -> Option<u32> {
        self.padded.get(rows as usize).copied().filter(|&size| size > 0)
    }
}

/// The captured graphs of an engine; none by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CudaGraphs {
    decode: CapturedSizes,
    prefill: CapturedSizes,
    context_max: Option<u32>,
}

impl CudaGraphs {
    /// Graphs for steps that only decode, and for those that prefill.
    pub fn new(decode: CapturedSizes, prefill: CapturedSizes) -> Self {
        Self { decode, prefill, context_max: None }
    }

    /// The same, for sequences of at most so many tokens.
    #[must_use]
    pub fn up_to(mut self, tokens: u32) -> Self {
        self.context_max = Some(tokens);
        self
    }

    /// The size that a step is padded to; `None` when it runs without a graph.
    #[inline]
    pub fn replayed(&self, shape: &StepShape) -> Option<u32> {
        let sizes = if shape.prefill_seqs == 0 { &self.decode } else { &self.prefill };
        let is_covered = self.context_max.is_none_or(|most| shape.decode_context_max < most);
        sizes.pad(shape.tokens()).filter(|_| is_covered)
    }

    /// How many steps of a decode run from this shape on, itself included, replay the same.
    #[inline]
    pub fn alike(&self, shape: &StepShape) -> u64 {
        match self.context_max {
            Some(most) if self.replayed(shape).is_some() => {
                u64::from(most - shape.decode_context_max)
            }
            _ => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_padded_to_the_next_captured_size() {
        let sizes = CapturedSizes::new([4, 1, 8, 2]);
        assert_eq!([1, 2, 3, 5, 8].map(|rows| sizes.pad(rows)), [1, 2, 4, 8, 8].map(Some));
        assert_eq!([9, u32::MAX].map(|rows| sizes.pad(rows)), [None; 2]);
        assert_eq!(CapturedSizes::default().pad(1), None);
    }

    #[test]
    fn without_padding_only_captured_sizes_are_replayed() {
        let sizes = CapturedSizes::exact([1, 4]);
        assert_eq!([1, 2, 4, 5].map(|rows| sizes.pad(rows)), [Some(1), None, Some(4), None]);
    }

    #[test]
    fn decodes_and_prefills_have_graphs_of_their_own() {
        let graphs = CudaGraphs::new(CapturedSizes::new([4]), CapturedSizes::new([64])).up_to(100);
        let mut shape = StepShape::default();
        shape.add_decode(99, 0);
        assert_eq!(graphs.replayed(&shape), Some(4));
        shape.add_prefill(20, 0, true);
        assert_eq!(graphs.replayed(&shape), Some(64));
        shape.add_prefill(60, 0, true);
        assert_eq!(graphs.replayed(&shape), None);
        let mut long = StepShape::default();
        long.add_decode(100, 0);
        assert_eq!(graphs.replayed(&long), None, "the 101st token is beyond the graph");
    }

    #[test]
    fn a_decode_run_replays_its_graph_up_to_the_longest_sequence() {
        let graphs = CudaGraphs::new(CapturedSizes::new([4]), CapturedSizes::default()).up_to(100);
        let mut shape = StepShape::default();
        shape.add_decode(97, 0);
        let alike = graphs.alike(&shape);
        assert_eq!(alike, 3);
        shape.advance_decodes_by(2);
        assert_eq!(graphs.replayed(&shape), Some(4), "the third step");
        shape.advance_decodes();
        assert_eq!(graphs.replayed(&shape), None, "the fourth");
        assert_eq!(graphs.alike(&shape), u64::MAX, "it never fits again");
    }
}
