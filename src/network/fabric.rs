//! Fat trees: networks of equal switches between nodes.
//!
//! A k-ary fat tree has k pods of k/2 edge and k/2 aggregation switches and (k/2)² core switches
//! with k ports each, and takes k³/4 nodes (Al-Fares, Loukissas, Vahdat: A Scalable, Commodity Data
//! Center Network Architecture, SIGCOMM 2008). A single switch that does not block needs no links
//! beside the NICs.

use crate::ids::LinkId;
use crate::network::topology::{Topology, TopologyError};

/// Both directions of a cable.
#[derive(Debug, Clone, Copy)]
struct Cable {
    up: LinkId,
    down: LinkId,
}

/// The links between the switches of a k-ary fat tree. Nodes are numbered from 0 and fill edge
/// switches, then pods, in order; their NICs are the links to the edge switches.
#[derive(Debug, Clone)]
pub struct FatTree {
    /// k / 2.
    half: usize,
    nodes: usize,
    /// Edge to aggregation switch, by pod, edge, aggregation.
    to_aggregation: Vec<Cable>,
    /// Aggregation to core switch, by pod, aggregation, core of that aggregation.
    to_core: Vec<Cable>,
}

impl FatTree {
    /// Adds a tree of `arity`-port switches for `nodes` nodes, all links between switches with the same capacity.
    ///
    /// # Errors
    /// When `arity` is odd or 0, the nodes are none or do not fit, or the capacity is not a rate.
    pub fn add(
        topology: &mut Topology,
        arity: usize,
        nodes: usize,
        bytes_per_s: f64,
    ) -> Result<Self, TopologyError> {
        let half = arity / 2;
        let hosts = 2 * half.pow(3);
        if !arity.is_multiple_of(2) || !(1..=hosts).contains(&nodes) {
            return Err(TopologyError::FatTree { arity, hosts, nodes });
        }
        let mut layer = |lower: &str, upper: &str| {
            let mut cables = Vec::with_capacity(hosts);
            for index in 0..hosts {
                let (pod, from, to) = (index / (half * half), index / half % half, index % half);
                let lower = format!("pod {pod} {lower} {from}");
                let upper = format!("{upper} {to}");
                cables.push(Cable {
                    up: topology.add_link(format!("{lower} to {upper}"), bytes_per_s)?,
                    down: topology.add_link(format!("{lower} from {upper}"), bytes_per_s)?,
                });
            }
            Ok(cables)
        };
        let to_aggregation = layer("edge", "aggregation")?;
        let to_core = layer("aggregation", "core")?;
        Ok(Self { half, nodes, to_aggregation, to_core })
    }

    /// The links between the NICs of two nodes. Of the equal paths, (k/2)² between pods and k/2
    /// inside one, `choice` modulo their number is taken: a hash of the flow for ECMP, the
    /// destination for D-mod-k.
    ///
    /// # Panics
    /// When a node is not of this tree.
    pub fn between(&self, from: usize, to: usize, choice: usize) -> Vec<LinkId> {
        assert!(from.max(to) < self.nodes, "the tree has {} nodes", self.nodes);
        let half = self.half;
        let (from_edge, to_edge) = (from / half, to / half);
        let (from_pod, to_pod) = (from_edge / half, to_edge / half);
        if from_edge == to_edge {
            return Vec::new();
        }
        let aggregation = choice % half;
        let cable = |edge: usize| self.to_aggregation[edge * half + aggregation];
        let (up, down) = (cable(from_edge).up, cable(to_edge).down);
        if from_pod == to_pod {
            return vec![up, down];
        }
        let core = choice / half % half;
        let cable = |pod: usize| self.to_core[(pod * half + aggregation) * half + core];
        vec![up, cable(from_pod).up, cable(to_pod).down, down]
    }
}
