//! The lengths that the benchmark tools draw, from the same seed in the same order.
//!
//! Followed: SGLang 0.5.23 `sglang/benchmark/datasets/{random,generated_shared_prefix}.py`, vLLM
//! 0.33.0 `vllm/benchmarks/datasets/{random,prefix_repetition}.py`, and vLLM 0.6
//! `benchmarks/benchmark_serving.py`. Left out: the tools decode prompts to text and encode them
//! again, which moves a few lengths of `generated-shared-prefix` and `prefix_repetition` by some
//! tokens, as the tokeniser pleases.
//!
//! Lengths and arrivals share numpy's global generator where the tool shares it, so the arrivals
//! must be drawn from what is left in [`Tools`] afterwards.

use std::sync::Arc;

use crate::request::Segment;
use crate::scenario::GroupDistribution;
use crate::scenario::PrefixRepetitionConfig;
use crate::scenario::RowOrder;
use crate::scenario::SglangRandomConfig;
use crate::scenario::SharedPrefixConfig;
use crate::scenario::Vllm2024RandomConfig;
use crate::scenario::VllmRandomConfig;
use crate::workload::draft::Draft;
use crate::workload::draft::Tokens;
use crate::workload::numpy::Generator;
use crate::workload::numpy::LegacyRandom;
use crate::workload::numpy::PythonRandom;
use crate::workload::numpy::choose;

/// The global generators of a benchmark tool after it has set its `--seed`.
#[derive(Debug, Clone)]
pub struct Tools {
    /// `np.random`.
    pub numpy: LegacyRandom,
    /// `random`.
    pub python: PythonRandom,
    pub(super) seed: u32,
}

impl Tools {
    /// The generators of a tool started with `--seed seed`.
    pub fn new(seed: u32) -> Self {
        let python = PythonRandom::new(u64::from(seed));
        Self { numpy: LegacyRandom::new(seed), python, seed }
    }

    /// The (prompt, answer) tokens of SGLang's `random` and `random-ids`. A prompt that the
    /// special tokens use up entirely keeps 1 token.
    pub fn sglang_random(&mut self, config: &SglangRandomConfig, count: usize) -> Vec<(u32, u32)> {
        let inputs = self.up_to(config.input_tokens, config.range_ratio, 1, count);
        let outputs = self.up_to(config.output_tokens, config.range_ratio, 1, count);
        self.pass_ids(config.vocabulary_size.map_or(0, |_| count as u64), config.vocabulary_size);
        let sent = |input: u32| input.saturating_sub(config.special_tokens).max(1);
        inputs.into_iter().map(sent).zip(outputs).collect()
    }

    /// The (prompt, answer) tokens of vLLM's `random`, which has a generator of its own.
    pub fn vllm_random(&self, config: &VllmRandomConfig, count: usize) -> Vec<(u32, u32)> {
        let mut generator = Generator::new(u64::from(self.seed));
        let mut around = |middle: u32, ratio: f64, least: u32| -> Vec<u32> {
            let middle = f64::from(middle);
            let low = ((middle * (1.0 - ratio)).floor() as u32).max(least);
            let high = ((middle * (1.0 + ratio)).ceil() as u32).max(least);
            (0..count).map(|_| generator.integers(low, high + 1)).collect()
        };
        let own = config.input_tokens.saturating_sub(config.special_tokens);
        let inputs = around(own, config.range_ratio, 0);
        let output_ratio = config.output_range_ratio.unwrap_or(config.range_ratio);
        let outputs = around(config.output_tokens, output_ratio, 1);
        inputs.into_iter().map(|input| config.prefix_tokens + input).zip(outputs).collect()
    }

    /// The (prompt, answer) tokens of vLLM's `random` of 2024. Its lengths may be 0, which become
    /// 1 here.
    pub fn vllm_2024_random(
        &mut self,
        config: &Vllm2024RandomConfig,
        count: usize,
    ) -> Vec<(u32, u32)> {
        self.pass_ids(u64::from(config.prefix_tokens), Some(config.vocabulary_size));
        let inputs = self.up_to(config.input_tokens, config.range_ratio, 0, count);
        let outputs = self.up_to(config.output_tokens, config.range_ratio, 0, count);
        self.pass_ids(count as u64, Some(config.vocabulary_size));
        let prompt = |input: u32| (config.prefix_tokens + input).max(1);
        inputs
            .into_iter()
            .map(prompt)
            .zip(outputs.into_iter().map(|output| output.max(1)))
            .collect()
    }

    /// The prompts of SGLang's `generated-shared-prefix`.
    pub(super) fn shared_prefix(&mut self, config: &SharedPrefixConfig) -> Vec<Draft> {
        let groups = config.groups as usize;
        let count = groups * config.prompts_per_group as usize;
        let systems = self.up_to(config.system_prompt_tokens, config.range_ratio, 1, groups);
        let questions = self.up_to(config.question_tokens, config.range_ratio, 1, count);
        let outputs = self.up_to(config.output_tokens, config.range_ratio, 1, count);
        // One uniform number for each token of text, before the shuffle.
        let text = systems.iter().chain(&questions).map(|len| u64::from(*len)).sum();
        self.python.skip(text);
        let assigned = self.groups_of_slots(config, count);
        let mut drafts: Vec<Draft> = (0..count)
            .map(|slot| {
                let group = assigned[slot];
                let system = systems[group];
                let own = config.separator_tokens + questions[slot];
                Draft {
                    segments: Some(prefixed(group as u64, system, slot as u64, own)),
                    ..Draft::of_lengths(system + own, outputs[slot])
                }
            })
            .collect();
        if config.order != RowOrder::Recorded {
            self.python.shuffle(&mut drafts);
        }
        drafts
    }

