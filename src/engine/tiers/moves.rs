//! What is on its way between the tiers of an engine.

use super::TierKind;
use crate::ids::RequestId;
use crate::kv::BlockHash;

/// From where to where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierWay {
    /// Host memory to GPU.
    HostToGpu,
    /// Disk to GPU.
    DiskToGpu,
    /// Pool to GPU.
    PoolToGpu,
    /// GPU to host memory, be it kept there or only passes.
    GpuToHost,
    /// Host memory to disk.
    HostToDisk,
    /// Host memory to pool.
    HostToPool,
    /// Disk to pool.
    DiskToPool,
}

impl TierWay {
    /// All ways.
    pub const ALL: [Self; 7] = [
        Self::HostToGpu,
        Self::DiskToGpu,
        Self::PoolToGpu,
        Self::GpuToHost,
        Self::HostToDisk,
        Self::HostToPool,
        Self::DiskToPool,
    ];

    /// As reports spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostToGpu => "host_to_gpu",
            Self::DiskToGpu => "disk_to_gpu",
            Self::PoolToGpu => "pool_to_gpu",
            Self::GpuToHost => "gpu_to_host",
            Self::HostToDisk => "host_to_disk",
            Self::HostToPool => "host_to_pool",
            Self::DiskToPool => "disk_to_pool",
        }
    }

    /// From a tier to the GPU.
    pub(super) fn up(from: TierKind) -> Self {
        match from {
            TierKind::Host => Self::HostToGpu,
            TierKind::Disk => Self::DiskToGpu,
            TierKind::Pool => Self::PoolToGpu,
        }
    }

    /// From a tier to one below.
    pub(super) fn down(from: TierKind, to: TierKind) -> Self {
        match (from, to) {
            (TierKind::Disk, _) => Self::DiskToPool,
            (_, TierKind::Pool) => Self::HostToPool,
            _ => Self::HostToDisk,
        }
    }

    /// The tier that is read; none where the GPU is.
    pub(super) fn from(self) -> Option<TierKind> {
        match self {
            Self::GpuToHost => None,
            Self::HostToGpu | Self::HostToDisk | Self::HostToPool => Some(TierKind::Host),
            Self::DiskToGpu | Self::DiskToPool => Some(TierKind::Disk),
            Self::PoolToGpu => Some(TierKind::Pool),
        }
    }

    /// The tier that keeps what is moved: on the way to the GPU, host memory.
    pub(super) fn to(self) -> TierKind {
        match self {
            Self::HostToGpu | Self::DiskToGpu | Self::PoolToGpu | Self::GpuToHost => TierKind::Host,
            Self::HostToDisk => TierKind::Disk,
            Self::HostToPool | Self::DiskToPool => TierKind::Pool,
        }
    }
}

/// A move that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierMove {
    /// Its number among the moves of its engine.
    pub id: u32,
    /// From where to where.
    pub way: TierWay,
    /// How much.
    pub chunks: u32,
}

/// A request that begins to wait for its KV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierLoad {
    /// Which.
    pub request: RequestId,
    /// Tokens from each tier.
    pub tokens: [u32; TierKind::ALL.len()],
    /// Whether no step has worked on it.
    pub is_first: bool,
}

/// What a move carries.
#[derive(Debug, Clone)]
pub(super) struct Cargo {
    /// Whose load it is, or part of it.
    pub(super) request: Option<RequestId>,
    /// What is read, or comes from the GPU.
    pub(super) names: Vec<BlockHash>,
    /// What has room where it goes.
    pub(super) kept: Vec<BlockHash>,
}

/// The moves of an engine.
#[derive(Debug, Clone, Default)]
pub(super) struct Moves {
    open: Vec<Option<(TierWay, Cargo)>>,
    vacant: Vec<u32>,
    /// Moves of loads that have not ended, by request.
    loading: Vec<RequestId>,
    pub(super) loads: Vec<TierLoad>,
    pub(super) begun: Vec<TierMove>,
    pub(super) evicted: [u64; TierKind::ALL.len()],
}

impl Moves {
    pub(super) fn begin(&mut self, way: TierWay, cargo: Cargo) {
        let chunks = cargo.names.len().max(cargo.kept.len()) as u32;
        self.loading.extend(cargo.request);
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() as u32 - 1
        });
        self.open[id as usize] = Some((way, cargo));
        self.begun.push(TierMove { id, way, chunks });
    }

    pub(super) fn end(&mut self, id: u32) -> (TierWay, Cargo) {
        let (way, cargo) = self.open[id as usize].take().expect("the move has begun");
        self.vacant.push(id);
        if let Some(request) = cargo.request
            && let Some(at) = self.loading.iter().position(|other| *other == request)
        {
            self.loading.swap_remove(at);
        }
        (way, cargo)
    }

    /// Whether a move of a request's load has not ended.
    pub(super) fn has_load(&self, request: RequestId) -> bool {
        self.loading.contains(&request)
    }

    /// All that have not ended.
    pub(super) fn take(&mut self) -> Vec<(TierWay, Cargo)> {
        std::mem::take(self).open.into_iter().flatten().collect()
    }
}
