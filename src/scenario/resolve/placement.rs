//! Rules of which replicas hold which adapters.

use super::Rules;
use crate::scenario::{PlacementConfig, ScenarioFile};

pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    let cluster = &file.cluster;
    let of_group = cluster
        .groups
        .iter()
        .position(|group| group.lora.as_ref().is_some_and(|lora| lora.placement.is_some()));
    if let Some(index) = of_group {
        let path = format!("cluster.groups[{index}].lora.placement");
        rules.broken(&path, "belongs to cluster.lora: it is about all replicas");
    }
    let placement = cluster.lora.as_ref().and_then(|lora| lora.placement.as_ref());
    let Some(PlacementConfig::Static { holders }) = placement else { return };
    let path = "cluster.lora.placement";
    let others = [
        ("cluster.disaggregation", cluster.disaggregation.is_some()),
        ("cluster.gateway", cluster.gateway.is_some()),
        ("cluster.autoscaler", cluster.autoscaler.is_some()),
        ("an autoscaler of a group", cluster.groups.iter().any(|it| it.autoscaler.is_some())),
    ];
    for (other, _) in others.into_iter().filter(|(_, is_given)| *is_given) {
        rules.broken(path, &format!("with {other} is not modelled"));
    }
    let Some(mix) = &file.workload.adapters else {
        return rules.broken(path, "needs workload.adapters");
    };
    let replicas = match &cluster.groups[..] {
        [] => cluster.replicas,
        groups => groups.iter().map(|group| group.replicas).sum(),
    };
    let adapters = mix.count() as usize;
    let rule = format!("a list for each of {adapters} adapters");
    let lists = format!("{} lists", holders.len());
    rules.check(holders.len() == adapters, &format!("{path}.holders"), &rule, lists);
    for (adapter, of) in holders.iter().enumerate() {
        let path = format!("{path}.holders[{adapter}]");
        let mut sorted = of.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let holds = !of.is_empty()
            && sorted.len() == of.len()
            && sorted.iter().all(|replica| *replica < replicas);
        let rule =
            format!("at least one replica from 0 to {}, each once", replicas.saturating_sub(1));
        rules.check(holds, &path, &rule, format!("{of:?}"));
    }
}
