//! Lengths of ShareGPT conversations, reduced to a table.
//!
//! The data set itself is not shipped. What is kept of the first two turns of 17,400 of its
//! conversations (Llama-2 tokens) are means: of 32 equally frequent classes of prompt lengths, and
//! for each four neighbouring classes of 16 equally frequent classes of answer lengths. A workload
//! of n requests visits the 32 × 16 classes evenly, in a fixed order, and is scaled to the totals
//! that a record states, since another tokeniser counts other tokens.

/// Means of classes of lengths.
#[derive(Debug)]
pub(super) struct Law {
    prompts: [u32; 32],
    outputs: [[u32; 16]; 8],
}

/// What `vllm bench serve` keeps: at least 4 tokens each, prompts up to 1024, together up to 2048.
pub(super) static VLLM: &Law = &SHORT;
/// What `sglang.bench_serving` keeps: at least 2 tokens each.
pub(super) static SGLANG: &Law = &WHOLE;

/// 15,485 conversations; means 248 and 233 tokens.
const SHORT: Law = Law {
    prompts: [
        6, 9, 11, 12, 14, 16, 19, 21, 24, 28, 33, 40, 48, 61, 78, 99, 128, 164, 206, 247, 286, 326,
        362, 398, 435, 482, 535, 595, 667, 756, 857, 961,
    ],
    outputs: [
        [16, 33, 59, 89, 112, 142, 176, 210, 241, 267, 295, 327, 359, 402, 487, 749],
        [25, 64, 101, 133, 176, 214, 247, 276, 308, 341, 373, 410, 463, 532, 647, 882],
        [21, 49, 92, 132, 178, 219, 256, 289, 321, 353, 388, 427, 488, 562, 678, 887],
        [12, 30, 55, 95, 143, 192, 239, 279, 319, 363, 406, 447, 508, 598, 724, 942],
        [7, 11, 14, 19, 28, 43, 71, 111, 154, 213, 279, 341, 423, 519, 672, 999],
        [5, 8, 11, 13, 16, 19, 24, 29, 39, 49, 69, 115, 191, 302, 462, 868],
        [5, 8, 10, 13, 16, 18, 22, 27, 33, 42, 56, 78, 127, 231, 395, 750],
        [5, 7, 9, 12, 15, 18, 21, 25, 31, 40, 55, 83, 142, 275, 487, 839],
    ],
};

/// 17,385 conversations; means 379 and 227 tokens.
const WHOLE: Law = Law {
    prompts: [
        4, 8, 10, 12, 14, 17, 19, 22, 26, 31, 38, 47, 61, 79, 104, 137, 181, 226, 271, 314, 354,
        392, 432, 481, 538, 604, 684, 779, 881, 981, 1242, 3146,
    ],
    outputs: [
        [9, 16, 31, 53, 86, 112, 143, 181, 217, 251, 278, 314, 347, 389, 475, 761],
        [23, 63, 102, 135, 178, 216, 247, 273, 303, 337, 369, 406, 459, 525, 642, 917],
        [16, 41, 77, 121, 168, 211, 254, 289, 325, 359, 394, 434, 496, 573, 690, 904],
        [8, 20, 38, 68, 110, 157, 212, 263, 306, 355, 405, 452, 517, 603, 739, 1001],
        [5, 8, 11, 14, 17, 23, 31, 44, 65, 104, 157, 226, 308, 411, 574, 1028],
        [3, 6, 9, 11, 14, 17, 21, 25, 32, 41, 54, 76, 134, 242, 396, 771],
        [3, 5, 8, 11, 14, 16, 20, 24, 30, 38, 52, 76, 128, 234, 424, 839],
        [2, 4, 7, 11, 16, 22, 32, 52, 91, 142, 197, 268, 366, 482, 692, 990],
    ],
};

impl Law {
    /// Lengths of `count` requests with these mean prompt and answer tokens, at least 1 each.
    pub(super) fn pairs(&self, count: u32, prompt_mean: f64, output_mean: f64) -> Vec<(u32, u32)> {
        let drawn: Vec<(u32, u32)> = (0..count).map(|index| self.class(index)).collect();
        let mean = |side: fn(&(u32, u32)) -> u32| {
            drawn.iter().map(|pair| f64::from(side(pair))).sum::<f64>() / f64::from(count.max(1))
        };
        let prompt_scale = prompt_mean / mean(|pair| pair.0).max(1.0);
        let output_scale = output_mean / mean(|pair| pair.1).max(1.0);
        let scaled = |tokens: u32, scale: f64| ((f64::from(tokens) * scale).round() as u32).max(1);
        drawn
            .iter()
            .map(|&(prompt, output)| (scaled(prompt, prompt_scale), scaled(output, output_scale)))
            .collect()
    }

    /// How much longer a workload of these means is than the law, or shorter if below 1.
    pub(super) fn stretch(&self, prompt_mean: f64, output_mean: f64) -> (f64, f64) {
        let prompts = self.prompts.iter().sum::<u32>();
        let outputs = self.outputs.iter().flatten().sum::<u32>();
        (prompt_mean / (f64::from(prompts) / 32.0), output_mean / (f64::from(outputs) / 128.0))
    }

    /// The means of the class of the `index`-th request. The classes are those that the additive
    /// recurrence of the plastic number visits, which fills the unit square evenly at any length.
    fn class(&self, index: u32) -> (u32, u32) {
        let place = |step: f64| (0.5 + step * f64::from(index)).fract();
        let prompt = (place(0.754_877_666_246_693) * 32.0) as usize;
        let output = (place(0.569_840_290_998_053_2) * 16.0) as usize;
        (self.prompts[prompt], self.outputs[prompt / 4][output])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_are_those_asked_for() {
        for law in [VLLM, SGLANG] {
            for count in [10, 100, 1000] {
                let pairs = law.pairs(count, 214.465, 199.904);
                let sum = |side: fn(&(u32, u32)) -> u32| pairs.iter().map(side).sum::<u32>();
                let mean = |sum: u32| f64::from(sum) / f64::from(count);
                assert!((mean(sum(|pair| pair.0)) - 214.465).abs() < 1.0);
                assert!((mean(sum(|pair| pair.1)) - 199.904).abs() < 1.0);
            }
        }
    }

    #[test]
    fn short_prompts_have_longer_answers() {
        let mean = |row: &[u32]| row.iter().sum::<u32>() / 16;
        assert!(mean(&VLLM.outputs[2]) > 2 * mean(&VLLM.outputs[6]));
    }

    #[test]
    fn every_class_is_visited_about_equally_often() {
        let mut visits = [[0_u32; 16]; 32];
        for index in 0..51_200 {
            let place = |step: f64| (0.5 + step * f64::from(index)).fract();
            let prompt = (place(0.754_877_666_246_693) * 32.0) as usize;
            visits[prompt][(place(0.569_840_290_998_053_2) * 16.0) as usize] += 1;
        }
        assert!(visits.iter().flatten().all(|&count| (80..=120).contains(&count)));
    }
}
