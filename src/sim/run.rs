//! The loop: pop the earliest event, let one machine act, schedule what it wants.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::conditional::AtDecodes;
use super::counts::Counts;
use super::dead_ends::Tries;
use super::drive::{self, Gone, Outcome};
use super::event::{ALL, Event};
use super::faults::Faults;
use super::front::Sender;
use super::gate::Gate;
use super::laws::Watch;
use super::limit::Limits;
use super::migrate::Migrating;
use super::observe::{Observer, Occurrence};
use super::pairs::Pairs;
use super::pulse::Pulse;
use super::router_time::RouterTime;
use super::scale::Scaling;
use super::source::Source;
use super::tiers::TierBuffers;
use super::told::Overheard;
use super::transit::Transit;
use crate::cluster::{Cluster, Disaggregation, Gateway, Refusal, Reply, Role, Routed};
use crate::des::{Class, EventQueue};
use crate::engine::scheduler::Handoff;
use crate::ids::{InstanceId, RequestId};
use crate::request::Request;
use crate::units::{SimDuration, SimTime};
use crate::workload::{Client, Offer, WorkloadError};

/// A run, ready to go.
#[derive(Debug)]
pub struct Simulation<W> {
    pub(super) workload: W,
    pub(super) client: Client,
    pub(super) cluster: Cluster,
    pub(super) gateway: Gateway,
    /// Where requests may have to wait at the gateway.
    pub(super) gate: Option<Box<Gate>>,
    /// From the client to the engine's queue: network, HTTP, tokenisation.
    pub(super) api_delay: SimDuration,
    /// Of that way, what the front end of an instance does for one request after the other.
    pub(super) api_per_request: SimDuration,
    /// Per instance, when its front end is free.
    pub(super) api_free: Vec<SimTime>,
    /// The client's thread that sends, where it takes time.
    pub(super) sender: Sender,
    /// Where something may fail, or clients may give up.
    pub(super) faults: Option<Box<Faults>>,
    /// Where replicas are started and drained.
    pub(super) scaling: Option<Box<Scaling>>,
    /// Where requests and adapters move between replicas.
    pub(super) migrating: Option<Box<Migrating>>,
    /// The instant of a step, or of something of the last class, and the instances up to which steps that end
    /// then have been taken in, or are to be before anything else comes to them.
    pub(super) steps_seen: Option<(SimTime, InstanceId)>,
    /// When the clients stop, whatever is under way.
    pub(super) end: SimTime,
    pub(super) is_cut_off: bool,
    /// Whether all requests of the workload have arrived.
    pub(super) all_arrived: bool,
    pub(super) queue: EventQueue<Event>,
    pub(super) transit: Transit,
    /// Requests that wait for a seat at the client, in its order.
    pub(super) held: VecDeque<u32>,
    /// Turns of conversations that are being answered.
    pub(super) turns: FxHashMap<RequestId, Request>,
    /// Turns that have not arrived, because their users think.
    pub(super) turns_due: u64,
    /// Per instance, whether it will be woken, and by which event: older ones are stale.
    pub(super) awaited: Vec<bool>,
    pub(super) epochs: Vec<u32>,
    pub(super) counts: Counts,
    /// Which event of the links is the valid one, and when it comes, if one does.
    pub(super) wires_epoch: u32,
    pub(super) wires_at: Option<SimTime>,
    pub(super) tier_buffers: TierBuffers,
    /// Requests that wait at the router, by their places in the transit.
    pub(super) at_router: BTreeMap<RequestId, u32>,
    /// Requests that wait at the router of those that decode.
    pub(super) at_decodes: BTreeMap<RequestId, AtDecodes>,
    /// Where the router limits how fast requests come.
    pub(super) limits: Option<Box<Limits>>,
    /// Requests that the router tries again.
    pub(super) tries: Tries,
    /// What routers take for requests, if they take time.
    pub(super) router_time: Option<Box<RouterTime>>,
    /// Requests that were sent to two instances, until the router has heard from both.
    pub(super) pairs: Pairs,
    /// Per instance that tells of its cache, up to when it has.
    pub(super) told_until: Vec<SimTime>,
    /// Per instance that tells of its cache, what somebody outside asks for too; empty where nobody does.
    pub(super) overheard: Vec<Overheard>,
    /// Per instance, after when the steps that it planned last may have it forget what is cached.
    pub(super) forgets_from: Vec<SimTime>,
    /// What came of the event being handled.
    pub(super) outcome: Outcome,
}

