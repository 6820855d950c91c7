//! What a run tells its observers.

use crate::engine::scheduler::Load;
use crate::engine::{Batch, Finish, Life, QuietRun, StepResult};
use crate::ids::{InstanceId, RequestId};
use crate::request::Request;
use crate::units::{Bytes, SimTime};

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum Occurrence<'a> {
    /// A request of the workload is due. Ids come in order, without gaps.
    Arrived(RequestId, &'a Request),
    /// Its client sends it, to this instance.
    Sent(RequestId, InstanceId),
    /// It entered the queue of an instance, which now carries this load.
    Queued(InstanceId, RequestId, Load),
    /// An instance decided a step.
    Planned(InstanceId, &'a Batch, Load),
    /// Requests lost their memory though no step could be decided.
    Displaced(InstanceId, &'a [RequestId]),
    /// A step ended; the load without the requests that finished in it.
    Stepped(InstanceId, &'a Batch, &'a StepResult, Load),
    /// Steps that only decode were decided and completed, one after the other; told at the end of
    /// the run or when it is interrupted.
    Quiet(InstanceId, &'a QuietRun<'a>),
    /// The prompt of a request is computed; its instance holds the KV for the one that decodes.
    HandedOver(InstanceId, &'a Life),
    /// A request whose prompt is computed is sent on to this instance, which decodes it.
    Forwarded(RequestId, InstanceId),
    /// An instance has blocks for the KV of a request and begins to read so much of it from another.
    TransferBegan(InstanceId, RequestId, Bytes),
    /// The KV of a request has arrived, or is given up: the first instance forgets it.
    Released(InstanceId, RequestId),
    /// A request left an instance.
    Left(InstanceId, &'a Life, Finish),
    /// An instance refused a request.
    Refused(InstanceId, RequestId),
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
