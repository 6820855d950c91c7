//! Several models in one cluster: which class asks for which, which replicas serve which.

use std::collections::BTreeMap;

use super::groups::Asked;
use super::{ScenarioError, catalogue_model};
use crate::ids::ModelId;
use crate::model::ModelSpec;
use crate::problem::Problem;
use crate::profiles;
use crate::scenario::{ReplicaRole, ScenarioFile, TransferGranularity};

/// The models that requests ask for, in the order in which classes name them first.
#[derive(Debug)]
pub(super) struct Models<'a> {
    local: &'a BTreeMap<String, ModelSpec>,
    asked_for: Vec<String>,
}

/// Where a file names a model, and what it is known by.
struct Named {
    path: String,
    known_by: String,
}

impl<'a> Models<'a> {
    /// Writes out which class asks for which model, where one names its own.
    ///
    /// # Errors
    /// When a class asks for what no replica serves, nobody asks for what some serve, or what is configured is
    /// not modelled with several models.
    pub(super) fn settle(
        file: &mut ScenarioFile,
        local: &'a BTreeMap<String, ModelSpec>,
    ) -> Result<Self, ScenarioError> {
        let mut models = Self { local, asked_for: Vec::new() };
        let unknown = models.unknown(file);
        if !unknown.is_empty() {
            return Err(ScenarioError { problems: unknown });
        }
        let (asking, serving) = (models.asking(file), models.serving(file));
        for named in &asking {
            if !models.asked_for.contains(&named.known_by) {
                models.asked_for.push(named.known_by.clone());
            }
        }
        let mut problems = unmet(&asking, &serving);
        let of_cluster = models.known_by(&file.cluster.model);
        if serving.iter().all(|named| named.known_by != of_cluster) {
            let model = &file.cluster.model;
            let rule = "a model that a group serves";
            problems.push(Problem::must_be("cluster.model", rule, format_args!("`{model}`")));
        }
        if models.asked_for.len() > 1 && problems.is_empty() {
            role_rules(file, &serving, &mut problems);
            not_modelled(file, &serving, &mut problems);
        }
        if !problems.is_empty() {
            return Err(ScenarioError { problems });
        }
        if file.workload.classes.iter().any(|class| class.model.is_some()) {
            for (class, named) in file.workload.classes.iter_mut().zip(asking) {
                class.model = Some(named.known_by);
            }
        }
        Ok(models)
    }

    /// A model by any of its names.
    pub(super) fn of(&self, name: &str) -> ModelId {
        let known_by = self.known_by(name);
        let place = self.asked_for.iter().position(|model| *model == known_by);
        ModelId(place.unwrap_or_default() as u16)
    }

