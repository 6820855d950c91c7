//! From a scenario as typed ([`ScenarioFile`]) to one that can be run ([`Scenario`]): names are looked
//! up, defaults filled in, rules across fields checked. Afterwards nothing fails for reasons of configuration.

mod acceptance;
mod autoscaler;
mod baselines;
mod basis;
mod bill;
mod broken_rules;
mod caveat;
mod data_parallel;
mod demand;
mod disaggregation;
mod drafting;
mod dynamo_planner;
mod expected;
mod experts;
mod faults;
mod gateway;
mod graphs;
mod groups;
mod host;
mod kv;
mod kv_tiers;
mod lora;
mod models;
mod pipeline;
mod placement;
mod placing;
mod router;
mod rules;
mod sglang;
mod states;
mod step_time;
mod vllm;
mod warm_up;
mod written;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use self::groups::Asked;
use self::kv::derive_kv;
pub(crate) use self::kv::resolve_engine as kv_capacity;
use self::models::Models;
use self::rules::Rules;
pub(crate) use self::sglang::PrefillGraphs;
use crate::engine::scheduler::EngineSettings;
use crate::hardware::GpuSpec;
use crate::ids::InstanceId;
use crate::model::{KvCapacity, ModelSpec};
use crate::problem::Problem;
use crate::profiles;
use crate::rng::Seed;
use crate::scenario::{
    ArrivalConfig, AutoscalerConfig, ClusterConfig, EngineConfig, FaultConfig, MeasuredConfig,
    ReplicaRole, ReportConfig, ReportFormat, ScenarioFile, TraceConfig, WorkloadConfig,
};

pub use self::basis::{Basis, HostBasis, KvBasis, ServerBasis, StepTimeSource};
pub use self::caveat::Caveat;
pub use self::demand::{Demand, DemandFigure};
pub use self::expected::{Prior, Quantity, ServerClass, Unstated};
pub(crate) use self::graphs::captured_of_requests;
pub use self::groups::{Kinds, ReplicaGroup};

/// A scenario that can be run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// A title for reports.
    pub name: String,
    /// The seed of every random stream.
    pub seed: Seed,
    /// The recorded trace that the workload reads, if it reads one.
    pub trace: Option<TraceConfig>,
    /// The requests.
    pub workload: WorkloadConfig,
    /// What fails, and when.
    pub faults: Vec<FaultConfig>,
    /// What is printed.
    pub report: ReportConfig,
    /// Measured figures to print beside the simulated ones.
    pub measured: Option<MeasuredConfig>,
    /// The models that requests ask for, by name, at least one.
    pub models: Vec<String>,
    /// The kinds of replicas it is served on, at least one; those of the first have the first numbers.
    pub groups: Vec<ReplicaGroup>,
    /// The cluster as it is written, with every default filled in.
    cluster: ClusterConfig,
    /// For each request the drafts accepted in each of its verifications, where the scenario has
    /// them recorded; given with [`with_accepted_drafts`](Self::with_accepted_drafts).
    pub(crate) accepted_drafts: Option<Arc<[Vec<u32>]>>,
    /// What its calibration is doubted for; given with [`calibrated_with`](Self::calibrated_with).
    pub(crate) doubts: Vec<Caveat>,
    /// What the runs of its calibration asked of their replicas, where that is known.
    pub(crate) fitted_demand: Option<Demand>,
}

/// Where the number of KV blocks comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvSource {
    /// The scenario gives it.
    Given,
    /// From the memory that the weights leave.
    Derived(KvCapacity),
}

/// Rules that a scenario breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.lines("\n"))]
pub struct ScenarioError {
    /// One for each rule broken.
    pub problems: Vec<Problem>,
}

impl ScenarioError {
    /// What is wrong with a setting, in a sentence.
    pub(crate) fn at(path: &str, problem: impl fmt::Display) -> Self {
        Problem::new(path, problem).into()
    }

    /// The problems in words, with this between them.
    pub(crate) fn lines(&self, between: &str) -> String {
        self.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
    }
}

impl From<Problem> for ScenarioError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

/// What a scenario takes from files of the user's own, by what it calls them.
#[derive(Debug, Clone, Default)]
pub struct OwnFiles {
    /// Models of local `config.json` files.
    pub models: BTreeMap<String, ModelSpec>,
    /// GPUs.
    pub gpus: BTreeMap<String, GpuSpec>,
}

