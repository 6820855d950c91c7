//! The sizes for which engines capture CUDA graphs when nothing is set.

use super::{SglangConfig, SpeculationConfig, VllmConfig, VllmV0Config};

fn steps(from: u32, to: u32, by: usize) -> impl Iterator<Item = u32> + Clone {
    (from..to).step_by(by)
}

/// Ascending, without repeats, at most `most`.
fn up_to(most: u32, sizes: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut sizes: Vec<u32> = sizes.filter(|&size| size <= most).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// vLLM's grid: 1, 2, 4, every 8 below 256, every 16 from there.
fn vllm_grid(most: u32) -> impl Iterator<Item = u32> {
    [1, 2, 4].into_iter().chain(steps(8, 256, 8)).chain(steps(256, most.saturating_add(1), 16))
}

impl VllmConfig {
    /// The sizes captured by default (vLLM 0.33.0, `vllm/config/vllm.py`) where the platform's
    /// ceiling is `ceiling` tokens (512; 1024 on data-centre Blackwell): the grid up to twice the
    /// tokens of a decode step of all sequences, and steps in which everybody decodes.
    pub fn capture_sizes_for(&self, ceiling: u32) -> Vec<u32> {
        let (seqs, budget) =
            (self.max_num_seqs.unwrap_or(1), self.max_num_batched_tokens.unwrap_or(1));
        let drafts = |s: &SpeculationConfig| s.num_speculative_tokens;
        let query = self.speculation.as_ref().map_or(0, drafts).saturating_add(1);
        let most = seqs.saturating_mul(query).saturating_mul(2).min(ceiling);
        let requests = if query > 1 {
            let most = seqs.min(ceiling);
            up_to(most, vllm_grid(most).chain([most]))
        } else {
            vec![seqs]
        };
        let decodes = requests.into_iter().map(|count| count.saturating_mul(query));
        up_to(most.min(budget), vllm_grid(most).chain([budget]).chain(decodes))
    }

    /// The sizes captured up to a given one; its own list ends there or before.
    pub fn capture_sizes_up_to(&self, most: u32) -> Vec<u32> {
        let budget = self.max_num_batched_tokens.unwrap_or(1);
        up_to(most.min(budget), vllm_grid(most).chain([budget]))
    }
}

impl VllmV0Config {
    /// The batch sizes captured (vLLM 0.6.3, `vllm/worker/model_runner.py`): 1, 2, 4 and every 8
    /// up to 256, as far as they are needed for `max_num_seqs`.
    pub fn capture_sizes(&self) -> Vec<u32> {
        let sizes = [1, 2, 4].into_iter().chain(steps(8, 257, 8));
        let needed = sizes.clone().find(|&size| size >= self.max_num_seqs).unwrap_or(256);
        up_to(needed, sizes)
    }
}

impl SglangConfig {
    /// The decode batches captured up to `most` requests (SGLang 0.5.23,
    /// `sglang/srt/arg_groups/cuda_graph_hook.py`): a finer grid with speculation, where padding is drafts too.
    pub fn decode_capture_sizes(&self, most: u32) -> Vec<u32> {
        if self.disable_cuda_graph_padding {
            return (1..=most).collect();
        }
        if self.speculation.is_some() {
            let small = steps(1, 9, 1).chain(steps(10, 33, 2)).chain(steps(40, 65, 4));
            let large = steps(72, 257, 8).chain(steps(272, most.saturating_add(1), 16));
            return up_to(most, small.chain(large).chain([most]));
        }
        let small = [1, 2, 4, 8, 12].into_iter().chain(steps(16, 257, 8));
        let large = steps(272, 512, 16).chain(steps(512, most.saturating_add(1), 32));
        up_to(most, small.chain(large).chain([most]))
    }

    /// The prefill batches captured up to `most` tokens (the same file).
    pub fn prefill_capture_sizes(most: u32) -> Vec<u32> {
        let small = steps(4, 33, 4).chain(steps(48, 257, 16)).chain(steps(288, 513, 32));
        let large = steps(576, 1025, 64).chain(steps(1280, 4097, 256));
        up_to(most, small.chain(large).chain(steps(4608, most.saturating_add(1), 512)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{AcceptanceConfig, SpeculationMethod};

    fn vllm(seqs: u32, budget: u32) -> VllmConfig {
        VllmConfig {
            max_num_seqs: Some(seqs),
            max_num_batched_tokens: Some(budget),
            ..VllmConfig::default()
        }
    }

    #[test]
    fn vllm_captures_up_to_twice_its_sequences() {
        assert_eq!(vllm(8, 2048).capture_sizes_for(512), [1, 2, 4, 8, 16]);
        let sizes = vllm(256, 8192).capture_sizes_for(512);
        assert_eq!((sizes.len(), sizes.last()), (51, Some(&512)));
        assert_eq!(vllm(1024, 16_384).capture_sizes_for(1024).last(), Some(&1024));
    }

    #[test]
    fn the_widest_decode_step_and_the_whole_budget_are_captured_too() {
        assert_eq!(vllm(5, 2048).capture_sizes_for(512), [1, 2, 4, 5, 8]);
        assert_eq!(vllm(64, 30).capture_sizes_for(512), [1, 2, 4, 8, 16, 24, 30]);
    }

    #[test]
    fn drafts_widen_the_steps_captured() {
        let acceptance = AcceptanceConfig::PerPosition { probability: 0.5 };
        let speculation = SpeculationConfig::new(SpeculationMethod::Ngram, 2, acceptance);
        let config = VllmConfig { speculation: Some(speculation), ..vllm(4, 2048) };
        // Up to 4·3·2 tokens; 1, 2 and 4 requests of 3 tokens each.
        assert_eq!(config.capture_sizes_for(512), [1, 2, 3, 4, 6, 8, 12, 16, 24]);
    }

    #[test]
    fn vllm_v0_captures_the_batch_that_holds_its_sequences() {
        let sizes = |max_num_seqs| {
            let config = VllmV0Config { max_num_seqs, ..VllmV0Config::default() };
            config.capture_sizes()
        };
        assert_eq!(sizes(9), [1, 2, 4, 8, 16]);
        assert_eq!(sizes(1000).last(), Some(&256));
    }

    #[test]
    fn sglang_captures_its_largest_batch_whatever_the_grid() {
        let sglang = SglangConfig::default();
        assert_eq!(sglang.decode_capture_sizes(10), [1, 2, 4, 8, 10]);
        assert_eq!(sglang.decode_capture_sizes(256).len(), 36);
        let exact = SglangConfig { disable_cuda_graph_padding: true, ..sglang };
        assert_eq!(exact.decode_capture_sizes(3), [1, 2, 3]);
        assert_eq!(SglangConfig::prefill_capture_sizes(50), [4, 8, 12, 16, 20, 24, 28, 32, 48]);
        assert_eq!(SglangConfig::prefill_capture_sizes(8192).len(), 58);
    }
}
