//! Groups of layers that keep different things in KV memory, as vLLM's hybrid KV cache manager makes them
//! (vLLM 0.33.0, `vllm/v1/core/kv_cache_utils.py`). All of them take their blocks from one pool.

/// What the layers of a group keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    /// Keys and values of the whole context.
    Full,
    /// Keys and values of a window of so many tokens.
    Sliding {
        /// Tokens that a token sees, itself included.
        window: u32,
    },
    /// Keys and values of the chunk of so many tokens that a token is in.
    Chunked {
        /// Tokens of a chunk.
        chunk: u32,
    },
    /// One state (`mamba_cache_mode` `none`).
    State,
    /// The state at the end of every step's share, which ends at a block where it can (`mamba_cache_mode`
    /// `align`).
    AlignedState,
}

/// A group of layers that share their blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSpec {
    /// What they keep.
    pub kind: GroupKind,
    /// Tokens of a block.
    pub block_size: u32,
    /// Layers.
    pub layers: u32,
    /// Bytes of a block and layer, the same in all groups of a model.
    pub page_bytes: u64,
}

impl GroupSpec {
    /// Whether blocks of both are found together: layers of the same kind and size.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.kind, self.block_size, self.page_bytes)
            == (other.kind, other.block_size, other.page_bytes)
    }
}

/// The groups of a model, in vLLM's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    specs: Vec<GroupSpec>,
    retention_interval: Option<u32>,
    scheduler_block: u32,
    hash_block: u32,
    checkpoints: bool,
}

impl Groups {
    /// Groups in vLLM's order. Of windows and states what is needed to go on from the end of a prompt, or from
    /// where prompts part, can be found again, and beside it what ends every `retention_interval` tokens, with
    /// 0 none, and without one all of it (`prefix_cache_retention_interval`).
    ///
    /// # Panics
    /// When there are no groups, or one has blocks, a window or chunks without tokens.
    pub fn new(specs: Vec<GroupSpec>, retention_interval: Option<u32>) -> Self {
        let has_tokens = |spec: &GroupSpec| {
            let seen = match spec.kind {
                GroupKind::Sliding { window } => window,
                GroupKind::Chunked { chunk } => chunk,
                _ => 1,
            };
            spec.block_size > 0 && seen > 0
        };
        assert!(!specs.is_empty() && specs.iter().all(has_tokens), "groups have tokens: {specs:?}");
        let sizes = || specs.iter().map(|spec| spec.block_size);
        let scheduler_block = sizes().fold(1, |lcm, size| lcm / gcd(lcm, size) * size);
        // Without a prefix cache nothing is hashed.
        let is_hashed = specs.iter().all(|spec| spec.kind != GroupKind::State);
        let hash_block = if is_hashed { sizes().fold(0, gcd) } else { scheduler_block };
        Self { specs, retention_interval, scheduler_block, hash_block, checkpoints: false }
    }

    /// The same, whose kernels also give the state at the last block boundary inside a share: one block more,
    /// and shares do not have to end there.
    #[must_use]
    pub fn with_checkpoints(mut self) -> Self {
        self.checkpoints = true;
        self
    }

    /// Whether states inside a share are kept.
    pub fn has_checkpoints(&self) -> bool {
        self.checkpoints
    }

    /// The groups.
    pub fn specs(&self) -> &[GroupSpec] {
        &self.specs
    }

    /// Tokens after each of which a window or a state is kept to be found again; none where all are, 0 where those
    /// alone are that prompts need.
    pub fn retention_interval(&self) -> Option<u32> {
        self.retention_interval
    }

    /// Tokens in which shares and hits are counted: a multiple of every block size.
    pub fn scheduler_block(&self) -> u32 {
        self.scheduler_block
    }

    /// Tokens that a hash of content covers: a part of every block.
    pub fn hash_block(&self) -> u32 {
        self.hash_block
    }

    /// Whether they are one group of layers that see everything.
    pub fn is_plain(&self) -> bool {
        matches!(self.specs[..], [GroupSpec { kind: GroupKind::Full, .. }])
    }

    /// Tokens of the blocks at whose ends shares of prompts end, if there are any.
    pub fn aligned_to(&self) -> Option<u32> {
        let aligned = |spec: &&GroupSpec| spec.kind == GroupKind::AlignedState;
        self.specs.iter().find(aligned).map(|spec| spec.block_size)
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
