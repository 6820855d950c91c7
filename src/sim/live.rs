//! A run that is driven from outside: requests, faults and clients that go away come when they come, and the
//! driver says how far time has gone.
//!
//! It is the run of a [`Simulation`] with nothing planned ahead: every step is an event of its own, so that
//! its tokens can be told when they come out.

use super::build;
use super::counts::Counts;
use super::event::ALL;
use super::faults::Reason;
use super::laws::Watch;
use super::observe::Observer;
use super::run::Simulation;
use super::source::Source;
use crate::cluster::{Cluster, Disaggregation, Order, Role, Router};
use crate::engine::Instance;
use crate::ids::{InstanceId, RequestId};
use crate::kv::CacheEvent;
use crate::request::Request;
use crate::resolved::{Scenario, ScenarioError};
use crate::rng::Seed;
use crate::scenario::{ClientConfig, FaultConfig};
use crate::units::SimTime;
use crate::workload::WorkloadError;

/// A source without requests: they come from outside.
#[derive(Debug)]
struct Outside;

impl Iterator for Outside {
    type Item = Result<Request, WorkloadError>;
    fn next(&mut self) -> Option<Self::Item> {
        None
    }
}

impl Source for Outside {
    fn follow_up(&mut self, _: RequestId, _: &Request, _: SimTime) -> Option<Request> {
        None
    }

    fn has_follow_ups(&self) -> bool {
        false
    }
}

/// A cluster to which everything comes from outside.
///
/// Its driver keeps time: it lets happen what is due ([`advance`](Self::advance)) before it does
/// something itself, and looks again at [`next_change`](Self::next_change).
#[derive(Debug)]
pub struct Live {
    run: Simulation<Outside>,
    now: SimTime,
    seed: Seed,
    watch: Option<Watch>,
}

impl Live {
    /// The cluster of a scenario at time zero, when it has served what the scenario has it serve before. Its
    /// workload and its clients are not used; faults of the scenario happen when it says.
    ///
    /// # Errors
    /// When requests that come before are never answered.
    pub fn new(
        scenario: &Scenario,
        cluster: Cluster,
        observer: &mut impl Observer,
    ) -> Result<Self, ScenarioError> {
        let mut scenario = scenario.clone();
        scenario.workload.client = ClientConfig::default();
        let mut run = build::simulation_on(&scenario, cluster, Outside)?;
        let instances = std::mem::take(&mut run.cluster.instances);
        run.cluster.instances = instances.into_iter().map(Instance::step_by_step).collect();
        let mut run = run.with_faults_to_come(&scenario.faults, scenario.seed);
        let mut watch = cfg!(debug_assertions).then(Watch::default);
        let observer = &mut (&mut watch, observer);
        run.await_fault();
        run.begin_scaling(observer);
        run.await_migration(SimTime::ZERO);
        Ok(Self { run, now: SimTime::ZERO, seed: scenario.seed, watch })
    }

    /// How far time has gone.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// When something happens next if nothing comes from outside.
    pub fn next_change(&mut self) -> Option<SimTime> {
        self.run.queue.next_time()
    }

