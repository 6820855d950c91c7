//! The layer profile of a scenario.

use crate::cost::AllReduceHost;
use crate::cost::LayerProfile;
use crate::cost::LayerTable;
use crate::cost::LayerTableOptions;
use crate::model::ModelSpec;
use crate::problem::Problem;
use crate::profiles;
use crate::resolved::ReplicaGroup;
use crate::scenario::LayerTableConfig;

/// Step times by the profile that the scenario names.
pub(super) fn layer_table(
    model: &ModelSpec,
    group: &ReplicaGroup,
    config: &LayerTableConfig,
) -> Result<LayerTable, Problem> {
    let cluster = &group.cluster;
    let name = config.profile.as_deref().unwrap_or_default();
    let Some(text) = &group.step_time_profile else {
        let near = profiles::closest(name, profiles::layer_tables().iter().map(|table| table.name));
        let what = format!("`{name}` is neither shipped nor a file");
        return Err(Problem::new("cluster.step_time.profile", what).or_near(near));
    };
    let fail = |problem: String| {
        Problem::new("cluster.step_time.profile", format_args!("{name}: {problem}"))
    };
    let profile = LayerProfile::parse(text).map_err(|error| fail(error.to_string()))?;
    if profile.gpu != group.gpu.name {
        let asked = &group.gpu.name;
        return Err(fail(format!("the profile has gpu {}, the scenario {asked}", profile.gpu)));
    }
    let all_reduce = config.all_reduce_latency_us.zip(config.all_reduce_gb_s);
    let all_reduce = all_reduce.or(cluster.all_reduce.map(|own| (own.latency_us, own.gb_per_s)));
    let options = LayerTableOptions {
        tensor_parallel_size: cluster.tensor_parallel_size,
        kv_cache_dtype: cluster.kv_cache_dtype,
        expert_gpus: (config.enable_expert_parallel || cluster.expert_parallel.is_some())
            .then(|| cluster.gpus_per_replica()),
        all_reduce: all_reduce.map(|(latency_us, gb_s)| AllReduceHost { latency_us, gb_s }),
        calibration: config.calibration,
    };
    LayerTable::new(&profile, model, &options).map_err(|error| fail(error.to_string()))
}
