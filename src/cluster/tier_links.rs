//! The links between the GPUs of replicas and the KV memory below them.
//!
//! Of every replica the bus between GPUs and host, and its disk, in each direction; the NICs of the replica,
//! which all that it sends and gets takes; and those of the pool's servers.

use super::wires::{Cargo, Direction, Wires};
use crate::engine::tiers::{TierMove, TierWay};
use crate::ids::{InstanceId, LinkId, RouteId};
use crate::network::{Route, TopologyError};
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

/// The routes that moves take.
#[derive(Debug)]
pub struct TierLinks {
    /// By replica, the bytes of its chunks.
    chunks: Vec<Bytes>,
    /// By replica, then by way.
    routes: Vec<[Option<RouteId>; TierWay::ALL.len()]>,
}

impl TierLinks {
    /// Of so many replicas, whose chunks have so many bytes and whose moves begin after `latency`.
    ///
    /// # Errors
    /// When a rate is out of range.
    pub fn new(
        wires: &mut Wires,
        replicas: u32,
        rates: &TierRates,
        (chunk, latency): (Bytes, SimDuration),
    ) -> Result<Self, TopologyError> {
        Self::of_kinds(wires, &[(replicas, *rates, chunk)], latency)
    }

    /// The same of several kinds: how many of each, one after the other, with their rates and the bytes of
    /// their chunks. The servers of the pool are those of the first.
    ///
    /// # Errors
    /// When a rate is out of range, or a replica has NICs of another rate.
    pub fn of_kinds(
        wires: &mut Wires,
        kinds: &[(u32, TierRates, Bytes)],
        latency: SimDuration,
    ) -> Result<Self, TopologyError> {
        let pair = |wires: &mut Wires, name: &str, rates: Option<[f64; 2]>| {
            let Some([up, down]) = rates else { return Ok([None; 2]) };
            let up = wires.link(format!("{name} up"), up)?;
            Ok([Some(up), Some(wires.link(format!("{name} down"), down)?)])
        };
        let both = |rate: f64| [rate, rate];
        let servers = kinds.first().and_then(|(_, rates, _)| rates.servers);
        let servers = pair(wires, "servers of the pool", servers.map(both))?;
        let of_kind = |(replicas, rates, chunk): &(u32, TierRates, Bytes)| {
            std::iter::repeat_n((*rates, *chunk), *replicas as usize)
        };
        let (mut links, mut chunks) = (Vec::new(), Vec::new());
        for (index, (rates, chunk)) in kinds.iter().flat_map(of_kind).enumerate() {
            chunks.push(chunk);
            let bus = format!("host bus of replica {index}");
            let pcie = pair(wires, &bus, Some(both(rates.pcie)))?;
            let disk = pair(wires, &format!("disk of replica {index}"), rates.disk)?;
            let nic = match rates.nic {
                Some(rate) => {
                    let instance = InstanceId::from_index(index);
                    wires.give_nic(instance, rate)?;
                    [wires.nic(instance, Direction::In)?, wires.nic(instance, Direction::Out)?]
                }
                None => [None; 2],
            };
            links.push(Links { pcie, disk, nic, servers });
        }
        let mut routes = Vec::new();
        for links in &links {
            let mut of_replica = [None; TierWay::ALL.len()];
            for way in TierWay::ALL {
                let links = links.of(way);
                if !links.is_empty() {
                    let route = Route { links, latency, ..Route::default() };
                    of_replica[way as usize] = Some(wires.route(&route)?);
                }
            }
            routes.push(of_replica);
        }
        Ok(Self { chunks, routes })
    }

    /// A move of a replica begins; how much it carries.
    ///
    /// # Panics
    /// When the replica has no such tier.
    pub fn start(
        &self,
        wires: &mut Wires,
        instance: InstanceId,
        what: &TierMove,
        now: SimTime,
    ) -> Bytes {
        let route = self.routes[instance.index()][what.way as usize].expect("the tier is there");
        let bytes = u64::from(what.chunks) * self.chunk(instance).0;
        wires.start(route, bytes, Cargo::Chunks(instance, what.id), now);
        Bytes(bytes)
    }

    /// Bytes of a chunk of a replica.
    pub fn chunk(&self, instance: InstanceId) -> Bytes {
        self.chunks[instance.index()]
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
