//! The observer that keeps the records of a run.

use rustc_hash::FxHashMap;

use super::breakdown::{Phases, minus};
use super::faults::FaultLog;
use super::gaps::GapCounter;
use super::record::{RequestRecord, Status};
use super::series::{Bin, Quantity, Series};
use super::transfers::Carried;
use crate::engine::scheduler::Load;
use crate::engine::{DraftCounts, Finish, Life, QuietRun};
use crate::ids::{InstanceId, RequestId};
use crate::request::Request;
use crate::sim::{Lane, Observer, Occurrence, Separable};
use crate::units::{Bytes, SimDuration, SimTime};

/// Everything recorded of a run: one record per request, all gaps between tokens, and how queues,
/// memory and throughput went over time.
#[derive(Debug)]
pub struct Recorder {
    /// The requests, by id.
    pub requests: Vec<RequestRecord>,
    /// Gaps between tokens.
    pub gaps: GapCounter,
    /// Tokens that came out in each second since the first request was sent.
    pub tokens_by_second: Vec<u64>,
    /// Drafts verified, with speculative decoding.
    pub drafts: DraftCounts,
    /// KV caches that travelled between instances.
    pub carried: Carried,
    /// What failed, and which requests were sent again.
    pub faults: FaultLog,
    /// Steps of all instances.
    pub steps: u64,
    /// Over time, all instances together.
    pub timeline: Timeline,
    /// The last event that concerned a request.
    pub end: SimTime,
    first_sent: Option<SimTime>,
    /// The second in which tokens came out last.
    second: Bin,
    levels: Vec<Levels>,
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

/// Queues, memory and throughput over time.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// Requests admitted.
    pub running: Series,
    /// Requests waiting.
    pub waiting: Series,
    /// KV blocks that requests hold.
    pub kv_blocks: Series,
    /// KV blocks of the instances that had requests.
    pub kv_capacity: u64,
    /// Prompt tokens computed, per second.
    pub prefill_tokens: Series,
    /// Answer tokens that came out, per second.
    pub output_tokens: Series,
}

/// What an instance holds, and since when.
#[derive(Debug, Clone, Copy, Default)]
struct Levels {
    load: Load,
    running_since: SimTime,
    waiting_since: SimTime,
    kv_since: SimTime,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            requests: Vec::new(),
            gaps: GapCounter::default(),
            tokens_by_second: Vec::new(),
            drafts: DraftCounts::default(),
            carried: Carried::default(),
            faults: FaultLog::default(),
            steps: 0,
            timeline: Timeline {
                running: Series::new(Quantity::Level),
                waiting: Series::new(Quantity::Level),
                kv_blocks: Series::new(Quantity::Level),
                kv_capacity: 0,
                prefill_tokens: Series::new(Quantity::Flow),
                output_tokens: Series::new(Quantity::Flow),
            },
            end: SimTime::ZERO,
            first_sent: None,
            second: Bin::default(),
            levels: Vec::new(),
            phases: Phases::default(),
            handed_over: FxHashMap::default(),
            lane: Lane::WHOLE,
        }
    }
}

impl Recorder {
    fn arrive(&mut self, at: SimTime, id: RequestId, request: &Request) {
        debug_assert_eq!(self.lane.place(id), self.requests.len());
        self.requests.push(RequestRecord {
            arrival: request.arrival,
            sent: at,
            queued: at,
            first_scheduled: at,
            first_token: at,
            finish: at,
            preempted: SimDuration::ZERO,
            preempted_in_prefill: SimDuration::ZERO,
            stalled: SimDuration::ZERO,
            transfer: SimDuration::ZERO,
            handoff: SimDuration::ZERO,
            prompt_tokens: request.prompt_tokens,
            output_tokens: 0,
            cached_tokens: 0,
            preemptions: 0,
            instance: InstanceId(0),
            status: Status::Unfinished,
        });
    }

