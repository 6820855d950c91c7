//! What one replica did and held over a run: a few additions per step and per change of a request.

use super::activity::{Activity, PlannedStep, StepKind};
use super::ranks::RankLog;
use super::series::{Quantity, Series};
use super::timeline::Timeline;
use crate::engine::scheduler::Load;
use crate::engine::{Batch, Life, QuietRun};
use crate::units::SimTime;

/// What a replica did and held. Sums are of whole numbers, so that it does not show in which pieces a
/// run was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaLog {
    /// What its device did over time; steps count once they are decided.
    pub activity: Activity,
    /// Requests it answered, or whose prompts it computed for others.
    pub requests: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Those of them that its prefix cache held when they were first admitted.
    pub cached_tokens: u64,
    /// Prompt tokens that its steps computed, those of preempted requests again.
    pub computed_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
    /// Requests that lost their memory.
    pub preemptions: u64,
    /// What its data-parallel ranks did.
    pub ranks: RankLog,
    /// Requests inside over time, until their number changed last.
    inside: Series,
    inside_since: SimTime,
    /// Requests admitted × nanoseconds, until their number changed last.
    running: u128,
    running_since: SimTime,
    waiting_since: SimTime,
    /// KV blocks that requests hold × nanoseconds, until their number changed last.
    kv_blocks: u128,
    kv_since: SimTime,
    kv_blocks_peak: u32,
    load: Load,
    /// The last steps that were decided: as many as may be in flight with one stage.
    latest: [PlannedStep; 2],
    /// Those before that are in flight, with several stages.
    earlier: Vec<PlannedStep>,
}

impl Default for ReplicaLog {
    fn default() -> Self {
        Self {
            activity: Activity::default(),
            requests: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            computed_tokens: 0,
            output_tokens: 0,
            preemptions: 0,
            ranks: RankLog::default(),
            inside: Series::with_bins(Quantity::Level, Self::BINS_MAX),
            inside_since: SimTime::ZERO,
            running: 0,
            running_since: SimTime::ZERO,
            waiting_since: SimTime::ZERO,
            kv_blocks: 0,
            kv_since: SimTime::ZERO,
            kv_blocks_peak: 0,
            load: Load::default(),
            latest: [PlannedStep::NONE; 2],
            earlier: Vec::new(),
        }
    }
}

impl ReplicaLog {
    /// Bins of a series of one replica, as many as those of its [`Activity`].
    pub(super) const BINS_MAX: usize = 256;

    /// Queues and memory from now on.
    #[inline]
    pub(super) fn set_load(&mut self, at: SimTime, load: Load, all: &mut Timeline) {
        let before = std::mem::replace(&mut self.load, load);
        if (before.running, before.waiting) != (load.running, load.waiting) {
            self.set_queues(at, before, all);
        }
        if (before.kv_blocks, before.kv_blocks_free) != (load.kv_blocks, load.kv_blocks_free) {
            let since = std::mem::replace(&mut self.kv_since, at);
            all.kv_blocks.hold(since, at, before.kv_blocks_held().into());
            self.kv_blocks += held(since, at, before.kv_blocks_held());
            all.kv_capacity += u64::from(load.kv_blocks);
            all.kv_capacity -= u64::from(before.kv_blocks);
        }
    }

    #[inline]
    fn set_queues(&mut self, at: SimTime, before: Load, all: &mut Timeline) {
        let load = self.load;
        if before.running != load.running {
            let since = std::mem::replace(&mut self.running_since, at);
            all.running.hold(since, at, before.running.into());
            self.running += held(since, at, before.running);
        }
        if before.waiting != load.waiting {
            let since = std::mem::replace(&mut self.waiting_since, at);
            all.waiting.hold(since, at, before.waiting.into());
        }
        if inside(before) != inside(load) {
            let since = std::mem::replace(&mut self.inside_since, at);
            self.inside.hold(since, at, inside(before).into());
        }
    }

    /// A step was decided.
    #[inline]
    pub(super) fn planned(&mut self, batch: &Batch) {
        let shape = &batch.plan.shape;
        let (kind, from, until) = (StepKind::of(shape), batch.starts_at, batch.ends_at());
        self.activity.step(kind, from, until);
        if self.latest[0].until > batch.scheduled_at {
            self.earlier.retain(|step| step.until > batch.scheduled_at);
            self.earlier.push(self.latest[0]);
        }
        self.latest = [self.latest[1], PlannedStep { kind, from, until }];
        self.computed_tokens += u64::from(shape.prefill_tokens);
        self.ranks.planned(batch);
        self.preemptions += batch.plan.preempted.len() as u64;
        self.kv_blocks_peak = self.kv_blocks_peak.max(self.load.kv_blocks_held());
    }

