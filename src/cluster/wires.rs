//! What connects the replicas of a cluster, and what is on its way over that.
//!
//! One network for all that moves: KV caches from replicas that prefill to those that decode, chunks between
//! tiers of KV memory, weights of replicas that start. Who takes a link shares it max-min fairly with all
//! others on it, whatever they carry. A replica has one NIC in each direction.
//!
//! A passive machine: others lay links before anything flows ([`Wires::link`], [`Wires::nic`],
//! [`Wires::route`]), start flows and cancel them; [`Wires::next_change`] says when to call
//! [`Wires::advance`], which tells what has arrived.

mod hold;

#[cfg(test)]
mod tests;

use super::disaggregation::Transfer;
use crate::ids::{FlowId, InstanceId, LinkId, RouteId};
use crate::network::{Network, Route, Topology, TopologyError};
use crate::units::SimTime;
use hold::{Hold, Kind};

/// What a flow carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cargo {
    /// The KV cache of a request.
    Kv(Transfer),
    /// Chunks between tiers of KV memory of a replica: which of its moves.
    Chunks(InstanceId, u32),
    /// The weights of a replica that starts.
    Weights(InstanceId),
}

/// Which way bytes pass the NIC of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the replica.
    In,
    /// From it.
    Out,
}

/// The links of a cluster and the flows on them.
#[derive(Debug, Default)]
pub struct Wires {
    topology: Topology,
    /// Of that topology, from the first flow on.
    network: Option<Network>,
    /// By replica.
    nics: Vec<Option<Nic>>,
    /// By kind of cargo.
    holds: [Hold; Kind::ALL.len()],
    /// By flow, where its cargo is.
    places: Vec<(Kind, u32)>,
    /// What arrives, for the time of a call.
    arriving: Vec<(SimTime, Kind, u32)>,
}

/// The NICs of a replica together; a direction that nothing takes has no link.
#[derive(Debug, Clone, Copy)]
struct Nic {
    bytes_per_s: f64,
    links: [Option<LinkId>; 2],
}

impl Wires {
    /// Adds a link.
    ///
    /// # Errors
    /// When the rate is out of range.
    ///
    /// # Panics
    /// When something flows.
    pub fn link(&mut self, name: String, bytes_per_s: f64) -> Result<LinkId, TopologyError> {
        self.laid().add_link(name, bytes_per_s)
    }

    /// Adds a route.
    ///
    /// # Errors
    /// When it has no link, one that is unknown or one twice, or its protocol is out of range.
    ///
    /// # Panics
    /// When something flows.
    pub fn route(&mut self, route: &Route) -> Result<RouteId, TopologyError> {
        self.laid().add_route(route)
    }

    /// Gives a replica NICs of so many bytes per second in each direction, all of them together.
    ///
    /// # Errors
    /// When it has some of another rate.
    pub fn give_nic(&mut self, of: InstanceId, bytes_per_s: f64) -> Result<(), TopologyError> {
        if self.nics.len() <= of.index() {
            self.nics.resize(of.index() + 1, None);
        }
        let nic = self.nics[of.index()].get_or_insert(Nic { bytes_per_s, links: [None; 2] });
        if nic.bytes_per_s.to_bits() != bytes_per_s.to_bits() {
            return Err(TopologyError::TwoCapacities {
                link: format!("NIC of instance {of}"),
                bytes_per_s: [nic.bytes_per_s, bytes_per_s],
            });
        }
        Ok(())
    }

    /// The link of a replica's NICs in a direction; nothing where it has no NIC.
    ///
    /// # Errors
    /// When its rate is out of range.
    ///
    /// # Panics
    /// When something flows.
    pub fn nic(
        &mut self,
        of: InstanceId,
        direction: Direction,
    ) -> Result<Option<LinkId>, TopologyError> {
        let Some(Nic { bytes_per_s, links }) = self.nics.get(of.index()).copied().flatten() else {
            return Ok(None);
        };
        if let Some(link) = links[direction as usize] {
            return Ok(Some(link));
        }
        let way = match direction {
            Direction::In => "in",
            Direction::Out => "out",
        };
        let link = self.link(format!("NIC {way} of instance {of}"), bytes_per_s)?;
        let nic = self.nics[of.index()].as_mut().expect("it has one");
        nic.links[direction as usize] = Some(link);
        Ok(Some(link))
    }

