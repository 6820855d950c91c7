//! Weights on their way: each replica that starts reads them over a link of its own, and all of them from
//! one place, whose rate they share max-min fairly.

use crate::ids::{FlowId, InstanceId, RouteId};
use crate::network::{Network, Route, Topology};
use crate::scenario::AutoscalerConfig;
use crate::units::SimTime;

const BYTES_PER_GIB: f64 = 1_073_741_824.0;

/// The replicas that load, and the links they load over.
#[derive(Debug)]
pub(super) struct Weights {
    bytes: u64,
    /// Nothing where loading takes no time.
    network: Option<Network>,
    /// By replica.
    routes: Vec<RouteId>,
    flows: Vec<(FlowId, InstanceId)>,
}

impl Weights {
    pub(super) fn new(config: &AutoscalerConfig, bytes: u64) -> Self {
        let mut topology = Topology::default();
        let mut link = |name: String, rate: Option<f64>| {
            let link = rate.map(|rate| topology.add_link(name, rate * BYTES_PER_GIB));
            link.transpose().expect("validation has checked the rate")
        };
        let source = link("weights".to_owned(), config.weights_source_gib_per_s);
        let own = (0..config.max_replicas)
            .map(|id| link(format!("weights of replica {id}"), config.weights_gib_per_s));
        let own: Vec<_> = own.collect();
        let mut routes = Vec::new();
        for own in own {
            let links: Vec<_> = source.into_iter().chain(own).collect();
            if !links.is_empty() {
                let route = Route { links, ..Route::default() };
                routes.push(topology.add_route(&route).expect("its links are there"));
            }
        }
        let network = (!routes.is_empty()).then(|| Network::new(&topology));
        Self { bytes, network, routes, flows: Vec::new() }
    }

    /// A replica begins to load. Whether that takes time.
    pub(super) fn load(&mut self, now: SimTime, instance: InstanceId) -> bool {
        let Some(network) = &mut self.network else { return false };
        let flow = network.start(self.routes[instance.index()], self.bytes, now);
        self.flows.push((flow, instance));
        true
    }

    /// It is not wanted any more.
    pub(super) fn cancel(&mut self, now: SimTime, instance: InstanceId) {
        let Some(network) = &mut self.network else { return };
        let place = self.flows.iter().position(|(_, of)| *of == instance);
        let (flow, _) = self.flows.remove(place.expect("it loads"));
        network.cancel(flow, now);
    }

    /// When a link has something to say.
    pub(super) fn next_change(&mut self) -> Option<SimTime> {
        self.network.as_mut().and_then(Network::next_change)
    }

    /// The replicas that have their weights.
    pub(super) fn advance(&mut self, now: SimTime) -> Vec<InstanceId> {
        let (Some(network), flows) = (&mut self.network, &mut self.flows) else {
            return Vec::new();
        };
        let mut loaded = Vec::new();
        network.advance(now, |ended, _| {
            let place = flows.iter().position(|(flow, _)| *flow == ended);
            loaded.push(flows.remove(place.expect("it is a flow of weights")).1);
        });
        loaded
    }
}
