//! What layers with an attention window read and multiply.
//!
//! Kernels visit keys in tiles, and a window begins and ends inside of one: they take as long as if
//! the window were wider by a part of a tile for a decode, by several for the queries of a prefill,
//! which share a tile and mask its corners. Against kernels measured with a window of 128 tokens and
//! heads of 64 elements on H100 and H200 (operator tables of `AIConfigurator`: SGLang 0.5.14, vLLM
//! 0.24.0) decodes come out 12 % high with SGLang and 16 % low with vLLM, prefills within 9 %; with a window of
//! 8192, both within 5 % (vLLM).

use super::StepShape;

/// Keys beyond the window that cost a decode as much as keys inside.
const DECODE_MARGIN: u32 = 128;
/// The same for each token of a prefill.
const PREFILL_MARGIN: u32 = 512;

/// What some layers read of a context at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Window {
    /// Tokens, as the model says.
    tokens: u32,
    /// Whether they are chosen, not the latest ones.
    is_chosen: bool,
    /// Keys that a decode visits at most.
    decode_keys: u32,
    /// Keys that a token of a prefill visits at most.
    prefill_keys: u32,
}

impl Window {
    /// The latest tokens.
    pub(super) fn of_keys(tokens: u32) -> Self {
        Self {
            tokens,
            is_chosen: false,
            decode_keys: tokens.saturating_add(DECODE_MARGIN),
            prefill_keys: tokens.saturating_add(PREFILL_MARGIN),
        }
    }

    /// The latest tokens, read one by one.
    pub(super) fn exact(tokens: u32) -> Self {
        Self { is_chosen: false, ..Self::chosen(tokens) }
    }

    /// Tokens that an indexer chooses one by one.
    pub(super) fn chosen(tokens: u32) -> Self {
        Self { tokens, is_chosen: true, decode_keys: tokens, prefill_keys: tokens }
    }

    /// What [`StepShape::prefill_window`] has to be for [`pairs`](Self::pairs) to be exact.
    pub(super) fn prefill_keys(&self) -> u32 {
        self.prefill_keys
    }

    /// The longest mean context that is read.
    pub(super) fn context(&self) -> f64 {
        f64::from(self.decode_keys)
    }

    /// Tokens read of the contexts of so many sequences at most. Their sum is all that is known of the
    /// contexts: the lesser of it and this is what is read where all of them are longer than the
    /// window or all shorter, and an upper bound where some are.
    pub(super) fn most_read(&self, seqs: u32) -> u64 {
        u64::from(seqs) * u64::from(self.decode_keys)
    }

    /// Pairs of tokens that prefills visit; at most these, where the shape was not told the window.
    pub(super) fn pairs(&self, shape: &StepShape) -> u64 {
        if shape.prefill_window == self.prefill_keys {
            return shape.window_attention;
        }
        let most = u64::from(shape.prefill_tokens) * u64::from(self.prefill_keys);
        shape.prefill_attention.min(most)
    }

    /// For the provenance of a cost model.
    pub(super) fn named(&self) -> String {
        let tokens = self.tokens;
        if self.is_chosen {
            format!("{tokens} chosen tokens")
        } else {
            format!("window of {tokens} tokens")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cost::contexts::readings;
    use crate::model::KvDtype;
    use crate::profiles;

    fn gpt_oss() -> Window {
        let model = profiles::model("gpt-oss-120b").expect("in the catalogue");
        let readings = readings(&model, 1, KvDtype::Auto);
        readings.iter().find_map(|reading| reading.window).expect("it has windows")
    }

    fn shape(window: u32, prompts: &[(u32, u32)]) -> StepShape {
        let mut shape = StepShape::seeing(window);
        for (new, cached) in prompts {
            shape.add_prefill(*new, *cached, true);
        }
        shape
    }

    proptest! {
        #[test]
        fn pairs_of_a_prefill_are_those_counted_token_by_token(
            new in 1_u32..2000, cached in 0_u32..2000, window in 1_u32..3000,
        ) {
            // A token sees those before it, and half of itself.
            let seen = |place: u32| 2 * u64::from(place.min(window)) + u64::from(place < window);
            let twice: u64 = (cached..cached + new).map(seen).sum();
            let counted = shape(window, &[(new, cached)]).window_attention;
            prop_assert!(counted.abs_diff(twice / 2) <= 1, "{} {}", counted, twice);
        }

        #[test]
        fn a_window_that_covers_everything_changes_nothing(
            prompts in proptest::collection::vec((1_u32..2000, 0_u32..2000), 1..5),
        ) {
            let shape = shape(4000, &prompts);
            prop_assert_eq!(shape.window_attention, shape.prefill_attention);
        }

        #[test]
        fn a_shape_that_does_not_know_the_window_has_at_least_as_many_pairs(
            prompts in proptest::collection::vec((1_u32..2000, 0_u32..2000), 1..5),
        ) {
            let window = gpt_oss();
            let known = window.pairs(&shape(window.prefill_keys(), &prompts));
            prop_assert!(known <= window.pairs(&shape(0, &prompts)));
        }
    }

    #[test]
    fn half_of_the_layers_of_gpt_oss_see_128_tokens() {
        let window = gpt_oss();
        assert_eq!((window.decode_keys, window.prefill_keys), (256, 640));
    }
}
