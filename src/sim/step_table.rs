//! The step profile of a scenario.

use crate::cost::StepProfile;
use crate::cost::StepTable;
use crate::cost::StepTableOptions;
use crate::model::ModelSpec;
use crate::resolved::ReplicaGroup;

/// Step times by the profile that the scenario names.
pub(super) fn step_table(model: &ModelSpec, group: &ReplicaGroup) -> Result<StepTable, String> {
    let cluster = &group.cluster;
    let text = group.step_time_profile.as_deref().ok_or("was not read")?;
    let profile = StepProfile::parse(text).map_err(|error| error.to_string())?;
    let (measured, asked) = (&profile.gpu, &group.gpu.name);
    if measured != asked {
        return Err(format!("the profile has gpu {measured}, the scenario {asked}"));
    }
    let options = StepTableOptions {
        tensor_parallel_size: cluster.tensor_parallel_size,
        kv_cache_dtype: cluster.kv_cache_dtype,
    };
    let table = StepTable::new(&profile, model, &options);
    table.map_err(|error| error.to_string())
}
