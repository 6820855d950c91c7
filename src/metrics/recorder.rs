//! The observer that keeps the records of a run.

mod lanes;

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::adapters::{AdapterLog, MigrationLog};
use super::breakdown::{Phases, minus};
use super::cut::CutAnswers;
use super::faults::FaultLog;
use super::folded::{Folded, Folding};
use super::gaps::GapCounter;
use super::gateway::GatewayLog;
use super::presence::PresenceLog;
use super::record::{RequestDrafts, RequestRecord, Status};
use super::records::Records;
use super::replica::ReplicaLog;
use super::scaling::ScalingLog;
use super::seconds::CountsBySecond;
use super::series::Bin;
use super::slowness::SlownessLog;
use super::tiers::TierLog;
use super::timeline::Timeline;
use super::transfers::Carried;
use crate::engine::scheduler::Load;
use crate::engine::{DraftCounts, Finish, Life, QuietRun};
use crate::ids::{InstanceId, RequestId};
use crate::resolved::Scenario;
use crate::sim::{Lane, Observer, Occurrence};
use crate::units::{Bytes, SimTime};

/// Everything recorded of a run: one record per request, all gaps between tokens, and how queues,
/// memory and throughput went over time.
#[derive(Debug)]
pub struct Recorder {
    /// The requests, by id.
    pub requests: Records,
    /// What is left of those whose records are not kept, and when that begins.
    pub(super) folding: Option<Folding>,
    pub(super) folded: Option<Box<Folded>>,
    /// Whether records that are not kept are folded elsewhere, once they were set aside.
    pub(super) sets_aside: bool,
    /// Gaps between tokens.
    pub gaps: GapCounter,
    /// Tokens that came out in each second since the first request was sent.
    pub tokens_by_second: CountsBySecond,
    /// Drafts verified, with speculative decoding.
    pub drafts: DraftCounts,
    /// The same by request, up to the last one that had any.
    drafts_by_request: Vec<RequestDrafts>,
    /// KV caches that travelled between instances.
    pub carried: Carried,
    /// What came from KV memory below that of the GPUs, and went there.
    pub tiers: TierLog,
    /// What requests waited for adapters, and which were loaded.
    pub adapters: AdapterLog,
    /// Which requests and adapters moved between replicas.
    pub migrations: MigrationLog,
    /// What failed, and which requests were sent again.
    pub faults: FaultLog,
    /// Who waited at the gateway, and who was turned away.
    pub gateway: GatewayLog,
    /// Which replicas were there.
    pub presence: PresenceLog,
    /// Which were slow.
    pub slowness: SlownessLog,
    /// What an autoscaler saw and decided.
    pub scaling: ScalingLog,
    /// Answers that an engine ended before they were over.
    pub cut: CutAnswers,
    /// Steps of all instances.
    pub steps: u64,
    /// Over time, all instances together.
    pub timeline: Timeline,
    /// The instances that had requests, by id.
    pub replicas: Vec<ReplicaLog>,
    /// The last event that concerned a request.
    pub end: SimTime,
    pub(super) first_sent: Option<SimTime>,
    /// The second in which tokens came out last.
    second: Bin,
    phases: Phases,
    /// Requests that were prefilled elsewhere and have not left.
    pub(super) handed_over: FxHashMap<RequestId, HandedOver>,
    pub(super) lane: Lane,
}

/// A request between two instances.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandedOver {
    at: SimTime,
    transfer: Option<(SimTime, InstanceId, Bytes)>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            requests: Records::default(),
            folding: None,
            folded: None,
            sets_aside: false,
            gaps: GapCounter::default(),
            tokens_by_second: CountsBySecond::default(),
            drafts: DraftCounts::default(),
            drafts_by_request: Vec::new(),
            carried: Carried::default(),
            tiers: TierLog::default(),
            adapters: AdapterLog::default(),
            migrations: MigrationLog::default(),
            faults: FaultLog::default(),
            gateway: GatewayLog::default(),
            presence: PresenceLog::default(),
            slowness: SlownessLog::default(),
            scaling: ScalingLog::default(),
            cut: CutAnswers::default(),
            steps: 0,
            timeline: Timeline::default(),
            replicas: Vec::new(),
            end: SimTime::ZERO,
            first_sent: None,
            second: Bin::default(),
            phases: Phases::default(),
            handed_over: FxHashMap::default(),
            lane: Lane::WHOLE,
        }
    }
}

