//! Instances that cannot influence each other, simulated side by side.
//!
//! Where requests come by themselves and go to instances in turn, what happens on one instance
//! decides nothing on another. Each then is a lane: its requests in order, its next wake-up, and
//! observers of its own. Lanes need no queue of events, keep to their own memory, and run on as
//! many threads as there are; their observers are joined in the order of the instances, so that
//! neither the number of threads nor the way a run is driven shows in a result.
//!
//! Lanes go on in rounds. Meanwhile the requests of the next round are drawn, and what observers set aside in the
//! round before is counted.

use std::collections::VecDeque;

use super::counts::Counts;
use super::drive::{self, Outcome};
use super::laws::Watch;
use super::observe::{Observer, Occurrence};
use super::pulse::Pulse;
use super::run::Simulation;
use super::separable::{Lane, Separable};
use super::source::Source;
use crate::cluster::Role;
use crate::engine::Instance;
use crate::engine::scheduler::Handoff;
use crate::ids::{InstanceId, RequestId};
use crate::request::Request;
use crate::threads;
use crate::units::{SimDuration, SimTime};
use crate::workload::WorkloadError;

/// Requests that are drawn while lanes go on with those drawn before: enough to keep threads busy, few
/// enough to fit caches.
const ROUND_MIN: usize = 1 << 13;
/// The same for each lane: what a lane works with comes into the caches anew in each round, which takes
/// a while. With 64 lanes and 256 requests each a run took half as long again.
const ROUND_PER_LANE: usize = 1 << 10;
/// Requests of a round at most, however many lanes there are: they are all in memory.
const ROUND_MAX: usize = 1 << 20;
/// The first round, for each lane, in which none can begin before it is drawn; rounds double from there.
const FIRST_ROUND_PER_LANE: usize = 1 << 6;

impl<W: Source + Send> Simulation<W> {
    /// [`run`](Self::run), with the same results, in lanes where instances cannot influence each
    /// other.
    ///
    /// # Errors
    /// When the workload yields an error.
    ///
    /// # Panics
    /// When a law is broken: time decreases, a request is lost, memory does not add up.
    pub fn run_in_lanes(self, observer: &mut impl Separable) -> Result<Counts, WorkloadError> {
        let is_separable = self.cluster.disaggregation.is_none()
            && self.cluster.tiers.is_none()
            && self.cluster.placement.is_none()
            && self.faults.is_none()
            && self.gate.is_none()
            && self.router_time.is_none()
            && self.scaling.is_none()
            && self.cluster.router.goes_in_turn()
            && self.client.is_open()
            && !self.workload.has_follow_ups()
            && !self.cluster.instances.iter().any(Instance::has_front_end);
        if is_separable { self.run_separately(observer) } else { self.run(observer) }
    }

    fn run_separately(mut self, observer: &mut impl Separable) -> Result<Counts, WorkloadError> {
        let mut watch = cfg!(debug_assertions).then(Watch::default);
        let counts = threads::within(|| self.serve_lanes(&mut (&mut watch, observer)))?;
        if let Some(watch) = watch {
            watch.close(&counts);
        }
        Ok(counts)
    }

    fn serve_lanes<O: Separable>(&mut self, observer: &mut O) -> Result<Counts, WorkloadError> {
        let instances = std::mem::take(&mut self.cluster.instances);
        let full_round = (ROUND_PER_LANE * instances.len()).clamp(ROUND_MIN, ROUND_MAX);
        let mut round = (FIRST_ROUND_PER_LANE * instances.len()).min(full_round);
        let mut coming = Coming {
            workload: &mut self.workload,
            end: self.end,
            delay: self.api_delay,
            per_request: self.api_per_request,
            first: SimTime::ZERO,
            next: 0,
            ways: instances.iter().map(|_| Way::default()).collect(),
        };
        let mut horizon = coming.draw(round, observer)?;
        let mut lanes = lanes(instances, coming.end, |lane| observer.lane(lane), coming.first);
        let mut asides: Vec<O::Aside> = lanes.iter().map(|_| O::Aside::default()).collect();
        loop {
            for (lane, way) in lanes.iter_mut().zip(&mut coming.ways) {
                lane.expect(&mut way.drawn);
            }
            if horizon == SimTime::MAX {
                break;
            }
            for (lane, aside) in lanes.iter_mut().zip(&mut asides) {
                O::set_aside(&mut lane.observer, aside);
            }
            round = full_round.min(2 * round);
            let prepare = || {
                let until = coming.draw(round, observer);
                threads::for_each(&mut asides, O::count);
                until
            };
            // This thread serves lanes; drawing and counting are offered to others.
            horizon = threads::both(|| serve(&mut lanes, horizon), prepare).1?;
        }
        serve(&mut lanes, SimTime::MAX);
        for (lane, aside) in lanes.iter_mut().zip(asides) {
            O::take_back(&mut lane.observer, aside);
        }
        let (counts, observers) = close(lanes);
        observer.join(observers);
        Ok(counts)
    }
}

