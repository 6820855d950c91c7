//! Directed links and the routes over them: what a network is made of, checked while it is built.

use crate::ids::{LinkId, RouteId};
use crate::network::quantity::{self, Rate, WORK_PER_BYTE, Work};
use crate::units::SimDuration;

/// Why a topology cannot be built. Every message names the link or the route's place in its list.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A capacity is no rate.
    #[error("link {link:?}: capacity must be 1 byte/s to 281 TB/s, got {bytes_per_s} bytes/s")]
    Capacity {
        /// The link's name.
        link: String,
        /// The capacity that was given.
        bytes_per_s: f64,
    },
    /// A link is given a second time, with another capacity.
    #[error("link {link:?}: capacity is {} bytes/s, and is to be {}", bytes_per_s[0], bytes_per_s[1])]
    TwoCapacities {
        /// The link's name.
        link: String,
        /// Its capacity, and the other one.
        bytes_per_s: [f64; 2],
    },
    /// A route has no link.
    #[error("route {route}: a route takes at least one link, got none")]
    NoLink {
        /// The number the route would have had.
        route: RouteId,
    },
    /// A route names a link that the topology does not have.
    #[error("route {route}: there is no link {link}, only {links} links numbered from 0")]
    UnknownLink {
        /// The number the route would have had.
        route: RouteId,
        /// The link that was named.
        link: LinkId,
        /// How many links there are.
        links: usize,
    },
    /// A route takes a link twice.
    #[error("route {route}: takes link {name:?} twice; a flow takes a link once at most")]
    RepeatedLink {
        /// The number the route would have had.
        route: RouteId,
        /// The link's name.
        name: String,
    },
    /// A protocol's number is out of its range.
    #[error("route {route}: {field} must be {rule}, got {value}")]
    Protocol {
        /// The number the route would have had.
        route: RouteId,
        /// The field of [`Protocol`].
        field: &'static str,
        /// What would be right.
        rule: &'static str,
        /// What was given.
        value: f64,
    },
    /// A fat tree of this size cannot be built.
    #[error(
        "a fat tree of {arity}-port switches takes 1 to {hosts} nodes (arity even), got {nodes}"
    )]
    FatTree {
        /// Ports of a switch.
        arity: usize,
        /// Nodes that fit: arity³ / 4.
        hosts: usize,
        /// Nodes that were given.
        nodes: usize,
    },
}

/// A directed link.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its name in errors and reports.
    pub name: String,
    capacity: Rate,
}

impl Link {
    /// Bytes per second it carries at most.
    pub fn capacity_bytes_per_s(&self) -> f64 {
        quantity::bytes_per_s(self.capacity)
    }

    pub(super) fn capacity(&self) -> Rate {
        self.capacity
    }
}

/// What a transport makes of the links under it.
///
/// TCP, RDMA and GPUDirect differ in these numbers and in the links of the route: GPUDirect leaves
/// out host memory. Several NICs that one flow is striped over are one link of their summed
/// capacity; where a transport does not stripe, the flow's cap is the rate of one NIC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Protocol {
    /// Payload as a share of what is carried without the messages' overhead, in (0, 1], to 10⁻⁶.
    pub efficiency: f64,
    /// Bytes per second of one flow at most (one core's copies, one connection's window, one NIC);
    /// counted with all overheads. `None`: only links limit it.
    pub flow_cap_bytes_per_s: Option<f64>,
    /// Payload of one message (a KV block of a layer, a TCP segment); `None`: one message a chunk.
    pub message_bytes: Option<u64>,
    /// Bytes carried beside the payload of each message.
    pub message_overhead_bytes: u64,
}

impl Default for Protocol {
    /// Every byte carried is payload, and only links limit a flow.
    fn default() -> Self {
        Self {
            efficiency: 1.0,
            flow_cap_bytes_per_s: None,
            message_bytes: None,
            message_overhead_bytes: 0,
        }
    }
}