impl Scenario {
    /// Resolves a scenario. `local_model` is the model where `cluster.model` names a local
    /// `config.json`, which only the caller can read.
    ///
    /// # Errors
    /// Every rule that is broken.
    pub fn resolve(
        file: ScenarioFile,
        local_model: Option<ModelSpec>,
    ) -> Result<Self, ScenarioError> {
        let models = local_model.map(|model| (file.cluster.model.clone(), model));
        let own = OwnFiles { models: models.into_iter().collect(), ..OwnFiles::default() };
        Self::resolve_with(file, &own, Unstated::Bare)
    }

    /// The same, where groups and classes name local models, and cluster and groups GPUs of files, and for servers
    /// that are like this where nothing is said of them.
    ///
    /// # Errors
    /// Every rule that is broken.
    pub fn resolve_with(
        mut file: ScenarioFile,
        own: &OwnFiles,
        server: Unstated,
    ) -> Result<Self, ScenarioError> {
        autoscaler::count_replicas(&mut file);
        let problems = broken_rules::of(&file);
        if !problems.is_empty() {
            return Err(ScenarioError { problems });
        }
        autoscaler::settle(&mut file);
        router::settle(&mut file.cluster.router);
        let models = Models::settle(&mut file, &own.models)?;
        let mut groups: Vec<ReplicaGroup> = Vec::new();
        let mut all = groups::asked(&file.cluster);
        models.bring_together(&mut all);
        for asked in all {
            let listed = asked.listed;
            let group = resolve_group(asked, &file, &models, (&own.gpus, server))
                .map_err(|error| groups::in_listed(error, &file.cluster, listed))?;
            match listed {
                Some(index) => file.cluster.groups[index].settle(&group.cluster),
                None if groups.is_empty() => settle(&mut file.cluster, &group.cluster),
                None => {}
            }
            groups.push(group);
        }
        kv_tiers::formats(&groups)?;
        router::settle_blocks(&mut file.cluster.router, &groups)?;
        placement::compute(&mut file, &groups)?;
        let used: Vec<&GpuSpec> = groups.iter().map(|group| &group.gpu).collect();
        bill::resolve(&mut file.report, &used, &own.gpus)?;
        settle_block(&mut file.report, report_format(&groups, &file.workload));
        if let Some(parts) = &mut file.cluster.disaggregation {
            parts.protocol = groups.iter().find_map(|group| group.handover);
        }
        file.cluster.replicas = groups.iter().map(ReplicaGroup::replicas).sum();
        let name =
            |id| groups.iter().find(|group| group.serves == id).map(|it| it.model.name.clone());
        let models: Vec<String> = models.ids().filter_map(name).collect();
        if models.len() > 1 {
            groups.iter_mut().for_each(ReplicaGroup::name_by_model);
        }
        let ScenarioFile { name, seed, trace, workload, cluster, faults, report, measured } = file;
        Ok(Self {
            name,
            seed,
            trace,
            workload,
            faults,
            report,
            measured,
            models,
            groups,
            cluster,
            accepted_drafts: None,
            doubts: Vec::new(),
            fitted_demand: None,
        })
    }

    /// The kind of the first replica: of all, where the scenario lists no groups.
    ///
    /// # Panics
    /// When the scenario has been robbed of its groups.
    pub fn first(&self) -> &ReplicaGroup {
        self.groups.first().expect("a scenario has a group")
    }

    /// Which group an instance is of.
    pub fn kinds(&self) -> Kinds {
        Kinds::new(self.groups.iter().map(ReplicaGroup::replicas))
    }

    /// Whether an autoscaler starts and drains some of the replicas.
    pub fn has_autoscaler(&self) -> bool {
        self.groups.iter().any(|group| group.cluster.autoscaler.is_some())
    }

    /// Whether some servers are what is expected of their class.
    pub fn assumes_servers(&self) -> bool {
        self.groups.iter().any(|group| group.class.is_some())
    }

    /// The same with servers like this where they are what is expected of their class.
    #[must_use]
    pub fn with_servers(&self, server: Unstated) -> Self {
        let mut scenario = self.clone();
        for group in &mut scenario.groups {
            let calibration = group.cluster.step_time.calibration_mut();
            if let Some((class, calibration)) = group.class.zip(calibration) {
                *calibration = class.prior().factors_of(server);
                group.server = server;
            }
        }
        scenario
    }

