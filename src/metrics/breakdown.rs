//! Where the time of a request went: its end-to-end time in parts that add up to it exactly.
//!
//! | part | from … to |
//! |---|---|
//! | `gateway` | sent → the gateway sends it to an instance |
//! | `api` | sent to an instance → in the queue of that |
//! | `queued` | in the queue → the first step that works on it is decided |
//! | `prefill` | → its first token, without `preempted` |
//! | `decode` | first token → finish, without `preempted` and `stalled` |
//! | `preempted` | losing its memory → its next token ([`Preemptions`]) |
//! | `stalled` | while it decodes, the steps that prefill others, or fetch the KV of others |
//!
//! What a step would have taken without the prefills in it is not known, so such a step counts as
//! stalled in full: the time from the outcome before it to its own, whether the request decodes in
//! it (mixed batches) or waits for it (prefill first). Per instance this is one running sum over
//! steps; a request takes it down when it begins to decode and again when it stops.
//!
//! Where KV comes from a tier below before the first step, `transfer` is the time in which it does, and
//! no part of `queued`.
//!
//! Where another instance decodes, `transfer` is the way of the KV cache there, and the rest of the time
//! between the two counts as `queued`. Waits for adapters count as `queued` too. A
//! request that pauses because another's adapter is merged is taken to decode, or to stall.

use rustc_hash::FxHashMap;

use super::RequestRecord;
use super::preemptions::Preemptions;
use super::records::Records;
use crate::engine::{Batch, StepResult};
use crate::ids::{InstanceId, RequestId};
use crate::sim::{Lane, Occurrence};
use crate::units::{SimDuration, SimTime};

/// The parts of a request's end-to-end time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breakdown {
    /// Waiting at the gateway, which records do not hold (`Recorder::breakdown_of`).
    pub gateway: SimDuration,
    /// From its client, or the gateway, to the queue of its instance.
    pub api: SimDuration,
    /// In queues, until a step works on it; where another instance decodes, also on the way to that
    /// and in its queue.
    pub queued: SimDuration,
    /// Until its first token.
    pub prefill: SimDuration,
    /// Decoding in steps that only decode.
    pub decode: SimDuration,
    /// Without memory, and catching up.
    pub preempted: SimDuration,
    /// Decoding, or waiting to, in steps that prefill others or fetch their KV.
    pub stalled: SimDuration,
    /// Waiting for its KV to come from the instance that prefilled it, or from a tier below.
    pub transfer: SimDuration,
}

impl Breakdown {
    /// The parts of a request that has left.
    pub(super) fn of(record: &RequestRecord) -> Self {
        let preempted_in_decode = minus(record.preempted, record.preempted_in_prefill);
        let decode = minus(record.finish - record.first_token, preempted_in_decode);
        let waiting = record.first_scheduled - record.queued;
        let (waiting, elsewhere) = if record.loads_first {
            (minus(waiting, record.transfer), SimDuration::ZERO)
        } else {
            (waiting, record.handoff + record.transfer)
        };
        let prefill = minus(record.first_token - record.first_scheduled, elsewhere);
        Self {
            gateway: SimDuration::ZERO,
            api: record.queued - record.sent,
            queued: waiting + record.handoff,
            prefill: minus(prefill, record.preempted_in_prefill),
            decode: minus(decode, record.stalled),
            preempted: record.preempted,
            stalled: record.stalled,
            transfer: record.transfer,
        }
    }

    /// How many parts there are.
    pub const PARTS: usize = 8;

    /// All of them, in the order in which they are declared.
    pub fn parts(&self) -> [SimDuration; Self::PARTS] {
        let Self { gateway, api, queued, prefill, decode, preempted, stalled, transfer } = *self;
        [gateway, api, queued, prefill, decode, preempted, stalled, transfer]
    }

    /// All parts together: the end-to-end time.
    pub fn total(&self) -> SimDuration {
        let served = self.prefill + self.decode + self.preempted + self.stalled;
        self.gateway + self.api + self.queued + self.transfer + served
    }
}

pub(super) fn minus(whole: SimDuration, part: SimDuration) -> SimDuration {
    SimDuration::from_nanos(whole.as_nanos() - part.as_nanos())
}

/// A client that has its first token late sees less of what held the request up while it decoded.
fn fit(record: &mut RequestRecord, decoding: SimDuration) {
    let preempted = minus(record.preempted, record.preempted_in_prefill).min(decoding);
    record.preempted = record.preempted_in_prefill + preempted;
    record.stalled = record.stalled.min(minus(decoding, preempted));
}

/// How far an instance has come.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    /// The last outcome.
    completed: SimTime,
    /// For how long steps with prefills have held its decodes up, since the start.
    stalled: SimDuration,
}

/// Keeps the parts in the records: a few additions per step and per change of a request. Until a
/// request leaves, `stalled` of its record is that of its instance when it began to decode.
#[derive(Debug, Default)]
pub(super) struct Phases {
    lane: Lane,
    paces: Vec<Pace>,
    preemptions: Preemptions,
    /// Of requests that moved, for how long they were stalled where they were before.
    stalled_before: FxHashMap<RequestId, SimDuration>,
}