/// How flows get from one place to another.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Route {
    /// The links, each at most once; their order does not matter.
    pub links: Vec<LinkId>,
    /// Paid once, before the first byte flows.
    pub latency: SimDuration,
    /// The transport.
    pub protocol: Protocol,
}

/// A route whose numbers are checked and counted in whole units.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub links: Box<[LinkId]>,
    pub latency: SimDuration,
    pub cap: Rate,
    efficiency_ppm: u64,
    message_bytes: u64,
    message_overhead_bytes: u64,
}

const MILLION: f64 = 1e6;

impl Path {
    /// What the links carry for `bytes` of payload that are handed over at once.
    pub(super) fn work(&self, bytes: u64) -> Work {
        let messages = bytes.div_ceil(self.message_bytes);
        let overhead = Work::from(messages) * Work::from(self.message_overhead_bytes);
        let carried = Work::from(bytes) * WORK_PER_BYTE;
        let carried = match self.efficiency_ppm {
            1_000_000 => carried,
            ppm => (carried * 1_000_000).div_ceil(Work::from(ppm)),
        };
        carried + overhead * WORK_PER_BYTE
    }
}

/// Links and routes, numbered from zero in the order they were added.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    links: Vec<Link>,
    paths: Vec<Path>,
}

impl Topology {
    /// Adds a directed link.
    ///
    /// # Errors
    /// When the capacity is not a rate between 1 byte/s and 281 TB/s.
    pub fn add_link(
        &mut self,
        name: impl Into<String>,
        capacity_bytes_per_s: f64,
    ) -> Result<LinkId, TopologyError> {
        let name = name.into();
        let Some(capacity) = quantity::rate(capacity_bytes_per_s) else {
            return Err(TopologyError::Capacity { link: name, bytes_per_s: capacity_bytes_per_s });
        };
        self.links.push(Link { name, capacity });
        Ok(LinkId::from_index(self.links.len() - 1))
    }

    /// Adds a route.
    ///
    /// # Errors
    /// When it has no link, one that is unknown or one twice, or its protocol is out of range.
    pub fn add_route(&mut self, route: &Route) -> Result<RouteId, TopologyError> {
        let id = RouteId::from_index(self.paths.len());
        self.check_links(id, &route.links)?;
        let wrong = |field, rule, value| TopologyError::Protocol { route: id, field, rule, value };
        let protocol = &route.protocol;
        let efficiency_ppm = (protocol.efficiency * MILLION).round();
        if !(1.0..=MILLION).contains(&efficiency_ppm) {
            return Err(wrong("efficiency", "above 0 and at most 1", protocol.efficiency));
        }
        let cap = protocol.flow_cap_bytes_per_s.map_or(Ok(Rate::MAX), |cap| {
            quantity::rate(cap)
                .ok_or_else(|| wrong("flow_cap_bytes_per_s", "1 byte/s to 281 TB/s", cap))
        })?;
        if protocol.message_bytes == Some(0) {
            return Err(wrong("message_bytes", "at least 1", 0.0));
        }
        self.paths.push(Path {
            links: route.links.as_slice().into(),
            latency: route.latency,
            cap,
            efficiency_ppm: efficiency_ppm as u64,
            message_bytes: protocol.message_bytes.unwrap_or(u64::MAX),
            message_overhead_bytes: protocol.message_overhead_bytes,
        });
        Ok(id)
    }

    fn check_links(&self, route: RouteId, links: &[LinkId]) -> Result<(), TopologyError> {
        if links.is_empty() {
            return Err(TopologyError::NoLink { route });
        }
        for (index, link) in links.iter().enumerate() {
            let Some(known) = self.links.get(link.index()) else {
                let links = self.links.len();
                return Err(TopologyError::UnknownLink { route, link: *link, links });
            };
            if links[..index].contains(link) {
                return Err(TopologyError::RepeatedLink { route, name: known.name.clone() });
            }
        }
        Ok(())
    }

    /// The links, in the order of their ids.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    pub(super) fn paths(&self) -> &[Path] {
        &self.paths
    }
}
