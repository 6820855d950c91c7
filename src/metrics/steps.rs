//! The observer that keeps every step, for those who ask.

use crate::cost::StepShape;
use crate::engine::Execution;
use crate::engine::scheduler::Load;
use crate::ids::InstanceId;
use crate::sim::{Observer, Occurrence};
use crate::units::{SimDuration, SimTime};

/// A step as it was decided.
#[derive(Debug, Clone, Copy)]
pub struct StepRecord {
    /// Whose step.
    pub instance: InstanceId,
    /// Its number on the instance.
    pub step: u64,
    /// When it was decided.
    pub scheduled: SimTime,
    /// When the device starts it.
    pub start: SimTime,
    /// How long the device works on it.
    pub duration: SimDuration,
    /// What it computes.
    pub shape: StepShape,
    /// Where its adapters are.
    pub execution: Execution,
    /// Requests that lost their memory when it was decided.
    pub preempted: u32,
    /// Queues and memory after it was decided.
    pub load: Load,
}

/// Every step of a run, in the order of decision.
#[derive(Debug, Clone, Default)]
pub struct StepLog {
    /// The steps.
    pub steps: Vec<StepRecord>,
}

impl Observer for StepLog {
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        if let Occurrence::Quiet(instance, run) = what {
            let (mut load, mut shape) = (run.load, run.shape);
            for (number, step) in (run.first_step..).zip(run.steps) {
                load.kv_blocks_free -= step.claims;
                self.steps.push(StepRecord {
                    instance,
                    step: number,
                    scheduled: step.boundary,
                    start: step.start,
                    duration: step.duration,
                    shape,
                    execution: Execution::Unmerged,
                    preempted: 0,
                    load,
                });
                shape.advance_decodes();
            }
        }
        if let Occurrence::Planned(instance, batch, load) = what {
            self.steps.push(StepRecord {
                instance,
                step: batch.step,
                scheduled: batch.scheduled_at,
                start: batch.starts_at,
                duration: batch.duration,
                shape: batch.plan.shape,
                execution: batch.plan.execution,
                preempted: batch.plan.preempted.len() as u32,
                load,
            });
        }
    }
}