impl Recorder {
    /// For a run of a scenario, whose adapters it knows.
    pub fn of(scenario: &Scenario) -> Self {
        Self { adapters: AdapterLog::of(scenario), ..Self::default() }
    }

    /// For a run of which nothing is wanted but figures: where it has more than [`Folding::LIMIT`] requests,
    /// no records remain of it, if its report can do without. Percentiles of latencies of requests are then
    /// off by less than 2^-12 of themselves.
    pub fn of_figures(scenario: &Scenario) -> Self {
        Self { folding: Folding::of(scenario), ..Self::of(scenario) }
    }

    /// The same, where so many requests are as many as are remembered.
    #[must_use]
    pub fn remembering(mut self, requests: u32) -> Self {
        if let Some(folding) = &mut self.folding {
            folding.limit = requests;
        }
        self
    }

    /// The end of the run: no request changed later, no device computed, no memory was held or freed.
    pub fn observed(&self) -> SimTime {
        self.replicas.iter().map(ReplicaLog::end).fold(self.end, SimTime::max)
    }

    /// The requests as their clients saw them: one that was sent again is one, from when it was first sent.
    pub fn seen(&self) -> Cow<'_, [RequestRecord]> {
        self.faults.as_seen(&self.requests)
    }

    fn leave(&mut self, at: SimTime, life: &Life, finish: Finish) {
        let moves = !self.handed_over.is_empty();
        let before = if moves { self.handed_over.remove(&life.id) } else { None };
        let record = self.requests.at(self.lane.place(life.id));
        let scheduled = life.first_scheduled.unwrap_or(at);
        if let Some(before) = before {
            record.handoff = minus(scheduled - before.at, record.transfer);
        } else {
            record.first_scheduled = scheduled;
            record.cached_tokens = life.cached_tokens;
        }
        record.first_token = life.first_token.unwrap_or(at);
        record.finish = at.max(life.last_token);
        record.output_tokens = life.generated;
        record.preemptions += life.preemptions;
        record.status = finish.into();
        if life.draft_tokens > 0 && self.folding.is_none() {
            let place = self.lane.place(life.id);
            if self.drafts_by_request.len() <= place {
                self.drafts_by_request.resize(place + 1, RequestDrafts::default());
            }
            let Life { draft_tokens, accepted_tokens, .. } = *life;
            self.drafts_by_request[place] = RequestDrafts { draft_tokens, accepted_tokens };
        }
    }

    /// The drafts verified for a request that has left, by the place of its record.
    pub fn drafts_of(&self, place: usize) -> RequestDrafts {
        self.drafts_by_request.get(place).copied().unwrap_or_default()
    }

    /// The log of an instance, and the timeline of all.
    #[inline]
    fn replica(&mut self, instance: InstanceId) -> (&mut ReplicaLog, &mut Timeline) {
        let seat = self.lane.seat(instance);
        if self.replicas.len() <= seat {
            self.replicas.resize(seat + 1, ReplicaLog::default());
        }
        (&mut self.replicas[seat], &mut self.timeline)
    }

    /// Steps that were decided and completed in one go.
    fn quiet(&mut self, instance: InstanceId, run: &QuietRun<'_>) {
        let Some(first) = run.steps.first() else { return };
        let (replica, all) = self.replica(instance);
        replica.set_load(first.boundary, run.load, all);
        replica.quiet(run, all);
        let outcomes = run.outcomes();
        let mut before = run.completed_before;
        for step in outcomes {
            self.gaps.add(step.boundary - before, run.rows);
            before = step.boundary;
        }
        let times = outcomes.iter().map(|step| step.boundary);
        self.timeline.output_tokens.add_each(times, run.rows.into());
        if self.second.contains(self.since_first_sent(first.boundary))
            && self.second.contains(self.since_first_sent(before))
        {
            let tokens = outcomes.len() as u64 * u64::from(run.rows);
            self.tokens_by_second.add(self.second.index, tokens);
        } else {
            for step in outcomes {
                self.count_tokens(step.boundary, run.rows);
            }
        }
        self.steps += outcomes.len() as u64;
    }

    #[inline]
    fn since_first_sent(&self, at: SimTime) -> u64 {
        at.since(self.first_sent.unwrap_or(at)).as_nanos()
    }

    #[inline]
    fn count_tokens(&mut self, at: SimTime, tokens: u32) {
        let since = self.since_first_sent(at);
        if !self.second.contains(since) {
            self.second = Bin::of(since, 1_000_000_000);
        }
        self.tokens_by_second.add(self.second.index, u64::from(tokens));
    }
}

