//! The laws that every run keeps, checked as it goes. Debug builds of
//! [`Simulation::run`](super::Simulation::run) always watch themselves.
//!
//! * L1: a request arrives once, is sent once, enters one queue and leaves it once; at the end all
//!   are accounted for.
//! * L2: time never decreases; the steps of one instance follow each other and never overlap on its
//!   device.
//! * L3: an engine holds no more blocks than it has, and none when nobody is inside but those of requests
//!   that have left while others fetch their KV or a step in flight may write to it; at rest none at all.
//! * L4: arrival ≤ sent ≤ queued ≤ first scheduled ≤ first token ≤ last token ≤ finish.
//! * L10: every token that comes out belongs to a request, exactly once.

mod blocks;
mod faults;
mod scaling;

pub use self::blocks::at_rest;

use super::counts::Counts;
use super::observe::{Observer, Occurrence};
use super::separable::{Lane, Separable};
use crate::cluster::Stage;
use crate::engine::{Batch, Finish, Life, QuietRun, StepResult};
use crate::ids::{InstanceId, RequestId};
use crate::request::Request;
use crate::units::SimTime;

/// An observer that panics, with the ids, where a law is broken.
#[derive(Debug, Default)]
pub struct Watch {
    lane: Lane,
    /// Whether instances may tell outcomes of which nothing follows late: those of lanes do.
    hears_late: bool,
    now: SimTime,
    requests: Vec<Progress>,
    devices: Vec<Device>,
    /// What instances do, where they are started and drained.
    stages: Vec<Stage>,
    seen: Counts,
    /// Tokens that steps brought out.
    tokens_out: u64,
    /// Tokens of the requests that left.
    tokens_left: u64,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy)]
struct Progress {
    place: Place,
    arrival: SimTime,
    sent: SimTime,
    queued: SimTime,
    /// Whether it is given up and will be sent again.
    tries_again: bool,
    /// Whether it goes on at another instance than the one that queued it first.
    has_moved: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    AtClient,
    AtGateway,
    OnItsWay(InstanceId),
    Inside(InstanceId),
    /// Its prompt is computed, and it is not sent on yet.
    HandedOver,
    /// Still there, though its client waits no longer.
    Abandoned(InstanceId),
    /// Its instance crashed; its client still waits.
    Lost,
    Left,
}

impl Place {
    fn is_at(self, instance: InstanceId) -> bool {
        matches!(self, Self::Inside(at) | Self::Abandoned(at) if at == instance)
    }
}

/// The steps of one instance.
#[derive(Debug, Clone, Copy, Default)]
struct Device {
    planned: u64,
    stepped: u64,
    free: SimTime,
    /// The last outcome.
    completed: SimTime,
    /// Requests whose KV it holds for instances that decode.
    handed_over: u32,
}

impl Watch {
    /// The run is over and its driver counted `counts`.
    ///
    /// # Panics
    /// When they are not what was seen, or tokens are missing.
    pub fn close(&self, counts: &Counts) {
        let Counts { stuck, unfinished, displaced, .. } = *counts;
        let seen = Counts { stuck, unfinished, displaced, ..self.seen };
        assert_eq!(*counts, seen, "L1: counts as seen");
        let is_abandoned = |request: &Progress| matches!(request.place, Place::Abandoned(_));
        let abandoned = self.requests.iter().filter(|request| is_abandoned(request)).count();
        let is_over = |request: &&Progress| {
            (request.place == Place::Left || is_abandoned(request)) && !request.tries_again
        };
        let left = self.requests.iter().filter(is_over).count();
        let inside = stuck + unfinished;
        assert_eq!(counts.arrived - inside, left as u64, "L1: who is not inside has left");
        if inside == 0 && abandoned == 0 {
            assert_eq!(self.tokens_out, self.tokens_left, "L10: tokens out are those of requests");
        }
        assert!(self.tokens_out >= self.tokens_left, "L10: no request has tokens that never came");
    }