    /// Whether some replicas only prefill or decode.
    pub fn is_disaggregated(&self) -> bool {
        self.groups.iter().any(|group| group.role != ReplicaRole::Mixed)
    }

    /// Bytes per second of each replica's NICs in each direction, 0 of those that transfer nothing;
    /// nothing where none does.
    pub fn nics_bytes_per_s(&self) -> Option<Vec<f64>> {
        let of_group = |group: &ReplicaGroup| {
            let rate = group.nic_gb_per_s.unwrap_or(0.0) * 1e9;
            (0..group.replicas()).map(move |_| rate)
        };
        self.is_disaggregated().then(|| self.groups.iter().flat_map(of_group).collect())
    }

    /// The groups whose replicas autoscalers start and drain, with the numbers of their replicas.
    pub fn scaled_groups(
        &self,
    ) -> impl Iterator<Item = (Range<u32>, &ReplicaGroup, &AutoscalerConfig)> {
        let mut first = 0;
        let numbered = self.groups.iter().map(move |group| {
            let end = first + group.replicas();
            (std::mem::replace(&mut first, end)..end, group)
        });
        numbered.filter_map(|(replicas, group)| {
            let autoscaler = group.cluster.autoscaler.as_ref();
            autoscaler.map(|autoscaler| (replicas, group, autoscaler))
        })
    }

    /// All replicas.
    pub fn instances(&self) -> impl Iterator<Item = InstanceId> {
        let count: u32 = self.groups.iter().map(ReplicaGroup::replicas).sum();
        (0..count).map(InstanceId)
    }

    /// GPUs of all replicas.
    pub fn gpus(&self) -> u64 {
        let of_group = |group: &ReplicaGroup| {
            u64::from(group.replicas()) * u64::from(group.cluster.gpus_per_replica())
        };
        self.groups.iter().map(of_group).sum()
    }
}

/// Looks up what a group asks for, and fills in what depends on model and GPU.
fn resolve_group(
    mut asked: Asked,
    file: &ScenarioFile,
    models: &Models<'_>,
    (own_gpus, server): (&BTreeMap<String, GpuSpec>, Unstated),
) -> Result<ReplicaGroup, ScenarioError> {
    let nic_gb_per_s = asked.nic_gb_per_s(&file.cluster);
    let cluster = &mut asked.cluster;
    let checkpoint = models.spec(&cluster.model)?;
    let model = match cluster.quantization {
        Some(format) => checkpoint.in_format(format),
        None => checkpoint,
    };
    drafting::settle(cluster, &model)?;
    let serves = models.of(&cluster.model);
    let gpu = match own_gpus.get(&cluster.gpu) {
        Some(gpu) => gpu.clone(),
        None => catalogue_gpu(&cluster.gpu)?,
    };
    if model.state_layers() > 0 {
        states::check(cluster, asked.role)?;
    }
    if cluster.kv_cache_dtype.is_auto() {
        let machine = kv::machine(cluster, &gpu);
        cluster.kv_cache_dtype = match cluster.engine {
            EngineConfig::Sglang(_) => model.kv_dtype_of_sglang(machine),
            _ => model.kv_dtype_of_vllm(machine),
        };
    }
    if let (ReplicaRole::Decode, EngineConfig::Sglang(sglang)) = (asked.role, &mut cluster.engine) {
        // As its `--disaggregation-mode decode` does.
        sglang.disable_radix_cache = true;
    }
    let server_class = ServerClass::expected(cluster, &model, &gpu);
    let class = expected::fill(cluster, server_class, server);
    host::resolve(cluster, &model)?;
    lora::resolve(file.workload.adapters.as_ref(), cluster, &model)?;
    experts::resolve(cluster, &model)?;
    data_parallel::resolve(cluster, &model, &gpu)?;
    let stage_link = pipeline::resolve(cluster, &model, &gpu)?;
    kv_tiers::resolve(cluster, &model, (&gpu, nic_gb_per_s))?;
    states::choose(cluster, &model, &file.workload);
    let drafter = drafting::resolve(cluster, &model, &gpu, models)?;
    let kv = kv_capacity(cluster, &model, &gpu, drafter.as_ref())?;
    let profile = step_time::resolve(cluster, &model, &gpu)?;
    let listed = asked.listed.map(|index| &file.cluster.groups[index]);
    let parts = file.cluster.disaggregation.filter(|_| asked.role != ReplicaRole::Mixed);
    Ok(ReplicaGroup {
        role: asked.role,
        settings: settings(cluster, (&model, &gpu), (&file.workload, asked.role))?,
        graphs: graphs::captured(&cluster.engine),
        lora: lora::times(cluster, &model, &gpu)?,
        stage_link,
        handover: parts.map(|parts| parts.protocol_of(&cluster.engine)),
        cluster: asked.cluster,
        model,
        drafter,
        serves,
        gpu,
        kv,
        server_class,
        class,
        server,
        is_calibrated: false,
        assumes_all_reduces: false,
        step_time_profile: profile.map(Cow::Borrowed),
        nic_gb_per_s: nic_gb_per_s.filter(|_| parts.is_some()),
        name: listed.and_then(|group| group.name.clone()),
    })
}

