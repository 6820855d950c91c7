//! A request inside vLLM's scheduler.

use super::group::Member;
use super::queue::Key;
use crate::engine::Life;
use crate::engine::scheduler::Handoff;
use crate::ids::{AdapterId, RequestId};
use crate::kv::{BlockTable, ChainHasher, ChunkNames, Lookahead};
use crate::request::{Image, Request};
use crate::units::SimTime;

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Not admitted yet.
    Waiting,
    /// Lost its memory; waits to be admitted again.
    Preempted,
    /// Owns blocks for a KV that is on its way from another machine.
    Loading,
    /// Admitted.
    Running,
    /// Left; its blocks are kept until its KV has been fetched from here or to here.
    Sending,
    /// Left; its blocks are kept until the steps in flight have ended.
    Draining,
    /// Left; its place is vacant.
    Gone,
}

impl Status {
    /// Whether a request has not left.
    pub(super) fn is_here(self) -> bool {
        !matches!(self, Self::Sending | Self::Draining | Self::Gone)
    }
}

/// The order of a request among others of the priority policy: smaller first.
pub(super) type Order = (i32, SimTime, RequestId);

/// What a request waits for beside memory.
#[derive(Debug, Clone)]
pub(super) struct Waits {
    /// When the grammar of its answer is compiled.
    pub(super) grammar_ready: SimTime,
    pub(super) images: Vec<Image>,
}

impl Waits {
    fn of(request: &Request) -> Option<Box<Self>> {
        let inputs = request.inputs.as_ref()?;
        let images = inputs.images.clone();
        Some(Box::new(Self { grammar_ready: SimTime::ZERO, images }))
    }
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub(super) struct Sequence {
    pub(super) life: Life,
    pub(super) status: Status,
    /// Known tokens: the prompt and every answer token that came out.
    pub(super) tokens: u32,
    /// Tokens whose KV is computed or scheduled to be.
    pub(super) computed: u32,
    /// Draft tokens to verify in the next step.
    pub(super) drafts: u32,
    /// Sampled tokens scheduled that have not come out yet (asynchronous scheduling).
    pub(super) placeholders: u32,
    /// Tokens scheduled whose step has not ended.
    pub(super) in_flight: u32,
    /// Of those, tokens scheduled before a preemption: they come out but compute nothing.
    pub(super) stale: u32,
    /// Whether they come out in vain: they are computed again.
    pub(super) drops_stale: bool,
    /// Whether its last share left it short of its last known token.
    pub(super) is_prefill_chunk: bool,
    /// The first decision that may give it another token.
    pub(super) eligible: u64,
    /// Steps in which drafts were verified.
    pub(super) verifications: u32,

    /// Its number in order of admission.
    pub(super) admission: u64,
    /// Where it stands in the group that decodes in lock step; its counters are those of then.
    pub(super) member: Option<Member>,

    /// The blocks it holds. A member of the group is told of those it claims when it leaves.
    pub(super) blocks: BlockTable,
    /// Where the engine has tiers below.
    pub(super) chunks: Option<Box<ChunkNames>>,
    /// Blocks it has of layers with a window, beside those.
    pub(super) windowed: u32,

    pub(super) adapter: Option<AdapterId>,
    pub(super) handoff: Handoff,
    /// What it waits for beside memory, if anything. Beside the sequence: steps look at many of them.
    pub(super) inputs: Option<Box<Waits>>,
    /// Whether the KV it loads has arrived.
    pub(super) has_landed: bool,
    /// Whether it was passed over since it began to wait.
    pub(super) is_deferred: bool,
    /// Whether the blocks that it lacks for its known tokens are kept from loads: since it began to
    /// load, or to prefill in chunks, until it decodes.
    pub(super) holds_promise: bool,
    /// The last step decided when it left, if that or the one before still computed it.
    pub(super) fence: u64,
    priority: i32,
    arrival: SimTime,
}

impl Sequence {
    pub(super) fn new(
        id: RequestId,
        request: &Request,
        handoff: Handoff,
        block_size: u32,
        naming: Lookahead,
    ) -> Self {
        let hasher = ChainHasher::new(
            id,
            &request.content,
            request.prompt_tokens,
            request.adapter,
            block_size,
            naming,
        );
        Self {
            life: Life::new(id, request),
            status: Status::Waiting,
            tokens: request.prompt_tokens,
            computed: 0,
            drafts: 0,
            placeholders: 0,
            in_flight: 0,
            stale: 0,
            drops_stale: false,
            is_prefill_chunk: false,
            eligible: 0,
            verifications: 0,
            admission: 0,
            member: None,
            blocks: BlockTable::new(hasher, request.content.segments.is_none()),
            chunks: None,
            windowed: 0,
            adapter: request.adapter,
            handoff,
            inputs: Waits::of(request),
            has_landed: false,
            is_deferred: false,
            holds_promise: false,
            fence: 0,
            priority: request.priority,
            arrival: request.arrival,
        }
    }

    pub(super) fn order(&self) -> Order {
        (self.priority, self.arrival, self.life.id)
    }

    pub(super) fn key(&self) -> Key {
        Key { order: self.order(), adapter: self.adapter }
    }
}
