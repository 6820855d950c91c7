//! Schedulers: who computes how many tokens in the next step. One policy, one file or folder.
//!
//! A scheduler owns its queues and its KV memory. It knows no clock but the moment it is handed,
//! and it never acts on a request's true length before its last token is out.

mod baseline;
mod custom;
mod dispatch;
mod doorkeeper;
mod faster_transformer;
mod handed;
mod orca;
mod orca_lora;
mod ranks;
mod sarathi;
mod sglang;
mod static_batch;
mod vllm_v0;
mod vllm_v1;

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::{Adapters, Finish, Life, StepPlan, StepResult, Tiers};
use crate::cost::StepShape;
use crate::ids::RequestId;
use crate::kv::CacheContent;
use crate::request::{Request, RequestView, Segment};
use crate::units::SimTime;

pub use custom::CustomSchedule;
pub use dispatch::{Dispatch, LeastScore};
pub use doorkeeper::{Admit, Doorkeeper, Held};
pub use faster_transformer::FasterTransformer;
pub use orca::Orca;
pub use orca_lora::{OrcaLora, StepSeconds};
pub use ranks::Ranks;
pub use sarathi::Sarathi;
pub use sglang::Sglang;
pub use static_batch::StaticBatch;
pub use vllm_v0::VllmV0;
pub use vllm_v1::{Acceptance, KvRole, VllmV1};

/// The schedulers of the project.
#[derive(Debug, Clone)]
pub enum Scheduler {
    /// vLLM's V1 scheduler.
    VllmV1(Box<VllmV1>),
    /// SGLang's scheduler.
    Sglang(Box<Sglang>),
    /// vLLM's scheduler before V1.
    VllmV0(Box<VllmV0>),
    /// Sarathi-Serve's scheduler.
    Sarathi(Box<Sarathi>),
    /// Orca's scheduler.
    Orca(Box<Orca>),
    /// The same with LoRA adapters.
    OrcaLora(Box<OrcaLora>),
    /// Batches of requests without newcomers.
    FasterTransformer(Box<FasterTransformer>),
    /// Padded batches.
    StaticBatch(Box<StaticBatch>),
    /// Data-parallel ranks of one of these.
    Ranks(Box<Ranks>),
    /// A scheduler of the library's user.
    Custom(Box<dyn CustomSchedule>),
}

impl Scheduler {
    /// A scheduler of one's own. What it cannot do it must say by not finding it in its scenario: KV memory
    /// below the GPU is there only if it has [`Schedule::tiers`], hand-overs come by
    /// [`Schedule::enqueue`], data-parallel ranks are not made of it.
    pub fn custom(scheduler: impl Schedule + Clone + 'static) -> Self {
        Self::Custom(Box::new(scheduler))
    }
}

/// Which part of a request another machine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Handoff {
    /// None: it is prefilled and decoded here.
    #[default]
    None,
    /// It was prefilled elsewhere; its KV is fetched before it decodes here.
    PrefilledElsewhere,
    /// It is decoded elsewhere; its KV stays here until it has been fetched.
    DecodedElsewhere,
}

/// How many requests stand where, and what memory is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Requests that wait to be admitted, those that load their KV included.
    pub waiting: u32,
    /// Requests admitted.
    pub running: u32,
    /// Blocks of KV memory that requests can hold.
    pub kv_blocks: u32,
    /// Blocks that no request holds, those with cached content included.
    pub kv_blocks_free: u32,
    /// Blocks of requests that have left, each counted for every one of them: others have not fetched
    /// them yet, or a step in flight may write to them.
    pub kv_blocks_lingering: u32,
}

impl Load {
    /// Blocks that requests hold.
    pub fn kv_blocks_held(&self) -> u32 {
        self.kv_blocks - self.kv_blocks_free
    }

    /// The share of the blocks that requests hold; 0 where memory is not counted.
    pub fn kv_utilization(&self) -> f64 {
        if self.kv_blocks == 0 {
            return 0.0;
        }
        f64::from(self.kv_blocks_held()) / f64::from(self.kv_blocks)
    }
}

