//! What is put in the place of a scenario's schedulers, router and rule of autoscaling.

use std::fmt;

use crate::cluster::{Cluster, Router, Scale};
use crate::engine::scheduler::Scheduler;
use crate::resolved::{ReplicaGroup, Scenario};

type ChangeScheduler<'a> =
    dyn Fn(&Scenario, &ReplicaGroup, Scheduler) -> Result<Scheduler, String> + Send + Sync + 'a;
type ChangeRouter<'a> = dyn Fn(&Scenario, Router) -> Result<Router, String> + Send + Sync + 'a;
type NewScale<'a> = dyn Fn(&Scenario) -> Result<Box<dyn Scale>, String> + Send + Sync + 'a;

/// The project's policies, unless others are put in their place. A policy that is not for a scenario refuses it with
/// the reason; a check leaves the scenario out.
pub struct Policies<'a> {
    scheduler: Option<Box<ChangeScheduler<'a>>>,
    router: Option<Box<ChangeRouter<'a>>>,
    scale: Option<Box<NewScale<'a>>>,
}

impl fmt::Debug for Policies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_own = (self.scheduler.is_some(), self.router.is_some(), self.scale.is_some());
        f.debug_struct("Policies").field("is_own", &is_own).finish()
    }
}

impl<'a> Policies<'a> {
    /// Those of the scenarios.
    pub fn shipped() -> Self {
        Self { scheduler: None, router: None, scale: None }
    }

    /// With another scheduler in every replica. It gets the scenario, the replica's group, and the scheduler
    /// that the scenario asks for, without requests, to put something before it or to drop it. Where the scenario
    /// needs what only that one can, it is left out.
    #[must_use]
    pub fn with_scheduler(
        self,
        change: impl Fn(&Scenario, &ReplicaGroup, Scheduler) -> Result<Scheduler, String>
        + Send
        + Sync
        + 'a,
    ) -> Self {
        Self { scheduler: Some(Box::new(change)), ..self }
    }

    /// With another router, which gets the scenario and the router it asks for. The one that chooses among
    /// replicas that decode what others prefilled stays.
    #[must_use]
    pub fn with_router(
        self,
        change: impl Fn(&Scenario, Router) -> Result<Router, String> + Send + Sync + 'a,
    ) -> Self {
        Self { router: Some(Box::new(change)), ..self }
    }

    /// With a rule of one's own in place of the signals of the autoscalers, which begin it anew. A scenario without an
    /// autoscaler is refused.
    #[must_use]
    pub fn with_scale(
        self,
        rule: impl Fn(&Scenario) -> Result<Box<dyn Scale>, String> + Send + Sync + 'a,
    ) -> Self {
        Self { scale: Some(Box::new(rule)), ..self }
    }

    /// The idle cluster of a scenario, with these; or why they are not for it.
    pub(crate) fn applied(&self, scenario: &Scenario, cluster: Cluster) -> Result<Cluster, String> {
        let Cluster { instances, router, .. } = cluster;
        let of_replicas = scenario
            .groups
            .iter()
            .flat_map(|group| std::iter::repeat_n(group, group.replicas() as usize));
        let mut changed = Vec::with_capacity(instances.len());
        for (instance, group) in instances.into_iter().zip(of_replicas) {
            let mut refused = None;
            let instance = match &self.scheduler {
                None => instance,
                Some(change) => instance.with_scheduler(|shipped| {
                    let changed = change(scenario, group, shipped.clone());
                    let suited = changed.and_then(|it| suited(it, &shipped, scenario, group));
                    suited.unwrap_or_else(|reason| {
                        refused = Some(reason);
                        shipped
                    })
                }),
            };
            match refused {
                Some(reason) => return Err(reason),
                None => changed.push(instance),
            }
        }
        let router = match &self.router {
            None => router,
            Some(change) => change(scenario, router)?,
        };
        let scale = match &self.scale {
            None => cluster.scale,
            Some(_) if !scenario.has_autoscaler() => {
                return Err("the scenario has no autoscaler (cluster.autoscaler)".to_owned());
            }
            Some(rule) => Some(rule(scenario)?),
        };
        Ok(Cluster { instances: changed, router, scale, ..cluster })
    }
}

/// The scheduler, unless the scenario needs what it cannot and the shipped one can.
fn suited(
    mut scheduler: Scheduler,
    shipped: &Scheduler,
    scenario: &Scenario,
    group: &ReplicaGroup,
) -> Result<Scheduler, String> {
    let is_apart = scenario.disaggregation().is_some();
    let has_adapters = group.cluster.lora.is_some() && shipped.adapters().is_some();
    let lacks = if is_apart && scheduler.kv_transfers().is_none() {
        "hands over no KV"
    } else if group.cluster.kv_tiers.is_some() && scheduler.tiers().is_none() {
        "has no KV tiers"
    } else if has_adapters && scheduler.adapters().is_none() {
        "holds no adapters"
    } else {
        return Ok(scheduler);
    };
    Err(format!("the scheduler {lacks}"))
}
