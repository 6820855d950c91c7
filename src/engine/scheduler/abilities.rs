//! What some schedulers can do and others cannot. [`Schedule`](super::Schedule) asks for each, and has no answer of
//! its own: a scheduler says what it has, and one that stands before another says what becomes of it.

use super::{Quiet, QuietSteps};
use crate::engine::{Adapters, Life, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::kv::{CacheContent, CacheEvent};
use crate::request::{Request, RequestView, Segment};
use crate::units::SimTime;

/// It takes part in KV transfers: requests come that were prefilled elsewhere, go that are decoded elsewhere, or wait
/// for KV from memory below that of the GPUs.
pub trait TransfersKv {
    /// A KV transfer of a request has ended; usable from the next [`schedule`](super::Schedule::schedule) on.
    /// Requests that may leave by that are added to the result.
    fn transferred(&mut self, id: RequestId, result: &mut StepResult);

    /// A KV transfer of a request will not end; it is admitted as one that computes its prompt here.
    fn lost_transfer(&mut self, id: RequestId);

    /// Whether the KV of a request is fetched from here.
    fn sends(&self, id: RequestId) -> bool;

    /// Whether steps wait for KV that is being fetched: what clients do is read after that.
    fn is_fetching(&self) -> bool;

    /// Whether the KV of a request is among that.
    fn fetches(&self, id: RequestId) -> bool;

    /// Whether the end of a transfer is learned with the outcome of a step, or between steps where none
    /// is in flight.
    fn reads_transfers_last(&self) -> bool;

    /// Whether the KV of requests has come that do not decode yet.
    fn has_landed(&self) -> bool;

    /// Requests whose KV has come decode from the next step on; tokens that came with it are added to
    /// the result, as are those that need no more.
    fn land(&mut self, now: SimTime, result: &mut StepResult);
}

/// It can tell steps ahead in which nothing is decided, and run them in one go.
pub trait RunsQuiet {
    /// Steps that would be decided one after the other exactly like the last one, every request
    /// decoding one token and none finishing, if nothing came from outside; `None` if there are
    /// none, or it cannot tell.
    fn quiet(&mut self) -> Option<Quiet>;

    /// KV blocks that each of so many of those steps takes, in `claims`.
    fn quiet_claims(&mut self, steps: usize, claims: &mut Vec<u32>);

    /// Whether nothing follows from the outcome of a step in flight but that first tokens come out, so
    /// that [`quiet`](Self::quiet) steps can be told ahead of it.
    fn is_foreseen(&mut self, plan: &StepPlan) -> bool;

    /// Decides steps of those, and takes in outcomes of steps that decoded the same requests.
    fn run_quiet(&mut self, run: QuietSteps);
}

/// It keeps LoRA adapters in slots, and serves requests that need one.
pub trait HoldsAdapters {
    /// Where they are.
    fn held(&self) -> &Adapters;

    /// The longest sequence that waits to be admitted, in tokens; 0 where none does.
    fn longest_waiting(&self) -> u32;
}

/// Its requests can move between engines while they are served.
pub trait Migrates {
    /// A request goes on here that another engine has begun: it has its prompt and the tokens that came out,
    /// and none of its KV.
    fn adopt(&mut self, life: Life, request: &Request);
}

/// It finds prompts again that it has computed, and can be asked for that from outside.
pub trait CachesPrefixes {
    /// How many tokens of a prompt its cache holds.
    fn cached_tokens(&self, request: RequestView<'_>) -> u32;

    /// What its cache holds.
    fn content(&self) -> CacheContent;

    /// Somebody looks at the cache from outside: makes findable what is computed of the answers that these
    /// runs quote; of all answers where it is not known who will ask.
    fn show(&mut self, quoted: Option<&[Segment]>);

    /// KV blocks that requests can take before cached content is forgotten, as far as is known.
    fn takes_without_loss(&self) -> u32;

    /// Forgets cached content that no request holds.
    fn lose(&mut self);

    /// Tells from now on what its cache comes to hold and forgets, and whether it can.
    fn tell_events(&mut self) -> bool;

    /// The same, where what requests that decode in lock step leave is told when it is shown, or when they leave.
    fn tell_events_shown(&mut self) -> bool;

    /// What that is since it was asked last, in order.
    fn take_events(&mut self) -> Vec<CacheEvent>;

    /// Quiet steps that are not told of yet have taken so many further KV blocks: tells what that has it forget, and
    /// whether it can.
    fn foretell(&mut self, blocks: u32) -> bool;
}

/// The answers of a [`Schedule`](super::Schedule) that has none of these.
macro_rules! no_abilities {
    () => {
        fn kv_transfers(&mut self) -> Option<&mut dyn $crate::engine::scheduler::TransfersKv> {
            None
        }

        fn quiet_runs(&mut self) -> Option<&mut dyn $crate::engine::scheduler::RunsQuiet> {
            None
        }

        fn adapters(&self) -> Option<&dyn $crate::engine::scheduler::HoldsAdapters> {
            None
        }

        fn migration(&mut self) -> Option<&mut dyn $crate::engine::scheduler::Migrates> {
            None
        }

        fn prefix_cache(&self) -> Option<&dyn $crate::engine::scheduler::CachesPrefixes> {
            None
        }

        fn prefix_cache_mut(
            &mut self,
        ) -> Option<&mut dyn $crate::engine::scheduler::CachesPrefixes> {
            None
        }

        fn tiers(&mut self) -> Option<&mut $crate::engine::Tiers> {
            None
        }
    };
}
pub(super) use no_abilities;