/// Steps that decode only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quiet {
    /// How many there are at most.
    pub steps: u64,
    /// The shape of the first; in each further one, every context is a token longer.
    pub shape: StepShape,
    /// Waiting requests that are passed over in each.
    pub passed_over: u32,
}

/// Some of them, as they were run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietSteps {
    /// Steps decided.
    pub decided: u64,
    /// Outcomes of the oldest steps in flight that come in: as many, or one fewer.
    pub outcomes: u64,
    /// KV blocks that the steps decided take together.
    pub claims: u32,
    /// When the last outcome came in.
    pub completed: SimTime,
}

/// What an instance asks of a scheduler.
pub trait Schedule: fmt::Debug + Send {
    /// It is `now`, before what happens next.
    fn now(&mut self, _now: SimTime) {}

    /// A request arrives.
    ///
    /// # Errors
    /// [`Finish::Rejected`] when the engine refuses it.
    fn enqueue(&mut self, id: RequestId, request: &Request, handoff: Handoff)
    -> Result<(), Finish>;

    /// A request goes on here that another engine has begun.
    fn adopt(&mut self, life: Life, _request: &Request) {
        unreachable!("request {}: this scheduler takes over no requests", life.id);
    }

    /// A client goes away; the request, if it is still here, is added to the result.
    fn abort(&mut self, id: RequestId, result: &mut StepResult);

    /// Whether the outcome of a step is taken in before what clients did while it ran.
    fn reads_outcomes_first(&self) -> bool {
        false
    }

    /// A KV transfer of a request has ended; usable from the next [`schedule`](Self::schedule) on.
    /// Requests that may leave by that are added to the result.
    fn transferred(&mut self, id: RequestId, result: &mut StepResult);

    /// Whether the KV of a request is fetched from here.
    fn sends(&self, _id: RequestId) -> bool {
        false
    }

    /// Whether steps wait for KV that is being fetched: what clients do is read after that.
    fn is_fetching(&self) -> bool {
        false
    }

    /// Whether the KV of a request is among that.
    fn fetches(&self, _id: RequestId) -> bool {
        false
    }

    /// Whether the end of a transfer is learned with the outcome of a step, or between steps where none
    /// is in flight.
    fn reads_transfers_last(&self) -> bool {
        false
    }

    /// A KV transfer of a request will not end; it is admitted as one that computes its prompt here.
    fn lost_transfer(&mut self, id: RequestId) {
        unreachable!("request {id}: this scheduler loads no KV");
    }

    /// Forgets cached content that no request holds.
    fn lose_cache(&mut self) {}

    /// The clock goes back to zero, with nothing in the engine but what it caches.
    fn rewind_clock(&mut self) {}

    /// Whether the KV of requests has come that do not decode yet.
    fn has_landed(&self) -> bool {
        false
    }

    /// Requests whose KV has come decode from the next step on; tokens that came with it are added to
    /// the result, as are those that need no more.
    fn land(&mut self, _now: SimTime, _result: &mut StepResult) {}