/// Requests that are drawn for lanes, which get them in turn.
struct Coming<'a, W> {
    workload: &'a mut W,
    /// Requests that arrive later are none of the run.
    end: SimTime,
    /// From the client to the queue of the engine, behind the front end.
    delay: SimDuration,
    per_request: SimDuration,
    /// When the first request arrives.
    first: SimTime,
    /// The id of the next one.
    next: u32,
    ways: Vec<Way>,
}

/// The way of requests to an engine.
#[derive(Default)]
struct Way {
    front_end_free: SimTime,
    /// Those of the round that was drawn last.
    drawn: VecDeque<Expected>,
}

impl<W: Source> Coming<'_, W> {
    /// Draws the requests of a round, fewer where no more come, and tells of them. Returns up to when all that
    /// arrive are known.
    fn draw(
        &mut self,
        round: usize,
        observer: &mut impl Separable,
    ) -> Result<SimTime, WorkloadError> {
        let mut last = SimTime::MAX;
        for _ in 0..round {
            let Some(request) = self.workload.next().transpose()? else {
                return Ok(SimTime::MAX);
            };
            if request.arrival > self.end {
                return Ok(SimTime::MAX);
            }
            last = request.arrival;
            observer.arrives(&request);
            self.send(request);
        }
        Ok(last)
    }

    fn send(&mut self, request: Request) {
        if self.next == 0 {
            self.first = request.arrival;
        }
        let lane = self.next as usize % self.ways.len();
        let way = &mut self.ways[lane];
        way.front_end_free = request.arrival.max(way.front_end_free) + self.per_request;
        let (id, queued) = (RequestId(self.next), way.front_end_free + self.delay);
        way.drawn.push_back(Expected { id, request, queued });
        self.next = self.next.checked_add(1).expect("fewer than 2^32 requests");
    }
}

fn lanes<O>(
    instances: Vec<Instance>,
    end: SimTime,
    mut observer: impl FnMut(Lane) -> O,
    first_sent: SimTime,
) -> Vec<LaneRun<O>> {
    let count = instances.len() as u32;
    let lane = |(first, engine): (usize, Instance)| LaneRun {
        id: InstanceId::from_index(first),
        // Nobody sees its first tokens before the run has ended.
        engine: engine.telling_late(),
        inbox: VecDeque::new(),
        told: 0,
        end,
        wake: None,
        is_awaited: false,
        counts: Counts::default(),
        outcome: Outcome::default(),
        observer: observer(Lane { first: first as u32, count, first_sent }),
    };
    instances.into_iter().enumerate().map(lane).collect()
}

/// Lets all lanes go on up to a moment, as far as they know what happens until then.
fn serve<O: Observer + Send>(lanes: &mut [LaneRun<O>], horizon: SimTime) {
    threads::for_each(lanes, |lane| lane.serve(horizon));
}

/// A request that is known to come.
#[derive(Debug)]
struct Expected {
    id: RequestId,
    request: Request,
    /// When it reaches the queue of the engine.
    queued: SimTime,
}

/// An instance and what it needs to run on its own.
#[derive(Debug)]
struct LaneRun<O> {
    id: InstanceId,
    engine: Instance,
    /// Requests that have not reached the engine, in order.
    inbox: VecDeque<Expected>,
    /// Of those, the ones whose arrival was told.
    told: usize,
    /// When the clients stop, whatever is under way.
    end: SimTime,
    wake: Option<SimTime>,
    is_awaited: bool,
    counts: Counts,
    outcome: Outcome,
    observer: O,
}

