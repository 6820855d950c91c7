//! KV memory below that of the GPUs, from a scenario.

use std::sync::{Arc, Mutex};

use super::handover::kv_bytes_per_token;
use crate::cluster::{TierLinks, TierRates, Wires};
use crate::cost::StepTime;
use crate::engine::Tiers;
use crate::engine::scheduler::EngineSettings;
use crate::engine::tiers::{Fetch, FetchTimes, Level};
use crate::kv::Tier;
use crate::resolved::{ReplicaGroup, Scenario, ScenarioError};
use crate::scenario::{KvTiersConfig, TierFetch};
use crate::units::{Bytes, SimDuration};

const GIB: f64 = (1_u64 << 30) as f64;

/// What replicas of a scenario have below their GPUs, and the pool that they share.
pub(super) struct TierPlan {
    latency: SimDuration,
    pool: Option<Arc<Mutex<Tier>>>,
    /// By group; nothing of those that decode.
    groups: Vec<Option<GroupTiers>>,
}

/// What every replica of a group has.
struct GroupTiers {
    config: KvTiersConfig,
    replicas: u32,
    chunk: Bytes,
    fetch: Fetch,
    rates: TierRates,
}

impl TierPlan {
    /// Of a resolved scenario; nothing where it has no tiers.
    pub(super) fn new(scenario: &Scenario, costs: &[StepTime]) -> Option<Self> {
        let config = scenario.kv_tiers()?;
        let of = |(group, cost)| GroupTiers::new(group, cost);
        let groups: Vec<_> = scenario.groups.iter().zip(costs).map(of).collect();
        let chunk = groups.iter().flatten().next()?.chunk;
        let pool = config.pool.map(|pool| chunks(pool.memory_gib, chunk));
        let pool = pool.map(|room| Arc::new(Mutex::new(Tier::new(room, config.eviction))));
        let latency = SimDuration::from_secs_f64(config.latency_us / 1e6);
        Some(Self { latency, pool, groups })
    }

    /// The tiers of one replica of a group, by its place, empty.
    pub(super) fn tiers(&self, group: usize) -> Option<Tiers> {
        let GroupTiers { config, chunk, fetch, .. } = self.groups[group].as_ref()?;
        let own = |gib: f64| Level::own(Tier::new(chunks(gib, *chunk), config.eviction));
        let levels = [
            config.host.map(|host| own(host.memory_gib)),
            config.disk.map(|disk| own(disk.capacity_gib)),
            self.pool.as_ref().map(|pool| Level::Shared(Arc::clone(pool))),
        ];
        Some(Tiers::new(config.chunk_tokens, (config.write, fetch.clone()), levels))
    }

    /// The links to them. Replicas that have tiers are numbered before all others.
    pub(super) fn links(&self, wires: &mut Wires) -> Result<TierLinks, ScenarioError> {
        let groups = self.groups.iter().flatten();
        let kinds: Vec<_> = groups.map(|it| (it.replicas, it.rates, it.chunk)).collect();
        TierLinks::of_kinds(wires, &kinds, self.latency)
            .map_err(|error| ScenarioError::at("cluster.kv_tiers", error))
    }
}

impl GroupTiers {
    fn new(group: &ReplicaGroup, cost: &StepTime) -> Option<Self> {
        let config = group.cluster.kv_tiers?;
        let token = kv_bytes_per_token(group);
        let chunk = Bytes(u64::from(config.chunk_tokens) * token);
        let per_s = |gb: f64| gb * 1e9;
        let rates = TierRates {
            pcie: per_s(config.pcie_gb_per_s.unwrap_or(group.gpu.pcie_gb_s)),
            disk: config.disk.map(|disk| [disk.read_gb_per_s, disk.write_gb_per_s].map(per_s)),
            nic: config.pool.and_then(|pool| pool.nic_gb_per_s).map(per_s),
            servers: config.pool.and_then(|pool| pool.servers_gb_per_s).map(per_s),
        };
        let fetch = match config.fetch {
            TierFetch::Always => Fetch::Always,
            TierFetch::MinTokens(tokens) => Fetch::MinTokens(tokens),
            TierFetch::WhenFaster => {
                let EngineSettings::VllmV1(vllm) = &group.settings else {
                    unreachable!("a resolved scenario has tiers with vllm_v1 only")
                };
                let chunk_s = |rate: f64| chunk.0 as f64 / rate.min(rates.pcie);
                let pool = rates.nic.map(|nic| nic.min(rates.servers.unwrap_or(nic)));
                Fetch::WhenFaster(Box::new(FetchTimes {
                    cost: cost.clone(),
                    step_tokens: vllm.max_num_batched_tokens,
                    latency_s: config.latency_us / 1e6,
                    chunk_s: [Some(rates.pcie), rates.disk.map(|[read, _]| read), pool]
                        .map(|rate| rate.map_or(f64::INFINITY, chunk_s)),
                }))
            }
        };
        Some(Self { config, replicas: group.replicas(), chunk, fetch, rates })
    }
}

/// Chunks that fit.
fn chunks(gib: f64, chunk: Bytes) -> usize {
    (gib * GIB / chunk.0 as f64) as usize
}
