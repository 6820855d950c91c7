//! An engine replica: its scheduler, its cost model, and the steps in flight on its device.

mod cache_events;
mod copying;
mod faults;
mod front;
mod reports;
mod runs;
mod stages;
mod timing;
mod transfers;

use super::copies::Copies;
use super::flight::Flight;
use super::host::{HostPart, HostTimes};
use super::pipeline::Pipeline;
use super::quiet::{QuietRun, QuietStep, RunLength};
use super::scheduler::{Handoff, Scheduler};
use super::{Finish, Life, StepPlan, StepResult};
use crate::cost::{CudaGraphs, Drafting, LoraTimes, StepShape, StepTime, Wave};
use crate::frontend::{FrontEnd, Output};
use crate::ids::RequestId;
use crate::kv::CacheEvent;
use crate::request::{Request, RequestView, Segment};
use crate::units::{SimDuration, SimTime};

/// A step on its way through the device.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// What it computes.
    pub plan: StepPlan,
    /// Its number on this instance, from 0.
    pub step: u64,
    /// When it was decided.
    pub scheduled_at: SimTime,
    /// With several stages: when the first of them starts it.
    pub enters_at: SimTime,
    /// When the device starts it; with several stages, the last of them.
    pub starts_at: SimTime,
    /// How long that works on it.
    pub duration: SimDuration,
    /// How long adapters are loaded for it, before it starts.
    pub loading: SimDuration,
    /// How long adapters are merged into the weights for it, or taken out of them, after that.
    pub switching: SimDuration,
    /// How long the host takes to learn its outcome.
    pub post_process: SimDuration,
}

impl Batch {
    /// When the device has computed it.
    pub fn ends_at(&self) -> SimTime {
        self.starts_at + self.duration
    }
}

