//! Replicas that prefill and replicas that decode, as a record tells them apart.

use serde_json::Value;

use super::parallel::{Layout, Parallel};
use super::record::{Record, count};
use super::skip::{self, Skip};
use crate::model::ModelSpec;
use crate::scenario::{
    ClusterConfig, DisaggregationConfig, GroupConfig, ReplicaRole, TransferConfig,
    TransferGranularity,
};

/// What is told of the replicas of one role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    what: ReplicaRole,
    workers: Option<u32>,
    parallel: Parallel,
}

/// Of a GPU's NIC, in GB/s: 400 Gbit/s, as the nodes of published runs have them.
const NIC_GB_PER_S: f64 = 50.0;
const NIC_EFFICIENCY: f64 = 0.9;
const NIC_LATENCY_US: f64 = 20.0;

impl Role {
    /// What the object `prefill` or `decode` of a record's `parallel` tells.
    pub(super) fn read(role: ReplicaRole, told: &Value) -> Result<Self, Skip> {
        let name = role.name();
        let fields = told.as_object().ok_or(skip::DISAGGREGATION)?;
        let mut read = Self { what: role, workers: None, parallel: Parallel::default() };
        for (key, value) in fields {
            let unread = || Skip::Setting(format!("parallel.{name}.{key}={value}"));
            match key.as_str() {
                "num_workers" => read.workers = Some(count(value).ok_or_else(unread)?),
                // A limit of the source's own search.
                "batch_size" => {}
                _ if read.parallel.take(key, value, unread)? => {}
                _ => return Err(Skip::Setting(format!("parallel.{name}.{key}"))),
            }
        }
        Ok(read)
    }

    /// What the object `disaggregation` of a record's flags tells of both.
    pub(super) fn both(told: &Value) -> Result<Vec<Self>, Skip> {
        let fields = told.as_object().ok_or(skip::DISAGGREGATION)?;
        let mut parallel = Parallel::default();
        let (mut prefill, mut decode) = (None, None);
        for (key, value) in fields {
            let unread = || Skip::Setting(format!("disaggregation.{key}={value}"));
            match key.as_str() {
                "prefill_workers" => prefill = Some(count(value).ok_or_else(unread)?),
                "decode_workers" => decode = Some(count(value).ok_or_else(unread)?),
                "tp_per_worker" if parallel.take("tp", value, unread)? => {}
                // What it carries is assumed.
                "transfer_backend" => {}
                _ => return Err(Skip::Setting(format!("disaggregation.{key}"))),
            }
        }
        let role = |what, workers| Self { what, workers, parallel: parallel.clone() };
        Ok(vec![role(ReplicaRole::Prefill, prefill), role(ReplicaRole::Decode, decode)])
    }

    /// Whether it says the same of parallelism as the record says of the whole.
    pub(super) fn is_told_by(&self, whole: &Parallel) -> bool {
        *whole == Parallel::default() || self.parallel == *whole
    }

    /// How each of its replicas is spread over GPUs.
    pub(super) fn layout(&self, record: &Record, model: &ModelSpec) -> Result<Layout, Skip> {
        let layout = self.parallel.layout(record, model)?;
        if layout.ranks > 1 || layout.stages > 1 {
            return Err(Skip::NotModelled(
                "ranks or stages of replicas that only prefill or decode",
            ));
        }
        Ok(layout)
    }

    fn group(&self, record: &Record, model: &ModelSpec) -> Result<GroupConfig, Skip> {
        let Layout { replicas, tensor, expert_parallel, .. } = self.layout(record, model)?;
        let workers = self.workers.ok_or(skip::WORKERS_NOT_STATED)?;
        Ok(GroupConfig {
            replicas: workers.saturating_mul(replicas),
            role: self.what,
            tensor_parallel_size: Some(tensor),
            expert_parallel,
            ..GroupConfig::default()
        })
    }
}

/// Gives a cluster the replicas of each role.
pub(super) fn serve(
    roles: &[Role],
    record: &Record,
    model: &ModelSpec,
    cluster: &mut ClusterConfig,
) -> Result<(), Skip> {
    let groups = roles.iter().map(|role| role.group(record, model));
    cluster.groups = groups.collect::<Result<_, _>>()?;
    cluster.groups.sort_by_key(|group| group.role == ReplicaRole::Decode);
    let replicas = cluster.groups.iter().map(|group| group.replicas);
    cluster.replicas = replicas.fold(0, u32::saturating_add);
    // Those of the smaller replicas: a transfer takes no more.
    let gpus = cluster.groups.iter().filter_map(|group| group.tensor_parallel_size).min();
    cluster.expert_parallel = None;
    cluster.disaggregation = Some(DisaggregationConfig {
        prefill_replicas: None,
        decode_replicas: None,
        protocol: None,
        transfer: TransferConfig {
            nic_gb_per_s: f64::from(gpus.unwrap_or(1)) * NIC_GB_PER_S,
            efficiency: NIC_EFFICIENCY,
            flow_gb_per_s: None,
            latency_us: NIC_LATENCY_US,
            message_us: 0.0,
            message_overhead_bytes: 0,
            granularity: TransferGranularity::Whole,
        },
        local_prefill: None,
    });
    Ok(())
}
