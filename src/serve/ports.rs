//! Ports: one for the whole cluster, or one for each replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cluster::{ClusterView, Needs, Route};
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::resolved::Scenario;

/// Where the request that comes next is sent, where its client has chosen by its port.
#[derive(Debug, Clone, Default)]
pub(super) struct Chosen(Arc<AtomicU32>);

impl Chosen {
    pub(super) fn set(&self, replica: InstanceId) {
        self.0.store(replica.0, Ordering::Relaxed);
    }
}

impl Route for Chosen {
    fn route(&mut self, _: RequestView<'_>, _: &ClusterView<'_>) -> InstanceId {
        InstanceId(self.0.load(Ordering::Relaxed))
    }

    fn needs(&self) -> Needs {
        Needs::NOTHING
    }
}

/// Why replicas of a scenario cannot have a port each, if they cannot.
pub(super) fn refused(scenario: &Scenario) -> Option<&'static str> {
    if scenario.gateway().is_some() {
        Some("cluster.gateway: requests wait at a gateway, which ports of replicas pass by")
    } else if scenario.has_autoscaler() {
        Some("cluster.autoscaler: replicas come and go, and ports stay")
    } else if scenario.is_disaggregated() {
        Some("cluster.disaggregation: a request passes two replicas")
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
