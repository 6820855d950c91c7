//! What Dynamo's router is asked of a request before it is sent.

use super::Gateway;
use crate::cluster::ClusterView;
use crate::cluster::router::dynamo::Prospect;
use crate::cluster::router::{Routed, Router};
use crate::engine::Instance;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::units::SimTime;

impl Gateway {
    /// Where the router would send a request now, by the place among `instances`, and what is there; `None` where all
    /// of them are known to be down or full, or the router is not Dynamo's.
    pub fn prospect(
        &mut self,
        router: &mut Router,
        instances: &[Instance],
        now: SimTime,
        request: RequestView<'_>,
    ) -> Option<Prospect> {
        self.pass_signals(router, now);
        let [pool] = &self.pools[..] else { return None };
        let Router::Dynamo(dynamo) = router else { return None };
        if !pool.has_place() {
            return None;
        }
        dynamo.prospect(now, request, &ClusterView::plain(now, instances, pool.closed()))
    }

    /// Whether instances are up, and none of them may have another request.
    pub fn is_full(&self) -> bool {
        let [pool] = &self.pools[..] else { return false };
        !pool.has_place() && self.down.len() < pool.instances().len()
    }

    /// A request is sent to one of `instances` that was looked at for it, if the router does so now.
    pub fn pin(
        &mut self,
        router: &mut Router,
        instances: &[Instance],
        now: SimTime,
        (request, instance): (RequestView<'_>, InstanceId),
    ) -> Routed {
        self.pass_signals(router, now);
        let (Router::Dynamo(dynamo), [pool]) = (router, &self.pools[..]) else {
            return Routed::Nowhere;
        };
        let view = ClusterView::plain(now, instances, pool.closed());
        let sent = dynamo.pin(now, request, instance, &view);
        if let (Routed::To(instance), true) = (sent, self.needs.outstanding) {
            self.count(request, instance);
        }
        sent
    }
}