/// What decides the schedules of an engine, all of which is filled in.
fn settings(
    cluster: &ClusterConfig,
    served: (&ModelSpec, &GpuSpec),
    asked: (&WorkloadConfig, ReplicaRole),
) -> Result<EngineSettings, ScenarioError> {
    let mut settings = EngineSettings::of(&cluster.engine)
        .ok_or_else(|| fail("cluster.engine", "the sizes of its memory and batches are missing"))?;
    if let (EngineSettings::Sglang(settings), EngineConfig::Sglang(config)) =
        (&mut settings, &cluster.engine)
    {
        if cluster.data_parallel_size > 1 {
            settings.schedule_conservativeness *= sglang::CONSERVATIVENESS_OF_RANKS;
        }
        sglang::keep(settings, (config, cluster), served, asked)?;
    }
    Ok(settings)
}

/// Where no block is asked for, that of the engines' makers, with the latencies that all blocks have: vLLM's leaves out
/// end-to-end times unless its flag asks for them.
fn settle_block(report: &mut ReportConfig, of_makers: ReportFormat) {
    let is_asked = report.format.is_some();
    let block = *report.format.get_or_insert(of_makers);
    let metrics = &mut report.percentile_metrics;
    if !is_asked
        && block == ReportFormat::Vllm
        && *metrics == ReportConfig::default().percentile_metrics
    {
        metrics.push("e2el".to_owned());
    }
}

/// The benchmark block of those who made the engines; SGLang's where they are no single maker's, and where its tool
/// sends the requests.
fn report_format(groups: &[ReplicaGroup], workload: &WorkloadConfig) -> ReportFormat {
    let is_vllm = |group: &ReplicaGroup| {
        matches!(group.cluster.engine, EngineConfig::VllmV1(_) | EngineConfig::VllmV0(_))
    };
    let is_of_sglang = matches!(workload.arrivals, ArrivalConfig::Sglang { .. });
    if groups.iter().all(is_vllm) && !is_of_sglang {
        ReportFormat::Vllm
    } else {
        ReportFormat::Sglang
    }
}

/// Takes what was filled in for replicas that are all of one kind.
fn settle(cluster: &mut ClusterConfig, resolved: &ClusterConfig) {
    let disaggregation = cluster.disaggregation;
    *cluster = ClusterConfig { disaggregation, ..resolved.clone() };
}

fn catalogue_model(name: &str) -> Result<ModelSpec, ScenarioError> {
    profiles::model_or_stand_in(name).ok_or_else(|| {
        let what = format!("`{name}` is neither in the catalogue nor a local config.json");
        Problem::new("cluster.model", what)
            .or_near(profiles::closest(name, profiles::model_names()))
            .with_hint("`servecast profile list` names the models")
            .into()
    })
}

fn catalogue_gpu(name: &str) -> Result<GpuSpec, ScenarioError> {
    profiles::gpu(name).ok_or_else(|| {
        let what = format!("`{name}` is neither in the catalogue nor a file ending in .toml");
        Problem::new("cluster.gpu", what)
            .or_near(profiles::closest(name, profiles::gpu_names()))
            .with_hint("`servecast profile list` names the GPUs")
            .into()
    })
}

/// What the memory of GPUs does not hold.
fn too_large(key: &str, problem: impl fmt::Display) -> ScenarioError {
    Problem::new(key, problem).of_memory().into()
}

fn fail(key: &str, problem: &str) -> ScenarioError {
    ScenarioError::at(key, problem)
}
