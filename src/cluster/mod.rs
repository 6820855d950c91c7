//! Instances behind a router: passive machines, driven by `sim`.

mod adapter_view;
pub mod autoscaler;
pub mod disaggregation;
mod gateway;
mod health;
pub mod migration;
mod placement;
pub mod router;
mod sender;
mod tier_links;
mod view;
pub mod wires;

use std::ops::Range;

use crate::engine::Instance;
use crate::ids::InstanceId;

pub use adapter_view::{AdapterReport, AdapterView, Swap};
pub use autoscaler::{Autoscaler, Look, Report, Scale, ScaleView, Stage};
pub use disaggregation::{
    Chunk, Disaggregation, Granularity, Messages, Order, Role, Roles, Transfer, TransferEnd, Way,
};
pub use gateway::{Gateway, Next, Queue, Ranks, Refusal, Room, Ticket, Vtc};
pub use health::{Health, Healths, Reply};
pub use placement::Placement;
pub(crate) use router::sglang;
pub use router::{Needs, Route, Routed, Router, Signal};
pub use sender::{Ask, Sender, Withdrawn};
pub use tier_links::{TierLinks, TierRates};
pub use view::{Caches, ClusterView, Outstanding, Steps};
pub use wires::Wires;

/// The instances of a run and the policy that chooses among them.
#[derive(Debug)]
pub struct Cluster {
    /// The replicas, indexed by [`InstanceId`].
    pub instances: Vec<Instance>,
    /// Which replica gets the next request.
    pub router: Router,
    /// Which replicas hold which adapters; all hold all if absent.
    pub placement: Option<Placement>,
    /// Where some replicas prefill and others decode.
    pub disaggregation: Option<Disaggregation>,
    /// Where replicas have KV memory below that of their GPUs: the ways to it.
    pub tiers: Option<TierLinks>,
    /// All links, and what is on its way over them.
    pub wires: Wires,
    /// By model, the instances that requests for it are sent to first; empty where all serve the same one.
    pub models: Vec<Range<u32>>,
    /// A rule of one's own for the autoscalers of the scenario, each of which begins it anew.
    pub scale: Option<Box<dyn Scale>>,
}

impl Cluster {
    /// Instances that do all of a request, behind a router.
    pub fn new(instances: Vec<Instance>, router: Router) -> Self {
        Self {
            instances,
            router,
            placement: None,
            disaggregation: None,
            tiers: None,
            wires: Wires::default(),
            models: Vec::new(),
            scale: None,
        }
    }

    /// How many instances requests are sent to first.
    pub fn entrances(&self) -> u32 {
        match &self.disaggregation {
            Some(parts) => parts.roles().entrances(),
            None => self.instances.len() as u32,
        }
    }

    /// The instances that tell of their caches, where the router of those that requests are sent to first listens or not.
    pub fn heard(&self, listens: bool) -> Range<usize> {
        let (entrances, count) = (self.entrances() as usize, self.instances.len());
        let decodes_too = self.disaggregation.as_ref().is_some_and(Disaggregation::hears_caches);
        let first = if listens { 0 } else { entrances };
        first..if decodes_too { count } else { entrances }
    }

    /// Whether requests for this instance, which prefills, have memory set aside elsewhere first.
    pub fn goes_to_destination_first(&self, instance: InstanceId) -> bool {
        self.disaggregation.as_ref().is_some_and(|parts| {
            parts.order() == Order::DestinationFirst && parts.roles().of(instance) == Role::Prefill
        })
    }

    /// What an instance does of a request.
    #[inline]
    pub fn role(&self, instance: InstanceId) -> Role {
        self.disaggregation.as_ref().map_or(Role::Whole, |parts| parts.roles().of(instance))
    }
}
