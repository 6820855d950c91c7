//! Ports: one for the whole cluster, or one for each replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cluster::{ClusterView, Needs, Order, Role, Route, Router};
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::resolved::Scenario;
use crate::scenario::HandoverProtocol;
use crate::sim::Live;

/// Where the request that comes next is sent, where its client has chosen by its port.
#[derive(Debug, Clone, Default)]
pub(super) struct Chosen {
    entrance: Place,
    decode: Place,
    /// Instances that requests are sent to first; those that decode what others prefill come after them.
    entrances: u32,
}

#[derive(Debug, Clone, Default)]
struct Place(Arc<AtomicU32>);

impl Chosen {
    /// Its choices decide where the cluster sends requests.
    pub(super) fn leading(live: &mut Live) -> Self {
        let roles = (0..live.instances().len() as u32).map(InstanceId);
        let entrances = roles.filter(|id| live.role(*id) != Role::Decode).count() as u32;
        let chosen = Self { entrances, ..Self::default() };
        live.route_by(chosen.entrance.router());
        if live.order().is_some() {
            live.lead_by(chosen.decode.router());
        }
        chosen
    }

    /// The next request goes to this replica, as far as it does what the replica does.
    pub(super) fn set(&self, replica: InstanceId) {
        match replica.0.checked_sub(self.entrances) {
            None => self.entrance.0.store(replica.0, Ordering::Relaxed),
            Some(decode) => self.decode.0.store(decode, Ordering::Relaxed),
        }
    }
}

impl Place {
    fn router(&self) -> Router {
        Router::Custom(Box::new(self.clone()))
    }
}

impl Route for Place {
    fn route(&mut self, _: RequestView<'_>, _: &ClusterView<'_>) -> InstanceId {
        InstanceId(self.0.load(Ordering::Relaxed))
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }
}

/// What the replica of a port does, and which of two requests go to first, where some prefill and others decode.
pub(super) fn led(live: &Live, replica: Option<InstanceId>) -> Option<(Role, Order)> {
    Some((live.role(replica?), live.order()?))
}

/// Why replicas of a scenario cannot have a port each, if they cannot.
pub(super) fn refused(scenario: &Scenario) -> Option<&'static str> {
    let is_blocking = |group: &crate::resolved::ReplicaGroup| {
        matches!(group.handover, Some(HandoverProtocol::Blocking { .. }))
    };
    if scenario.gateway().is_some() {
        Some("cluster.gateway: requests wait at a gateway, which ports of replicas pass by")
    } else if scenario.has_autoscaler() {
        Some("cluster.autoscaler: replicas come and go, and ports stay")
    } else if scenario.groups.iter().any(is_blocking) {
        Some("cluster.disaggregation: the pipe of vLLM 0.6 is not spoken over HTTP")
    } else if scenario.models.len() > 1 {
        Some("cluster.groups: replicas serve several models")
    } else if scenario
        .lora()
        .is_some_and(|lora| lora.placement.is_some() || lora.migration.is_some())
    {
        Some("cluster.lora: the gateway places and moves adapters")
    } else {
        None
    }
}
