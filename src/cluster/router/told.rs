//! What routers are told beside the requests they route, and what they answer where requests may wait at them.

use super::{Route, Router};
use crate::cluster::{ClusterView, Health, Reply};
use crate::ids::{InstanceId, RequestId};
use crate::kv::CacheEvent;
use crate::request::RequestView;
use crate::units::{SimDuration, SimTime};

/// A model, and an instance by its number among those that serve it.
type Of = (usize, InstanceId);

/// What becomes of a request that asks for an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routed {
    /// It goes to one.
    To(InstanceId),
    /// It waits at the router.
    Waits,
    /// It is refused: too much waits.
    Full,
    /// It is refused: there is no instance for it.
    Nowhere,
    /// There are instances, and the router holds all of them for dead.
    Unavailable,
}

/// What happens to a request that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Its prompt is computed.
    Prefilled(RequestId),
    /// It has left its instance, or is given up.
    Left(RequestId),
}

impl Router {
    /// Asks for an instance at a moment.
    #[inline]
    pub fn offer(
        &mut self,
        now: SimTime,
        request: RequestView<'_>,
        view: &ClusterView<'_>,
    ) -> Routed {
        match self {
            Self::Dynamo(router) => router.offer(now, request, view),
            Self::Makers(router) => router.offer(request, view),
            Self::PerModel(routers) => routers[request.model.index()].offer(now, request, view),
            router => Routed::To(router.route(request, view)),
        }
    }

    /// Something happens to a request. Who waits may go then.
    pub fn tell(&mut self, now: SimTime, signal: Signal) {
        match self {
            Self::Dynamo(router) => router.tell(now, signal),
            Self::PerModel(routers) => routers.iter_mut().for_each(|one| one.tell(now, signal)),
            _ => {}
        }
    }

    /// It is told at `now` that the cache of an instance of a model, by its number among those that serve it, changes at
    /// these moments.
    pub fn hear(
        &mut self,
        now: SimTime,
        (model, instance): Of,
        events: impl IntoIterator<Item = (SimTime, CacheEvent)>,
    ) {
        match self {
            Self::Dynamo(router) => router.hear(now, instance, events),
            Self::PerModel(routers) => {
                if let Self::Dynamo(router) = &mut routers[model] {
                    router.hear(now, instance, events);
                }
            }
            _ => {}
        }
    }

    /// What is sent to an instance of a model fares so from now on.
    pub(crate) fn connects(&mut self, (model, instance): Of, now: SimTime, health: Health) {
        match self {
            Self::Makers(router) => router.connects(instance, now, health),
            Self::PerModel(routers) => routers[model].connects((0, instance), now, health),
            _ => {}
        }
    }

    /// Another machine is in the place of an instance of a model.
    pub(crate) fn renew(&mut self, (model, instance): Of) {
        match self {
            Self::Makers(router) => router.renew(instance),
            Self::PerModel(routers) => routers[model].renew((0, instance)),
            _ => {}
        }
    }

    /// An instance of a model is gone with all that it had cached.
    pub(crate) fn gone(&mut self, (model, instance): Of) {
        match self {
            Self::Dynamo(router) => router.gone(instance),
            Self::PerModel(routers) => routers[model].gone((0, instance)),
            _ => {}
        }
    }

    /// An instance of a model has replied to a request.
    pub(crate) fn answered(&mut self, (model, instance): Of, now: SimTime, reply: Reply) {
        match self {
            Self::Makers(router) => router.answered(instance, now, reply),
            Self::PerModel(routers) => routers[model].answered((0, instance), now, reply),
            _ => {}
        }
    }

    /// How long it waits until it tries a request for a model again of which so many attempts have failed; `None` if
    /// it does not.
    pub(crate) fn waits_after(&mut self, model: usize, failed: u32) -> Option<SimDuration> {
        match self {
            Self::Makers(router) => router.waits_after(failed),
            Self::PerModel(routers) => routers[model].waits_after(0, failed),
            _ => None,
        }
    }

    /// Whether requests may wait at it.
    pub fn holds_requests(&self) -> bool {
        match self {
            Self::Dynamo(router) => router.holds_requests(),
            Self::PerModel(routers) => routers.iter().any(Self::holds_requests),
            _ => false,
        }
    }

    /// Whether nothing is booked at it, as it has been told that all requests have left.
    pub fn is_at_rest(&self) -> bool {
        match self {
            Self::Dynamo(router) => router.is_at_rest(),
            Self::PerModel(routers) => routers.iter().all(Self::is_at_rest),
            _ => true,
        }
    }

    /// What has become of requests that waited, in order. These instances get none now.
    pub fn released(&mut self, now: SimTime, down: &[InstanceId]) -> Vec<(RequestId, Routed)> {
        match self {
            Self::Dynamo(router) => router.released(now, down),
            _ => Vec::new(),
        }
    }
}
