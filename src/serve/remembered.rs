//! How much is remembered of prompts, so that caches can be asked for it: at least what they hold.

use crate::resolved::Scenario;

/// Prompt tokens that are remembered to tell which prompts begin alike: this many at least and at most, and else
/// as many as all caches hold twice over.
const REMEMBERED: std::ops::RangeInclusive<usize> = 1 << 20..=32 << 20;
const GIB: f64 = (1_u64 << 30) as f64;

/// Tokens of prompts that are remembered where caches hold so many, and what to say if those are more.
pub(super) fn remembered(cached: u64) -> (usize, Option<String>) {
    let (least, most) = (*REMEMBERED.start(), *REMEMBERED.end());
    let notice = (cached > most as u64).then(|| {
        format!(
            "notice: caches hold {cached} tokens, and the latest {most} of prompts are told apart: older ones are \
             found in no cache"
        )
    });
    let twice = usize::try_from(cached.saturating_mul(2)).unwrap_or(most);
    (twice.clamp(least, most), notice)
}

/// Tokens that caches below those of GPUs hold.
pub(super) fn tier_tokens(scenario: &Scenario) -> u64 {
    let Some(tiers) = scenario.kv_tiers() else { return 0 };
    let kinds = scenario.kinds();
    let host = tiers.host.map_or(0.0, |host| host.memory_gib);
    let own = host + tiers.disk.map_or(0.0, |disk| disk.capacity_gib);
    let pool = tiers.pool.map_or(0.0, |pool| pool.memory_gib);
    let tokens = |gib: f64, kind: usize| {
        let group = &scenario.groups[kind];
        let shards = group.cluster.tensor_parallel_size;
        let shard = group.model.kv_bytes_per_token(shards, group.cluster.kv_cache_dtype);
        (gib * GIB / (f64::from(shards) * shard as f64).max(1.0)) as u64
    };
    let all = scenario.instances().map(|id| tokens(own, kinds.of(id)));
    all.fold(tokens(pool, 0), u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_remembered_as_caches_hold_twice_over_within_bounds() {
        assert_eq!(remembered(7), (1 << 20, None));
        assert_eq!(remembered(3 << 20), (6 << 20, None));
        assert_eq!(remembered(20 << 20), (32 << 20, None));
        let (most, notice) = remembered(u64::MAX);
        assert_eq!(most, 32 << 20);
        assert!(notice.is_some_and(|notice| notice.contains("33554432")));
    }
}
