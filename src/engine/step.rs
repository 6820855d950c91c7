//! A step as planned and as it turned out.

use crate::cost::{RankStep, StepShape};
use crate::ids::{AdapterId, RequestId};
use crate::kv::BlockId;
use crate::units::{SimDuration, SimTime};

use super::{AdapterLoads, DraftCounts, Finish, Life};

/// How a request comes to be in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// It was running already.
    Running,
    /// It is admitted for the first time.
    New,
    /// It is admitted again after a preemption.
    Resumed,
}

/// One request's share of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Whose share.
    pub request: RequestId,
    /// Its place in the scheduler's arena.
    pub slot: u32,
    /// Tokens computed, drafts included.
    pub tokens: u32,
    /// Tokens computed before.
    pub computed: u32,
    /// Drafts verified.
    pub drafts: u32,
    /// How it comes to be here.
    pub kind: EntryKind,
    /// Whether its last row yields a token.
    pub samples: bool,
}

/// Where the adapters of a step are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    /// Apart from the weights: each request's own is computed beside them.
    #[default]
    Unmerged,
    /// Added to the weights: that of all requests of the step. Without one, the weights are those of the
    /// model, and no request of the step uses any.
    Merged(Option<AdapterId>),
}

impl Execution {
    /// The adapter in the weights.
    pub fn merged(self) -> Option<AdapterId> {
        match self {
            Self::Unmerged => None,
            Self::Merged(adapter) => adapter,
        }
    }
}

/// What a scheduler decided for one step. Buffers are reused from step to step.
#[derive(Debug, Clone, Default)]
pub struct StepPlan {
    /// The shares, in the order of the batch.
    pub entries: Vec<Entry>,
    /// Further requests that decode one token each, in lock step, before those of `entries`.
    pub decodes: u32,
    /// Their shares one by one, if the scheduler was asked to record them.
    pub decode_entries: Vec<Entry>,
    /// The shape that a cost model prices.
    pub shape: StepShape,
    /// Requests that lost their memory, in order.
    pub preempted: Vec<RequestId>,
    /// Cache hits in tokens of each request admitted.
    pub hits: Vec<(RequestId, u32)>,
    /// Requests that end here, without a step: their client left while they were in chunked prefill,
    /// or memory does not suffice for them.
    pub ended: Vec<(Life, Finish)>,
    /// Requests that start to load their KV from another machine or a tier below, with the tokens to load.
    pub loads: Vec<(RequestId, u32)>,
    /// What each data-parallel rank does of it, where there are several.
    pub ranks: Vec<RankStep>,
    /// Since when the engine has done nothing but fetch KV for the step.
    pub fetching_since: Option<SimTime>,
    /// How long the device waits before it, for blocks that are still being read.
    pub stall: SimDuration,
    /// Adapters that have to be loaded before the step.
    pub adapter_loads: AdapterLoads,
    /// Where the adapters are.
    pub execution: Execution,
    /// Times that an adapter is added to the weights or taken out of them before the step.
    pub merges: u32,
    /// Waiting requests that were passed over because their adapters get no slot.
    pub passed_over: u32,
    /// Images whose embeddings are computed, by their index in each request.
    pub encoded: Vec<(RequestId, Vec<u32>)>,
    /// Blocks newly owned, if the scheduler was asked to record them: all blocks of a request
    /// admitted, the new ones of one that was running; of each group of layers, where there are several.
    pub blocks: Vec<(RequestId, Vec<Vec<BlockId>>)>,
}

impl StepPlan {
    /// Forgets the plan and keeps its buffers.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.decodes = 0;
        self.decode_entries.clear();
        self.shape = StepShape::seeing(self.shape.prefill_window);
        self.preempted.clear();
        self.ended.clear();
        self.hits.clear();
        self.loads.clear();
        self.ranks.clear();
        self.fetching_since = None;
        self.passed_over = 0;
        self.stall = SimDuration::ZERO;
        self.execution = Execution::default();
        self.merges = 0;
        self.adapter_loads.clear();
        self.encoded.clear();
        self.blocks.clear();
    }

    /// Whether the step computes nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.decodes == 0
    }
}

/// A gap between two tokens of a request, shared by `count` requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenGap {
    /// The gap.
    pub gap: SimDuration,
    /// How many requests saw it.
    pub count: u32,
}

/// What came out of a step. Buffers are reused from step to step.
#[derive(Debug, Clone, Default)]
pub struct StepResult {
    /// Requests that left, in order, and why.
    pub finished: Vec<(Life, Finish)>,
    /// Requests that decode from now on without a step that prefills them.
    pub landed: Vec<RequestId>,
    /// Requests whose first token came out.
    pub first_tokens: Vec<RequestId>,
    /// Tokens that came out.
    pub tokens: u32,
    /// The gaps to the tokens before.
    pub gaps: Vec<TokenGap>,
    /// Drafts verified.
    pub drafts: DraftCounts,
}

impl StepResult {
    /// Forgets the result and keeps its buffers.
    pub fn clear(&mut self) {
        self.finished.clear();
        self.landed.clear();
        self.first_tokens.clear();
        self.tokens = 0;
        self.gaps.clear();
        self.drafts.clear();
    }

    /// Counts one token each of `count` requests, `gap` after the ones before.
    #[inline]
    pub fn count_tokens(&mut self, gap: SimDuration, count: u32) {
        if count > 0 {
            self.tokens += count;
            self.gaps.push(TokenGap { gap, count });
        }
    }

    /// Counts one token of a request, `gap` after the one before.
    #[inline]
    pub fn count_token(&mut self, request: RequestId, gap: Option<SimDuration>) {
        self.tokens += 1;
        match (gap, self.gaps.last_mut()) {
            (None, _) => self.first_tokens.push(request),
            (Some(gap), Some(last)) if last.gap == gap => last.count += 1,
            (Some(gap), _) => self.gaps.push(TokenGap { gap, count: 1 }),
        }
    }
}
