//! What there is to see of the cluster, and the report so far.

use std::time::Duration;

use super::command::{Facts, KvTokens};
use super::{Driver, Look, Replica};
use crate::ids::InstanceId;
use crate::metrics::{BenchReport, Summary};
use crate::scenario::EngineConfig;
use crate::serve::clock::wall;

/// A report that takes longer than this is told again for as long as [`REPORT_SHARE`] of them take, so that who asks
/// for it all the time holds no tokens up.
const LONG_REPORT: Duration = Duration::from_millis(50);
const REPORT_SHARE: u32 = 20;

impl Driver {
    pub(super) fn look(&mut self) -> Look {
        let now = self.live.now();
        let tokens = self.scenario.kinds();
        let is_lora = self.scenario.lora().is_some();
        let replicas = (0..).map(InstanceId).zip(self.live.instances()).map(|(id, instance)| {
            let load = instance.load_at(now);
            let group = &self.scenario.groups[tokens.of(id)];
            let block = group.settings.block_size();
            let of = |blocks: u32| u64::from(blocks) * u64::from(block);
            let cluster = &group.cluster;
            let blocks = match &cluster.engine {
                EngineConfig::VllmV1(config) => config.num_gpu_blocks,
                _ => None,
            };
            Replica {
                load,
                counters: self.relay.counters[id.index()].clone(),
                kv_tokens: KvTokens { all: of(load.kv_blocks), held: of(load.kv_blocks_held()) },
                is_up: self.live.is_up(id),
                facts: Facts {
                    role: self.live.role(id),
                    block_tokens: block,
                    max_model_len: group.settings.max_model_len(),
                    // One is reserved in each rank's cache and never given to requests (`null_block`).
                    kv_blocks: blocks.unwrap_or(load.kv_blocks + 1),
                    kv_blocks_given: blocks.filter(|it| Some(*it) != cluster.derived_kv_capacity),
                    kv_cache_dtype: cluster.kv_cache_dtype,
                    gpu_memory_utilization: cluster.gpu_memory_utilization,
                    keeps_prefixes: cluster.engine.keeps_prefixes(),
                    drafts: group.speculation().map(|it| it.drafts).filter(|drafts| *drafts > 0),
                    max_adapters: cluster.engine.adapter_slots().filter(|_| is_lora),
                },
                adapters: self.relay.adapters[id.index()].clone(),
            }
        });
        Look {
            now,
            speed: self.clock.speed(),
            replicas: replicas.collect(),
            behind_s: self.behind().as_secs_f64(),
            open: self.relay.open() + self.pending.len(),
        }
    }

    /// How long the next thing that happens has been due.
    pub(super) fn behind(&mut self) -> Duration {
        let comes = self.pending.front().map(|(at, _)| *at);
        let due = [self.live.next_change(), comes].into_iter().flatten().min();
        let due = due.map(|at| self.clock.wall_at(at));
        due.map_or(Duration::ZERO, |due| wall().saturating_duration_since(due))
    }

    pub(super) fn report(&mut self) -> Summary {
        let began = wall();
        if let Some((until, summary)) = &self.reported
            && began < *until
        {
            return summary.clone();
        }
        let report = BenchReport::new(&self.recorder, &self.scenario);
        let summary =
            Summary::new(&self.scenario, &self.live.counts(), &self.recorder, &report, &[]);
        let (now, took) = (wall(), began.elapsed());
        self.reported = (took > LONG_REPORT).then(|| (now + took * REPORT_SHARE, summary.clone()));
        summary
    }
}