impl Phases {
    /// Of one lane, whose requests the records are.
    pub(super) fn of_lane(lane: Lane) -> Self {
        Self { lane, ..Self::default() }
    }

    #[inline]
    pub(super) fn hear(&mut self, at: SimTime, what: Occurrence<'_>, records: &mut Records) {
        let lane = self.lane;
        match what {
            Occurrence::Planned(instance, batch, _) => {
                let stalled = self.pace(instance).stalled;
                self.preemptions.plan(at, instance, batch, stalled);
            }
            Occurrence::Displaced(instance, ids) => {
                let stalled = self.pace(instance).stalled;
                self.preemptions.lose(at, ids, stalled);
            }
            Occurrence::Stepped(instance, batch, result, _) => {
                self.step(at, instance, batch, result, records);
            }
            Occurrence::Quiet(instance, run) => {
                if let Some(last) = run.steps.last() {
                    self.pace(instance).completed = last.boundary;
                }
            }
            Occurrence::Landed(instance, result, _) => {
                let stalled = self.pace(instance).stalled;
                for id in &result.first_tokens {
                    records.at(lane.place(*id)).stalled = stalled;
                }
                for id in &result.landed {
                    if let Some(lost) = self.preemptions.take(*id) {
                        let record = records.at(lane.place(*id));
                        record.preempted += at - lost.since;
                        record.stalled += minus(stalled, lost.stalled);
                    }
                }
            }
            Occurrence::HandedOver(_, life) => {
                if let Some(lost) = self.preemptions.take(life.id) {
                    let record = records.at(lane.place(life.id));
                    record.preempted += at - lost.since;
                    record.preempted_in_prefill += at - lost.since;
                }
            }
            Occurrence::Dropped(_, life, _) => {
                self.preemptions.take(life.id);
            }
            Occurrence::Moved { from, life, .. } if life.first_token.is_some() => {
                let stalled = self.pace(from).stalled;
                let record = records.at(lane.place(life.id));
                if let Some(lost) = self.preemptions.take(life.id) {
                    record.preempted += at - lost.since;
                    record.stalled += minus(stalled, lost.stalled);
                }
                *self.stalled_before.entry(life.id).or_default() += minus(stalled, record.stalled);
                record.stalled = SimDuration::ZERO;
                self.preemptions.lose(at, &[life.id], SimDuration::ZERO);
            }
            Occurrence::Left(instance, life, _) => {
                let stalled = self.pace(instance).stalled;
                let before = self.forget_stalled(life.id);
                let record = records.at(lane.place(life.id));
                if let Some(lost) = self.preemptions.take(life.id) {
                    record.preempted += at - lost.since;
                    if life.first_token.is_none() {
                        record.preempted_in_prefill += at - lost.since;
                    }
                    record.stalled += minus(stalled, lost.stalled);
                }
                record.stalled = match life.first_token {
                    Some(_) => minus(stalled, record.stalled) + before,
                    None => SimDuration::ZERO,
                };
                if let Some(first) = life.first_token {
                    fit(record, at.max(life.last_token) - first);
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn step(
        &mut self,
        at: SimTime,
        instance: InstanceId,
        batch: &Batch,
        result: &StepResult,
        records: &mut Records,
    ) {
        let lane = self.lane;
        let pace = self.pace(instance);
        let fetching_since = batch.plan.fetching_since;
        if batch.plan.shape.prefill_tokens > 0 || fetching_since.is_some() {
            let since = fetching_since.unwrap_or(batch.scheduled_at);
            pace.stalled += at - pace.completed.max(since);
        }
        pace.completed = at;
        let stalled = pace.stalled;
        for id in &result.first_tokens {
            let record = records.at(lane.place(*id));
            record.stalled = stalled;
            if let Some(lost) = self.preemptions.split(*id, at, stalled) {
                record.preempted += at - lost.since;
                record.preempted_in_prefill += at - lost.since;
            }
        }
        self.preemptions.complete(instance, batch, |id, lost| {
            let record = records.at(lane.place(id));
            record.preempted += at - lost.since;
            record.stalled += minus(stalled, lost.stalled);
        });
    }

    /// For how long a request that leaves was stalled where it was before, if it moved: none of most runs did, and
    /// an empty table need not be searched.
    #[inline]
    fn forget_stalled(&mut self, id: RequestId) -> SimDuration {
        if self.stalled_before.is_empty() {
            return SimDuration::ZERO;
        }
        self.stalled_before.remove(&id).unwrap_or_default()
    }

    #[inline]
    fn pace(&mut self, instance: InstanceId) -> &mut Pace {
        let seat = self.lane.seat(instance);
        if self.paces.len() <= seat {
            self.paces.resize(seat + 1, Pace::default());
        }
        &mut self.paces[seat]
    }
}
