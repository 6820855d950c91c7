//! The step profile of a scenario.

use crate::cost::StepProfile;
use crate::cost::StepTable;
use crate::cost::StepTableOptions;
use crate::scenario::Scenario;

/// Step times by the profile that the scenario names.
pub(super) fn step_table(scenario: &Scenario) -> Result<StepTable, String> {
    let cluster = &scenario.file.cluster;
    let text = scenario.step_time_profile.as_deref().ok_or("was not read")?;
    let profile = StepProfile::parse(text).map_err(|error| error.to_string())?;
    let (measured, asked) = (&profile.gpu, &scenario.gpu.name);
    if measured != asked {
        return Err(format!("the profile has gpu {measured}, the scenario {asked}"));
    }
    let options = StepTableOptions {
        tensor_parallel_size: cluster.tensor_parallel_size,
        kv_cache_dtype: cluster.kv_cache_dtype,
    };
    let table = StepTable::new(&profile, &scenario.model, &options);
    table.map_err(|error| error.to_string())
}
