//! KV memory below that of the GPUs: examples worked by hand, laws on random engines, and what scenarios
//! refuse.

mod examples;
mod laws;
mod refused;
mod roles;

use std::sync::{Arc, Mutex};

use servecast::cluster::{Cluster, Router, TierLinks, TierRates, Wires};
use servecast::engine::scheduler::{Acceptance, Scheduler, VllmV1};
use servecast::engine::tiers::{Fetch, Level, TierKind};
use servecast::engine::{Instance, Tiers};
use servecast::kv::Tier;
use servecast::rng::Seed;
use servecast::scenario::{RouterConfig, TierEviction, TierWrite, VllmConfig};
use servecast::units::{Bytes, SimDuration};

/// What is below GPUs: chunks in each tier, and what links carry in bytes per second. A chunk is 1 MB.
#[derive(Debug, Clone)]
pub(super) struct Below {
    pub(super) chunk_tokens: u32,
    pub(super) rooms: [Option<usize>; TierKind::ALL.len()],
    pub(super) write: TierWrite,
    pub(super) eviction: TierEviction,
    pub(super) fetch: Fetch,
    pub(super) rate: f64,
    pub(super) latency: SimDuration,
}

impl Below {
    /// Host memory for so many chunks, written through, at 1 MB/ms.
    pub(super) fn host(chunk_tokens: u32, chunks: usize) -> Self {
        Self {
            chunk_tokens,
            rooms: [Some(chunks), None, None],
            write: TierWrite::Through,
            eviction: TierEviction::Lru,
            fetch: Fetch::Always,
            rate: 1e9,
            latency: SimDuration::ZERO,
        }
    }

    pub(super) fn links(&self, wires: &mut Wires, replicas: u32) -> TierLinks {
        let rates = TierRates {
            pcie: self.rate,
            disk: self.rooms[1].map(|_| [self.rate; 2]),
            nic: self.rooms[2].map(|_| self.rate),
            servers: None,
        };
        let chunk = Bytes(1_000_000);
        TierLinks::new(wires, replicas, &rates, (chunk, self.latency)).expect("rates are rates")
    }

    /// One for each replica.
    pub(super) fn tiers(&self, replicas: u32) -> Vec<Tiers> {
        let tier = |room: usize| Tier::new(room, self.eviction);
        let pool = self.rooms[2].map(|room| Arc::new(Mutex::new(tier(room))));
        let one = |_| {
            let own = |kind: usize| self.rooms[kind].map(|room| Level::own(tier(room)));
            let pool = pool.as_ref().map(|pool| Level::Shared(Arc::clone(pool)));
            let policy = (self.write, self.fetch.clone());
            Tiers::new(self.chunk_tokens, policy, [own(0), own(1), pool])
        };
        (0..replicas).map(one).collect()
    }

    /// Replicas with these tiers, each in turn.
    pub(super) fn cluster(
        &self,
        replicas: u32,
        engine: &VllmConfig,
        instance: impl Fn(VllmV1) -> Instance,
    ) -> Cluster {
        let scheduler = |tiers| crate::support::vllm(engine, Acceptance::NONE).with_tiers(tiers);
        let instances = self.tiers(replicas).into_iter().map(|tiers| instance(scheduler(tiers)));
        let router = Router::new(&RouterConfig::RoundRobin {}, Seed::default());
        let mut cluster = Cluster::new(instances.collect(), router);
        cluster.tiers = Some(self.links(&mut cluster.wires, replicas));
        cluster
    }
}

pub(super) fn boxed(scheduler: VllmV1) -> Scheduler {
    Scheduler::VllmV1(Box::new(scheduler))
}