impl Recorder {
    /// Something failed, or replicas came or went.
    fn change(&mut self, at: SimTime, what: &Occurrence<'_>) {
        self.faults.hear(at, what);
        self.presence.hear(at, what);
        self.slowness.hear(at, what);
        self.scaling.hear(at, what);
    }

    fn hand_over(&mut self, at: SimTime, instance: InstanceId, life: &Life) {
        self.replica(instance).0.served(life);
        let record = self.requests.at(self.lane.place(life.id));
        record.first_scheduled = life.first_scheduled.unwrap_or(at);
        record.cached_tokens = life.cached_tokens;
        record.preemptions = life.preemptions;
        // What it waited for KV from below is time in queues, where another instance decodes: `transfer` is the
        // way there.
        let waited = std::mem::take(&mut record.transfer);
        let waited = std::mem::take(&mut record.loads_first).then_some(waited);
        self.tiers.hand_over(instance, life.id, waited);
        let before = HandedOver { at, transfer: None };
        self.handed_over.insert(life.id, before);
    }

    fn refuse(&mut self, at: SimTime, id: RequestId) {
        self.handed_over.remove(&id);
        let record = self.requests.at(self.lane.place(id));
        record.queued = at;
        (record.first_scheduled, record.first_token, record.finish) = (at, at, at);
        record.status = Status::Rejected;
        self.end = at;
    }
}

impl Recorder {
    /// Something comes from tiers below, or goes there.
    fn hear_of_tiers(&mut self, at: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::LoadBegan(instance, what, load) => {
                let (replica, all) = self.replica(instance);
                replica.set_load(at, load, all);
                self.tiers.begin(at, what);
            }
            Occurrence::LoadEnded(_, id) => {
                if let Some(waited) = self.tiers.end(at, id) {
                    let record = self.requests.at(self.lane.place(id));
                    (record.transfer, record.loads_first) = (waited, true);
                }
            }
            Occurrence::TierMoved(instance, way, bytes) => self.tiers.moved(instance, way, bytes),
            Occurrence::TiersEvicted(instance, bytes) => self.tiers.evicted(instance, bytes),
            _ => {}
        }
    }
}

impl Recorder {
    #[inline]
    fn tokens_came(&mut self, at: SimTime, instance: InstanceId, tokens: u32, load: Load) {
        let (replica, all) = self.replica(instance);
        replica.set_load(at, load, all);
        replica.output_tokens += u64::from(tokens);
        self.count_tokens(at, tokens);
        self.timeline.output_tokens.add(at, tokens.into());
    }

    fn hear_of_moves(&mut self, at: SimTime, what: Occurrence<'_>) {
        self.migrations.hear(what);
        if let Occurrence::Moved { from, to, life, load } = what {
            let (replica, all) = self.replica(from);
            replica.set_load(at, load, all);
            self.requests.at(self.lane.place(life.id)).instance = to;
        }
    }

    fn release(&mut self, at: SimTime, from: InstanceId, id: RequestId) {
        let before = self.handed_over.get(&id).and_then(|before| before.transfer);
        if let Some((began, to, bytes)) = before {
            self.requests.at(self.lane.place(id)).transfer = at - began;
            let began = self.carried.end_early(id, began);
            self.carried.add([from, to], began, at, bytes.0);
            self.end = at;
        }
    }
}

