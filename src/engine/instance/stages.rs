//! Steps of a replica with several stages (vLLM 0.33.0, `vllm/v1/engine/core.py`,
//! `step_with_batch_queue`).
//!
//! The engine decides steps until its queue of batches is full, and then waits for the oldest. Decisions
//! to compute nothing stand in that queue too: while it is full of them, requests that come wait for the
//! oldest step like all others. Their outcome is there as soon as that of the steps before them.

use super::{EngineEvent, Instance};
use crate::engine::pipeline::Launch;
use crate::units::{SimDuration, SimTime};

impl Instance {
    /// Decides steps until the queue is full, or there is nothing to compute.
    pub(super) fn fill_stages(
        &mut self,
        now: SimTime,
        tell: &mut impl FnMut(&Self, EngineEvent<'_>),
    ) {
        let most = self.in_flight_max;
        loop {
            let mut has_displaced = false;
            while self.in_flight.len() < most {
                let plan = &mut self.in_flight.next_mut().plan;
                plan.shape.prefill_window = self.prefill_window;
                self.scheduler.schedule(now, plan);
                let plan = &self.in_flight.next().plan;
                if plan.is_empty() {
                    if !plan.preempted.is_empty() {
                        has_displaced = true;
                        tell(self, EngineEvent::Empty(&self.in_flight.next().plan));
                    }
                    self.in_flight.launch();
                    continue;
                }
                self.time_stages(now);
                tell(self, EngineEvent::Planned(self.in_flight.next()));
                self.in_flight.launch();
                if self.host_free > now {
                    let is_full = self.in_flight.len() == most;
                    self.decides_next = !is_full || self.drop_empty_steps();
                    return;
                }
            }
            let goes_on = self.drop_empty_steps();
            let is_idle = self.in_flight.is_empty() && !has_displaced;
            if is_idle || !goes_on {
                return;
            }
        }
    }

    /// Takes the outcomes of decisions to compute nothing that no step precedes; whether there were any.
    fn drop_empty_steps(&mut self) -> bool {
        let decided = self.in_flight.len();
        while self.in_flight.front().is_some_and(|batch| batch.plan.is_empty()) {
            self.in_flight.pop();
        }
        self.in_flight.len() < decided
    }

    /// A step decided at `now` takes its turn on the host and on every stage.
    fn time_stages(&mut self, now: SimTime) {
        let host = self.host_part(now);
        let mut pipeline = self.pipeline.take().expect("the replica has stages");
        // Each stage has a host process, which launches its kernels.
        let (at, kernels) = host.launch(now);
        let each = SimDuration::from_nanos(kernels.as_nanos() / pipeline.stages());
        let launch = Launch { at, whole: at + each };
        let plan = &self.in_flight.next().plan;
        let passage =
            pipeline.run(plan, launch, self.is_recorded, |duration| self.slowed(duration));
        self.pipeline = Some(pipeline);
        let batch = self.in_flight.next_mut();
        batch.step = self.steps;
        batch.scheduled_at = now;
        batch.enters_at = passage.enters;
        batch.starts_at = passage.starts;
        batch.duration = passage.ends - passage.starts;
        batch.post_process = host.post_process;
        self.host_free = launch.whole;
        self.steps += 1;
    }
}
