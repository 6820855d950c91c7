//! The observer that keeps the records of a run.

use super::gaps::GapCounter;
use super::record::{RequestRecord, Status};
use super::series::{Quantity, Series};
use crate::engine::scheduler::Load;
use crate::engine::{Finish, Life};
use crate::ids::{InstanceId, RequestId};
use crate::sim::{Observer, Occurrence};
use crate::units::SimTime;

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
    /// Steps of all instances.
    pub steps: u64,
    /// Over time, all instances together.
    pub timeline: Timeline,
    /// The last event that concerned a request.
    pub end: SimTime,
    first_sent: Option<SimTime>,
    levels: Levels,
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

/// The current levels of each instance, and their sums.
#[derive(Debug, Default)]
struct Levels {
    instances: Vec<[u64; 4]>,
    sums: [u64; 4],
}

impl Levels {
    fn set(&mut self, instance: InstanceId, levels: [u64; 4]) -> [u64; 4] {
        if self.instances.len() <= instance.index() {
            self.instances.resize(instance.index() + 1, [0; 4]);
        }
        let before = std::mem::replace(&mut self.instances[instance.index()], levels);
        for ((sum, old), new) in self.sums.iter_mut().zip(before).zip(levels) {
            *sum = *sum - old + new;
        }
        self.sums
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            requests: Vec::new(),
            gaps: GapCounter::default(),
            tokens_by_second: Vec::new(),
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
            levels: Levels::default(),
        }
    }
}

impl Recorder {
    fn leave(&mut self, at: SimTime, life: &Life, finish: Finish) {
        let record = &mut self.requests[life.id.index()];
        record.first_scheduled = life.first_scheduled.unwrap_or(at);
        record.first_token = life.first_token.unwrap_or(at);
        record.finish = at;
        record.output_tokens = life.generated;
        record.cached_tokens = life.cached_tokens;
        record.preemptions = life.preemptions;
        record.status = match finish {
            Finish::Done => Status::Finished,
            Finish::Aborted => Status::Aborted,
            Finish::Rejected => Status::Rejected,
        };
    }

    fn set_levels(&mut self, at: SimTime, instance: InstanceId, load: Load) {
        let used = load.kv_blocks - load.kv_blocks_free;
        let levels = [load.running, load.waiting, used, load.kv_blocks].map(u64::from);
        let [running, waiting, used, blocks] = self.levels.set(instance, levels);
        self.timeline.running.set(at, running as f64);
        self.timeline.waiting.set(at, waiting as f64);
        self.timeline.kv_use.set(at, used as f64 / blocks as f64);
    }

    fn count_tokens(&mut self, at: SimTime, tokens: u32) {
        let second = (at.since(self.first_sent.unwrap_or(at)).as_nanos() / 1_000_000_000) as usize;
        if self.tokens_by_second.len() <= second {
            self.tokens_by_second.resize(second + 1, 0);
        }
        self.tokens_by_second[second] += u64::from(tokens);
    }
}

impl Observer for Recorder {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Arrived(id, request) => {
                debug_assert_eq!(id, RequestId::from_index(self.requests.len()));
                self.requests.push(RequestRecord {
                    arrival: request.arrival,
                    sent: at,
                    first_scheduled: at,
                    first_token: at,
                    finish: at,
                    prompt_tokens: request.prompt_tokens,
                    output_tokens: 0,
                    cached_tokens: 0,
                    preemptions: 0,
                    instance: InstanceId(0),
                    status: Status::Stuck,
                });
            }
            Occurrence::Sent(id, instance) => {
                self.first_sent.get_or_insert(at);
                let record = &mut self.requests[id.index()];
                record.sent = at;
                record.instance = instance;
            }
            Occurrence::Queued(instance, _, load) => self.set_levels(at, instance, load),
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
                for gap in &result.gaps {
                    self.gaps.add(gap.gap, gap.count);
                }
            }
            Occurrence::Left(_, life, finish) => {
                self.leave(at, life, finish);
                self.end = at;
            }
            Occurrence::Refused(_, id) => {
                let record = &mut self.requests[id.index()];
                (record.first_scheduled, record.first_token, record.finish) = (at, at, at);
                record.status = Status::Rejected;
                self.end = at;
            }
        }
    }
}