impl<W: Source> Simulation<W> {
    /// A run of a workload, sorted by arrival, on a cluster.
    pub fn new(workload: W, client: Client, cluster: Cluster, api_delay: SimDuration) -> Self {
        let awaited = vec![false; cluster.instances.len()];
        let api_free = vec![SimTime::ZERO; cluster.instances.len()];
        let epochs = vec![0; cluster.instances.len()];
        let sends_early = cluster.disaggregation.as_ref().is_some_and(Disaggregation::sends_early);
        Self {
            workload,
            client,
            gateway: Gateway::new(&cluster.router, cluster.entrances())
                .serving(&cluster.models)
                .with_placement(cluster.placement.clone()),
            gate: None,
            cluster,
            api_delay,
            api_per_request: SimDuration::ZERO,
            api_free,
            sender: Sender::default(),
            faults: None,
            scaling: None,
            migrating: None,
            steps_seen: None,
            end: SimTime::MAX,
            is_cut_off: false,
            all_arrived: false,
            queue: EventQueue::default(),
            transit: Transit::default(),
            held: VecDeque::new(),
            turns: FxHashMap::default(),
            turns_due: 0,
            awaited,
            epochs,
            counts: Counts::default(),
            wires_epoch: 0,
            wires_at: None,
            tier_buffers: TierBuffers::default(),
            at_router: BTreeMap::new(),
            at_decodes: BTreeMap::new(),
            limits: None,
            tries: Tries::default(),
            router_time: None,
            pairs: Pairs::default(),
            told_until: Vec::new(),
            overheard: Vec::new(),
            forgets_from: Vec::new(),
            outcome: Outcome { sends_early, ..Outcome::default() },
        }
        .told_of_caches()
    }

    /// The same run, where the front end of each instance takes so long for every request, one after
    /// the other.
    #[must_use]
    pub fn with_serial_front_end(mut self, per_request: SimDuration) -> Self {
        self.api_per_request = per_request;
        self
    }

    /// The same run, which ends at `end`: requests that arrive later are none of it, those under
    /// way are left unfinished.
    #[must_use]
    pub fn until(mut self, end: SimTime) -> Self {
        self.end = end;
        self
    }

    /// Runs until nothing is left to happen, or its end.
    ///
    /// # Errors
    /// When the workload yields an error.
    ///
    /// # Panics
    /// When a law is broken: time decreases, a request is lost, memory does not add up.
    pub fn run(self, observer: &mut impl Observer) -> Result<Counts, WorkloadError> {
        Ok(self.run_to_rest(observer)?.0)
    }

    /// The same, and its cluster as the run leaves it.
    pub(super) fn run_to_rest(
        mut self,
        observer: &mut impl Observer,
    ) -> Result<(Counts, Cluster), WorkloadError> {
        let mut watch = cfg!(debug_assertions).then(Watch::default);
        let observer = &mut (&mut watch, observer);
        let mut now = SimTime::ZERO;
        let mut pulse = Pulse::default();
        self.await_fault();
        self.begin_scaling(observer);
        self.await_migration(now);
        while let Some(request) = self.workload.next().transpose()? {
            while let Some((at, event)) = self.queue.pop_before_input(request.arrival.min(self.end))
            {
                now = later(now, at);
                pulse.beat();
                self.handle(now, event, observer);
            }
            if request.arrival > self.end {
                break;
            }
            now = later(now, request.arrival);
            self.arrive(now, request, observer);
        }
        self.all_arrived = true;
        while let Some((at, event)) = self.queue.pop() {
            if self.is_over() {
                break;
            }
            if at > self.end {
                self.cut_off(observer);
                break;
            }
            now = later(now, at);
            pulse.beat();
            self.handle(now, event, observer);
        }
        let counts = self.close();
        let is_quiet = !self.is_cut_off && counts.stuck == 0;
        // Routers go on from a warm-up to the run, and have to know that its requests have left.
        let routers_are_at_rest = is_quiet.then(|| self.tell_routers_the_last(now));
        if let Some(watch) = watch {
            watch.close(&counts);
            let is_over = counts.unfinished == 0 && counts.stuck == 0;
            let parts = self.cluster.disaggregation.as_ref();
            let is_at_rest =
                self.gateway.is_at_rest() && parts.is_none_or(Disaggregation::is_at_rest);
            assert!(!is_over || is_at_rest, "requests that are gone are still outstanding");
            let forgot = routers_are_at_rest.unwrap_or(true);
            assert!(forgot, "L1: a router counts requests that have left");
        }
        Ok((counts, self.cluster))
    }

