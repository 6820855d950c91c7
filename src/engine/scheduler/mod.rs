//! Schedulers: who computes how many tokens in the next step. One policy, one file or folder.
//!
//! A scheduler owns its queues and its KV memory. It knows no clock but the moment it is handed,
//! and it never acts on a request's true length before its last token is out.

mod abilities;
mod backlog;
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
mod settings;
mod sglang;
mod static_batch;
mod vllm_v0;
mod vllm_v1;

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::{Finish, Life, StepPlan, StepResult, Tiers};
use crate::cost::StepShape;
use crate::ids::RequestId;
use crate::request::Request;
use crate::units::SimTime;

pub use abilities::{CachesPrefixes, HoldsAdapters, Migrates, RunsQuiet, TransfersKv};
pub use backlog::Backlog;
pub use custom::{CustomSchedule, KvBlocks, NextStep, SchedulingPolicy};
pub use dispatch::{Dispatch, LeastScore};
pub use doorkeeper::{Admit, Doorkeeper, Held};
pub use faster_transformer::FasterTransformer;
pub use orca::Orca;
pub use orca_lora::{OrcaLora, StepSeconds};
pub use ranks::Ranks;
pub use sarathi::Sarathi;
pub use settings::{
    EngineSettings, FasterTransformerSettings, Memory, OrcaSettings, SarathiSettings,
    StaticBatchingSettings, VllmV0Settings,
};
pub use sglang::{
    Sglang, SglangHybrid, SglangSettings, SglangStatePool, SglangWindowPool, StateStrategy, Stored,
};
pub use static_batch::StaticBatch;
pub use vllm_v0::VllmV0;
pub use vllm_v1::{Acceptance, EncoderSettings, KvRole, OffloadSettings, VllmV1, VllmV1Settings};

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
    /// A scheduler of the library's user, or an engine with a policy of theirs in front.
    Custom(Box<dyn CustomSchedule>),
}

impl Scheduler {
    /// A scheduler of one's own.
    pub fn custom(policy: impl SchedulingPolicy) -> Self {
        Self::Custom(Box::new(custom::Custom::new(policy)))
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

/// What an instance asks of a scheduler. Nothing has a default: a scheduler that stands before another, or is made of
/// others, is not compiled until it says what becomes of each. Only those of the project implement it, for they
/// get [`Request`]s whole; one of the library's user is a [`SchedulingPolicy`].
pub trait Schedule: fmt::Debug + Send + sealed::Own {
    /// It is `now`, before what happens next.
    fn now(&mut self, now: SimTime);

    /// A request arrives.
    ///
    /// # Errors
    /// [`Finish::Rejected`] when the engine refuses it.
    fn enqueue(&mut self, id: RequestId, request: &Request, handoff: Handoff)
    -> Result<(), Finish>;

    /// A client goes away; the request, if it is still here, is added to the result.
    fn abort(&mut self, id: RequestId, result: &mut StepResult);

    /// Decides the next step.
    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan);

    /// Takes in the outcome of the oldest step in flight.
    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult);

    /// Whether the outcome of a step is taken in before what clients did while it ran.
    fn reads_outcomes_first(&self) -> bool;

    /// When an idle engine wants to decide again although nothing came from outside; `None` if it
    /// waits for requests only.
    fn waits_until(&self) -> Option<SimTime>;

    /// The clock goes back to zero, with nothing in the engine but what it caches.
    fn rewind_clock(&mut self);

    /// Queues and memory.
    fn load(&self) -> Load;

    /// What it has to do, if it tells.
    fn backlog(&self) -> Option<Backlog>;

    /// The most tokens that a step computes, single long prompts aside; [`u32::MAX`] where there is no bound.
    fn token_budget(&self) -> u32;

    /// A request that has not left.
    fn life(&self, id: RequestId) -> Option<Life>;

    /// Tells how many tokens of each request that has not left have come out, of those that have some.
    fn answers(&self, tell: &mut dyn FnMut(RequestId, u32));

    /// The request that is next to be admitted, if the order of admission is a queue.
    fn head(&self) -> Option<RequestId>;

    /// Whether requests displace each other again and again without a token coming out, so that
    /// the engine rests until something comes from outside.
    fn displaces_in_vain(&self) -> bool;

    /// Steps that may be in flight at once: 2 when the next step is decided while one runs.
    fn steps_in_flight_max(&self) -> usize;

    /// Whether memory adds up: every block is held, cached or free (law L3).
    fn is_balanced(&self) -> bool;

    /// KV hand-overs and loads, if it takes part in any.
    fn kv_transfers(&mut self) -> Option<&mut dyn TransfersKv>;

    /// Steps in which nothing is decided, if it tells them.
    fn quiet_runs(&mut self) -> Option<&mut dyn RunsQuiet>;

    /// Its adapters, if it serves any.
    fn adapters(&self) -> Option<&dyn HoldsAdapters>;

    /// The way for requests of other engines, if it takes them over.
    fn migration(&mut self) -> Option<&mut dyn Migrates>;

    /// Its cache of prompts, if it has one.
    fn prefix_cache(&self) -> Option<&dyn CachesPrefixes>;

    /// The same, to change it.
    fn prefix_cache_mut(&mut self) -> Option<&mut dyn CachesPrefixes>;

    /// KV memory below that of the GPUs, if it has some.
    fn tiers(&mut self) -> Option<&mut Tiers>;
}

/// Who may know how long an answer will be: a scheduler ends it, as an engine finds the end-of-sequence token.
mod sealed {
    /// The project's own schedulers.
    pub trait Own {}

    impl Own for super::VllmV1 {}
    impl Own for super::Sglang {}
    impl Own for super::VllmV0 {}
    impl Own for super::Sarathi {}
    impl Own for super::Orca {}
    impl Own for super::OrcaLora {}
    impl Own for super::FasterTransformer {}
    impl Own for super::StaticBatch {}
    impl Own for super::Ranks {}
    impl<A> Own for super::Doorkeeper<A> {}
    impl<P> Own for super::custom::Custom<P> {}
}

/// Repeats a list with this period up to `len`.
#[inline]
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
