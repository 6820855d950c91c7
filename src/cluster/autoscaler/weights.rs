//! Weights on their way: each replica that starts reads them over a link of its own, and all of them from
//! one place, whose rate they share. What comes from there comes in over the NICs of the replica, if it has some.

use crate::cluster::wires::{Cargo, Direction, Wires};
use crate::ids::{InstanceId, RouteId};
use crate::network::Route;
use crate::scenario::AutoscalerConfig;
use crate::units::SimTime;

const BYTES_PER_GIB: f64 = 1_073_741_824.0;

/// The replicas that load, and the ways that their weights take.
#[derive(Debug)]
pub(in crate::cluster) struct Weights {
    bytes: u64,
    first: InstanceId,
    /// By place among the replicas that are scaled together; nothing where loading takes no time.
    routes: Vec<RouteId>,
    /// Those whose weights have come.
    landed: Vec<InstanceId>,
}

impl Weights {
    pub(in crate::cluster) fn new(
        wires: &mut Wires,
        config: &AutoscalerConfig,
        (first, bytes): (InstanceId, u64),
    ) -> Self {
        let checked = "validation has checked the rate";
        let mut link = |name: String, rate: Option<f64>| {
            let link = rate.map(|rate| wires.link(name, rate * BYTES_PER_GIB));
            link.transpose().expect(checked)
        };
        let source = link("weights".to_owned(), config.weights_source_gib_per_s);
        let replicas = || (first.0..).take(config.max_replicas as usize).map(InstanceId);
        let own =
            replicas().map(|id| link(format!("weights of replica {id}"), config.weights_gib_per_s));
        let own: Vec<_> = own.collect();
        let mut routes = Vec::new();
        for (id, own) in replicas().zip(own) {
            let from_source = source.map(|_| wires.nic(id, Direction::In).expect(checked));
            let links = [source, own, from_source.flatten()];
            let links: Vec<_> = links.into_iter().flatten().collect();
            if !links.is_empty() {
                let route = Route { links, ..Route::default() };
                routes.push(wires.route(&route).expect("its links are there"));
            }
        }
        Self { bytes, first, routes, landed: Vec::new() }
    }

    fn cargo(&self, place: InstanceId) -> Cargo {
        Cargo::Weights(InstanceId(self.first.0 + place.0))
    }

    /// A replica begins to load. Whether that takes time.
    pub(in crate::cluster) fn load(
        &mut self,
        wires: &mut Wires,
        now: SimTime,
        place: InstanceId,
    ) -> bool {
        let Some(route) = self.routes.get(place.index()) else { return false };
        wires.start(*route, self.bytes, self.cargo(place), now);
        true
    }

    /// It is not wanted any more.
    pub(super) fn cancel(&mut self, wires: &mut Wires, now: SimTime, place: InstanceId) {
        let was_loading = wires.cancel(now, |cargo| cargo == self.cargo(place));
        debug_assert!(was_loading, "replica {place} loads");
    }

    /// The weights of a replica have come.
    pub(super) fn land(&mut self, place: InstanceId) {
        self.landed.push(place);
    }

    /// The replicas whose weights have come since this was asked.
    pub(super) fn take_landed(&mut self) -> Vec<InstanceId> {
        std::mem::take(&mut self.landed)
    }
}