    pub(super) fn arrive(
        &mut self,
        now: SimTime,
        mut request: Request,
        observer: &mut impl Observer,
    ) {
        let id = self.next_id();
        if let Some(faults) = &mut self.faults {
            faults.arrived(id, &mut request, self.counts.arrived);
        }
        observer.on(now, Occurrence::Arrived(id, &request));
        self.counts.arrived += 1;
        let transit = self.transit.put(id, request);
        match self.client.offer(id, now) {
            Offer::Sent => self.send(now, transit, observer),
            Offer::SendAt(at) => self.queue.push(at, Class::Input, Event::Send { transit }),
            Offer::Held => self.held.push_back(transit),
            Offer::Failed => self.fail_to_connect(now, transit, observer),
        }
    }

    /// Whether all numbers of requests are given.
    pub(super) fn is_full(&self) -> bool {
        u32::try_from(self.counts.arrived + self.counts.retried).is_err()
    }

    /// Requests and retries are numbered together, in the order in which they arrive.
    pub(super) fn next_id(&self) -> RequestId {
        let before = self.counts.arrived + self.counts.retried;
        RequestId(u32::try_from(before).expect("fewer than 2^32 requests"))
    }

    /// A client sends a request.
    pub(super) fn send(&mut self, now: SimTime, transit: u32, observer: &mut impl Observer) {
        if self.scaling.is_some() {
            let (id, request) = self.transit.get(transit);
            let prompt_tokens = request.prompt_tokens;
            self.begin_slo(now, id, prompt_tokens);
        }
        if self.gate.is_some() {
            return self.reach(now, transit, observer);
        }
        if self.passes_limit(now, transit, observer) {
            let (id, _) = self.transit.get(transit);
            if self.reach_router(now, transit, observer) {
                self.begin_to_wait(now, id);
            }
        }
    }

    /// A request comes to the router; whether it is not turned away at once.
    pub(super) fn offer(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) -> bool {
        let (id, _) = self.transit.get(transit);
        if self.send_past_prefill(now, transit, observer).is_some() {
            return true;
        }
        let refusal = match self.dispatch(now, transit, observer) {
            Routed::To(_) => return true,
            Routed::Waits => {
                self.at_router.insert(id, transit);
                return true;
            }
            Routed::Unavailable => return self.find_none(now, transit, observer),
            Routed::Full => Refusal::Full,
            Routed::Nowhere => Refusal::NoReplica,
        };
        self.turn_away(now, transit, refusal, observer);
        false
    }

    /// A request is sent to the instance that the router chooses; to none, and nothing is done, where
    /// none has a place for it or it is to wait.
    pub(super) fn dispatch(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) -> Routed {
        let entrances = self.cluster.entrances() as usize;
        let seen = self.seen(now);
        let (_, request) = self.transit.get(transit);
        let parts = self.cluster.disaggregation.as_ref();
        if parts.is_some_and(|parts| !parts.has_destination(request.model)) {
            return Routed::Nowhere;
        }
        let candidates = self.gateway.instances_of(request.model);
        // Of one candidate too: what is cached there decides how long it is busy, and who waits for it first.
        if !self.told_until.is_empty()
            && let Some(segments) = request.content.segments.clone()
        {
            self.hear_of_caches(now, candidates.clone(), &segments, observer);
        }
        let (_, request) = self.transit.get(transit);
        if candidates.len() > 1 && self.gateway.looks_at_caches(request.model, seen) {
            let segments = request.content.segments.clone();
            let is_asked_now = !self.gateway.keeps_caches();
            let quoted = is_asked_now.then(|| segments.as_deref().unwrap_or(&[]));
            self.see_caches(now, candidates, quoted, observer);
        }
        let (id, request) = self.transit.get(transit);
        let Cluster { instances, router, .. } = &mut self.cluster;
        let request = request.view(id);
        let offer = self.gateway.route(router, &instances[..entrances], seen, request);
        match offer {
            Routed::To(instance) if !self.send_off(now, transit, instance, observer) => {
                Routed::Unavailable
            }
            offer => offer,
        }
    }

