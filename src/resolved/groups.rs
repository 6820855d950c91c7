//! Kinds of replicas: of a scenario that lists them, and of one that has a single kind.

use std::borrow::Cow;

use super::broken_rules::engine_rules;
use super::{KvSource, Rules, ScenarioError, ServerClass, Unstated};
use crate::cost::{CudaGraphs, LoraTimes};
use crate::engine::scheduler::EngineSettings;
use crate::hardware::GpuSpec;
use crate::ids::{InstanceId, ModelId};
use crate::model::layout::VllmLayout;
use crate::model::{Drafter, Groups, KvGroups, ModelSpec};
use crate::problem::Problem;
use crate::scenario::{
    AcceptanceConfig, ClusterConfig, EngineConfig, GroupConfig, HandoverProtocol, MambaCacheMode,
    PipelineLink, ReplicaRole, ScenarioFile, Speculation,
};

/// Replicas of one kind, ready to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaGroup {
    /// What they do of a request.
    pub role: ReplicaRole,
    /// The cluster as they have it: their own settings, and their number as `replicas`.
    pub cluster: ClusterConfig,
    /// What decides the schedules of their engine.
    pub settings: EngineSettings,
    /// The graphs that it captures.
    pub graphs: CudaGraphs,
    /// What adapters add to steps, where it serves some.
    pub lora: Option<LoraTimes>,
    /// What joins the stages of a replica; nothing where there is one, or they send nothing.
    pub stage_link: Option<PipelineLink>,
    /// The model they serve.
    pub model: ModelSpec,
    /// What drafts beside it, if something does.
    pub drafter: Option<Drafter>,
    /// Its place among those of the scenario.
    pub serves: ModelId,
    /// The GPU they run on.
    pub gpu: GpuSpec,
    /// Where the number of their KV blocks comes from.
    pub kv: KvSource,
    /// Their class, where something is expected of servers like them; also where they are given other step times.
    pub server_class: Option<ServerClass>,
    /// That class, where their step times are what is expected of it.
    pub class: Option<ServerClass>,
    /// What they are like among those of their class.
    pub server: Unstated,
    /// Whether a calibration gives parameters of them.
    pub is_calibrated: bool,
    /// Whether all-reduces are those of typical servers, as none were calibrated.
    pub assumes_all_reduces: bool,
    /// The file of measured step times, where `step_time` reads one.
    pub step_time_profile: Option<Cow<'static, str>>,
    /// How they hand KV caches over, or take them; nothing where they do all of a request.
    pub handover: Option<HandoverProtocol>,
    /// What a replica's NICs carry in each direction; nothing where it hands no KV caches over.
    pub(crate) nic_gb_per_s: Option<f64>,
    pub(super) name: Option<String>,
}

/// Which group an instance is of. Instances are numbered group by group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kinds {
    /// For each group but the last, the instance after its last.
    ends: Vec<u32>,
}

impl Kinds {
    /// Of groups of these sizes.
    pub fn new(sizes: impl IntoIterator<Item = u32>) -> Self {
        let mut ends: Vec<u32> = sizes
            .into_iter()
            .scan(0, |end, size| {
                *end += size;
                Some(*end)
            })
            .collect();
        ends.pop();
        Self { ends }
    }

    /// The place of an instance's group.
    #[inline]
    pub fn of(&self, instance: InstanceId) -> usize {
        self.ends.iter().take_while(|end| instance.0 >= **end).count()
    }
}

/// Replicas of one kind before anything is looked up.
pub(super) struct Asked {
    pub(super) role: ReplicaRole,
    pub(super) cluster: ClusterConfig,
    /// The group of the file that asks for them.
    pub(super) listed: Option<usize>,
}