/// What an instance tells its driver while it works.
#[derive(Debug, Clone, Copy)]
pub enum EngineEvent<'a> {
    /// A step was decided.
    Planned(&'a Batch),
    /// Nothing can be computed, but requests lost their memory or began to load their KV.
    Empty(&'a StepPlan),
    /// A step ended with this outcome.
    Completed(&'a Batch, &'a StepResult),
    /// Steps that only decode were decided and completed.
    Quiet(&'a QuietRun<'a>),
    /// Requests left outside of a step.
    Left(&'a StepResult),
    /// Requests whose KV came from elsewhere decode from now on.
    Landed(&'a StepResult),
}

/// Whether steps that only decode are run in one go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stepping {
    #[default]
    Runs,
    Single,
}

/// One engine replica. It never sees the event queue: its driver calls [`advance`](Self::advance)
/// at the moment it asked for, and once after requests came while it was idle.
#[derive(Debug, Clone)]
pub struct Instance {
    scheduler: Scheduler,
    cost: StepTime,
    /// What the cost model asks shapes to count.
    prefill_window: u32,
    graphs: CudaGraphs,
    host: HostTimes,
    lora: Option<LoraTimes>,
    /// What makes drafts, where that takes time.
    drafting: Option<Drafting>,
    /// Its stages, where there are several.
    pipeline: Option<Pipeline>,
    /// What prices the steps of its data-parallel ranks, where there are several.
    wave: Option<Box<Wave>>,
    in_flight: Flight,
    /// Steps that may be in flight at once.
    in_flight_max: usize,
    result: StepResult,
    device_free: SimTime,
    host_free: SimTime,
    /// How long the host had nothing to do before the last outcome came.
    waited: SimDuration,
    /// Whether the host decides a further step as soon as it is free, before any outcome.
    decides_next: bool,
    steps: u64,
    prefill_steps: u64,
    /// Steps planned in one go, whose end is awaited.
    run: Vec<QuietStep>,
    run_claims: Vec<u32>,
    run_shape: StepShape,
    run_host: HostPart,
    run_length: RunLength,
    /// How many of the steps that were in flight when the run was planned are told one by one: those up to
    /// the last that does more than decode.
    run_lead: usize,
    /// The first steps of the run of which it is told what they have its cache forget.
    run_foretold: usize,
    /// Whether outcomes without consequences may be told late.
    tells_late: bool,
    /// When something may come from outside next, as far as the driver knows.
    next_input: SimTime,
    /// When the last outcome came in.
    last_completion: SimTime,
    stepping: Stepping,
    /// Whether it goes round the loop of recorded schedules.
    is_recorded: bool,
    copies: Copies,
    /// Client actions and transfers that came during a step; an engine reads them between steps.
    aborts: Vec<RequestId>,
    transfers: Vec<RequestId>,
    lost_transfers: Vec<RequestId>,
    /// How many times as long the device takes, while it is a straggler.
    slowdown: Option<f64>,
    /// The server's other processes, where they take time.
    front: Option<Box<FrontEnd>>,
    outputs: Vec<Output>,
    /// What its cache tells of itself, where somebody listens.
    told: Option<Vec<CacheEvent>>,
}

impl Instance {
    /// An idle replica.
    pub fn new(scheduler: Scheduler, cost: StepTime) -> Self {
        Self {
            in_flight_max: scheduler.steps_in_flight_max(),
            scheduler,
            prefill_window: cost.prefill_window(),
            pipeline: cost.pipeline().map(Pipeline::new),
            cost,
            graphs: CudaGraphs::default(),
            host: HostTimes::default(),
            lora: None,
            drafting: None,
            wave: None,
            in_flight: Flight::default(),
            result: StepResult::default(),
            device_free: SimTime::ZERO,
            host_free: SimTime::ZERO,
            waited: SimDuration::ZERO,
            decides_next: false,
            steps: 0,
            prefill_steps: 0,
            run: Vec::new(),
            run_claims: Vec::new(),
            run_shape: StepShape::default(),
            run_host: HostPart::default(),
            run_length: RunLength::default(),
            run_lead: 0,
            run_foretold: 0,
            tells_late: false,
            next_input: SimTime::MAX,
            last_completion: SimTime::ZERO,
            stepping: Stepping::default(),
            is_recorded: false,
            copies: Copies::default(),
            aborts: Vec::new(),
            transfers: Vec::new(),
            lost_transfers: Vec::new(),
            slowdown: None,
            front: None,
            outputs: Vec::new(),
            told: None,
        }
    }

    /// The same idle replica with what this makes of its scheduler.
    ///
    /// # Panics
    /// When a step is in flight.
    #[must_use]
    pub fn with_scheduler(mut self, change: impl FnOnce(Scheduler) -> Scheduler) -> Self {
        assert!(self.is_idle(), "a scheduler is changed before its first step");
        self.scheduler = change(self.scheduler);
        self.in_flight_max = self.scheduler.steps_in_flight_max();
        self
    }

    /// The same replica with captured graphs.
    #[must_use]
    pub fn with_graphs(mut self, graphs: CudaGraphs) -> Self {
        self.graphs = graphs;
        self
    }

    /// The same replica on a host that takes time.
    #[must_use]
    pub fn on_host(mut self, host: HostTimes) -> Self {
        self.host = host;
        self
    }

    /// The same replica, whose ranks take these times in lock step.
    #[must_use]
    pub fn in_waves(mut self, wave: Option<Wave>) -> Self {
        self.wave = wave.map(Box::new);
        self
    }

    /// The same replica, which decides every step on its own: the oracle of runs.
    #[must_use]
    pub fn step_by_step(mut self) -> Self {
        self.stepping = Stepping::Single;
        self
    }

    /// The same replica in the loop of recorded schedules: after a decision to compute nothing it waits
    /// for something to come from outside, even if requests lost their memory by it.
    #[must_use]
    pub fn as_recorded(mut self) -> Self {
        self.is_recorded = true;
        self
    }

    /// The same replica, whose driver does not act on first tokens: it tells them with the run of steps after
    /// them.
    #[must_use]
    pub fn telling_late(mut self) -> Self {
        self.tells_late = true;
        self
    }

    /// When the last outcome came in.
    pub fn last_completion(&self) -> SimTime {
        self.last_completion
    }

    /// Its scheduler, to look at.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Somebody looks at its cache: what is computed of the answers that these runs quote can be found, of all
    /// answers where it is not known who will ask.
    pub fn show_cache(&mut self, quoted: Option<&[Segment]>) {
        if let Some(cache) = self.scheduler.prefix_cache_mut() {
            cache.show(quoted);
        }
    }

    /// How many tokens of a prompt its cache holds.
    pub fn cached_tokens(&self, request: RequestView<'_>) -> u32 {
        self.scheduler.prefix_cache().map_or(0, |cache| cache.cached_tokens(request))
    }

    /// Whether no step is in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// A request arrives.
    ///
    /// # Errors
    /// [`Finish::Rejected`] when the engine refuses it.
    pub fn enqueue_at(
        &mut self,
        now: SimTime,
        id: RequestId,
        request: &Request,
        handoff: Handoff,
    ) -> Result<(), Finish> {
        self.scheduler.now(now);
        self.enqueue(id, request, handoff)
    }

    /// The same for an engine that does not look at the clock: one without data-parallel ranks.
    ///
    /// # Errors
    /// [`Finish::Rejected`] when the engine refuses it.
    pub fn enqueue(
        &mut self,
        id: RequestId,
        request: &Request,
        handoff: Handoff,
    ) -> Result<(), Finish> {
        self.scheduler.enqueue(id, request, handoff)
    }

    /// A request goes on here that another instance has begun: it has its prompt and the tokens that came
    /// out, and none of its KV.
    ///
    /// # Panics
    /// When its scheduler takes over no requests.
    pub fn adopt(&mut self, now: SimTime, life: Life, request: &Request) {
        self.scheduler.now(now);
        let migration = self.scheduler.migration();
        migration.expect("requests move to who takes them over").adopt(life, request);
    }

    /// A client goes away. During a step this waits for the step's end.
    pub fn abort(&mut self, id: RequestId) {
        self.aborts.push(id);
    }

    /// A request that no step has computed goes away at once, and is told to nobody.
    pub fn forget(&mut self, id: RequestId) {
        self.result.clear();
        self.scheduler.abort(id, &mut self.result);
    }

    /// Says when the next input comes at the earliest, [`SimTime::MAX`] if nobody knows: steps after
    /// that are not planned ahead, because the input would undo them.
    pub fn expect_input(&mut self, at: SimTime) {
        self.next_input = at;
    }

    /// Takes in the step that ends now, if one does, and decides as many further steps as may be
    /// in flight. Returns when to call again; `None` while the instance is idle.
    ///
    /// # Panics
    /// When it is called at another moment than it asked for, during a run of steps.
    pub fn advance(
        &mut self,
        now: SimTime,
        mut tell: impl FnMut(&Self, EngineEvent<'_>),
    ) -> Option<SimTime> {
        if self.copies.is_underway() {
            return None;
        }
        if let Some(last) = self.run.last() {
            assert_eq!(last.boundary, now, "a run is awaited to its end");
            let steps = self.run.len();
            self.run_length.finished(steps);
            self.finish_run(steps, &mut tell);
        } else {
            let awaited = self.acts_at();
            if awaited.is_some_and(|at| at > now) {
                return awaited;
            }
            let late = if self.scheduler.reads_outcomes_first() {
                std::mem::take(&mut self.aborts)
            } else {
                Vec::new()
            };
            self.leave(&mut tell);
            if self.in_flight.is_empty() || !self.holds_transfers_back() {
                self.end_transfers(&mut tell);
            }
            if !std::mem::take(&mut self.decides_next)
                && let Some(ended) = self.in_flight.pop()
            {
                self.complete(now, ended, &late, &mut tell);
            }
            if !late.is_empty() {
                self.aborts = late;
                self.leave(&mut tell);
            }
            if self.copies.is_asked() {
                return self.acts_at();
            }
            if self.pipeline.is_some() {
                self.fill_stages(now, &mut tell);
            } else {
                self.fill(now, &mut tell);
            }
        }
        self.plan_run();
        self.wakes_at()
    }

    fn wakes_at(&self) -> Option<SimTime> {
        let run_ends = self.run.last().map(|step| step.boundary);
        run_ends.or_else(|| self.acts_at()).or_else(|| self.scheduler.waits_until())
    }

    /// When the host decides the next step, or knows the outcome of the oldest one.
    #[inline]
    fn acts_at(&self) -> Option<SimTime> {
        if self.decides_next {
            return Some(self.host_free);
        }
        let oldest = self.in_flight.front()?;
        let (end, free) = (oldest.ends_at(), self.host_free);
        Some(end.max(free) + self.host.takes_in(end, free, oldest.post_process))
    }

    #[inline]
    fn leave(&mut self, tell: &mut impl FnMut(&Self, EngineEvent<'_>)) {
        if self.aborts.is_empty() && self.lost_transfers.is_empty() {
            return;
        }
        let result = &mut self.result;
        result.clear();
        if !self.scheduler.kv_transfers().is_some_and(|kv| kv.is_fetching()) {
            for id in std::mem::take(&mut self.aborts) {
                self.scheduler.abort(id, result);
            }
        }
        for id in std::mem::take(&mut self.lost_transfers) {
            let kv = self.scheduler.kv_transfers();
            kv.expect("KV was on its way to who loads it").lost_transfer(id);
        }
        if !self.result.finished.is_empty() {
            self.forget_streams();
            tell(self, EngineEvent::Left(&self.result));
        }
    }

    fn complete(
        &mut self,
        now: SimTime,
        ended: usize,
        aborted: &[RequestId],
        tell: &mut impl FnMut(&Self, EngineEvent<'_>),
    ) {
        let result = &mut self.result;
        result.clear();
        self.scheduler.complete(now, &self.in_flight.buffer(ended).plan, result);
        if !self.is_recorded && !aborted.is_empty() {
            // The engine has not heard of it, but nobody waits for this answer any more.
            for (life, finish) in &mut result.finished {
                if aborted.contains(&life.id) {
                    *finish = Finish::Aborted;
                    if self.scheduler.kv_transfers().is_some_and(|kv| kv.sends(life.id)) {
                        // Nobody will fetch what it has kept for others.
                        self.transfers.push(life.id);
                    }
                }
            }
        }
        self.last_completion = now;
        self.waited = self.in_flight.buffer(ended).ends_at().saturating_since(self.host_free);
        self.host_free = now;
        self.send_outputs(now, self.in_flight.buffer(ended).plan.shape.decode_seqs);
        tell(self, EngineEvent::Completed(self.in_flight.buffer(ended), &self.result));
        self.end_transfers(tell);
    }

    fn fill(&mut self, now: SimTime, tell: &mut impl FnMut(&Self, EngineEvent<'_>)) {
        while self.in_flight.len() < self.in_flight_max {
            if self.has_landed() {
                self.land(now, tell);
            }
            let plan = &mut self.in_flight.next_mut().plan;
            plan.shape.prefill_window = self.prefill_window;
            self.scheduler.schedule(now, plan);
            let has_ended = !plan.ended.is_empty();
            if has_ended {
                self.tell_ended(tell);
            }
            let plan = &self.in_flight.next().plan;
            if plan.is_empty() {
                // Those that lost their memory may have made room for others: with nothing to wait
                // for, an engine's loop asks again at once. Each time fewer can lose theirs.
                let has_displaced = !plan.preempted.is_empty();
                if has_displaced || !plan.loads.is_empty() {
                    tell(self, EngineEvent::Empty(&self.in_flight.next().plan));
                }
                // So it does for a seat that has come free since it looked for those who have landed.
                let has_seat = self.has_landed() && self.scheduler.load().running == 0;
                let asks_again = has_ended || (has_displaced || has_seat) && !self.is_recorded;
                if asks_again && self.in_flight.is_empty() {
                    continue;
                }
                return;
            }
            self.time(now);
            tell(self, EngineEvent::Planned(self.in_flight.next()));
            self.in_flight.launch();
            if self.host_free > now {
                self.decides_next = self.in_flight.len() < self.in_flight_max;
                return;
            }
        }
    }

    /// Requests left while a step was decided.
    fn tell_ended(&mut self, tell: &mut impl FnMut(&Self, EngineEvent<'_>)) {
        self.result.clear();
        self.result.finished.append(&mut self.in_flight.next_mut().plan.ended);
        self.forget_streams();
        tell(self, EngineEvent::Left(&self.result));
    }
}