    /// Decides the next step.
    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan);

    /// Takes in the outcome of the oldest step in flight.
    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult);

    /// Steps that would be decided one after the other exactly like the last one, every request
    /// decoding one token and none finishing, if nothing came from outside; `None` if there are
    /// none, or the scheduler cannot tell.
    fn quiet(&mut self) -> Option<Quiet> {
        None
    }

    /// KV blocks that each of so many of those steps takes, in `claims`.
    fn quiet_claims(&self, steps: usize, claims: &mut Vec<u32>) {
        claims.clear();
        claims.resize(steps, 0);
    }

    /// Whether nothing follows from the outcome of a step in flight but that first tokens come out, so
    /// that [`quiet`](Self::quiet) steps can be told ahead of it.
    fn is_foreseen(&self, _plan: &StepPlan) -> bool {
        false
    }

    /// Decides steps of those, and takes in outcomes of steps that decoded the same requests.
    fn run_quiet(&mut self, _run: QuietSteps) {
        unreachable!("a scheduler without quiet steps runs none");
    }

    /// When an idle engine wants to decide again although nothing came from outside; `None` if it
    /// waits for requests only.
    fn waits_until(&self) -> Option<SimTime> {
        None
    }

    /// KV memory below that of the GPUs, if it has some.
    fn tiers(&mut self) -> Option<&mut Tiers> {
        None
    }

    /// Queues and memory.
    fn load(&self) -> Load;

    /// Its adapters, if it serves any.
    fn adapters(&self) -> Option<&Adapters> {
        None
    }

    /// The longest sequence that waits to be admitted, in tokens; 0 where none does, or it is not told.
    fn longest_waiting(&self) -> u32 {
        0
    }

    /// The most tokens that a step computes, single long prompts aside.
    fn token_budget(&self) -> u32 {
        u32::MAX
    }

    /// Somebody looks at the cache from outside: makes findable what is computed of the answers that these
    /// runs quote; of all answers where it is not known who will ask.
    fn show_cache(&mut self, _quoted: Option<&[Segment]>) {}

    /// How many tokens of a prompt its cache holds.
    fn cached_tokens(&self, _request: RequestView<'_>) -> u32 {
        0
    }

    /// What its cache holds.
    fn cache(&self) -> CacheContent {
        CacheContent::Nothing
    }

    /// A request that has not left.
    fn life(&self, id: RequestId) -> Option<Life>;

    /// The request that is next to be admitted, if the order of admission is a queue.
    fn head(&self) -> Option<RequestId>;

    /// Whether requests displace each other again and again without a token coming out, so that
    /// the engine rests until something comes from outside.
    fn displaces_in_vain(&self) -> bool {
        false
    }

    /// Steps that may be in flight at once: 2 when the next step is decided while one runs.
    fn steps_in_flight_max(&self) -> usize;

    /// Whether memory adds up: every block is held, cached or free (law L3).
    fn is_balanced(&self) -> bool;
}

/// Repeats a list with this period up to `len`.
fn repeat(list: &mut Vec<u32>, period: usize, len: usize) {
    while list.len() < len {
        list.extend_from_within(..period.min(len - list.len()));
    }
}

impl Deref for Scheduler {
    type Target = dyn Schedule;
    fn deref(&self) -> &Self::Target {
        match self {
            Self::VllmV1(scheduler) => scheduler.as_ref(),
            Self::Sglang(scheduler) => scheduler.as_ref(),
            Self::VllmV0(scheduler) => scheduler.as_ref(),
            Self::Sarathi(scheduler) => scheduler.as_ref(),
            Self::Orca(scheduler) => scheduler.as_ref(),
            Self::OrcaLora(scheduler) => scheduler.as_ref(),
            Self::FasterTransformer(scheduler) => scheduler.as_ref(),
            Self::StaticBatch(scheduler) => scheduler.as_ref(),
            Self::Ranks(scheduler) => scheduler.as_ref(),
            Self::Custom(scheduler) => scheduler.as_ref(),
        }
    }
}

impl DerefMut for Scheduler {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::VllmV1(scheduler) => scheduler.as_mut(),
            Self::Sglang(scheduler) => scheduler.as_mut(),
            Self::VllmV0(scheduler) => scheduler.as_mut(),
            Self::Sarathi(scheduler) => scheduler.as_mut(),
            Self::Orca(scheduler) => scheduler.as_mut(),
            Self::OrcaLora(scheduler) => scheduler.as_mut(),
            Self::FasterTransformer(scheduler) => scheduler.as_mut(),
            Self::StaticBatch(scheduler) => scheduler.as_mut(),
            Self::Ranks(scheduler) => scheduler.as_mut(),
            Self::Custom(scheduler) => scheduler.as_mut(),
        }
    }
}
