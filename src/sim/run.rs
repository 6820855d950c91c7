//! The loop: pop the earliest event, let one machine act, schedule what it wants.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::counts::Counts;
use super::drive::{self, Gone, Outcome};
use super::faults::{Faults, Reason};
use super::front::Sender;
use super::gate::Gate;
use super::laws::Watch;
use super::migrate::Migrating;
use super::observe::{Observer, Occurrence};
use super::pulse::Pulse;
use super::scale::Scaling;
use super::source::Source;
use super::tiers::TierBuffers;
use super::transit::Transit;
use crate::cluster::{Cluster, Disaggregation, Gateway, Refusal, Role};
use crate::des::{Class, EventQueue};
use crate::engine::scheduler::Handoff;
use crate::ids::{InstanceId, RequestId};
use crate::request::Request;
use crate::units::{SimDuration, SimTime};
use crate::workload::{Client, Offer, WorkloadError};

/// Above all instances.
const ALL: InstanceId = InstanceId(u32::MAX);

/// What is scheduled. Small and plain: it can be printed and replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The next turn of a conversation is due.
    Arrive { transit: u32 },
    /// A client sends the request in this place of the transit.
    Send { transit: u32 },
    /// A request reaches an instance.
    Enqueue { instance: InstanceId, transit: u32 },
    /// The client has connected to the server of an instance for a request.
    Connect { instance: InstanceId, transit: u32 },
    /// A request comes to the server of an instance.
    Accept { instance: InstanceId, transit: u32 },
    /// A request has its next turn in the server of an instance.
    GoOn { instance: InstanceId, transit: u32 },
    /// A request reaches the queue of the instance that will decode it, to have memory set aside.
    Expect { decode: InstanceId, transit: u32 },
    /// Such a request, for which there is memory, reaches the queue of the instance that prefills it.
    Prefill { request: RequestId },
    /// A part of the KV of a request is computed, and can be sent.
    Release { request: RequestId },
    /// Flows end, or change their rates.
    Wires { epoch: u32 },
    /// An instance that prefills is asked for the KV of a request.
    LookUp { request: RequestId },
    /// It can copy this one, which it was asked for first.
    Copy { prefill: InstanceId, request: RequestId },
    /// An instance wants to be woken.
    Advance { instance: InstanceId, epoch: u32 },
    /// A client sends a request again.
    Retry { transit: u32 },
    /// A client has waited as long as it wanted to.
    HangUp { request: RequestId, reason: Reason },
    /// The next fault of the plan.
    Fault,
    /// Requests that wait at the gateway may be sent.
    Open,
    /// A request has waited at the gateway as long as it may.
    Expire { request: RequestId },
    /// The autoscaler looks, or replicas come up.
    Scale { epoch: u32 },
    /// The gateway looks whether requests are to move.
    Migrate,
    /// A plan to move some takes effect.
    Rebalance,
    /// A request that has moved reaches the instance where it goes on.
    Adopt { instance: InstanceId, request: RequestId },
}

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
    epochs: Vec<u32>,
    pub(super) counts: Counts,
    /// Which event of the links is the valid one, and when it comes, if one does.
    pub(super) wires_epoch: u32,
    pub(super) wires_at: Option<SimTime>,
    pub(super) tier_buffers: TierBuffers,
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
            outcome: Outcome { sends_early, ..Outcome::default() },
        }
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
        if let Some(watch) = watch {
            watch.close(&counts);
        }
        Ok((counts, self.cluster))
    }

    fn arrive(&mut self, now: SimTime, mut request: Request, observer: &mut impl Observer) {
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

    /// Requests and retries are numbered together, in the order in which they arrive.
    pub(super) fn next_id(&self) -> RequestId {
        let before = self.counts.arrived + self.counts.retried;
        RequestId(u32::try_from(before).expect("fewer than 2^32 requests"))
    }

    /// A client sends a request.
    pub(super) fn send(&mut self, now: SimTime, transit: u32, observer: &mut impl Observer) {
        if self.scaling.is_some() {
            self.begin_slo(now, self.transit.get(transit).0);
        }
        if self.gate.is_some() {
            return self.reach(now, transit, observer);
        }
        let (id, _) = self.transit.get(transit);
        if self.send_past_prefill(now, transit, observer).is_some()
            || self.dispatch(now, transit, observer).is_some()
        {
            self.begin_to_wait(now, id);
        } else {
            self.turn_away(now, transit, Refusal::NoReplica, observer);
        }
    }

    /// A request is sent to the instance that the router chooses; to none, and nothing is done, where
    /// none has a place for it.
    pub(super) fn dispatch(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) -> Option<InstanceId> {
        let entrances = self.cluster.entrances() as usize;
        let seen = self.seen(now);
        let (_, request) = self.transit.get(transit);
        let parts = self.cluster.disaggregation.as_ref();
        if parts.is_some_and(|parts| !parts.has_destination(request.model)) {
            return None;
        }
        let candidates = self.gateway.instances_of(request.model);
        if candidates.len() > 1 && self.gateway.looks_at_caches(request.model, seen) {
            let segments = request.content.segments.clone();
            let is_asked_now = !self.gateway.keeps_caches();
            let quoted = is_asked_now.then(|| segments.as_deref().unwrap_or(&[]));
            self.see_caches(now, candidates, quoted, observer);
        }
        let (id, request) = self.transit.get(transit);
        let Cluster { instances, router, .. } = &mut self.cluster;
        let request = request.view(id);
        let instance = self.gateway.route(router, &instances[..entrances], seen, request)?;
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
        if self.cluster.goes_to_destination_first(instance) {
            self.reserve(now, transit, instance);
            return Some(instance);
        }
        let event = Event::Enqueue { instance, transit };
        self.pass_front_end(now, instance, event);
        Some(instance)
    }

    /// Up to when what engines report at this instant is looked at: it includes the steps that end now, if they
    /// have been seen.
    pub(super) fn seen(&self, now: SimTime) -> SimTime {
        if self.steps_seen == Some((now, ALL)) { now + SimDuration::from_nanos(1) } else { now }
    }

    fn handle(&mut self, now: SimTime, event: Event, observer: &mut impl Observer) {
        match event {
            Event::Arrive { transit } => {
                self.turns_due -= 1;
                let (_, request) = self.transit.take(transit);
                self.arrive(now, request, observer);
            }
            Event::Send { transit } => self.send(now, transit, observer),
            Event::Enqueue { instance, transit } => self.enqueue(now, instance, transit, observer),
            Event::Connect { instance, transit } => self.connected(now, instance, transit),
            Event::Accept { instance, transit } => self.accept(now, instance, transit),
            Event::GoOn { instance, transit } => self.go_on(now, instance, transit),
            Event::Expect { decode, transit } => self.expect_kv(now, decode, transit, observer),
            Event::Prefill { request } => self.enqueue_prefill(now, request, observer),
            Event::Advance { instance, epoch } if epoch == self.epochs[instance.index()] => {
                self.steps_seen = Some((now, instance));
                self.advance(now, instance, observer);
            }
            Event::Wires { epoch } if epoch == self.wires_epoch => {
                self.take_in(now, observer);
                self.await_wires();
            }
            Event::Release { request } => self.release_part(now, request, observer),
            Event::LookUp { request } => self.look_up(now, request),
            Event::Copy { prefill, request } => self.begin_copy(now, prefill, request),
            Event::Advance { .. } | Event::Wires { .. } => {}
            Event::Retry { transit } => self.retry(now, transit, observer),
            Event::HangUp { request, reason } => {
                self.steps_seen = Some((now, ALL));
                self.hang_up(now, request, reason, observer);
            }
            Event::Fault => {
                self.steps_seen = Some((now, ALL));
                self.happen(now, observer);
            }
            Event::Open => {
                self.steps_seen = Some((now, ALL));
                self.open(now, observer);
            }
            Event::Expire { request } => self.expire(now, request, observer),
            Event::Scale { epoch } => self.scale(now, epoch, observer),
            Event::Migrate => {
                self.steps_seen = Some((now, ALL));
                self.migrate(now, observer);
            }
            Event::Rebalance => {
                self.steps_seen = Some((now, ALL));
                self.rebalance(now, observer);
            }
            Event::Adopt { instance, request } => self.adopt(now, instance, request, observer),
        }
    }

    fn enqueue(
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

    fn advance(&mut self, now: SimTime, instance: InstanceId, observer: &mut impl Observer) {
        let role = self.cluster.role(instance);
        let place = (instance, &mut self.cluster.instances[instance.index()]);
        if let Some(at) = drive::advance(place, role, now, &mut self.outcome, observer) {
            self.awaken(at, instance);
        }
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

    /// Wakes an instance at `at` and at no other time.
    pub(super) fn awaken(&mut self, at: SimTime, instance: InstanceId) {
        let epoch = &mut self.epochs[instance.index()];
        *epoch = epoch.wrapping_add(1);
        self.awaited[instance.index()] = true;
        let event = Event::Advance { instance, epoch: *epoch };
        // By instance: how far ahead it planned this moment does not show.
        self.queue.push_ranked(at, Class::Step, instance.0.into(), event);
    }

    /// Wakes an instance for what has come to it: now if it waits for nothing, else when its wake-up has moved.
    pub(super) fn awaken_for(
        &mut self,
        now: SimTime,
        instance: InstanceId,
        changed: Option<SimTime>,
    ) {
        let is_awaited = self.awaited[instance.index()];
        if let Some(at) = if is_awaited { changed } else { Some(now) } {
            self.awaken(at, instance);
        }
    }

    /// An instance forgets its wake-up and the requests before its front end.
    pub(super) fn put_to_sleep(&mut self, now: SimTime, instance: InstanceId) {
        let epoch = &mut self.epochs[instance.index()];
        *epoch = epoch.wrapping_add(1);
        self.awaited[instance.index()] = false;
        self.api_free[instance.index()] = now;
        if let Some(front) = self.cluster.instances[instance.index()].front_end(now) {
            front.forget();
        }
    }
}

fn later(now: SimTime, at: SimTime) -> SimTime {
    assert!(at >= now, "L2: time never decreases: {at} after {now}");
    at
}
