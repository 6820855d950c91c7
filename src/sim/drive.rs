//! One instance is driven, and what happens on it is told.

use std::collections::BTreeMap;

use super::counts::Counts;
use super::laws;
use super::observe::{Observer, Occurrence};
use crate::cluster::wires::Cargo;
use crate::cluster::{Chunk, Role};
use crate::engine::scheduler::{Handoff, Load};
use crate::engine::{EngineEvent, Finish, Instance, Life, StepResult};
use crate::ids::{InstanceId, RequestId};
use crate::request::Request;
use crate::units::{SimDuration, SimTime};

/// An instance and its name.
pub(super) type Place<'a> = (InstanceId, &'a mut Instance);

/// A request that left the cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gone {
    pub(super) id: RequestId,
    pub(super) finish: Finish,
    /// Of its answer.
    pub(super) tokens: u32,
    /// When its client knows.
    pub(super) at: SimTime,
}

/// What came of an instance that went on. Buffers are reused.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Requests that left the cluster.
    pub(super) left: Vec<Gone>,
    /// Requests whose prompt is computed, to be decoded elsewhere.
    pub(super) prefilled: Vec<RequestId>,
    /// Requests whose KV the instance asks for, with the tokens it lacks.
    pub(super) loads: Vec<(RequestId, u32)>,
    /// Whether KV caches are sent while they are computed.
    pub(super) sends_early: bool,
    /// What steps that were decided compute of prompts, in that case.
    pub(super) chunks: Vec<Chunk>,
    /// What has arrived over links.
    pub(super) arrived: Vec<Cargo>,
    /// Requests that the instance forgot because their clients had given them up.
    pub(super) dropped: Vec<RequestId>,
    /// Requests whose prompt is computed, where somebody is told.
    pub(super) first_tokens: Vec<RequestId>,
    pub(super) tells_first_tokens: bool,
    /// When the step that was decided last is computed.
    pub(super) computed_at: Option<SimTime>,
    /// Requests that are to leave their instance, and where they go.
    pub(super) moving: BTreeMap<RequestId, InstanceId>,
    /// Those of them that have left it.
    pub(super) moved: Vec<(Life, InstanceId)>,
    /// The lives of requests that were answered, where they are kept.
    pub(super) lives: Vec<Life>,
    pub(super) keeps_lives: bool,
    /// The outcome of a step as it looks from outside where nothing is seen of it.
    pub(super) unseen: StepResult,
}

/// What follows from a request that reached an instance.
pub(super) struct Entered {
    /// When the instance is woken, if that has changed.
    pub(super) wake: Option<SimTime>,
    pub(super) refused: Option<Finish>,
}

/// A request reaches the queue of an instance, which is going to be woken, or not.
pub(super) fn enqueue(
    (instance, engine): Place<'_>,
    now: SimTime,
    (id, request, handoff): (RequestId, &Request, Handoff),
    is_awaited: bool,
    observer: &mut impl Observer,
) -> Entered {
    let changed = interrupt((instance, engine), now, observer);
    match engine.enqueue_at(now, id, request, handoff) {
        Ok(()) => {
            observer.on(now, Occurrence::Queued(instance, id, engine.scheduler().load()));
            Entered { wake: if is_awaited { changed } else { Some(now) }, refused: None }
        }
        Err(finish) => {
            observer.on(now, Occurrence::Refused(instance, id));
            Entered { wake: changed, refused: Some(finish) }
        }
    }
}

/// A request that another instance has begun reaches the queue of an instance. Returns when that goes on, if
/// that has changed.
pub(super) fn adopt(
    (instance, engine): Place<'_>,
    now: SimTime,
    (life, request): (Life, &Request),
    observer: &mut impl Observer,
) -> Option<SimTime> {
    let changed = interrupt((instance, engine), now, observer);
    engine.adopt(now, life, request);
    observer.on(now, Occurrence::Queued(instance, life.id, engine.scheduler().load()));
    changed
}