    fn request(&mut self, id: RequestId) -> &mut Progress {
        let request = self.requests.get_mut(self.lane.place(id));
        request.unwrap_or_else(|| panic!("L1: request {id} acts before it arrives"))
    }

    fn device(&mut self, instance: InstanceId) -> &mut Device {
        let seat = self.lane.seat(instance);
        if self.devices.len() <= seat {
            self.devices.resize(seat + 1, Device::default());
        }
        &mut self.devices[seat]
    }

    fn move_on(&mut self, id: RequestId, from: Place, to: Place) {
        let request = self.request(id);
        assert_eq!(request.place, from, "L1: request {id} is not where it leaves from");
        request.place = to;
    }

    fn planned(&mut self, at: SimTime, instance: InstanceId, batch: &Batch) {
        self.works(instance);
        let device = self.device(instance);
        assert_eq!(batch.step, device.planned, "L2: instance {instance} skips a step");
        assert_eq!(batch.scheduled_at, at, "L2: step {} is decided now", batch.step);
        assert!(
            batch.starts_at >= at && batch.starts_at >= device.free,
            "L2: step {} of instance {instance} starts at {} on a device that is free at {}",
            batch.step,
            batch.starts_at,
            device.free
        );
        device.planned += 1;
        device.free = batch.ends_at();
        for entry in &batch.plan.entries {
            let (id, place) = (entry.request, self.request(entry.request).place);
            assert!(place.is_at(instance), "L1: request {id} computes where it is, {place:?}");
        }
    }

    /// Steps that only decode, decided and completed in one go.
    fn quiet(&mut self, at: SimTime, instance: InstanceId, run: &QuietRun<'_>) {
        let device = self.device(instance);
        assert_eq!(run.first_step, device.planned, "L2: instance {instance} skips a step");
        let mut before = run.completed_before;
        for step in run.outcomes() {
            assert!(step.boundary > before, "L2: steps of instance {instance} end in order");
            before = step.boundary;
        }
        assert!(before >= device.completed, "L2: outcomes of instance {instance} come in order");
        device.completed = before;
        for step in run.steps {
            assert!(step.boundary <= at, "L2: a step of instance {instance} ends in the future");
            assert!(step.start >= step.boundary.max(device.free), "L2: the device is taken");
            device.free = step.start + step.duration;
        }
        let outcomes = run.outcomes().len() as u64;
        device.planned += run.steps.len() as u64;
        device.stepped += outcomes;
        self.tokens_out += outcomes * u64::from(run.rows);
    }

    fn stepped(&mut self, at: SimTime, instance: InstanceId, batch: &Batch, result: &StepResult) {
        let device = self.device(instance);
        assert_eq!(batch.step, device.stepped, "L2: steps of instance {instance} end in order");
        assert!(at >= batch.ends_at(), "L2: step {} is known before it ends", batch.step);
        assert!(at >= device.completed, "L2: outcomes of instance {instance} come in order");
        device.completed = at;
        device.stepped += 1;
        self.tokens_out += u64::from(result.tokens);
        let gaps: u32 = result.gaps.iter().map(|gap| gap.count).sum();
        let firsts = result.first_tokens.len() as u32;
        assert_eq!(firsts + gaps, result.tokens, "L10: a token is a first one or follows one");
    }

    fn left(&mut self, at: SimTime, instance: InstanceId, life: &Life, finish: Finish) {
        self.move_on(life.id, Place::Inside(instance), Place::Left);
        self.served(at, life);
        assert!(finish != Finish::Done || life.generated > 0, "L10: request {}", life.id);
        self.count(finish);
    }

    fn count(&mut self, finish: Finish) {
        match finish {
            Finish::Done => self.seen.finished += 1,
            Finish::Aborted => self.seen.aborted += 1,
            Finish::Rejected => self.seen.rejected += 1,
            Finish::TimedOut => self.seen.timed_out += 1,
            Finish::Failed => self.seen.failed += 1,
        }
    }