    fn laid(&mut self) -> &mut Topology {
        self.rewind();
        &mut self.topology
    }

    /// At time zero again.
    ///
    /// # Panics
    /// When something flows.
    pub fn rewind(&mut self) {
        let inside = self.network.take().map_or(0, |network| network.flows_inside());
        assert_eq!(inside, 0, "nothing flows before time zero");
    }

    /// Starts a flow of `bytes`, all there at once.
    ///
    /// # Panics
    /// When `now` is past, or later than the next change.
    pub fn start(&mut self, route: RouteId, bytes: u64, cargo: Cargo, now: SimTime) -> FlowId {
        let flow = self.start_fed(route, bytes, cargo, now);
        self.feed(flow, bytes, now);
        flow
    }

    /// Starts a flow that will be fed `bytes` in all.
    ///
    /// # Panics
    /// When `now` is past, or later than the next change.
    pub fn start_fed(&mut self, route: RouteId, bytes: u64, cargo: Cargo, now: SimTime) -> FlowId {
        let network = self.network.get_or_insert_with(|| Network::new(&self.topology));
        let flow = network.start_fed(route, bytes, now);
        let kind = Kind::of(&cargo);
        let place = self.holds[kind as usize].put(flow, cargo);
        if self.places.len() <= flow.index() {
            self.places.resize(flow.index() + 1, (kind, place));
        }
        self.places[flow.index()] = (kind, place);
        flow
    }

    /// Makes `bytes` more of a fed flow ready to be sent.
    ///
    /// # Panics
    /// When there is no such flow, it is fed more than was said when it started, `now` is past, or
    /// later than the next change.
    pub fn feed(&mut self, flow: FlowId, bytes: u64, now: SimTime) {
        let network = self.network.as_mut().expect("the flow has started");
        network.feed(flow, bytes, now);
    }

    /// Ends what is on its way before its time, as far as it is meant; whether anything was.
    ///
    /// # Panics
    /// When `now` is past, or later than the next change.
    pub fn cancel(&mut self, now: SimTime, is_meant: impl Fn(Cargo) -> bool) -> bool {
        let Some(network) = &mut self.network else { return false };
        let mut any = false;
        for hold in &mut self.holds {
            hold.take_all(&is_meant, |flow| {
                network.cancel(flow, now);
                any = true;
            });
        }
        any
    }

    /// The NICs of a replica carry this share of their rate from now on.
    ///
    /// # Panics
    /// When `now` is past, or later than the next change.
    pub fn set_nic_share(&mut self, of: InstanceId, share: f64, now: SimTime) {
        let network = self.network.get_or_insert_with(|| Network::new(&self.topology));
        let nic = self.nics.get(of.index()).copied().flatten();
        for link in nic.into_iter().flat_map(|nic| nic.links).flatten() {
            network.set_share(link, share, now);
        }
    }

    /// The KV caches that are on their way from one replica to another.
    pub fn transfers(&self) -> impl Iterator<Item = Transfer> + '_ {
        self.holds[Kind::Kv as usize].iter().filter_map(|cargo| match cargo {
            Cargo::Kv(transfer) => Some(transfer),
            Cargo::Chunks(..) | Cargo::Weights(_) => None,
        })
    }

    /// Whether weights of replicas that start are on their way, and nothing else.
    pub fn carries_only_weights(&self) -> bool {
        let is_empty = |kind: Kind| self.holds[kind as usize].is_empty();
        is_empty(Kind::Kv) && is_empty(Kind::Chunks) && !is_empty(Kind::Weights)
    }

    /// When to call [`advance`](Self::advance).
    pub fn next_change(&mut self) -> Option<SimTime> {
        self.network.as_mut().and_then(Network::next_change)
    }

    /// Lets time go on to `now`; what has arrived until then is added to `arrived`. Of one instant KV
    /// caches come first, then chunks, then weights.
    ///
    /// # Panics
    /// When `now` is past.
    pub fn advance(&mut self, now: SimTime, arrived: &mut Vec<Cargo>) {
        let Some(network) = &mut self.network else { return };
        let Self { places, arriving, holds, .. } = self;
        network.advance(now, |flow, at| {
            let (kind, place) = places[flow.index()];
            arriving.push((at, kind, place));
        });
        arriving.sort_unstable();
        arrived.extend(arriving.drain(..).map(|(_, kind, place)| holds[kind as usize].take(place)));
    }
}