    fn leave(&mut self, at: SimTime, life: &Life, finish: Finish) {
        let before = self.handed_over.remove(&life.id);
        let record = &mut self.requests[self.lane.place(life.id)];
        let scheduled = life.first_scheduled.unwrap_or(at);
        if let Some(before) = before {
            record.handoff = minus(scheduled - before.at, record.transfer);
        } else {
            record.first_scheduled = scheduled;
            record.cached_tokens = life.cached_tokens;
        }
        record.first_token = life.first_token.unwrap_or(at);
        record.finish = at;
        record.output_tokens = life.generated;
        record.preemptions += life.preemptions;
        record.status = finish.into();
    }

    fn set_levels(&mut self, at: SimTime, instance: InstanceId, load: Load) {
        let seat = self.lane.seat(instance);
        if self.levels.len() <= seat {
            self.levels.resize(seat + 1, Levels::default());
        }
        let levels = &mut self.levels[seat];
        let before = std::mem::replace(&mut levels.load, load);
        if before.running != load.running {
            let since = std::mem::replace(&mut levels.running_since, at);
            self.timeline.running.hold(since, at, before.running.into());
        }
        if before.waiting != load.waiting {
            let since = std::mem::replace(&mut levels.waiting_since, at);
            self.timeline.waiting.hold(since, at, before.waiting.into());
        }
        if (before.kv_blocks, before.kv_blocks_free) != (load.kv_blocks, load.kv_blocks_free) {
            let since = std::mem::replace(&mut levels.kv_since, at);
            self.timeline.kv_blocks.hold(since, at, before.kv_blocks_held().into());
            self.timeline.kv_capacity += u64::from(load.kv_blocks);
            self.timeline.kv_capacity -= u64::from(before.kv_blocks);
        }
    }

    /// Steps that were decided and completed in one go.
    fn quiet(&mut self, instance: InstanceId, run: &QuietRun<'_>) {
        let Some(first) = run.steps.first() else { return };
        self.set_levels(first.boundary, instance, run.load);
        let levels = &mut self.levels[self.lane.seat(instance)];
        for step in run.steps.iter().filter(|step| step.claims > 0) {
            let held = levels.load.kv_blocks_held();
            self.timeline.kv_blocks.hold(levels.kv_since, step.boundary, held.into());
            levels.kv_since = step.boundary;
            levels.load.kv_blocks_free -= step.claims;
        }
        let mut before = run.completed_before;
        for step in run.steps {
            self.count_tokens(step.boundary, run.rows);
            self.gaps.add(step.boundary - before, run.rows);
            before = step.boundary;
        }
        let times = run.steps.iter().map(|step| step.boundary);
        self.timeline.output_tokens.add_each(times, run.rows.into());
        self.steps += run.steps.len() as u64;
    }

    #[inline]
    fn count_tokens(&mut self, at: SimTime, tokens: u32) {
        let since = at.since(self.first_sent.unwrap_or(at)).as_nanos();
        if !self.second.contains(since) {
            self.enter_second(since);
        }
        self.tokens_by_second[self.second.index] += u64::from(tokens);
    }

    #[cold]
    fn enter_second(&mut self, since: u64) {
        self.second = Bin::of(since, 1_000_000_000);
        if self.tokens_by_second.len() <= self.second.index {
            self.tokens_by_second.resize(self.second.index + 1, 0);
        }
    }
}

