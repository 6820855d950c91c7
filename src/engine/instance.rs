//! An engine replica: its scheduler, its cost model, and the steps in flight on its device.

use std::collections::VecDeque;

use super::scheduler::{Handoff, Scheduler};
use super::{Finish, StepPlan, StepResult};
use crate::cost::{CostModel, StepTime};
use crate::ids::RequestId;
use crate::request::Request;
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
    /// When the device starts it.
    pub starts_at: SimTime,
    /// How long the device works on it.
    pub duration: SimDuration,
}

impl Batch {
    /// When its outcome is there.
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
    /// Requests left outside of a step.
    Left(&'a StepResult),
}

/// One engine replica. It never sees the event queue: its driver calls [`advance`](Self::advance)
/// at the moment it asked for, and once after requests came while it was idle.
#[derive(Debug)]
pub struct Instance {
    scheduler: Scheduler,
    cost: StepTime,
    in_flight: VecDeque<Batch>,
    spare: Vec<Batch>,
    result: StepResult,
    device_free: SimTime,
    steps: u64,
    /// Client actions and transfers that came during a step; an engine reads them between steps.
    aborts: Vec<RequestId>,
    transfers: Vec<RequestId>,
}

impl Instance {
    /// An idle replica.
    pub fn new(scheduler: Scheduler, cost: StepTime) -> Self {
        Self {
            scheduler,
            cost,
            in_flight: VecDeque::new(),
            spare: Vec::new(),
            result: StepResult::default(),
            device_free: SimTime::ZERO,
            steps: 0,
            aborts: Vec::new(),
            transfers: Vec::new(),
        }
    }

    /// Its scheduler, to look at.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Whether no step is in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// A request arrives.
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

    /// A client goes away. During a step this waits for the step's end.
    pub fn abort(&mut self, id: RequestId) {
        self.aborts.push(id);
    }

    /// A KV transfer of a request has ended. During a step this waits for the step's end.
    pub fn transferred(&mut self, id: RequestId) {
        self.transfers.push(id);
    }

    /// Takes in the step that ends now, if one does, and decides as many further steps as may be
    /// in flight. Returns when to call again; `None` while the instance is idle.
    pub fn advance(
        &mut self,
        now: SimTime,
        mut tell: impl FnMut(&Self, EngineEvent<'_>),
    ) -> Option<SimTime> {
        let oldest_ends = self.in_flight.front().map(Batch::ends_at);
        if oldest_ends.is_some_and(|end| end > now) {
            return oldest_ends;
        }
        self.leave(&mut tell);
        if let Some(batch) = self.in_flight.pop_front() {
            self.complete(now, batch, &mut tell);
        }
        self.fill(now, &mut tell);
        self.in_flight.front().map(Batch::ends_at)
    }

    fn leave(&mut self, tell: &mut impl FnMut(&Self, EngineEvent<'_>)) {
        if !self.aborts.is_empty() {
            let mut result = std::mem::take(&mut self.result);
            result.clear();
            for id in std::mem::take(&mut self.aborts) {
                self.scheduler.abort(id, &mut result);
            }
            if !result.finished.is_empty() {
                tell(self, EngineEvent::Left(&result));
            }
            self.result = result;
        }
        for id in std::mem::take(&mut self.transfers) {
            self.scheduler.transferred(id);
        }
    }

    fn complete(
        &mut self,
        now: SimTime,
        batch: Batch,
        tell: &mut impl FnMut(&Self, EngineEvent<'_>),
    ) {
        let mut result = std::mem::take(&mut self.result);
        result.clear();
        self.scheduler.complete(now, &batch.plan, &mut result);
        tell(self, EngineEvent::Completed(&batch, &result));
        self.result = result;
        self.spare.push(batch);
    }

    fn fill(&mut self, now: SimTime, tell: &mut impl FnMut(&Self, EngineEvent<'_>)) {
        while self.in_flight.len() < self.scheduler.steps_in_flight_max() {
            let mut batch = self.spare.pop().unwrap_or_default();
            self.scheduler.schedule(now, &mut batch.plan);
            if batch.plan.is_empty() {
                if !batch.plan.preempted.is_empty() || !batch.plan.loads.is_empty() {
                    tell(self, EngineEvent::Empty(&batch.plan));
                }
                // Those that lost their memory may have made room for others: with nothing to wait
                // for, an engine's loop asks again at once. Each time fewer can lose theirs.
                let asks_again = !batch.plan.preempted.is_empty() && self.in_flight.is_empty();
                self.spare.push(batch);
                if asks_again {
                    continue;
                }
                return;
            }
            batch.step = self.steps;
            batch.scheduled_at = now;
            batch.starts_at = now.max(self.device_free);
            batch.duration = self.cost.step_duration(&batch.plan.shape);
            self.device_free = batch.ends_at();
            self.steps += 1;
            tell(self, EngineEvent::Planned(&batch));
            self.in_flight.push_back(batch);
        }
    }
}
