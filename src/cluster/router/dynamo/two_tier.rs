//! The two-tier choice (NVIDIA Dynamo 1.6.1, `dynamo-two-tier-cost-fn`): the fewest live requests, but where a large
//! part of the prompt is cached and the load is balanced only among the ranks that cache most of it.
//!
//! Of equal ranks the maker takes the first in an order that it does not state, which stays while the fleet does.

use super::Rank;
use super::cost::State;
use crate::scenario::DynamoTwoTier;

/// The ranks that may be chosen, all equal.
pub(super) fn best(
    config: &DynamoTwoTier,
    prompt_blocks: u64,
    ranks: &[(Rank, State)],
    into: &mut Vec<Rank>,
) {
    let requests = |(_, state): &(Rank, State)| u64::from(state.requests);
    let device = |(_, state): &(Rank, State)| state.overlap.device;
    let fewest = ranks.iter().map(requests).min().unwrap_or(0);
    let most = ranks.iter().map(requests).max().unwrap_or(0);
    let longest = ranks.iter().map(device).max().unwrap_or(0);
    let is_imbalanced = most - fewest > config.balance_abs_threshold
        && most as f64 > config.balance_rel_threshold * fewest as f64;
    let share = f64::from(longest) / prompt_blocks.max(1) as f64;
    let by_cache = !is_imbalanced && share > config.cache_threshold;

    let cached = ranks.iter().filter(|rank| !by_cache || device(rank) == longest);
    let fewest = cached.clone().map(requests).min().unwrap_or(0);
    into.clear();
    into.extend(cached.filter(|rank| requests(rank) == fewest).map(|(rank, _)| *rank));
}
