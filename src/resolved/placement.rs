//! Rules of which replicas hold which adapters.

use super::placing::{ToPlace, greedy, load_balanced};
use super::{Rules, ScenarioError, fail};
use crate::resolved::ReplicaGroup;
use crate::scenario::{
    ArrivalConfig, ClusterConfig, EngineConfig, GroupConfig, LoraConfig, MigrationConfig,
    MigrationSolver, PlacementConfig, RouterConfig, ScenarioFile, WorkloadConfig,
};

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
    migration_rules(file, rules);
    let Some(placement) = placement else { return };
    let path = "cluster.lora.placement";
    let pins = |lora: &LoraConfig| !lora.pinned.is_empty();
    let mut loras = cluster.groups.iter().filter_map(|group| group.lora.as_ref());
    let others = [
        ("cluster.lora.pinned", cluster.lora.as_ref().is_some_and(pins)),
        ("pinned adapters of a group", loras.any(pins)),
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
    let adapters = mix.count() as usize;
    let computed = match placement {
        PlacementConfig::Static { holders } => return listed(holders, adapters, cluster, rules),
        PlacementConfig::Greedy(computed) | PlacementConfig::LoadBalanced(computed) => computed,
    };
    rules.count(&format!("{path}.max_per_replica"), computed.max_per_replica.unwrap_or(1));
    if let Some(copies) = computed.copies {
        let rule = format!("at least one of each of {adapters} adapters");
        rules.check(copies as usize >= adapters, &format!("{path}.copies"), &rule, copies);
    }
    if let Some(weights) = &computed.weights {
        let rule = format!("a number above 0 for each of {adapters} adapters");
        let is_above = |weight: &f64| *weight > 0.0 && weight.is_finite();
        let holds = weights.len() == adapters && weights.iter().all(is_above);
        rules.check(holds, &format!("{path}.weights"), &rule, format!("{weights:?}"));
    } else if expected(&file.workload).is_none() {
        let message = "must be given where a trace says which request uses which adapter";
        rules.broken(&format!("{path}.weights"), message);
    }
}

