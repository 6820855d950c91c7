//! Whether a prompt is computed where it is decoded (NVIDIA Dynamo 1.6.1, conditional disaggregation: the policies of
//! `lib/kv-router/src/conditional_disagg.rs`, and the guard of `conditional_bypass.rs` beside the prefill router of
//! `lib/llm`).
//!
//! ```text
//! missing       = prompt tokens − min(prompt tokens, its tokens cached on the decode rank)
//! isl_bounding  = missing < eff_isl_threshold and missing / max(1, prompt tokens) < eff_isl_ratio_threshold
//! prefill_load  = prefill tokens booked on the prefill rank > prefill_busy_threshold · max_num_batched_tokens
//! isl_or_load   = either
//! guard         = active blocks of the decode rank, with the prompt's ≤ decode_busy_threshold · its KV blocks
//! ```
//!
//! Both ranks are those that the routers of the pools would choose now. A prefill rank that is not known is not busy. The
//! maker takes a queue that is full for a busy rank, but who only asks never meets a queue. The guard, where there is one,
//! lets nothing pass to a rank whose KV blocks are not known. Requests whose prefill rank is chosen elsewhere are not asked
//! about.

use super::Prospect;
use crate::scenario::{DynamoConditionalDisagg, DynamoConditionalPolicy};

/// What is known of a request and of the ranks that it would go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Where it would be decoded.
    pub decode: Prospect,
    /// Whether the rank that would prefill it is busy, where that is known and the policy asks for it.
    pub is_prefill_busy: Option<bool>,
}

/// Whether a rank that would prefill is busy above this share of a step.
pub fn is_busy(prefill: &Prospect, threshold: f64) -> bool {
    prefill.prefill_tokens as f64 > threshold * prefill.max_num_batched_tokens as f64
}

/// Whether the decode rank computes the prompt.
pub fn computes_prompt(rules: &DynamoConditionalDisagg, known: &Known) -> bool {
    let is_light = || is_bounded(rules, known);
    let is_busy = known.is_prefill_busy.unwrap_or(false);
    let wants = match rules.policy {
        DynamoConditionalPolicy::IslBounding => is_light(),
        DynamoConditionalPolicy::PrefillLoad => is_busy,
        DynamoConditionalPolicy::IslOrLoad => is_busy || is_light(),
    };
    wants && has_room(rules, &known.decode)
}

fn is_bounded(rules: &DynamoConditionalDisagg, known: &Known) -> bool {
    let missing = known.prompt_tokens.saturating_sub(known.decode.cached_tokens);
    let share = missing as f64 / known.prompt_tokens.max(1) as f64;
    missing < rules.eff_isl_threshold && share < rules.eff_isl_ratio_threshold
}