impl Asked {
    /// What the NICs of each carry, where replicas of this cluster hand KV caches over.
    pub(super) fn nic_gb_per_s(&self, cluster: &ClusterConfig) -> Option<f64> {
        let own = self.listed.and_then(|index| cluster.groups[index].nic_gb_per_s);
        own.or(cluster.disaggregation.map(|parts| parts.transfer.nic_gb_per_s))
    }
}

/// The kinds that a file asks for, in the order of the numbers of their replicas: mixed ones, those that
/// prefill, those that decode.
pub(super) fn asked(cluster: &ClusterConfig) -> Vec<Asked> {
    let mut asked: Vec<Asked> = match (&cluster.disaggregation, cluster.groups.as_slice()) {
        (None, []) => {
            let cluster = cluster.clone();
            vec![Asked { role: ReplicaRole::Mixed, cluster, listed: None }]
        }
        (Some(parts), []) => {
            let counts = [
                (ReplicaRole::Prefill, parts.prefill_replicas),
                (ReplicaRole::Decode, parts.decode_replicas),
            ];
            let part = |(role, replicas): (_, Option<u32>)| {
                let replicas = replicas.unwrap_or_default();
                let kv_tiers = cluster.kv_tiers.filter(|_| role != ReplicaRole::Decode);
                let cluster = ClusterConfig { replicas, kv_tiers, ..cluster.clone() };
                Asked { role, cluster, listed: None }
            };
            counts.into_iter().map(part).collect()
        }
        (_, groups) => {
            let one = |(index, group): (usize, &GroupConfig)| Asked {
                role: group.role,
                cluster: group.in_cluster(cluster),
                listed: Some(index),
            };
            groups.iter().enumerate().map(one).collect()
        }
    };
    asked.sort_by_key(|group| group.role);
    asked
}

/// Rules of listed groups that need no look-up.
pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    let cluster = &file.cluster;
    if cluster.groups.is_empty() {
        return;
    }
    let sum: u64 = cluster.groups.iter().map(|group| u64::from(group.replicas)).sum();
    let replicas = u64::from(cluster.replicas);
    let rule = "absent, or the sum of the replicas of all groups";
    let holds = u32::try_from(sum).is_ok() && (replicas == 1 || replicas == sum);
    rules.check(holds, "cluster.replicas", rule, cluster.replicas);
    for (index, group) in cluster.groups.iter().enumerate() {
        let path = format!("cluster.groups[{index}]");
        rules.count(&format!("{path}.replicas"), group.replicas);
        if let Some(rate) = group.nic_gb_per_s {
            rules.nic(&format!("{path}.nic_gb_per_s"), rate);
            if group.role == ReplicaRole::Mixed {
                let message = "mixed replicas transfer nothing";
                rules.broken(&format!("{path}.nic_gb_per_s"), message);
            }
        }
        let own = group.in_cluster(cluster);
        if own.pipeline_parallel_size > 1 && group.role != ReplicaRole::Mixed {
            let message = "the KV cache of several stages is not handed over between replicas";
            rules.broken(&format!("{path}.pipeline_parallel_size"), message);
        }
        if own.data_parallel_size > 1 && group.role != ReplicaRole::Mixed {
            let message = "ranks of replicas that only prefill or decode are not modelled";
            rules.broken(&format!("{path}.data_parallel_size"), message);
        }
        let sigma = own.expert_parallel.map_or(0.0, |parallel| parallel.imbalance_sigma);
        if sigma > 0.0 && group.role != ReplicaRole::Mixed {
            let message =
                "drawn imbalances of replicas that only prefill or decode are not modelled";
            rules.broken(&format!("{path}.expert_parallel.imbalance_sigma"), message);
        }
        if is_recorded(&own.engine) {
            let message = "recorded acceptance is not modelled with groups";
            rules.broken(&format!("{path}.engine.speculation.acceptance"), message);
        }
        let mut of_group = Rules { problems: Vec::new() };
        engine_rules(&own, file.workload.adapters.is_some(), &mut of_group);
        for problem in of_group.problems {
            let problem = in_group(&problem, group, index).unwrap_or(problem);
            if !rules.problems.contains(&problem) {
                rules.problems.push(problem);
            }
        }
    }
}

