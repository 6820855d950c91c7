//! Requests that go to the destination first: memory is set aside where they are decoded before they are
//! prefilled elsewhere.

use super::{Disaggregation, Order};
use crate::engine::Instance;
use crate::ids::{InstanceId, ModelId, RequestId};
use crate::request::{Request, RequestView};
use crate::units::SimTime;

/// The other instance of a request that goes to the destination first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reserved {
    pub(super) decode: InstanceId,
    pub(super) prompt_tokens: u32,
    /// Those of its tokens that the decode side lacks.
    pub(super) lacking: u32,
    /// When it is through the front end of the instance that prefills it.
    ready: SimTime,
    /// Whether one of its two instances has crashed since: nothing of it travels any more.
    pub(super) is_lost: bool,
}

impl Disaggregation {
    /// The instance that decodes a request that goes to the destination first; `None` where its router knows none that
    /// is up.
    pub fn find_destination(
        &mut self,
        request: RequestView<'_>,
        instances: &[Instance],
        now: SimTime,
    ) -> Option<InstanceId> {
        self.route_decode(request, instances, now)
    }

    /// A request with so many prompt tokens goes to the instance that decodes it first. It is through the front end of
    /// the one that prefills it at `ready`.
    pub fn reserve(
        &mut self,
        (id, prompt_tokens): (RequestId, u32),
        (prefill, ready): (InstanceId, SimTime),
        decode: InstanceId,
    ) {
        self.hold(id, prefill);
        let (lacking, is_lost) = (prompt_tokens, false);
        self.reserved.insert(id, Reserved { decode, prompt_tokens, lacking, ready, is_lost });
    }

    /// Whether a request for a model can be sent as far as its destination goes: to one where memory is set
    /// aside first, if it goes there first. Models that no instance only decodes have none, and need none.
    pub fn has_destination(&self, model: ModelId) -> bool {
        self.order == Order::SourceFirst
            || self.gateway.instances_of(model).is_empty()
            || self.gateway.has_place(model)
    }

    /// Whether an instance is up where memory is set aside, as far as the gateway knows, if requests go there first.
    pub fn is_any_destination_up(&self) -> bool {
        self.order == Order::SourceFirst || self.gateway.is_any_up()
    }

    /// The instance that decodes a request waits for it.
    pub fn awaited(&mut self, id: RequestId, request: Request) {
        self.prefilling.insert(id, request);
    }

    /// There is memory for a request, of which the decode side lacks so many tokens: when it can reach
    /// the instance that prefills it.
    ///
    /// # Panics
    /// When it did not go to the destination first.
    pub fn placed(&mut self, id: RequestId, lacking: u32) -> SimTime {
        let reserved = self.reserved.get_mut(&id).expect("it went to the destination first");
        reserved.lacking = lacking;
        reserved.ready
    }

    /// A request reaches the instance that prefills it; `None` where nobody waits for it any more.
    pub fn reach_prefill(&mut self, id: RequestId) -> Option<(Request, InstanceId)> {
        let request = self.prefilling.remove(&id)?;
        Some((request, self.prefill_of[&id]))
    }

    /// Where the KV of a request goes that went to the destination first, until it is computed.
    pub fn destination(&self, id: RequestId) -> Option<InstanceId> {
        self.reserved.get(&id).map(|reserved| reserved.decode)
    }

    /// A request that went to the destination first is refused: the instance that would have decoded it.
    ///
    /// # Panics
    /// When it went to the source first.
    pub fn refused(&mut self, id: RequestId) -> InstanceId {
        self.unreserve(id).expect("memory is set aside for it")
    }

    /// The same before the destination has taken it: the instance that would have prefilled it.
    ///
    /// # Panics
    /// When it went to the source first.
    pub fn refused_before(&mut self, id: RequestId) -> InstanceId {
        let prefill = self.prefill_of[&id];
        self.refused(id);
        prefill
    }

    /// A request that is not computed yet needs no destination any more: which one that was, if it had one.
    pub fn unreserve(&mut self, id: RequestId) -> Option<InstanceId> {
        let Reserved { decode, .. } = self.reserved.remove(&id)?;
        self.forget(id);
        self.sending.remove(&id);
        self.left(id);
        Some(decode)
    }

    /// One of the two instances of a request has crashed: nothing of it travels from now on.
    pub fn lose_reserved(&mut self, id: RequestId) {
        if let Some(reserved) = self.reserved.get_mut(&id) {
            reserved.is_lost = true;
            self.sending.remove(&id);
        }
    }

    /// A request is computed whose destination has crashed, and is sent to nobody; whether it is one.
    pub fn send_nothing(&mut self, id: RequestId) -> bool {
        let is_lost = self.reserved.get(&id).is_some_and(|reserved| reserved.is_lost);
        if is_lost {
            self.reserved.remove(&id);
        }
        is_lost
    }

    /// The requests that need an instance as one of two: those that it was to decode or to prefill, or whose
    /// KV it holds, by request. None where requests go to the source first.
    pub fn depending_on(&self, instance: InstanceId) -> Vec<RequestId> {
        if self.order == Order::SourceFirst {
            return Vec::new();
        }
        let held = self.prefill_of.iter().filter(|(_, prefill)| **prefill == instance);
        let reserved = self.reserved.iter().filter(|(_, reserved)| reserved.decode == instance);
        let mut ids: Vec<_> = held.map(|(id, _)| *id).chain(reserved.map(|(id, _)| *id)).collect();
        ids.sort_unstable();
        ids
    }
}
