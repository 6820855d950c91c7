//! Captured CUDA graphs: a small batch is padded to the next captured size.
//!
//! The sizes are those of vLLM (0.15 to 0.19, `vllm/config/vllm.py`): 1, 2, 4, every 8 below 256,
//! every 16 from there to min(2·`max_num_seqs`, 512). Larger batches run without a graph.

/// The captured batch sizes of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaGraphs {
    /// The smallest captured size that holds as many rows as the index.
    padded: Vec<u32>,
}

impl CudaGraphs {
    /// The sizes vLLM captures for a limit of running sequences.
    pub fn vllm(max_num_seqs: u32) -> Self {
        let cap = max_num_seqs.saturating_mul(2).min(512);
        let sizes = [1, 2, 4].into_iter().chain((8..256).step_by(8)).chain((256..=512).step_by(16));
        Self::new(sizes.filter(|size| *size <= cap))
    }

    /// The given sizes, in any order.
    pub fn new(sizes: impl IntoIterator<Item = u32>) -> Self {
        let mut sizes: Vec<u32> = sizes.into_iter().collect();
        sizes.sort_unstable();
        let mut padded = Vec::new();
        for size in sizes {
            padded.resize((size as usize + 1).max(padded.len()), size);
        }
        Self { padded }
    }

    /// The captured size that a batch of `rows` is padded to; `None` when it runs without a graph.
    pub fn pad(&self, rows: u32) -> Option<u32> {
        self.padded.get(rows as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_padded_to_the_next_captured_size() {
        let graphs = CudaGraphs::vllm(256);
        let padded = [1, 3, 5, 9, 250, 257, 512].map(|rows| graphs.pad(rows));
        assert_eq!(padded, [1, 4, 8, 16, 256, 272, 512].map(Some));
        assert_eq!(graphs.pad(513), None);
        assert_eq!(CudaGraphs::vllm(64).pad(129), None);
    }
}
