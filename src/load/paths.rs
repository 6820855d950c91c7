//! Paths in scenarios: relative to the folder of their file.

use std::path::Path;

use super::gpus::is_gpu_file;
use super::models::model_file;
use crate::scenario::{AcceptanceConfig, ScenarioFile, StepTimeConfig};

/// Shows every path in a scenario, as it is typed and from here: of its trace, of recorded acceptance, of
/// step times, of GPUs, and of local models.
pub fn for_each_path(
    file: &mut ScenarioFile,
    folder: &Path,
    mut show: impl FnMut(&mut String, &Path),
) {
    let mut show = |name: &mut String| {
        let path = folder.join(&*name);
        show(name, &path);
    };
    if let Some(trace) = &mut file.trace {
        show(&mut trace.path);
    }
    if let Some(AcceptanceConfig::Recorded { path }) = file.cluster.engine.acceptance_mut() {
        show(path);
    }
    let cluster = &mut file.cluster;
    let of_groups = cluster.groups.iter_mut().filter_map(|group| group.step_time.as_mut());
    let step_times = of_groups.chain([&mut cluster.step_time]);
    step_times.filter_map(StepTimeConfig::file_mut).for_each(&mut show);
    let of_groups = file.cluster.groups.iter_mut().filter_map(|group| group.gpu.as_mut());
    let gpus = of_groups.chain([&mut file.cluster.gpu]);
    gpus.filter(|name| is_gpu_file(name)).for_each(&mut show);
    let of_groups = file.cluster.groups.iter_mut().filter_map(|group| group.model.as_mut());
    let of_classes = file.workload.classes.iter_mut().filter_map(|class| class.model.as_mut());
    let (engine, model) = (&mut file.cluster.engine, &mut file.cluster.model);
    let drafting = engine.drafting_model_mut();
    for name in of_groups.chain(of_classes).chain([model]).chain(drafting) {
        if model_file(&folder.join(&*name)).is_some() {
            show(name);
        }
    }
}