fn is_recorded(engine: &EngineConfig) -> bool {
    let acceptance = engine.speculation().map(|speculation| speculation.acceptance);
    matches!(acceptance, Some(AcceptanceConfig::Recorded { .. }))
}

/// A problem of a group, by the path under which the file has the setting.
fn in_group(problem: &Problem, group: &GroupConfig, index: usize) -> Option<Problem> {
    let setting = problem.at.strip_prefix("cluster.")?;
    let key = setting.split(['.', '[']).next()?;
    let is_own = group.own_settings().any(|own| own == key);
    is_own.then(|| Problem { at: format!("cluster.groups[{index}].{setting}"), ..problem.clone() })
}

/// What is wrong with a group, once things are looked up.
pub(super) fn in_listed(
    error: ScenarioError,
    cluster: &ClusterConfig,
    listed: Option<usize>,
) -> ScenarioError {
    let Some(index) = listed else { return error };
    let told = |problem: Problem| {
        in_group(&problem, &cluster.groups[index], index)
            .unwrap_or_else(|| problem.with_hint(&format!("cluster.groups[{index}] has it")))
    };
    ScenarioError { problems: error.problems.into_iter().map(told).collect() }
}

impl ReplicaGroup {
    /// How many there are.
    pub fn replicas(&self) -> u32 {
        self.cluster.replicas
    }

    /// How it speculates, if it does.
    pub fn speculation(&self) -> Option<Speculation<'_>> {
        self.cluster.engine.speculation()
    }

    /// How layers with a window share blocks with the others, where the engine keeps them apart.
    pub(crate) fn windows(&self) -> Option<KvGroups> {
        let EngineConfig::VllmV1(vllm) = &self.cluster.engine else { return None };
        let machine = super::kv::machine(&self.cluster, &self.gpu);
        match &self.drafter {
            Some(drafter) => vllm.kv_groups(&drafter.beside(&self.model), machine),
            None => vllm.kv_groups(&self.model, machine),
        }
    }

    /// The groups of layers of a model with states at the ends of whose blocks the engine keeps states.
    pub(crate) fn aligned_states(&self) -> Option<Groups> {
        let EngineConfig::VllmV1(vllm) = &self.cluster.engine else { return None };
        let aligns = vllm.mamba_cache_mode == Some(MambaCacheMode::Align);
        let layout = || {
            VllmLayout::of(&self.model, super::kv::machine(&self.cluster, &self.gpu)).scheduled()
        };
        aligns.then(layout)
    }

    /// A name for reports that says the model too, unless the scenario gives one.
    pub(super) fn name_by_model(&mut self) {
        let model = self.model.name.rsplit('/').next().unwrap_or_default();
        let name = format!("{model} on {}", self.name());
        self.name.get_or_insert(name);
    }

    /// A name for reports.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let role = match self.role {
                ReplicaRole::Mixed => String::new(),
                role => format!(", {}", role.name()),
            };
            let stages = match self.cluster.pipeline_parallel_size {
                1 => String::new(),
                stages => format!("×PP{stages}"),
            };
            let ranks = match self.cluster.data_parallel_size {
                1 => String::new(),
                ranks => format!("×DP{ranks}"),
            };
            let tp = self.cluster.tensor_parallel_size;
            format!("{} TP{tp}{stages}{ranks}{role}", self.gpu.name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_numbered_group_by_group() {
        let kinds = Kinds::new([2, 1, 3]);
        let of: Vec<usize> = (0..6).map(|index| kinds.of(InstanceId(index))).collect();
        assert_eq!(of, [0, 0, 1, 2, 2, 2]);
        assert_eq!(Kinds::new([4]).of(InstanceId(3)), 0);
    }
}