    /// A request was served on an instance until now.
    fn served(&mut self, at: SimTime, life: &Life) {
        let Progress { arrival, sent, queued, .. } = *self.request(life.id);
        let scheduled = life.first_scheduled.unwrap_or(at);
        let first_token = life.first_token.unwrap_or(at);
        let last_token = if life.first_token.is_some() { life.last_token } else { at };
        // Where the way back takes time its client has the answer later than the engine is done with it.
        let way = [arrival, sent, queued, scheduled, first_token, last_token, at.max(last_token)];
        assert!(way.is_sorted(), "L4: request {} goes its way out of order: {way:?}", life.id);
        assert_eq!(life.first_token.is_some(), life.generated > 0, "L10: request {}", life.id);
        assert!(life.generated <= life.output_tokens, "L10: request {} has too many", life.id);
        self.tokens_left += u64::from(life.generated);
    }
}

impl Observer for Watch {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        let is_late = self.hears_late
            && matches!(what, Occurrence::Stepped(_, _, result, _) if result.finished.is_empty());
        assert!(is_late || at >= self.now, "L2: time never decreases: {at} after {}", self.now);
        self.now = self.now.max(at);
        match what {
            Occurrence::Arrived(id, request) => self.arrived(at, id, request),
            Occurrence::Reached(id) => {
                self.move_on(id, Place::AtClient, Place::AtGateway);
                self.request(id).sent = at;
            }
            Occurrence::Sent(id, instance) => self.sent(at, id, instance),
            Occurrence::CameBack(id, from) => self.came_back(at, id, from),
            Occurrence::Queued(instance, id, load) => {
                self.move_on(id, Place::OnItsWay(instance), Place::Inside(instance));
                let request = self.request(id);
                if !request.has_moved {
                    request.queued = at;
                }
                self.check(instance, load);
            }
            Occurrence::Refused(instance, id) => {
                self.move_on(id, Place::OnItsWay(instance), Place::Left);
                self.seen.rejected += 1;
            }
            Occurrence::Planned(instance, batch, load) => {
                self.planned(at, instance, batch);
                self.check(instance, load);
            }
            Occurrence::Stepped(instance, batch, result, load) => {
                self.stepped(at, instance, batch, result);
                // An instance that only prefills shows no token, and holds what it hands over next.
                if result.tokens > 0 || batch.plan.shape.logit_rows == 0 {
                    self.check(instance, load);
                }
            }
            Occurrence::Landed(instance, result, load) => {
                for id in &result.landed {
                    self.is_inside(instance, *id);
                }
                self.tokens_out += u64::from(result.tokens);
                self.check(instance, load);
            }
            Occurrence::Displaced(instance, ids) => {
                for &id in ids {
                    let place = self.request(id).place;
                    assert!(
                        place.is_at(instance),
                        "L1: request {id} loses memory, it is {place:?}"
                    );
                }
            }
            Occurrence::Quiet(instance, run) => self.quiet(at, instance, run),
            Occurrence::HandedOver(instance, life) => {
                self.move_on(life.id, Place::Inside(instance), Place::HandedOver);
                self.device(instance).handed_over += 1;
            }
            Occurrence::Forwarded(id, instance) => {
                self.works(instance);
                self.move_on(id, Place::HandedOver, Place::OnItsWay(instance));
            }
            Occurrence::SendingBegan(instance, id) => self.is_inside(instance, id),
            Occurrence::Unreserved(instance, _, load) => self.check(instance, load),
            Occurrence::Released(instance, id) => {
                let held = &mut self.device(instance).handed_over;
                let left = held.checked_sub(1);
                *held = left.unwrap_or_else(|| panic!("L3: {id} is not held by {instance}"));
            }
            Occurrence::Left(instance, life, finish) => self.left(at, instance, life, finish),
            Occurrence::GaveUp { request, finish, tries_again, .. } => {
                self.gave_up(request, finish, tries_again);
            }
            Occurrence::Retried { retry, of } => self.retried(retry, of),
            Occurrence::Dropped(instance, life, _) => self.dropped(at, instance, life),
            Occurrence::Moved { from, to, life, load } => {
                self.move_on(life.id, Place::Inside(from), Place::OnItsWay(to));
                self.request(life.id).has_moved = true;
                self.check(from, load);
            }
            Occurrence::Crashed(instance, load) => self.crashed(at, instance, load),
            Occurrence::TransferBegan(instance, id, _)
            | Occurrence::TransferFailed(instance, id) => {
                let place = self.request(id).place;
                assert!(place.is_at(instance), "L1: request {id} loads where it is, {place:?}");
            }
            Occurrence::Scaled(instance, stage) => self.scaled(instance, stage),
            Occurrence::LoadBegan(instance, what, load) => {
                let (id, place) = (what.request, self.request(what.request).place);
                assert!(place.is_at(instance), "L1: request {id} loads where it is, {place:?}");
                self.check(instance, load);
            }
            Occurrence::LoadEnded(..)
            | Occurrence::TierMoved(..)
            | Occurrence::TiersEvicted(..)
            | Occurrence::TurnedAway(..)
            | Occurrence::Recovered(_)
            | Occurrence::Loading(..)
            | Occurrence::Swapped(_)
            | Occurrence::Rebalanced { .. }
            | Occurrence::Slowed(..)
            | Occurrence::Looked(..) => {}
        }
    }
}