    /// The prompts of vLLM's `prefix_repetition`: `count` / prefixes for each prefix.
    pub(super) fn prefix_repetition(
        &mut self,
        config: &PrefixRepetitionConfig,
        count: usize,
    ) -> Vec<Draft> {
        let per_prefix = count / config.prefixes as usize;
        let (prefix, suffix) = (config.prefix_tokens, config.suffix_tokens);
        let mut drafts = Vec::with_capacity(count);
        for group in 0..u64::from(config.prefixes) {
            self.pass_ids(u64::from(prefix), Some(config.vocabulary_size));
            for _ in 0..per_prefix {
                self.pass_ids(u64::from(suffix), Some(config.vocabulary_size));
                let segments = prefixed(group, prefix, drafts.len() as u64, suffix);
                drafts.push(Draft {
                    segments: Some(segments),
                    ..Draft::of_lengths(prefix + suffix, config.output_tokens)
                });
            }
        }
        self.python.shuffle(&mut drafts);
        drafts
    }

    /// Lengths between a share of the largest and the largest.
    fn up_to(&mut self, largest: u32, ratio: f64, least: u32, count: usize) -> Vec<u32> {
        let low = ((f64::from(largest) * ratio) as u32).max(least);
        (0..count).map(|_| self.numpy.randint(low, largest + 1)).collect()
    }

    /// Passes over `count` draws of a token id.
    fn pass_ids(&mut self, count: u64, vocabulary_size: Option<u32>) {
        if let Some(size) = vocabulary_size {
            for _ in 0..count {
                self.numpy.randint(0, size);
            }
        }
    }

    /// The group of every slot, in blocks or by popularity.
    fn groups_of_slots(&self, config: &SharedPrefixConfig, count: usize) -> Vec<usize> {
        match config.group_distribution {
            GroupDistribution::Uniform {} => {
                (0..count).map(|slot| slot / config.prompts_per_group as usize).collect()
            }
            GroupDistribution::Zipf { exponent } => {
                let weights: Vec<f64> =
                    (1..=config.groups).map(|rank| 1.0 / f64::from(rank).powf(exponent)).collect();
                let mut generator = Generator::new(u64::from(self.seed));
                (0..count).map(|_| choose(&weights, generator.random())).collect()
            }
        }
    }
}

/// A prompt of a shared prefix and a part of its own.
fn prefixed(group: u64, prefix_tokens: u32, request: u64, own_tokens: u32) -> Arc<[Segment]> {
    let prefix = (prefix_tokens > 0).then(|| Tokens::Prefix(group).segment(0, prefix_tokens));
    let own = (own_tokens > 0).then(|| Tokens::Body(request).segment(0, own_tokens));
    prefix.into_iter().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The group, prompt and answer of every draft.
    fn rows(drafts: &[Draft]) -> Vec<(u64, u32, u32)> {
        let group = |draft: &Draft| {
            let first = draft.segments.as_ref().expect("a shared prefix")[0];
            first.stream - Tokens::Prefix(0).stream()
        };
        drafts
            .iter()
            .map(|draft| (group(draft), draft.prompt_tokens, draft.output_tokens))
            .collect()
    }

    // The expected rows were drawn with numpy 2.4.6 and Python 3 in the order the tools draw.

    #[test]
    fn shared_prefixes_are_shuffled_as_sglang_does() {
        let config = SharedPrefixConfig {
            groups: 3,
            prompts_per_group: 3,
            system_prompt_tokens: 20,
            question_tokens: 10,
            output_tokens: 5,
            range_ratio: 0.5,
            ..SharedPrefixConfig::default()
        };
        let mut tools = Tools::new(42);
        let drawn = rows(&tools.shared_prefix(&config));
        let expected = [
            (2, 28, 5),
            (1, 21, 3),
            (2, 30, 3),
            (0, 26, 3),
            (1, 21, 5),
            (0, 26, 2),
            (2, 29, 3),
            (0, 23, 3),
            (1, 21, 5),
        ];
        assert_eq!(drawn, expected);
        let gap = tools.numpy.exponential(0.5);
        assert!((gap - 2.427_557_302_444_265).abs() < 1e-14, "{gap}");

        let popular = SharedPrefixConfig {
            groups: 4,
            prompts_per_group: 2,
            range_ratio: 0.0,
            group_distribution: GroupDistribution::Zipf { exponent: 1.2 },
            ..config
        };
        let expected = [
            (0, 17, 5),
            (2, 21, 3),
            (3, 16, 5),
            (0, 17, 3),
            (0, 9, 4),
            (0, 8, 3),
            (3, 11, 5),
            (0, 15, 5),
        ];
        assert_eq!(rows(&Tools::new(1).shared_prefix(&popular)), expected);
    }

    #[test]
    fn repeated_prefixes_are_shuffled_as_vllm_does() {
        let config = PrefixRepetitionConfig {
            prefix_tokens: 7,
            suffix_tokens: 5,
            prefixes: 3,
            ..PrefixRepetitionConfig::default()
        };
        let mut tools = Tools::new(0);
        // Ten requests asked for, three for each of three prefixes given.
        let drawn = rows(&tools.prefix_repetition(&config, 10));
        let groups: Vec<u64> = drawn.iter().map(|row| row.0).collect();
        assert_eq!(groups, [2, 1, 0, 1, 1, 0, 0, 2, 2]);
        assert!(drawn.iter().all(|row| (row.1, row.2) == (12, 128)));
        let gap = tools.numpy.gamma(1.0, 0.5);
        assert!((gap - 0.435_957_923_501_328_5).abs() < 1e-14, "{gap}");
    }
}