    /// A request goes to the instance that was chosen for it, unless it needs another one that decodes it, and the
    /// router holds all of those for dead; whether it does.
    pub(super) fn send_off(
        &mut self,
        now: SimTime,
        transit: u32,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) -> bool {
        let (id, _) = self.transit.get(transit);
        let is_apart = self.cluster.goes_to_destination_first(instance);
        let decode = is_apart.then(|| self.find_destination(now, transit));
        if decode == Some(None) {
            self.gateway.left(id);
            return false;
        }
        if let Some(swap) = self.gateway.take_swap() {
            observer.on(now, Occurrence::Swapped(swap));
        }
        observer.on(now, Occurrence::Sent(id, instance));
        if let Some(migrating) = &mut self.migrating {
            migrating.sent(id, self.transit.get(transit).1, instance);
        }
        if let Some(faults) = &mut self.faults {
            faults.moved(id, instance);
        }
        match decode.flatten() {
            Some(decode) => self.reserve(now, transit, (instance, decode)),
            None => self.pass_front_end(now, instance, Event::Enqueue { instance, transit }),
        }
        true
    }

    /// Up to when what engines report at this instant is looked at: it includes the steps that end now, if they
    /// have been seen.
    pub(super) fn seen(&self, now: SimTime) -> SimTime {
        if self.steps_seen == Some((now, ALL)) { now + SimDuration::from_nanos(1) } else { now }
    }

    pub(super) fn enqueue(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        transit: u32,
        observer: &mut impl Observer,
    ) {
        let (id, request) = self.transit.take(transit);
        if !self.is_taken_in(now, id, instance, observer) {
            return;
        }
        self.see_steps(now, instance, observer);
        let role = self.cluster.role(instance);
        let is_awaited = self.awaited[instance.index()];
        let has_kv = role != Role::Decode || self.parts().holder(id).is_some();
        let (part, handoff) = match role {
            Role::Prefill => (Some(Disaggregation::prompt_of(&request)), Handoff::DecodedElsewhere),
            Role::Decode if has_kv || self.parts().is_asked() => {
                (None, Handoff::PrefilledElsewhere)
            }
            Role::Whole | Role::Decode => (None, Handoff::None),
        };
        let place = (instance, &mut self.cluster.instances[instance.index()]);
        let part = (id, part.as_ref().unwrap_or(&request), handoff);
        let entered = drive::enqueue(place, now, part, is_awaited, observer);
        if !has_kv && handoff == Handoff::PrefilledElsewhere {
            // It is going to ask in vain.
            self.cluster.instances[instance.index()].lost_transfer(id);
        }
        if let Some(at) = entered.wake {
            self.awaken(at, instance);
        }
        if let Some(migrating) = &mut self.migrating {
            migrating.entered(id);
        }
        let reply = if entered.refused.is_none() { Reply::Taken } else { Reply::Rejected };
        self.answered(now, id, instance, reply);
        if let Some(finish) = entered.refused {
            if role == Role::Decode {
                self.release(now, id, observer);
            }
            self.outcome.left.push(Gone { id, finish, tokens: 0, at: now });
            self.count_out(role);
            self.settle(now);
            self.see_load(now, instance, observer);
        } else if role == Role::Prefill {
            self.parts().taken(id, request, instance);
        } else if request.session.is_some() {
            self.turns.insert(id, request);
        }
    }

    pub(super) fn advance(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        observer: &mut impl Observer,
    ) {
        let role = self.cluster.role(instance);
        let place = (instance, &mut self.cluster.instances[instance.index()]);
        if let Some(at) = drive::advance(place, role, now, &mut self.outcome, observer) {
            self.awaken(at, instance);
        }
        self.tell_router(now, instance, role);
        self.see_moves(now);
        let engine = &self.cluster.instances[instance.index()];
        if engine.is_idle() {
            // It may wait for a moment of its own, but a request that comes first wakes it too.
            self.awaited[instance.index()] = false;
        }
        match role {
            Role::Whole => self.start_moves(now, instance, observer),
            Role::Prefill => {
                self.start_moves(now, instance, observer);
                self.forward(now, observer);
                self.plan_releases();
                self.send_after_step(now, instance);
            }
            Role::Decode => self.start_transfers(now, instance, observer),
        }
        self.count_out(role);
        self.settle(now);
        self.see_load(now, instance, observer);
    }
}

fn later(now: SimTime, at: SimTime) -> SimTime {
    assert!(at >= now, "L2: time never decreases: {at} after {now}");
    at
}