impl Separable for Watch {
    type Lane = Self;
    type Aside = ();

    fn lane(&mut self, lane: Lane) -> Self {
        Self { lane, hears_late: true, ..Self::default() }
    }

    fn join(&mut self, lanes: Vec<Self>) {
        for lane in lanes {
            self.now = self.now.max(lane.now);
            self.requests.extend(lane.requests);
            self.devices.extend(lane.devices);
            self.seen.add(&lane.seen);
            self.tokens_out += lane.tokens_out;
            self.tokens_left += lane.tokens_left;
        }
    }
}

impl Watch {
    fn sent(&mut self, at: SimTime, id: RequestId, instance: InstanceId) {
        self.reached(instance);
        let waited = self.request(id).place == Place::AtGateway;
        let from = if waited { Place::AtGateway } else { Place::AtClient };
        self.move_on(id, from, Place::OnItsWay(instance));
        if !waited {
            self.request(id).sent = at;
        }
    }

    /// A request is back from an instance, or held back as it comes or where it was.
    fn came_back(&mut self, at: SimTime, id: RequestId, from: Option<InstanceId>) {
        if let Some(instance) = from {
            self.move_on(id, Place::OnItsWay(instance), Place::AtGateway);
        } else if self.request(id).place != Place::AtGateway {
            self.move_on(id, Place::AtClient, Place::AtGateway);
            self.request(id).sent = at;
        }
    }

    fn arrived(&mut self, at: SimTime, id: RequestId, request: &Request) {
        let place = self.lane.place(id);
        assert_eq!(place, self.requests.len(), "L1: ids come in order");
        assert!(request.arrival <= at, "L4: request {id} is here before it arrives");
        let (place, arrival) = (Place::AtClient, request.arrival);
        let progress =
            Progress { place, arrival, sent: at, queued: at, tries_again: false, has_moved: false };
        self.requests.push(progress);
        self.seen.arrived += 1;
    }

    /// What an instance says of a request holds of one that is inside.
    fn is_inside(&mut self, instance: InstanceId, id: RequestId) {
        let place = self.request(id).place;
        assert_eq!(place, Place::Inside(instance), "L1: request {id} is where it is spoken of");
    }
}

#[cfg(test)]
mod tests;