    /// Lets happen the next thing that is due before `until`, and whether there was one.
    pub fn advance(&mut self, until: SimTime, observer: &mut impl Observer) -> bool {
        let Some((at, event)) = self.run.queue.pop_before_input(until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.move_to(at);
        self.run.handle(at, event, &mut (&mut self.watch, observer));
        true
    }

    /// Whether no more requests can come: there are no more numbers for them.
    pub fn is_full(&self) -> bool {
        self.run.is_full()
    }

    /// A request comes at `at`; its id.
    ///
    /// # Panics
    /// When something is due before, or [no more can come](Self::is_full).
    pub fn submit(
        &mut self,
        at: SimTime,
        request: Request,
        observer: &mut impl Observer,
    ) -> RequestId {
        self.move_to(at);
        let id = self.run.next_id();
        let request = Request { arrival: at, ..request };
        self.run.arrive(at, request, &mut (&mut self.watch, observer));
        id
    }

    /// This router, which is outside and takes its time there, chooses where requests are sent first.
    pub fn route_by(&mut self, router: Router) {
        self.run.router_time = None;
        self.run.cluster.router = router;
    }

    /// Requests are led from one instance to the other from outside: this router chooses the one that decodes.
    ///
    /// # Panics
    /// When instances do all of a request.
    pub fn lead_by(&mut self, decode_router: Router) {
        let parts = self.run.cluster.disaggregation.take().expect("instances have roles");
        self.run.cluster.disaggregation = Some(parts.led_by(decode_router));
    }

    /// In which order requests are led, where instances have roles.
    pub fn order(&self) -> Option<Order> {
        self.run.cluster.disaggregation.as_ref().map(Disaggregation::order)
    }

    /// The request that is submitted next is computed from its first token by an instance that decodes.
    ///
    /// # Panics
    /// When requests are not [led](Self::lead_by).
    pub fn decode_alone(&mut self, decode: InstanceId) {
        self.run.parts().decode_alone(decode);
    }

    /// Whether the prompt of a request is computed, and it waits to [go on](Self::go_on).
    pub fn is_between(&self, id: RequestId) -> bool {
        self.run.is_between(id)
    }

    /// A request whose prompt is computed goes on at `at` to an instance that decodes, after this change.
    ///
    /// # Panics
    /// When it does not [wait for that](Self::is_between), or something is due before.
    pub fn go_on(
        &mut self,
        at: SimTime,
        id: RequestId,
        change: impl FnOnce(&mut Request),
        observer: &mut impl Observer,
    ) {
        assert!(self.is_between(id), "request {id} does not wait between two instances");
        self.move_to(at);
        self.run.lead_on(at, id, change, &mut (&mut self.watch, observer));
    }

    /// The client of a request goes away at `at`; nothing if it has its answer.
    ///
    /// # Panics
    /// When something is due before.
    pub fn cancel(&mut self, at: SimTime, id: RequestId, observer: &mut impl Observer) {
        self.move_to(at);
        self.run.steps_seen = Some((at, ALL));
        self.run.hang_up(at, id, Reason::Cancelled, &mut (&mut self.watch, observer));
    }

    /// A fault is going to happen, at a time that is not over.
    ///
    /// # Panics
    /// When it names an instance or a network that is not there, which validation refuses.
    pub fn inject(&mut self, fault: &FaultConfig) {
        self.run.plan_fault(fault, self.seed);
    }

    /// The replicas, by id.
    pub fn instances(&self) -> &[Instance] {
        &self.run.cluster.instances
    }

    /// Tells from now on what prefix caches come to hold and forget, and whether all instances can.
    pub fn tell_cache_events(&mut self) -> bool {
        self.run.overhear();
        let instances = self.run.cluster.instances.iter_mut();
        instances.map(Instance::tell_cache_events).filter(|tells| !tells).count() == 0
    }

    /// What that is of an instance, since it was asked last.
    pub fn take_cache_events(&mut self, instance: InstanceId) -> Vec<CacheEvent> {
        self.run.take_cache_events(instance)
    }

    /// What an instance does.
    pub fn role(&self, instance: InstanceId) -> Role {
        self.run.cluster.role(instance)
    }

    /// Whether an instance serves: it has not failed, and an autoscaler has it on.
    pub fn is_up(&self, instance: InstanceId) -> bool {
        self.run.is_up(instance) && self.run.is_on(instance)
    }

    /// What became of all requests until now.
    pub fn counts(&self) -> Counts {
        let mut counts = self.run.counts;
        let Counts { arrived, finished, rejected, aborted, timed_out, failed, .. } = counts;
        counts.unfinished = arrived - finished - rejected - aborted - timed_out - failed;
        counts
    }

    /// Tells how many tokens of each request inside an instance have come out, of those that have some.
    pub fn answers(&self, instance: InstanceId, tell: &mut dyn FnMut(RequestId, u32)) {
        self.instances()[instance.index()].scheduler().answers(tell);
    }

    /// When the client has the tokens of a request that came out in the last step of its instance: then, or
    /// later where other processes of the server take time.
    pub fn delivered(&self, instance: InstanceId, id: RequestId) -> SimTime {
        self.instances()[instance.index()].delivered(id)
    }

    /// The end: what became of all requests. Those that are still under way are left unfinished.
    pub fn close(mut self, observer: &mut impl Observer) -> Counts {
        self.run.end = self.now;
        self.run.cut_off(&mut (&mut self.watch, observer));
        let counts = self.run.close();
        if let Some(watch) = self.watch {
            watch.close(&counts);
        }
        counts
    }

    fn move_to(&mut self, at: SimTime) {
        assert!(at >= self.now, "L2: time never decreases: {at} after {}", self.now);
        self.now = at;
    }
}
