//! The observer that keeps the records of a run.

use super::breakdown::Phases;
use super::gaps::GapCounter;
use super::record::{RequestRecord, Status};
use super::series::{Bin, Quantity, Series};
use crate::engine::scheduler::Load;
use crate::engine::{DraftCounts, Finish, Life, QuietRun};
use crate::ids::{InstanceId, RequestId};
use crate::sim::{Observer, Occurrence};
use crate::units::{SimDuration, SimTime};

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
    instances: u32,
}

/// Queues, memory and throughput over time.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// Requests admitted.
    pub running: Series,
    /// Requests waiting.
    pub waiting: Series,
    /// Share of the KV blocks in use, from 0 to 1.
    pub kv_use: Series,
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
            steps: 0,
            timeline: Timeline {
                running: Series::new(Quantity::Level),
                waiting: Series::new(Quantity::Level),
                kv_use: Series::new(Quantity::Level),
                prefill_tokens: Series::new(Quantity::Flow),
                output_tokens: Series::new(Quantity::Flow),
            },
            end: SimTime::ZERO,
            first_sent: None,
            second: Bin::default(),
            levels: Vec::new(),
            phases: Phases::default(),
            instances: 1,
        }
    }
}

impl Recorder {
    /// A recorder for a cluster of this many instances.
    pub fn for_instances(instances: u32) -> Self {
        Self { instances, ..Self::default() }
    }

    fn leave(&mut self, at: SimTime, life: &Life, finish: Finish) {
        let record = &mut self.requests[life.id.index()];
        record.first_scheduled = life.first_scheduled.unwrap_or(at);
        record.first_token = life.first_token.unwrap_or(at);
        record.finish = at;
        record.output_tokens = life.generated;
        record.cached_tokens = life.cached_tokens;
        record.preemptions = life.preemptions;
        record.status = finish.into();
    }

    fn set_levels(&mut self, at: SimTime, instance: InstanceId, load: Load) {
        if self.levels.len() <= instance.index() {
            self.levels.resize(instance.index() + 1, Levels::default());
        }
        let levels = &mut self.levels[instance.index()];
        let before = std::mem::replace(&mut levels.load, load);
        if before.running != load.running {
            let since = std::mem::replace(&mut levels.running_since, at);
            self.timeline.running.hold(since, at, f64::from(before.running));
        }
        if before.waiting != load.waiting {
            let since = std::mem::replace(&mut levels.waiting_since, at);
            self.timeline.waiting.hold(since, at, f64::from(before.waiting));
        }
        if (before.kv_blocks, before.kv_blocks_free) != (load.kv_blocks, load.kv_blocks_free) {
            let since = std::mem::replace(&mut levels.kv_since, at);
            self.timeline.kv_use.hold(since, at, before.kv_use() / f64::from(self.instances));
        }
    }

    /// Steps that were decided and completed in one go.
    fn quiet(&mut self, instance: InstanceId, run: &QuietRun<'_>) {
        let Some(first) = run.steps.first() else { return };
        self.set_levels(first.boundary, instance, run.load);
        let instances = f64::from(self.instances);
        let levels = &mut self.levels[instance.index()];
        for step in run.steps.iter().filter(|step| step.claims > 0) {
            let share = levels.load.kv_use() / instances;
            self.timeline.kv_use.hold(levels.kv_since, step.boundary, share);
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
        self.timeline.output_tokens.add_each(times, f64::from(run.rows));
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
            Occurrence::Arrived(id, request) => {
                debug_assert_eq!(id, RequestId::from_index(self.requests.len()));
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
                    prompt_tokens: request.prompt_tokens,
                    output_tokens: 0,
                    cached_tokens: 0,
                    preemptions: 0,
                    instance: InstanceId(0),
                    status: Status::Unfinished,
                });
            }
            Occurrence::Sent(id, instance) => {
                self.first_sent.get_or_insert(at);
                let record = &mut self.requests[id.index()];
                record.sent = at;
                record.instance = instance;
            }
            Occurrence::Queued(instance, id, load) => {
                self.requests[id.index()].queued = at;
                self.set_levels(at, instance, load);
            }
            Occurrence::Displaced(..) => {}
            Occurrence::Planned(instance, batch, load) => {
                self.set_levels(at, instance, load);
                let prefill = f64::from(batch.plan.shape.prefill_tokens);
                self.timeline.prefill_tokens.add(at, prefill);
            }
            Occurrence::Stepped(instance, _, result, load) => {
                self.set_levels(at, instance, load);
                self.steps += 1;
                self.count_tokens(at, result.tokens);
                self.timeline.output_tokens.add(at, f64::from(result.tokens));
                self.drafts.add(&result.drafts);
                for gap in &result.gaps {
                    self.gaps.add(gap.gap, gap.count);
                }
            }
            Occurrence::Quiet(instance, run) => self.quiet(instance, run),
            Occurrence::Left(_, life, finish) => {
                self.leave(at, life, finish);
                self.end = at;
            }
            Occurrence::Refused(_, id) => {
                let record = &mut self.requests[id.index()];
                record.queued = at;
                (record.first_scheduled, record.first_token, record.finish) = (at, at, at);
                record.status = Status::Rejected;
                self.end = at;
            }
        }
    }
}