impl<O: Observer> LaneRun<O> {
    /// These requests come too. Leaves an empty list.
    fn expect(&mut self, drawn: &mut VecDeque<Expected>) {
        // Few are left of those before: they are what is moved.
        while let Some(last) = self.inbox.pop_back() {
            drawn.push_front(last);
        }
        std::mem::swap(&mut self.inbox, drawn);
    }

    /// What happens up to `horizon`, where all requests that arrive before it are known. At one
    /// instant inputs come before steps, so that steps at the horizon have to wait.
    fn serve(&mut self, horizon: SimTime) {
        let mut pulse = Pulse::default();
        loop {
            pulse.beat();
            let arrives = self.inbox.get(self.told);
            let arrives = arrives.map_or(SimTime::MAX, |expected| expected.request.arrival);
            let enters = if self.told > 0 { self.enters() } else { SimTime::MAX };
            let (input, wake) = (arrives.min(enters), self.wake.unwrap_or(SimTime::MAX));
            let (steps, now) = (wake < input, wake.min(input));
            if now == SimTime::MAX || now > self.end || now > horizon || steps && now == horizon {
                return;
            }
            if steps {
                // Requests that arrive before the next one reaches the engine do not disturb it.
                self.advance(now, self.enters());
            } else if arrives == now {
                self.arrive(now);
            } else {
                self.enter(now);
            }
        }
    }

    /// When the next request reaches the engine, as far as is known.
    fn enters(&self) -> SimTime {
        self.inbox.front().map_or(SimTime::MAX, |first| first.queued)
    }

    fn arrive(&mut self, now: SimTime) {
        let Expected { id, request, .. } = &self.inbox[self.told];
        self.observer.on(now, Occurrence::Arrived(*id, request));
        self.observer.on(now, Occurrence::Sent(*id, self.id));
        self.told += 1;
        self.counts.arrived += 1;
    }

    fn enter(&mut self, now: SimTime) {
        let Some(Expected { id, request, .. }) = self.inbox.pop_front() else { return };
        self.told -= 1;
        let place = (self.id, &mut self.engine);
        let part = (id, &request, Handoff::None);
        let entered = drive::enqueue(place, now, part, self.is_awaited, &mut self.observer);
        if let Some(at) = entered.wake {
            self.awaken(at);
        }
        if let Some(finish) = entered.refused {
            self.counts.leave(finish);
        }
    }

    fn advance(&mut self, now: SimTime, next_input: SimTime) {
        self.wake = None;
        self.engine.expect_input(next_input);
        let place = (self.id, &mut self.engine);
        if let Some(at) =
            drive::advance(place, Role::Whole, now, &mut self.outcome, &mut self.observer)
        {
            self.awaken(at);
        }
        if self.engine.is_idle() {
            self.is_awaited = false;
        }
        if !self.outcome.left.is_empty() {
            for gone in self.outcome.left.drain(..) {
                self.counts.leave(gone.finish);
            }
        }
    }

    fn awaken(&mut self, at: SimTime) {
        self.wake = Some(at);
        self.is_awaited = true;
    }
}

/// The counts of all lanes, and their observers.
fn close<O: Observer>(lanes: Vec<LaneRun<O>>) -> (Counts, Vec<O>) {
    let is_cut_off = lanes.iter().any(|lane| lane.wake.is_some() || !lane.inbox.is_empty());
    let mut counts = Counts::default();
    let mut left_over = 0;
    let mut observers = Vec::with_capacity(lanes.len());
    for mut lane in lanes {
        if is_cut_off {
            drive::interrupt((lane.id, &mut lane.engine), lane.end, &mut lane.observer);
        }
        counts.add(&lane.counts);
        let place = (lane.id, &lane.engine);
        left_over += lane.told as u64 + drive::still_inside(place, is_cut_off, &mut counts);
        observers.push(lane.observer);
    }
    counts.close(left_over, is_cut_off);
    (counts, observers)
}
