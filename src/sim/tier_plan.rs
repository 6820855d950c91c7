//! KV memory below that of the GPUs, from a scenario.

use std::sync::{Arc, Mutex};

use super::handover::kv_bytes_per_token;
use crate::cluster::{TierLinks, TierRates};
use crate::cost::StepTime;
use crate::engine::Tiers;
use crate::engine::tiers::{Fetch, FetchTimes, Level};
use crate::kv::Tier;
use crate::scenario::{EngineConfig, KvTiersConfig, Scenario, ScenarioError, TierFetch};
use crate::units::{Bytes, SimDuration};

const GIB: f64 = (1_u64 << 30) as f64;

/// What every replica of a scenario has below its GPUs, and the pool that all share.
pub(super) struct TierPlan {
    config: KvTiersConfig,
    replicas: u32,
    chunk: Bytes,
    pool: Option<Arc<Mutex<Tier>>>,
    fetch: Fetch,
    rates: TierRates,
}

impl TierPlan {
    /// Of a resolved scenario whose replicas are all of one kind; nothing where no tier has room for a
    /// chunk.
    pub(super) fn new(scenario: &Scenario, costs: &[StepTime]) -> Option<Self> {
        let config = scenario.file.cluster.kv_tiers?;
        let group = scenario.first();
        let token = kv_bytes_per_token(group);
        let chunk = Bytes(u64::from(config.chunk_tokens) * token);
        let has_room = |gib: Option<f64>| gib.filter(|gib| chunks(*gib, chunk) > 0);
        let host = config.host.filter(|host| has_room(Some(host.memory_gib)).is_some());
        let disk = config.disk.filter(|disk| has_room(Some(disk.capacity_gib)).is_some());
        let pool = config.pool.filter(|pool| has_room(Some(pool.memory_gib)).is_some());
        let config = KvTiersConfig { host, disk, pool, ..config };
        if host.is_none() && disk.is_none() && pool.is_none() {
            return None;
        }
        let per_s = |gb: f64| gb * 1e9;
        let rates = TierRates {
            pcie: per_s(config.pcie_gb_per_s.unwrap_or(group.gpu.pcie_gb_s)),
            disk: disk.map(|disk| [disk.read_gb_per_s, disk.write_gb_per_s].map(per_s)),
            nic: pool.map(|pool| per_s(pool.nic_gb_per_s)),
            servers: pool.and_then(|pool| pool.servers_gb_per_s).map(per_s),
        };
        let fetch = match config.fetch {
            TierFetch::Always => Fetch::Always,
            TierFetch::MinTokens(tokens) => Fetch::MinTokens(tokens),
            TierFetch::WhenFaster => {
                let EngineConfig::VllmV1(vllm) = &group.cluster.engine else {
                    unreachable!("a resolved scenario has tiers with vllm_v1 only")
                };
                let chunk_s = |rate: f64| chunk.0 as f64 / rate.min(rates.pcie);
                let pool = rates.nic.map(|nic| nic.min(rates.servers.unwrap_or(nic)));
                Fetch::WhenFaster(Box::new(FetchTimes {
                    cost: costs.first()?.clone(),
                    step_tokens: vllm.max_num_batched_tokens.unwrap_or(u32::MAX),
                    latency_s: config.latency_us / 1e6,
                    chunk_s: [Some(rates.pcie), rates.disk.map(|[read, _]| read), pool]
                        .map(|rate| rate.map_or(f64::INFINITY, chunk_s)),
                }))
            }
        };
        let pool = pool.map(|pool| chunks(pool.memory_gib, chunk));
        let pool = pool.map(|room| Arc::new(Mutex::new(Tier::new(room, config.eviction))));
        let replicas = group.replicas();
        Some(Self { config, replicas, chunk, pool, fetch, rates })
    }

    /// The tiers of one replica, empty.
    pub(super) fn tiers(&self) -> Tiers {
        let KvTiersConfig { chunk_tokens, write, eviction, host, disk, .. } = self.config;
        let own = |gib: f64| Level::own(Tier::new(chunks(gib, self.chunk), eviction));
        let levels = [
            host.map(|host| own(host.memory_gib)),
            disk.map(|disk| own(disk.capacity_gib)),
            self.pool.as_ref().map(|pool| Level::Shared(Arc::clone(pool))),
        ];
        Tiers::new(chunk_tokens, (write, self.fetch.clone()), levels)
    }

    /// The links to them.
    pub(super) fn links(&self) -> Result<TierLinks, ScenarioError> {
        let latency = SimDuration::from_secs_f64(self.config.latency_us / 1e6);
        TierLinks::new(self.replicas, &self.rates, (self.chunk, latency))
            .map_err(|error| ScenarioError { problems: vec![format!("cluster.kv_tiers: {error}")] })
    }
}

/// Chunks that fit.
fn chunks(gib: f64, chunk: Bytes) -> usize {
    (gib * GIB / chunk.0 as f64) as usize
}