    /// Replicas of one role that serve one model stand together; models are in the order in which groups
    /// first serve them.
    pub(super) fn bring_together(&self, groups: &mut [Asked]) {
        if self.asked_for.len() < 2 {
            return;
        }
        let mut order: Vec<(Option<usize>, ModelId)> =
            groups.iter().map(|group| (group.listed, self.of(&group.cluster.model))).collect();
        order.sort_unstable();
        groups.sort_by_key(|group| {
            let model = self.of(&group.cluster.model);
            (group.role, order.iter().position(|(_, other)| *other == model))
        });
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ModelId> + use<> {
        (0..self.asked_for.len()).map(|place| ModelId(place as u16))
    }

    /// The model of a name.
    ///
    /// # Errors
    /// When it is neither a local one nor in the catalogue.
    pub(super) fn spec(&self, name: &str) -> Result<ModelSpec, ScenarioError> {
        self.local.get(name).map_or_else(|| catalogue_model(name), |model| Ok(model.clone()))
    }

    /// What classes and groups name and nobody knows.
    fn unknown(&self, file: &ScenarioFile) -> Vec<Problem> {
        let classes = file.workload.classes.iter().map(|class| class.model.as_ref());
        let groups = file.cluster.groups.iter().map(|group| group.model.as_ref());
        let classes = classes.enumerate().map(|(index, model)| ("workload.classes", index, model));
        let groups = groups.enumerate().map(|(index, model)| ("cluster.groups", index, model));
        let told = |(list, index, model): (&str, usize, Option<&String>)| {
            let problem = self.spec(model?).err()?.problems.into_iter().next()?;
            Some(Problem { at: format!("{list}[{index}].model"), ..problem })
        };
        classes.chain(groups).filter_map(told).collect()
    }

    /// One name for all under which the catalogue has a model.
    fn known_by(&self, name: &str) -> String {
        let catalogue = profiles::model(name).filter(|_| !self.local.contains_key(name));
        catalogue.map_or_else(|| name.to_owned(), |model| model.name)
    }

    fn asking(&self, file: &ScenarioFile) -> Vec<Named> {
        let of_cluster = &file.cluster.model;
        let classes = file.workload.classes.iter().enumerate();
        let mut asking: Vec<Named> = classes
            .map(|(index, class)| Named {
                path: format!("workload.classes[{index}].model"),
                known_by: self.known_by(class.model.as_ref().unwrap_or(of_cluster)),
            })
            .collect();
        if asking.is_empty() {
            let path = "cluster.model".to_owned();
            asking.push(Named { path, known_by: self.known_by(of_cluster) });
        }
        asking
    }

    fn serving(&self, file: &ScenarioFile) -> Vec<Named> {
        let of_cluster = &file.cluster.model;
        let groups = file.cluster.groups.iter().enumerate();
        let mut serving: Vec<Named> = groups
            .map(|(index, group)| Named {
                path: format!("cluster.groups[{index}].model"),
                known_by: self.known_by(group.model.as_ref().unwrap_or(of_cluster)),
            })
            .collect();
        if serving.is_empty() {
            let path = "cluster.model".to_owned();
            serving.push(Named { path, known_by: self.known_by(of_cluster) });
        }
        serving
    }
}

/// What is asked for and not served, and what is served and not asked for.
fn unmet(asking: &[Named], serving: &[Named]) -> Vec<Problem> {
    let is_among = |named: &Named, others: &[Named]| {
        others.iter().any(|other| other.known_by == named.known_by)
    };
    let mut problems = Vec::new();
    for Named { path, known_by } in asking.iter().filter(|named| !is_among(named, serving)) {
        problems.push(Problem::new(
            path,
            format!(
                "`{known_by}` is served by no replica; cluster.groups must list some that serve it"
            ),
        ));
    }
    for Named { path, known_by } in serving.iter().filter(|named| !is_among(named, asking)) {
        problems.push(Problem::new(
            path,
            format!("no request asks for `{known_by}`; a class of workload.classes must name it"),
        ));
    }
    problems
}

/// Every model has an entrance of one kind and, where prompts are handed over, replicas that take them.
fn role_rules(file: &ScenarioFile, serving: &[Named], problems: &mut Vec<Problem>) {
    let groups = &file.cluster.groups;
    let has = |role: ReplicaRole, model: &str| {
        let mut all = groups.iter().zip(serving);
        all.any(|(group, named)| group.role == role && named.known_by == model)
    };
    for (index, (group, Named { known_by, .. })) in groups.iter().zip(serving).enumerate() {
        let path = format!("cluster.groups[{index}].role");
        let other = match group.role {
            ReplicaRole::Mixed if has(ReplicaRole::Prefill, known_by) => {
                problems.push(Problem::new(
                    path,
                    format!(
                        "`mixed` beside `prefill` replicas of one model (`{known_by}`) is not \
                     modelled where there are several models"
                    ),
                ));
                continue;
            }
            ReplicaRole::Mixed => continue,
            ReplicaRole::Prefill => ReplicaRole::Decode,
            ReplicaRole::Decode => ReplicaRole::Prefill,
        };
        if !has(other, known_by) {
            problems.push(Problem::new(
                path,
                format!(
                    "`{}` replicas of `{known_by}` need others with role `{}` that serve it too",
                    group.role.name(),
                    other.name()
                ),
            ));
        }
    }
}

fn not_modelled(file: &ScenarioFile, serving: &[Named], problems: &mut Vec<Problem>) {
    let cluster = &file.cluster;
    let mut refuse = |path: &str, what: &str| {
        problems.push(Problem::new(
            path,
            format!("{what} are not modelled where there are several models"),
        ));
    };
    if file.workload.adapters.is_some() {
        refuse("workload.adapters", "adapters");
    }
    if let Some(parts) = &cluster.disaggregation {
        if parts.local_prefill.is_some() {
            refuse("cluster.disaggregation.local_prefill", "local prefills");
        }
        let apart =
            cluster.groups.iter().zip(serving).filter(|(it, _)| it.role != ReplicaRole::Mixed);
        let mut apart: Vec<&str> = apart.map(|(_, named)| named.known_by.as_str()).collect();
        apart.sort_unstable();
        apart.dedup();
        if apart.len() > 1 && parts.transfer.granularity == TransferGranularity::LayerWise {
            let path = "cluster.disaggregation.transfer.granularity";
            refuse(path, "`layer_wise` transfers of several models");
        }
        if apart.len() > 1 && parts.transfer.message_us > 0.0 {
            refuse("cluster.disaggregation.transfer.message_us", "messages of several models");
        }
        if apart.len() > 1 && parts.transfer.message_overhead_bytes > 0 {
            let path = "cluster.disaggregation.transfer.message_overhead_bytes";
            refuse(path, "messages of several models");
        }
    }
    if cluster.kv_tiers.is_some() {
        refuse("cluster.kv_tiers", "KV tiers");
    }
    for (index, _) in cluster.groups.iter().enumerate().filter(|(_, it)| it.autoscaler.is_some()) {
        refuse(&format!("cluster.groups[{index}].autoscaler"), "autoscalers");
    }
    if let Some(gateway) = &cluster.gateway {
        if gateway.order.is_by_tenant() {
            refuse("cluster.gateway.order", "orders by tenant");
        }
        if gateway.rate_limit.is_some() {
            refuse("cluster.gateway.rate_limit", "rate limits");
        }
    }
}