    /// Steps that only decode were decided and completed in one go.
    #[inline]
    pub(super) fn quiet(&mut self, run: &QuietRun<'_>, all: &mut Timeline) {
        let (mut since, mut blocks) = (self.kv_since, self.load.kv_blocks_held());
        let mut sum = 0;
        for step in run.steps.iter().filter(|step| step.claims > 0) {
            all.kv_blocks.hold(since, step.boundary, blocks.into());
            sum += held(since, step.boundary, blocks);
            since = step.boundary;
            blocks += step.claims;
        }
        self.kv_blocks += sum;
        self.kv_since = since;
        self.load.kv_blocks_free = self.load.kv_blocks - blocks;
        self.kv_blocks_peak = self.kv_blocks_peak.max(blocks);
        if let Some(last) = run.steps.last() {
            let steps = run.steps.iter().map(|step| (step.start, step.duration));
            self.activity.steps(StepKind::Decode, last.start + last.duration, steps);
            for step in &run.steps[run.steps.len().saturating_sub(2)..] {
                let until = step.start + step.duration;
                let step = PlannedStep { kind: StepKind::Decode, from: step.start, until };
                self.latest = [self.latest[1], step];
            }
        }
        self.output_tokens += run.outcomes().len() as u64 * u64::from(run.rows);
    }

    /// The replica stops: its steps in flight end now.
    pub(super) fn crashed(&mut self, at: SimTime) {
        self.earlier.extend(self.latest);
        self.activity.stop(at, &self.earlier);
        self.earlier.clear();
        self.latest = [PlannedStep::NONE; 2];
    }

    /// A request was answered, or its prompt computed.
    #[inline]
    pub(super) fn served(&mut self, life: &Life) {
        self.requests += 1;
        self.prompt_tokens += u64::from(life.prompt_tokens);
        self.cached_tokens += u64::from(life.cached_tokens);
    }

    /// When its device worked last, or what it held changed.
    pub fn end(&self) -> SimTime {
        let changed = [self.inside_since, self.running_since, self.waiting_since, self.kv_since];
        changed.into_iter().fold(self.activity.end(), SimTime::max)
    }

    /// Requests admitted at a time, on average until `end`.
    pub fn mean_running(&self, end: SimTime) -> f64 {
        mean(self.running + held(self.running_since, end, self.load.running), end)
    }

    /// Requests waiting at a time, on average until `end`.
    pub fn mean_waiting(&self, end: SimTime) -> f64 {
        let inside = self.inside.total() + held(self.inside_since, end, inside(self.load));
        let running = self.running + held(self.running_since, end, self.load.running);
        mean(inside - running, end)
    }

    /// The share of the KV blocks that requests hold, on average until `end`; 0 where memory is not
    /// counted.
    pub fn mean_kv_use(&self, end: SimTime) -> f64 {
        let blocks = self.kv_blocks + held(self.kv_since, end, self.load.kv_blocks_held());
        mean(blocks, end) / f64::from(self.load.kv_blocks.max(1))
    }

    /// The largest share of the KV blocks that requests held.
    pub fn peak_kv_use(&self) -> f64 {
        f64::from(self.kv_blocks_peak) / f64::from(self.load.kv_blocks.max(1))
    }

    /// Requests inside, running or waiting, over time until `end`.
    pub fn inside(&self, end: SimTime) -> Series {
        let mut inside_until = self.inside.clone();
        inside_until.hold(self.inside_since, end.max(self.inside_since), inside(self.load).into());
        inside_until
    }
}

fn inside(load: Load) -> u32 {
    load.running + load.waiting
}

/// A level that held for a while, times its nanoseconds.
fn held(since: SimTime, until: SimTime, level: u32) -> u128 {
    u128::from(level) * u128::from(until.as_nanos().saturating_sub(since.as_nanos()))
}

/// Of level × nanoseconds from the start of a run to its end.
fn mean(held: u128, end: SimTime) -> f64 {
    held as f64 / end.as_nanos().max(1) as f64
}
