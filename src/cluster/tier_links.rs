//! The links between the GPUs of replicas and the KV memory below them.
//!
//! Of every replica the bus between GPUs and host, and its disk, in each direction; and the NICs of the
//! replica and of the pool's servers. Moves share them max-min fairly.

use crate::engine::tiers::{TierMove, TierWay};
use crate::ids::{FlowId, InstanceId, LinkId, RouteId};
use crate::network::{Network, Route, Topology, TopologyError};
use crate::units::{Bytes, SimDuration, SimTime};

/// What the links carry, in bytes per second in each direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TierRates {
    /// Between the GPUs of a replica and its host.
    pub pcie: f64,
    /// What its disk reads and what it writes; no disk if absent.
    pub disk: Option<[f64; 2]>,
    /// Its NICs; no pool if absent.
    pub nic: Option<f64>,
    /// The NICs of the pool's servers; as fast as needed if absent.
    pub servers: Option<f64>,
}

/// Moves on their way.
#[derive(Debug)]
pub struct TierLinks {
    network: Network,
    /// By replica, the bytes of its chunks.
    chunks: Vec<Bytes>,
    /// By replica, then by way.
    routes: Vec<[Option<RouteId>; TierWay::ALL.len()]>,
    /// By flow: of which replica, and which of its moves.
    flows: Vec<Option<(InstanceId, u32)>>,
}

impl TierLinks {
    /// Of so many replicas, whose chunks have so many bytes and whose moves begin after `latency`.
    ///
    /// # Errors
    /// When a rate is out of range.
    pub fn new(
        replicas: u32,
        rates: &TierRates,
        (chunk, latency): (Bytes, SimDuration),
    ) -> Result<Self, TopologyError> {
        Self::of_kinds(&[(replicas, *rates, chunk)], latency)
    }

    /// The same of several kinds: how many of each, one after the other, with their rates and the bytes of
    /// their chunks. The servers of the pool are those of the first.
    ///
    /// # Errors
    /// When a rate is out of range.
    pub fn of_kinds(
        kinds: &[(u32, TierRates, Bytes)],
        latency: SimDuration,
    ) -> Result<Self, TopologyError> {
        let mut topology = Topology::default();
        let mut pair = |name: &str, rates: Option<[f64; 2]>| -> Result<_, TopologyError> {
            let Some([up, down]) = rates else { return Ok([None; 2]) };
            let up = topology.add_link(format!("{name} up"), up)?;
            Ok([Some(up), Some(topology.add_link(format!("{name} down"), down)?)])
        };
        let both = |rate: f64| [rate, rate];
        let servers = kinds.first().and_then(|(_, rates, _)| rates.servers);
        let servers = pair("servers of the pool", servers.map(both))?;
        let of_kind = |(replicas, rates, chunk): &(u32, TierRates, Bytes)| {
            std::iter::repeat_n((*rates, *chunk), *replicas as usize)
        };
        let (mut links, mut chunks) = (Vec::new(), Vec::new());
        for (index, (rates, chunk)) in kinds.iter().flat_map(of_kind).enumerate() {
            chunks.push(chunk);
            let pcie = pair(&format!("host bus of replica {index}"), Some(both(rates.pcie)))?;
            let disk = pair(&format!("disk of replica {index}"), rates.disk)?;
            let nic = pair(&format!("NIC of replica {index}"), rates.nic.map(both))?;
            links.push(Links { pcie, disk, nic, servers });
        }
        let mut routes = Vec::new();
        for links in &links {
            let mut of_replica = [None; TierWay::ALL.len()];
            for way in TierWay::ALL {
                let links = links.of(way);
                if !links.is_empty() {
                    let route = Route { links, latency, ..Route::default() };
                    of_replica[way as usize] = Some(topology.add_route(&route)?);
                }
            }
            routes.push(of_replica);
        }
        Ok(Self { network: Network::new(&topology), chunks, routes, flows: Vec::new() })
    }

    /// A move of a replica begins; how much it carries.
    ///
    /// # Panics
    /// When the replica has no such tier.
    pub fn start(&mut self, instance: InstanceId, what: &TierMove, now: SimTime) -> Bytes {
        let route = self.routes[instance.index()][what.way as usize].expect("the tier is there");
        let bytes = u64::from(what.chunks) * self.chunk(instance).0;
        let flow = self.network.start(route, bytes, now);
        if self.flows.len() <= flow.index() {
            self.flows.resize(flow.index() + 1, None);
        }
        self.flows[flow.index()] = Some((instance, what.id));
        Bytes(bytes)
    }

    /// Bytes of a chunk of a replica.
    pub fn chunk(&self, instance: InstanceId) -> Bytes {
        self.chunks[instance.index()]
    }

    /// When to call [`ended`](Self::ended).
    pub fn next_change(&mut self) -> Option<SimTime> {
        self.network.next_change()
    }

    /// The moves that have ended by `now`, in order, are added to `ended`.
    ///
    /// # Panics
    /// When a flow ends that was never started here.
    pub fn ended(&mut self, now: SimTime, ended: &mut Vec<(InstanceId, u32)>) {
        let flows = &mut self.flows;
        self.network.advance(now, |flow, _| {
            ended.push(flows[flow.index()].take().expect("the flow carries chunks"));
        });
    }

    /// A replica stops: its moves end before their time.
    pub fn cancel(&mut self, instance: InstanceId, now: SimTime) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            if flow.is_some_and(|(at, _)| at == instance) {
                *flow = None;
                self.network.cancel(FlowId::from_index(index), now);
            }
        }
    }
}

/// The links of a replica, each towards the GPU and away from it.
struct Links {
    pcie: [Option<LinkId>; 2],
    disk: [Option<LinkId>; 2],
    nic: [Option<LinkId>; 2],
    servers: [Option<LinkId>; 2],
}

impl Links {
    /// Those that a move takes; none where a tier is not there.
    fn of(&self, way: TierWay) -> Vec<LinkId> {
        let [up, down] = [0, 1];
        let (needed, others) = match way {
            TierWay::HostToGpu => (vec![self.pcie[up]], None),
            TierWay::DiskToGpu => (vec![self.disk[up], self.pcie[up]], None),
            TierWay::PoolToGpu => (vec![self.nic[up], self.pcie[up]], self.servers[up]),
            TierWay::GpuToHost => (vec![self.pcie[down]], None),
            TierWay::HostToDisk => (vec![self.disk[down]], None),
            TierWay::HostToPool => (vec![self.nic[down]], self.servers[down]),
            TierWay::DiskToPool => (vec![self.disk[up], self.nic[down]], self.servers[down]),
        };
        let needed: Option<Vec<LinkId>> = needed.into_iter().collect();
        needed.map_or_else(Vec::new, |needed| needed.into_iter().chain(others).collect())
    }
}
