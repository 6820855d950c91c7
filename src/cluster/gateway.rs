//! The gateway: asks the router, counts what is outstanding, and keeps what engines reported.

use super::router::{Needs, Route, Router};
use super::{ClusterView, Outstanding};
use crate::engine::Instance;
use crate::engine::scheduler::Load;
use crate::ids::{InstanceId, RequestId};
use crate::request::RequestView;
use crate::units::{SimDuration, SimTime};

/// Where a request was sent.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    instance: u32,
    prompt_tokens: u32,
}

/// What stands between clients and instances. It keeps what the router needs and nothing else;
/// every request costs O(1) beside the router's own work and the reports of engines.
#[derive(Debug)]
pub struct Gateway {
    needs: Needs,
    outstanding: Vec<Outstanding>,
    /// By request.
    sent: Vec<Sent>,
    signals: Vec<Load>,
    signals_at: Option<SimTime>,
    /// The instances known to be down, by id.
    down: Vec<InstanceId>,
}

impl Gateway {
    /// The gateway of so many idle instances behind a router.
    pub fn new(router: &Router, instances: u32) -> Self {
        let needs = router.needs();
        let counted = if needs.outstanding { instances as usize } else { 0 };
        Self {
            needs,
            outstanding: vec![Outstanding::default(); counted],
            sent: Vec::new(),
            signals: Vec::new(),
            signals_at: None,
            down: Vec::new(),
        }
    }

    /// Counts what is outstanding, whether the router needs it or not.
    pub fn count_outstanding(&mut self, instances: u32) {
        self.needs.outstanding = true;
        self.outstanding = vec![Outstanding::default(); instances as usize];
    }

    /// Requests that were sent to an instance and have not left it, where they are counted.
    pub fn outstanding(&self, instance: InstanceId) -> u32 {
        self.outstanding[instance.index()].requests
    }

    /// An instance does not answer: it gets no requests.
    pub fn lose(&mut self, instance: InstanceId) {
        if let Err(place) = self.down.binary_search(&instance) {
            self.down.insert(place, instance);
        }
    }

    /// An instance answers again.
    pub fn regain(&mut self, instance: InstanceId) {
        self.down.retain(|down| *down != instance);
    }

    /// The one of `instances` that gets a request at `now`, by its place among them; `None` where all
    /// are known to be down.
    ///
    /// # Panics
    /// When the router names an instance that does not exist.
    pub fn route(
        &mut self,
        router: &mut Router,
        instances: &[Instance],
        now: SimTime,
        request: RequestView<'_>,
    ) -> Option<InstanceId> {
        if self.down.len() == instances.len() {
            return None;
        }
        self.refresh(instances, now);
        let view = ClusterView {
            instances: instances.len() as u32,
            outstanding: &self.outstanding,
            signals: &self.signals,
            signals_age: self.signals_at.map_or(SimDuration::ZERO, |at| now - at),
            down: &self.down,
        };
        let chosen = router.route(request, &view);
        let (count, id) = (view.instances, request.id);
        assert!(chosen.0 < count, "request {id} is sent to instance {chosen} of {count}");
        if self.needs.outstanding {
            self.count(request, chosen);
        }
        Some(chosen)
    }

    /// A request that was sent has finished, was refused, or is given up.
    pub fn left(&mut self, id: RequestId) {
        if self.needs.outstanding {
            let Sent { instance, prompt_tokens } = self.sent[id.index()];
            let outstanding = &mut self.outstanding[instance as usize];
            outstanding.requests -= 1;
            outstanding.prompt_tokens -= u64::from(prompt_tokens);
        }
    }

    fn count(&mut self, request: RequestView<'_>, chosen: InstanceId) {
        let prompt_tokens = request.prompt_tokens;
        let outstanding = &mut self.outstanding[chosen.index()];
        outstanding.requests += 1;
        outstanding.prompt_tokens += u64::from(prompt_tokens);
        let place = request.id.index();
        if place >= self.sent.len() {
            self.sent.resize(place + 1, Sent::default());
        }
        self.sent[place] = Sent { instance: chosen.0, prompt_tokens };
    }

    /// Takes new reports of all engines where the last ones are as old as the router
    /// lets them grow.
    fn refresh(&mut self, instances: &[Instance], now: SimTime) {
        let Some(interval) = self.needs.signals else { return };
        if self.signals_at.is_some_and(|at| now - at < interval) {
            return;
        }
        self.signals.clear();
        self.signals.extend(instances.iter().map(|instance| instance.load_at(now)));
        self.signals_at = Some(now);
    }
}