/// Rules of a placement that is listed.
fn listed(holders: &[Vec<u32>], adapters: usize, cluster: &ClusterConfig, rules: &mut Rules) {
    let path = "cluster.lora.placement";
    let replicas = match &cluster.groups[..] {
        [] => cluster.replicas,
        groups => groups.iter().map(|group| group.replicas).sum(),
    };
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

/// How often each adapter is asked for, in any unit, as far as the workload says; the least is above 0.
fn expected(workload: &WorkloadConfig) -> Option<Vec<f64>> {
    if let ArrivalConfig::AdapterCounts(counts) = &workload.arrivals {
        let hours = &counts.hourly_counts;
        // Every hour gives as many requests as the others.
        let share = |calls: &Vec<u32>, adapter: usize| {
            let total: u64 = calls.iter().map(|count| u64::from(*count)).sum();
            f64::from(calls.get(adapter).copied().unwrap_or(0)) / total as f64
        };
        let adapters = workload.adapters.as_ref()?.count() as usize;
        let sum = |adapter| hours.iter().map(|calls| share(calls, adapter)).sum::<f64>();
        return Some((0..adapters).map(sum).collect());
    }
    workload.adapters.as_ref()?.weights()
}

/// Lists a placement that is to be computed.
pub(super) fn compute(
    file: &mut ScenarioFile,
    groups: &[ReplicaGroup],
) -> Result<(), ScenarioError> {
    let placement = file.cluster.lora.as_ref().and_then(|lora| lora.placement.as_ref());
    let (computed, policy): (_, fn(&ToPlace<'_>) -> _) = match placement {
        None | Some(PlacementConfig::Static { .. }) => return Ok(()),
        Some(PlacementConfig::Greedy(computed)) => (computed, greedy),
        Some(PlacementConfig::LoadBalanced(computed)) => (computed, load_balanced),
    };
    let path = "cluster.lora.placement";
    let weights = computed.weights.clone().or_else(|| expected(&file.workload));
    let weights = weights.unwrap_or_default();
    let total: f64 = weights.iter().sum();
    let shares: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    let mut room = Vec::new();
    for group in groups {
        let of_replica = computed.room(&group.cluster.engine);
        let in_host = group.cluster.lora.as_ref().and_then(|lora| lora.max_host_adapters);
        if let Some(in_host) = in_host.filter(|in_host| of_replica > *in_host) {
            let rule = format!("must be at most the adapters in host memory, {in_host}");
            return Err(fail(
                &format!("{path}.max_per_replica"),
                &format!("{rule}, got {of_replica}"),
            ));
        }
        room.extend((0..group.replicas()).map(|_| of_replica));
    }
    let (all, adapters) = (room.iter().map(|room| u64::from(*room)).sum::<u64>(), shares.len());
    if all < adapters as u64 {
        let message = format!("must have room for {adapters} adapters, the replicas hold {all}");
        return Err(fail(&format!("{path}.max_per_replica"), &message));
    }
    let holders = policy(&ToPlace { shares: &shares, room: &room, copies: computed.copies });
    if let Some(lora) = &mut file.cluster.lora {
        lora.placement = Some(PlacementConfig::Static { holders });
    }
    Ok(())
}

/// Rules of what moves between replicas.
fn migration_rules(file: &ScenarioFile, rules: &mut Rules) {
    let cluster = &file.cluster;
    let path = "cluster.lora.migration";
    let of_group =
        |group: &GroupConfig| group.lora.as_ref().is_some_and(|lora| lora.migration.is_some());
    if let Some(index) = cluster.groups.iter().position(of_group) {
        let path = format!("cluster.groups[{index}].lora.migration");
        rules.broken(&path, "belongs to cluster.lora: it is about all replicas");
    }
    let Some(lora) = &cluster.lora else { return };
    let Some(migration) = &lora.migration else { return };
    if lora.placement.is_none() {
        rules.broken(path, "needs cluster.lora.placement: who holds what to begin with");
    }
    if let MigrationConfig::DispatchWithSwap { swap_cost } = migration {
        rules.not_negative(&format!("{path}.swap_cost"), *swap_cost);
        if !matches!(cluster.router, RouterConfig::DloraDispatch(_)) {
            let message =
                "dispatch_with_swap needs cluster.router of type dlora_dispatch, which weighs it";
            rules.broken(path, message);
        }
    }
    let MigrationConfig::Periodic(periodic) = migration else { return };
    let client = &file.workload.client;
    let others = [
        ("cluster.groups", !cluster.groups.is_empty()),
        ("cluster.kv_tiers", cluster.kv_tiers.is_some()),
        ("faults", !file.faults.is_empty()),
        ("clients that give up", client.may_give_up()),
    ];
    for (other, _) in others.into_iter().filter(|(_, is_given)| *is_given) {
        rules.broken(path, &format!("with {other} is not modelled"));
    }
    if !matches!(cluster.engine, EngineConfig::VllmV1(_)) {
        let message = format!("of {} is not modelled, that of vllm_v1 is", cluster.engine.name());
        rules.broken(path, &message);
    }
    if periodic.solver == MigrationSolver::Ilp && cfg!(not(feature = "ilp")) {
        rules.broken(&format!("{path}.solver"), "ilp is not part of this build, greedy is");
    }
    let key = |key: &str| format!("{path}.{key}");
    rules.lasting(&key("interval_s"), periodic.interval_s);
    rules.brief(&key("solve_ms"), periodic.solve_ms, 1e3);
    rules.not_negative(&key("request_threshold"), periodic.request_threshold);
    rules.not_negative(&key("kv_threshold"), periodic.kv_threshold);
    rules.brief(&key("move_cost_s"), periodic.move_cost_s, 1.0);
    rules.brief(&key("default_service_s"), periodic.default_service_s, 1.0);
    rules.carried(&key("swap_gb_per_s"), periodic.swap_gb_per_s);
}