/// An instance goes on at the moment that it asked for; returns the next one.
pub(super) fn advance(
    (instance, engine): Place<'_>,
    role: Role,
    now: SimTime,
    outcome: &mut Outcome,
    observer: &mut impl Observer,
) -> Option<SimTime> {
    let unseen = &outcome.unseen;
    let (left, prefilled, loads) = (&mut outcome.left, &mut outcome.prefilled, &mut outcome.loads);
    let dropped = &mut outcome.dropped;
    let (moving, moved) = (&mut outcome.moving, &mut outcome.moved);
    let mut chunks = (outcome.sends_early && role == Role::Prefill).then_some(&mut outcome.chunks);
    let mut lives = outcome.keeps_lives.then_some(&mut outcome.lives);
    let computed_at = &mut outcome.computed_at;
    let mut first_tokens = outcome.tells_first_tokens.then_some(&mut outcome.first_tokens);
    let mut leave = |result: &StepResult, load: Load, observer: &mut _| {
        for (life, finish) in &result.finished {
            if let Some(to) = moving.remove(&life.id)
                && *finish == Finish::Aborted
            {
                let what = Occurrence::Moved { from: instance, to, life, load };
                Observer::on(observer, now, what);
                moved.push((*life, to));
            } else if *finish == Finish::Aborted {
                let life = if role == Role::Prefill { life.unseen() } else { *life };
                Observer::on(observer, now, Occurrence::Dropped(instance, &life, load));
                dropped.push(life.id);
            } else if role == Role::Prefill && *finish == Finish::Done {
                Observer::on(observer, now, Occurrence::HandedOver(instance, life));
                prefilled.push(life.id);
            } else {
                Observer::on(observer, now, Occurrence::Left(instance, life, *finish));
                let at = now.max(life.last_token);
                left.push(Gone { id: life.id, finish: *finish, tokens: life.generated, at });
                if let Some(lives) = lives.as_deref_mut().filter(|_| *finish == Finish::Done) {
                    lives.push(*life);
                }
            }
        }
    };
    engine.advance(now, |engine, event| match event {
        EngineEvent::Planned(batch) => {
            let load = engine.scheduler().load();
            *computed_at = Some(batch.ends_at());
            observer.on(now, Occurrence::Planned(instance, batch, load));
            loads.extend_from_slice(&batch.plan.loads);
            if let Some(chunks) = &mut chunks {
                chunks.extend(batch.plan.entries.iter().map(|entry| Chunk {
                    request: entry.request,
                    end: entry.computed + entry.tokens,
                    starts_at: batch.starts_at,
                    duration: batch.duration,
                }));
            }
        }
        EngineEvent::Completed(batch, result) => {
            if let Some(first_tokens) = &mut first_tokens {
                first_tokens.extend_from_slice(&result.first_tokens);
            }
            let load = engine.scheduler().load();
            // Nobody sees the token that a prefill ends with.
            let seen = if role == Role::Prefill { unseen } else { result };
            observer.on(engine.last_completion(), Occurrence::Stepped(instance, batch, seen, load));
            if !result.finished.is_empty() {
                leave(result, load, observer);
            }
        }
        EngineEvent::Landed(result) => {
            let load = engine.scheduler().load();
            observer.on(now, Occurrence::Landed(instance, result, load));
            leave(result, load, observer);
        }
        EngineEvent::Left(result) => leave(result, engine.scheduler().load(), observer),
        EngineEvent::Quiet(run) => observer.on(now, Occurrence::Quiet(instance, run)),
        EngineEvent::Empty(plan) => {
            if !plan.preempted.is_empty() {
                observer.on(now, Occurrence::Displaced(instance, &plan.preempted));
            }
            if !plan.loads.is_empty() {
                observer.on(now, Occurrence::Loading(instance, plan));
            }
            loads.extend_from_slice(&plan.loads);
        }
    })
}

/// Something comes from outside at `now`: a run of steps ends before it. Returns when the instance is
/// woken, if that has changed.
pub(super) fn interrupt(
    place: Place<'_>,
    now: SimTime,
    observer: &mut impl Observer,
) -> Option<SimTime> {
    interrupt_before(place, now, now, observer)
}

/// The same where what comes from outside comes last at its instant: steps that end then are taken in.
pub(super) fn interrupt_through(
    place: Place<'_>,
    now: SimTime,
    observer: &mut impl Observer,
) -> Option<SimTime> {
    interrupt_before(place, now + SimDuration::from_nanos(1), now, observer)
}

fn interrupt_before(
    (instance, engine): Place<'_>,
    before: SimTime,
    now: SimTime,
    observer: &mut impl Observer,
) -> Option<SimTime> {
    engine.interrupt(before, |engine, event| match event {
        EngineEvent::Quiet(run) => observer.on(now, Occurrence::Quiet(instance, run)),
        EngineEvent::Completed(batch, result) => {
            let load = engine.scheduler().load();
            let at = engine.last_completion();
            observer.on(at, Occurrence::Stepped(instance, batch, result, load));
        }
        event => unreachable!("a run of steps tells of {event:?}"),
    })
}

/// The requests that an instance has at the end of a run.
pub(super) fn still_inside(
    (instance, engine): (InstanceId, &Instance),
    may_hold: bool,
    counts: &mut Counts,
) -> u64 {
    if cfg!(debug_assertions) {
        laws::at_rest(instance.index(), engine, may_hold);
    }
    let load = engine.scheduler().load();
    let inside = u64::from(load.waiting + load.running);
    if engine.scheduler().displaces_in_vain() {
        counts.displaced += inside;
    }
    inside
}