fn has_room(rules: &DynamoConditionalDisagg, decode: &Prospect) -> bool {
    let Some(threshold) = rules.decode_busy_threshold else { return true };
    decode.total_kv_blocks.is_some_and(|total| decode.blocks as f64 <= threshold * total as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::router::dynamo::Rank;

    fn known(prompt_tokens: u64, cached_tokens: u64, is_prefill_busy: Option<bool>) -> Known {
        let decode = Prospect {
            rank: Rank(0),
            cached_tokens,
            prefill_tokens: 0,
            max_num_batched_tokens: 8192,
            blocks: 50,
            total_kv_blocks: Some(100),
        };
        Known { prompt_tokens, decode, is_prefill_busy }
    }

    fn rules(policy: DynamoConditionalPolicy) -> DynamoConditionalDisagg {
        DynamoConditionalDisagg { policy, ..DynamoConditionalDisagg::default() }
    }

    #[test]
    fn the_policies_decide_as_their_table_says() {
        use DynamoConditionalPolicy::{IslBounding, IslOrLoad, PrefillLoad};
        // Of each: tokens of the prompt, those of them that are cached, whether the prefill rank is busy; and what
        // isl_bounding, prefill_load and isl_or_load make of it.
        let table = [
            // All is new: 200 tokens are few, but the whole prompt.
            ((200, 0, Some(false)), [false, false, false]),
            ((200, 0, Some(true)), [false, true, true]),
            ((200, 0, None), [false, false, false]),
            // 896 of 1000 are cached: 104 tokens, a share of 0.104.
            ((1000, 896, Some(false)), [true, false, true]),
            ((1000, 896, None), [true, false, true]),
            ((1000, 896, Some(true)), [true, true, true]),
            // Bounds are not reached: 2047 tokens of 100,000 pass, 2048 do not.
            ((100_000, 97_953, None), [true, false, true]),
            ((100_000, 97_952, None), [false, false, false]),
            // 699 of 1000 pass, a share of 0.7 does not.
            ((1000, 301, None), [true, false, true]),
            ((1000, 300, None), [false, false, false]),
            // More is cached than there is, and nothing at all is asked.
            ((500, 640, None), [true, false, true]),
            ((0, 0, None), [true, false, true]),
        ];
        for ((prompt, cached, busy), expected) in table {
            let found = [IslBounding, PrefillLoad, IslOrLoad]
                .map(|policy| computes_prompt(&rules(policy), &known(prompt, cached, busy)));
            assert_eq!(found, expected, "{cached} of {prompt} cached, busy: {busy:?}");
        }
    }

    #[test]
    fn the_guard_of_the_decode_side_has_the_last_word() {
        // 50 of 100 blocks.
        for (threshold, total, passes) in [
            (None, Some(100), true),
            (None, None, true),
            (Some(0.5), Some(100), true),
            (Some(0.49), Some(100), false),
            (Some(0.0), Some(100), false),
            (Some(1.0), None, false),
        ] {
            let policy = DynamoConditionalPolicy::PrefillLoad;
            let rules =
                DynamoConditionalDisagg { decode_busy_threshold: threshold, ..rules(policy) };
            let mut busy = known(1000, 0, Some(true));
            busy.decode.total_kv_blocks = total;
            assert_eq!(computes_prompt(&rules, &busy), passes, "{threshold:?} of {total:?}");
            let calm = Known { is_prefill_busy: Some(false), ..busy };
            assert!(!computes_prompt(&rules, &calm), "the guard sends nothing there itself");
        }
    }

    #[test]
    fn a_rank_is_busy_with_more_than_its_share_of_a_step() {
        let booked = |tokens| Prospect { prefill_tokens: tokens, ..known(0, 0, None).decode };
        for (tokens, threshold, busy) in
            [(0, 0.0, false), (1, 0.0, true), (4096, 0.5, false), (4097, 0.5, true)]
        {
            assert_eq!(is_busy(&booked(tokens), threshold), busy, "{tokens} above {threshold}");
        }
    }

    proptest! {
        /// Against the rules in whole numbers, of shares in hundredths.
        #[test]
        fn decisions_are_those_of_whole_numbers(
            (prompt, cached) in (0..5000_u64, 0..5000_u64),
            (most, share) in (0..4000_u64, 0..=100_u64),
            busy in proptest::option::of(any::<bool>()),
            (blocks, total) in (0..300_u64, proptest::option::of(0..300_u64)),
            guard in proptest::option::of(0..200_u64),
            policy in 0..3_usize,
        ) {
            let hundredth = |count: u64| count as f64 / 100.0;
            let policy = [
                DynamoConditionalPolicy::IslBounding,
                DynamoConditionalPolicy::PrefillLoad,
                DynamoConditionalPolicy::IslOrLoad,
            ][policy];
            let rules = DynamoConditionalDisagg {
                policy,
                eff_isl_threshold: most,
                eff_isl_ratio_threshold: hundredth(share),
                prefill_busy_threshold: None,
                decode_busy_threshold: guard.map(hundredth),
            };
            let mut known = known(prompt, cached, busy);
            (known.decode.blocks, known.decode.total_kv_blocks) = (blocks, total);

            let missing = (0..prompt).skip(cached as usize).count() as u64;
            // Where a share is met to the digit, floats may fall to either side of it.
            let is_even = missing * 100 == share * prompt.max(1);
            let is_full_even = guard.zip(total).is_some_and(|(guard, total)| blocks * 100 == guard * total);
            prop_assume!(!is_even && !is_full_even);
            let light = missing < most && missing * 100 < share * prompt.max(1);
            let busy = busy == Some(true);
            let wants = match policy {
                DynamoConditionalPolicy::IslBounding => light,
                DynamoConditionalPolicy::PrefillLoad => busy,
                DynamoConditionalPolicy::IslOrLoad => light || busy,
            };
            let fits = match (guard, total) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(guard), Some(total)) => blocks * 100 <= guard * total,
            };
            prop_assert_eq!(computes_prompt(&rules, &known), wants && fits);
        }
    }
}