impl Observer for Recorder {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        self.phases.hear(at, what, &mut self.requests);
        match what {
            Occurrence::Arrived(id, request) => self.arrive(at, id, request),
            Occurrence::Sent(id, instance) => {
                self.first_sent.get_or_insert(at);
                let record = &mut self.requests[self.lane.place(id)];
                record.sent = at;
                record.instance = instance;
            }
            Occurrence::Queued(instance, id, load) => {
                if !self.handed_over.contains_key(&id) {
                    self.requests[self.lane.place(id)].queued = at;
                }
                self.set_levels(at, instance, load);
            }
            Occurrence::Planned(instance, batch, load) => {
                self.set_levels(at, instance, load);
                let prefill = batch.plan.shape.prefill_tokens;
                self.timeline.prefill_tokens.add(at, prefill.into());
            }
            Occurrence::Stepped(instance, _, result, load) => {
                self.set_levels(at, instance, load);
                self.steps += 1;
                self.count_tokens(at, result.tokens);
                self.timeline.output_tokens.add(at, result.tokens.into());
                self.drafts.add(&result.drafts);
                for gap in &result.gaps {
                    self.gaps.add(gap.gap, gap.count);
                }
            }
            Occurrence::Quiet(instance, run) => self.quiet(instance, run),
            Occurrence::HandedOver(_, life) => {
                let record = &mut self.requests[self.lane.place(life.id)];
                record.first_scheduled = life.first_scheduled.unwrap_or(at);
                record.cached_tokens = life.cached_tokens;
                record.preemptions = life.preemptions;
                let before = HandedOver { at, transfer: None };
                self.handed_over.insert(life.id, before);
            }
            Occurrence::Forwarded(id, instance) => {
                self.requests[self.lane.place(id)].instance = instance;
            }
            Occurrence::TransferBegan(instance, id, bytes) => {
                if let Some(before) = self.handed_over.get_mut(&id) {
                    before.transfer = Some((at, instance, bytes));
                }
            }
            Occurrence::Released(from, id) => {
                let before = self.handed_over.get(&id).and_then(|before| before.transfer);
                if let Some((began, to, bytes)) = before {
                    self.requests[self.lane.place(id)].transfer = at - began;
                    self.carried.add(from, to, bytes.0);
                    self.end = at;
                }
            }
            Occurrence::Left(_, life, finish) => {
                self.leave(at, life, finish);
                self.end = at;
            }
            Occurrence::Refused(_, id) => {
                self.handed_over.remove(&id);
                let record = &mut self.requests[self.lane.place(id)];
                record.queued = at;
                (record.first_scheduled, record.first_token, record.finish) = (at, at, at);
                record.status = Status::Rejected;
                self.end = at;
            }
            Occurrence::TurnedAway(id) => self.requests[self.lane.place(id)].sent = at,
            Occurrence::GaveUp { request, life, finish, .. } => {
                self.give_up(at, request, life, finish);
            }
            Occurrence::Dropped(instance, _, load) | Occurrence::Crashed(instance, load) => {
                self.set_levels(at, instance, load);
                self.faults.hear(at, &what);
            }
            Occurrence::TransferFailed(_, id) => {
                if let Some(before) = self.handed_over.get_mut(&id) {
                    before.transfer = None;
                }
                self.faults.hear(at, &what);
            }
            Occurrence::Retried { .. } | Occurrence::Recovered(_) => self.faults.hear(at, &what),
            Occurrence::Displaced(..) => {}
        }
    }
}

impl Separable for Recorder {
    type Lane = Self;

    fn lane(&mut self, lane: Lane) -> Self {
        Self {
            lane,
            phases: Phases::of_lane(lane),
            first_sent: Some(lane.first_sent),
            gaps: GapCounter::in_parts(lane.count),
            ..Self::default()
        }
    }

    fn join(&mut self, mut lanes: Vec<Self>) {
        if let [lane] = &mut lanes[..] {
            // Nothing to put between: half the memory of a copy.
            self.requests = std::mem::take(&mut lane.requests);
        }
        let count = lanes.iter().map(|lane| lane.requests.len()).sum();
        self.requests.reserve_exact(count);
        for place in 0..count {
            let from = &lanes[place % lanes.len()];
            self.requests.push(from.requests[place / lanes.len()]);
        }
        for lane in lanes {
            self.gaps.join_with(lane.gaps);
            if self.tokens_by_second.len() < lane.tokens_by_second.len() {
                self.tokens_by_second.resize(lane.tokens_by_second.len(), 0);
            }
            for (tokens, more) in self.tokens_by_second.iter_mut().zip(&lane.tokens_by_second) {
                *tokens += more;
            }
            self.drafts.add(&lane.drafts);
            self.steps += lane.steps;
            self.carried.join(&lane.carried);
            self.timeline.join(lane.timeline);
            self.end = self.end.max(lane.end);
        }
    }
}

impl Timeline {
    fn join(&mut self, other: Self) {
        self.running.join(other.running);
        self.waiting.join(other.waiting);
        self.kv_blocks.join(other.kv_blocks);
        self.kv_capacity += other.kv_capacity;
        self.prefill_tokens.join(other.prefill_tokens);
        self.output_tokens.join(other.output_tokens);
    }
}
