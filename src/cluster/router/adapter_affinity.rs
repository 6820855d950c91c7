//! Where the adapter is: replicas whose slots hold it before those whose host memory does, before all others;
//! of equal ones the fewest outstanding requests. After the LoRA affinity of the Kubernetes Gateway API
//! inference extension (`pkg/epp/scheduling`, `lora-affinity-scorer`), which knows what runs, not what is loaded.
//!
//! What it knows is what engines reported, of some age, or what the gateway itself sent: the adapters that
//! an instance was asked for last, whatever became of them there. A replica with many more outstanding
//! requests than another counts as one that does not hold the adapter, if that is asked for; otherwise all
//! requests of an adapter follow the first one.

use std::collections::VecDeque;

use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::engine::AdapterPlace;
use crate::ids::{AdapterId, InstanceId};
use crate::request::RequestView;
use crate::scenario::{AdapterAffinityConfig, AdapterKnowledge};
use crate::units::SimDuration;

/// Holders of the adapter first; of equal ones the fewest outstanding requests.
#[derive(Debug, Clone)]
pub struct AdapterAffinity {
    config: AdapterAffinityConfig,
    /// By instance, the adapters that it was asked for last, the latest at the back.
    sent: Vec<VecDeque<AdapterId>>,
}

impl AdapterAffinity {
    /// A router that has sent nothing.
    pub fn new(config: AdapterAffinityConfig) -> Self {
        Self { config, sent: Vec::new() }
    }

    /// How far an adapter is from the GPU of an instance, as far as the router knows.
    fn distance(&self, id: InstanceId, adapter: AdapterId, view: &ClusterView<'_>) -> u8 {
        match self.config.knowledge {
            AdapterKnowledge::Reported { .. } => match view.adapters.place(id, adapter) {
                AdapterPlace::Slot => 0,
                AdapterPlace::Host => 1,
                AdapterPlace::Disk => 2,
            },
            AdapterKnowledge::Sent { .. } => {
                let is_here = |sent: &VecDeque<AdapterId>| sent.contains(&adapter);
                if self.sent.get(id.index()).is_some_and(is_here) { 0 } else { 2 }
            }
        }
    }

    fn remember(&mut self, id: InstanceId, adapter: AdapterId, most: u32) {
        if self.sent.len() <= id.index() {
            self.sent.resize_with(id.index() + 1, VecDeque::new);
        }
        let sent = &mut self.sent[id.index()];
        sent.retain(|other| *other != adapter);
        sent.push_back(adapter);
        if sent.len() > most as usize {
            sent.pop_front();
        }
    }
}

impl Route for AdapterAffinity {
    fn route(&mut self, request: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        let Some(adapter) = request.adapter else { return view.least_requests() };
        let requests = |id: InstanceId| view.outstanding[id.index()].requests;
        let fewest = requests(view.least_requests());
        let most = self.config.max_excess_requests.map_or(u32::MAX, |it| fewest.saturating_add(it));
        let chosen = view.least(|id| {
            let counts = requests(id) <= most;
            (if counts { self.distance(id, adapter, view) } else { 2 }, requests(id))
        });
        if let AdapterKnowledge::Sent { adapters } = self.config.knowledge {
            self.remember(chosen, adapter, adapters);
        }
        chosen
    }

    fn needs(&self) -> Needs {
        let adapters = match self.config.knowledge {
            AdapterKnowledge::Reported { interval_ms } => {
                Some(SimDuration::from_secs_f64(interval_ms / 1e3))
            }
            AdapterKnowledge::Sent { .. } => None,
        };
        Needs { adapters, ..Needs::OUTSTANDING }
    }
}
