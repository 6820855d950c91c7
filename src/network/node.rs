//! The links of one node.

use crate::ids::LinkId;
use crate::network::topology::{Topology, TopologyError};

/// Capacities of a node's links, in bytes per second, in each direction where there are two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NodeRates {
    /// All NICs together.
    pub nic: f64,
    /// PCIe between GPUs and the rest of the node, all GPUs together.
    pub pcie: f64,
    /// NVLink between the GPUs of the node, all GPUs together; `None` without NVLink.
    pub nvlink: Option<f64>,
    /// Host memory, reads and writes together.
    pub host_memory: f64,
    /// Reads from disk, and as much for writes; `None` without a disk.
    pub disk: Option<f64>,
}

/// A node's links. Each direction is a link of its own, but for NVLink inside the node and host
/// memory, which all transfers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// From the node to the network.
    pub nic_out: LinkId,
    /// From the network to the node.
    pub nic_in: LinkId,
    /// From GPUs to host or NIC.
    pub pcie_from_gpu: LinkId,
    /// From host or NIC to GPUs.
    pub pcie_to_gpu: LinkId,
    /// From GPU to GPU.
    pub nvlink: Option<LinkId>,
    /// In and out of host memory.
    pub host_memory: LinkId,
    /// From disk to host memory.
    pub disk_read: Option<LinkId>,
    /// From host memory to disk.
    pub disk_write: Option<LinkId>,
}

/// Whether bytes between a GPU and the network rest in host memory on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Staging {
    /// GPU memory to NIC directly (GPUDirect RDMA).
    Direct,
    /// Through a buffer in host memory (TCP, RDMA from host memory).
    Host,
}

impl Node {
    /// Adds the links of a node.
    ///
    /// # Errors
    /// When a capacity is not a rate; the link is named after the node.
    pub fn add(
        topology: &mut Topology,
        name: &str,
        rates: &NodeRates,
    ) -> Result<Self, TopologyError> {
        let mut link = |kind: &str, rate| topology.add_link(format!("{name} {kind}"), rate);
        Ok(Self {
            nic_out: link("NIC out", rates.nic)?,
            nic_in: link("NIC in", rates.nic)?,
            pcie_from_gpu: link("PCIe from GPU", rates.pcie)?,
            pcie_to_gpu: link("PCIe to GPU", rates.pcie)?,
            nvlink: rates.nvlink.map(|rate| link("NVLink", rate)).transpose()?,
            host_memory: link("host memory", rates.host_memory)?,
            disk_read: rates.disk.map(|rate| link("disk read", rate)).transpose()?,
            disk_write: rates.disk.map(|rate| link("disk write", rate)).transpose()?,
        })
    }

    /// From GPU memory to host memory: KV blocks that are offloaded.
    pub fn gpu_to_host(&self) -> Vec<LinkId> {
        vec![self.pcie_from_gpu, self.host_memory]
    }

    /// From host memory to GPU memory: KV blocks, adapters and weights that are loaded.
    pub fn host_to_gpu(&self) -> Vec<LinkId> {
        vec![self.host_memory, self.pcie_to_gpu]
    }

    /// From disk to GPU memory; `None` without a disk.
    pub fn disk_to_gpu(&self) -> Option<Vec<LinkId>> {
        self.disk_read.map(|disk| vec![disk, self.host_memory, self.pcie_to_gpu])
    }

    /// From the GPUs of this node to those of `to`, through a network whose links between the two
    /// NICs are `between`: none for a switch that does not block.
    pub fn gpu_to_gpu(&self, to: &Self, between: &[LinkId], staging: Staging) -> Vec<LinkId> {
        let staged = |node: &Self| (staging == Staging::Host).then_some(node.host_memory);
        let mut links = vec![self.pcie_from_gpu];
        links.extend(staged(self));
        links.push(self.nic_out);
        links.extend(between);
        links.push(to.nic_in);
        links.extend(staged(to));
        links.push(to.pcie_to_gpu);
        links
    }
}
