//! What a run tells its observers.

use crate::cluster::{Look, Refusal, Stage, Swap};
use crate::engine::scheduler::Load;
use crate::engine::tiers::{TierKind, TierLoad, TierWay};
use crate::engine::{Batch, Finish, Life, QuietRun, StepPlan, StepResult};
use crate::ids::{InstanceId, RequestId};
use crate::request::Request;
use crate::units::{Bytes, SimTime};

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum Occurrence<'a> {
    /// A request of the workload is due. Ids come in order, without gaps.
    Arrived(RequestId, &'a Request),
    /// A request reaches the gateway, where it may have to wait. Not told where nothing makes requests
    /// wait there: they are sent as they come.
    Reached(RequestId),
    /// It is sent to this instance: by its client, or by the gateway where it had to wait.
    Sent(RequestId, InstanceId),
    /// It entered the queue of an instance, which now carries this load.
    Queued(InstanceId, RequestId, Load),
    /// An instance decided a step.
    Planned(InstanceId, &'a Batch, Load),
    /// Requests lost their memory though no step could be decided.
    Displaced(InstanceId, &'a [RequestId]),
    /// A step ended; the load without the requests that finished in it.
    Stepped(InstanceId, &'a Batch, &'a StepResult, Load),
    /// Requests whose KV has come from elsewhere decode from now on; the tokens that came with it.
    Landed(InstanceId, &'a StepResult, Load),
    /// Steps that only decode were decided and completed, one after the other; told at the end of
    /// the run or when it is interrupted.
    Quiet(InstanceId, &'a QuietRun<'a>),
    /// The prompt of a request is computed; its instance holds the KV for the one that decodes.
    HandedOver(InstanceId, &'a Life),
    /// A request whose prompt is computed is sent on to this instance, which decodes it.
    Forwarded(RequestId, InstanceId),
    /// An instance begins to send the KV of a request whose prompt it has not computed to the end.
    SendingBegan(InstanceId, RequestId),
    /// An instance has blocks for the KV of a request and begins to read so much of it from another; or what
    /// is left of it is sent there, because its prompt is computed.
    TransferBegan(InstanceId, RequestId, Bytes),
    /// The KV of a request has arrived, or is given up: the first instance forgets it.
    Released(InstanceId, RequestId),
    /// A request has blocks for KV that its instance finds in tiers below, and begins to wait for it; the
    /// load of the instance.
    LoadBegan(InstanceId, &'a TierLoad, Load),
    /// That KV has come.
    LoadEnded(InstanceId, RequestId),
    /// So much begins to move between tiers of an instance.
    TierMoved(InstanceId, TierWay, Bytes),
    /// So much gave way in each tier, for what an instance brings there.
    TiersEvicted(InstanceId, [Bytes; TierKind::ALL.len()]),
    /// A request left an instance.
    Left(InstanceId, &'a Life, Finish),
    /// An instance refused a request.
    Refused(InstanceId, RequestId),
    /// The gateway refused a request.
    TurnedAway(RequestId, Refusal),
    /// The client of a request waits for it no longer.
    GaveUp {
        /// Which.
        request: RequestId,
        /// What it came to on its instance, if it reached one.
        life: Option<&'a Life>,
        /// Why.
        finish: Finish,
        /// Whether it will be sent again.
        tries_again: bool,
    },
    /// A request that has just arrived is another one, which was given up, sent again.
    Retried {
        /// The new one.
        retry: RequestId,
        /// The one before.
        of: RequestId,
    },
    /// An instance, which now carries this load, forgets a request that its client gave up, or loses
    /// it in a crash.
    Dropped(InstanceId, &'a Life, Load),
    /// A request leaves an instance, which now carries this load, to go on at another one.
    Moved {
        /// The instance that it leaves.
        from: InstanceId,
        /// Where it goes.
        to: InstanceId,
        /// What it came to there.
        life: &'a Life,
        /// The load that is left.
        load: Load,
    },
    /// An instance holds another adapter, for a request that is sent to it next.
    Swapped(Swap),
    /// Two replicas begin to share out their requests and adapters anew.
    Rebalanced {
        /// The one with more, and the one with less.
        between: [InstanceId; 2],
        /// Requests that are to move.
        requests: u32,
        /// Adapters that one of them holds from now on and did not hold before.
        adapters: u32,
    },
    /// An instance stopped; this is its load when it has started again.
    Crashed(InstanceId, Load),
    /// An instance serves again.
    Recovered(InstanceId),
    /// An instance is slow from now on, or no longer.
    Slowed(InstanceId, Slowness, bool),
    /// An instance is started, drained or off from now on; told of all when a run with an autoscaler begins.
    Scaled(InstanceId, Stage),
    /// The autoscaler of a pool of replicas looked; pools are numbered in the order of their replicas.
    Looked(u32, Look),
    /// An instance, which now carries this load, waits no longer for a request whose prompt another one has not
    /// computed.
    Unreserved(InstanceId, RequestId, Load),
    /// The KV of a request does not reach the instance that asked for it.
    TransferFailed(InstanceId, RequestId),
    /// A request is back at its router, which sends it again later: the instance did not take it, or there was none that the
    /// router does not hold for dead.
    CameBack(RequestId, Option<InstanceId>),
    /// Requests were admitted that load their KV, though no step could be decided.
    Loading(InstanceId, &'a StepPlan),
}

/// What of an instance is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Slowness {
    /// Its steps.
    Steps,
    /// Its NICs.
    Nics,
}

/// Hears what happens in a run, in order.
pub trait Observer {
    /// Something happened at `at`.
    fn on(&mut self, at: SimTime, what: Occurrence<'_>);
}

impl Observer for () {
    fn on(&mut self, _: SimTime, _: Occurrence<'_>) {}
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        self.0.on(at, what);
        self.1.on(at, what);
    }
}
impl<O: Observer> Observer for &mut O {
    #[inline]
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        (**self).on(at, what);
    }
}
impl<O: Observer> Observer for Option<O> {
    #[inline]
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        if let Some(observer) = self {
            observer.on(at, what);
        }
    }
}
