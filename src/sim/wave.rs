//! Data-parallel ranks of a replica: their schedulers, and what prices their steps.

use crate::cost::{Exchange, ImbalanceDraws, StepTime, Wave};
use crate::engine::scheduler::{Dispatch, Ranks, Scheduler};
use crate::resolved::{ReplicaGroup, Scenario, ScenarioError};
use crate::scenario::{EngineConfig, ExchangeKind, ExpertParallelConfig};

/// The scheduler of a replica: one, or one for each of its ranks.
pub(super) fn ranks(
    group: &ReplicaGroup,
    one: impl Fn() -> Result<Scheduler, ScenarioError>,
) -> Result<Scheduler, ScenarioError> {
    if !is_in_waves(group) {
        return one();
    }
    let count = group.cluster.data_parallel_size as usize;
    let dispatch = match &group.cluster.engine {
        EngineConfig::Sglang(_) => Dispatch::RoundRobin { next: 0 },
        _ => Dispatch::least_score(count),
    };
    let ranks = (0..count).map(|_| one()).collect::<Result<_, _>>()?;
    Ok(Scheduler::Ranks(Box::new(Ranks::new(ranks, dispatch))))
}

/// What prices the steps of a replica with ranks, or whose imbalance of experts is drawn; nothing of others.
pub(super) fn of_group(scenario: &Scenario, group: &ReplicaGroup, cost: &StepTime) -> Option<Wave> {
    if !is_in_waves(group) {
        return None;
    }
    let cluster = &group.cluster;
    let (tp, ranks) = (cluster.tensor_parallel_size, cluster.data_parallel_size);
    let parallel = cluster.expert_parallel.unwrap_or_default();
    let gathers_first = matches!(cluster.engine, EngineConfig::Sglang(_));
    let exchange = parallel.exchange.map_or(Exchange::NONE, |way| {
        let quantises_first = way.kind == ExchangeKind::AllToAll || !gathers_first;
        Exchange::new(&group.model, (tp, ranks), &way, quantises_first)
    });
    let wave = Wave::new(&group.model, cost.clone(), ranks, exchange);
    let ExpertParallelConfig { imbalance, imbalance_sigma: sigma, .. } = parallel;
    let gpus = parallel.size.unwrap_or(tp * ranks);
    let draws = (sigma > 0.0).then(|| ImbalanceDraws::new(imbalance, sigma, gpus, scenario.seed));
    Some(wave.with_imbalance(draws))
}

fn is_in_waves(group: &ReplicaGroup) -> bool {
    let sigma = group.cluster.expert_parallel.map_or(0.0, |parallel| parallel.imbalance_sigma);
    group.cluster.data_parallel_size > 1 || sigma > 0.0
}