impl Observer for Recorder {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        self.phases.hear(at, what, &mut self.requests);
        self.adapters.hear(self.lane, at, &what);
        match what {
            Occurrence::Arrived(id, request) => self.arrive(at, id, request),
            Occurrence::Reached(id) => {
                self.first_sent.get_or_insert(at);
                self.reach(at, id);
            }
            Occurrence::Sent(id, instance) => {
                self.first_sent.get_or_insert(at);
                self.send(at, id, instance);
            }
            Occurrence::CameBack(id, from) => self.come_back(at, id, from),
            Occurrence::Queued(instance, id, load) => {
                let goes_on = self.handed_over.contains_key(&id) || self.migrations.has_moved(id);
                if !goes_on {
                    self.requests.at(self.lane.place(id)).queued = at;
                }
                let (replica, all) = self.replica(instance);
                replica.set_load(at, load, all);
            }
            Occurrence::Displaced(instance, ids) => {
                self.replica(instance).0.preemptions += ids.len() as u64;
            }
            Occurrence::Planned(instance, batch, load) => {
                let (replica, all) = self.replica(instance);
                replica.set_load(at, load, all);
                replica.planned(batch);
                let prefill = batch.plan.shape.prefill_tokens;
                self.timeline.prefill_tokens.add(at, prefill.into());
            }
            Occurrence::Stepped(instance, _, result, load) => {
                self.tokens_came(at, instance, result.tokens, load);
                self.steps += 1;
                self.drafts.add(&result.drafts);
                for gap in &result.gaps {
                    self.gaps.add(gap.gap, gap.count);
                }
            }
            Occurrence::Landed(instance, result, load) => {
                self.tokens_came(at, instance, result.tokens, load);
            }
            Occurrence::Quiet(instance, run) => self.quiet(instance, run),
            Occurrence::HandedOver(instance, life) => self.hand_over(at, instance, life),
            Occurrence::Forwarded(id, instance) => {
                self.requests.at(self.lane.place(id)).instance = instance;
            }
            Occurrence::Loading(..) => {}
            Occurrence::SendingBegan(_, id) => self.carried.begin_early(id, at),
            Occurrence::TransferBegan(instance, id, bytes) => {
                if let Some(before) = self.handed_over.get_mut(&id) {
                    before.transfer = Some((at, instance, bytes));
                }
            }
            Occurrence::Released(from, id) => self.release(at, from, id),
            Occurrence::LoadBegan(..)
            | Occurrence::LoadEnded(..)
            | Occurrence::TierMoved(..)
            | Occurrence::TiersEvicted(..) => self.hear_of_tiers(at, what),
            Occurrence::Left(instance, life, finish) => {
                self.cut.on(at, what);
                if finish == Finish::Done {
                    self.replica(instance).0.served(life);
                    self.tiers.served(instance, life.id);
                }
                self.tiers.left(life.id, finish == Finish::Done);
                self.leave(at, life, finish);
                self.end = self.end.max(at).max(life.last_token);
            }
            Occurrence::Refused(_, id) => self.refuse(at, id),
            Occurrence::TurnedAway(id, why) => self.turn_away(at, id, why),
            Occurrence::GaveUp { request, life, finish, .. } => {
                self.give_up(at, request, life, finish);
            }
            Occurrence::Dropped(instance, _, load) | Occurrence::Unreserved(instance, _, load) => {
                let (replica, all) = self.replica(instance);
                replica.set_load(at, load, all);
                self.faults.hear(at, &what);
            }
            Occurrence::Moved { .. } | Occurrence::Swapped(_) | Occurrence::Rebalanced { .. } => {
                self.hear_of_moves(at, what);
            }
            Occurrence::Crashed(instance, load) => {
                let (replica, all) = self.replica(instance);
                replica.set_load(at, load, all);
                replica.crashed(at);
                self.change(at, &what);
            }
            Occurrence::TransferFailed(_, id) => {
                if let Some(before) = self.handed_over.get_mut(&id) {
                    before.transfer = None;
                }
                self.faults.hear(at, &what);
            }
            Occurrence::Retried { .. }
            | Occurrence::Recovered(_)
            | Occurrence::Slowed(..)
            | Occurrence::Scaled(..)
            | Occurrence::Looked(..) => self.change(at, &what),
        }
    }
}
