//! How many steps lie beyond what the cost model was measured on.

use crate::cost::{CostModel, Coverage, StepShape, StepTime};
use crate::engine::QuietRun;
use crate::sim::{Observer, Occurrence};
use crate::units::SimTime;

/// Counts steps by their coverage. A model that extrapolates nothing costs nothing.
#[derive(Debug)]
pub(super) struct StepCoverage {
    /// Steps of all instances.
    pub(super) steps: u64,
    /// Those beyond the measured range.
    pub(super) extrapolated: u64,
    cost: StepTime,
}

impl StepCoverage {
    /// Of steps that this model prices.
    pub(super) fn new(cost: StepTime) -> Self {
        Self { steps: 0, extrapolated: 0, cost }
    }

    /// Adds what another counted.
    pub(super) fn join(&mut self, other: &Self) {
        self.steps += other.steps;
        self.extrapolated += other.extrapolated;
    }

    fn is_beyond(&self, shape: &StepShape) -> bool {
        self.cost.coverage(shape) == Coverage::Extrapolated
    }

    /// Contexts only grow in a run: where its last step is covered, all are.
    fn of_run(&mut self, run: &QuietRun<'_>) {
        let mut shape = run.shape;
        let later = run.steps.len().saturating_sub(1) as u64;
        shape.decode_context_tokens += later * u64::from(shape.decode_seqs);
        if !self.is_beyond(&shape) {
            return;
        }
        let mut shape = run.shape;
        for _ in run.steps {
            self.extrapolated += u64::from(self.is_beyond(&shape));
            shape.advance_decodes();
        }
    }
}

impl Observer for StepCoverage {
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Planned(_, batch, _) => {
                self.steps += 1;
                self.extrapolated += u64::from(self.is_beyond(&batch.plan.shape));
            }
            Occurrence::Quiet(_, run) => {
                self.steps += run.steps.len() as u64;
                self.of_run(run);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::QuietStep;
    use crate::engine::scheduler::Load;
    use crate::ids::InstanceId;
    use crate::units::SimDuration;

    /// Measured up to so many tokens of context.
    #[derive(Debug)]
    struct UpTo(u64);

    impl CostModel for UpTo {
        fn step_duration(&self, _: &StepShape) -> SimDuration {
            SimDuration::from_micros(1)
        }

        fn coverage(&self, shape: &StepShape) -> Coverage {
            let is_inside = shape.decode_context_tokens <= self.0;
            if is_inside { Coverage::Interpolated } else { Coverage::Extrapolated }
        }
    }

    #[test]
    fn the_steps_of_a_run_count_one_by_one() {
        let (at, duration) = (SimTime::ZERO, SimDuration::from_micros(1));
        let steps = [QuietStep { boundary: at, start: at, duration, claims: 0 }; 5];
        let mut shape = StepShape::default();
        shape.add_decodes(2, 10, 5);
        let run = QuietRun {
            steps: &steps,
            first_step: 0,
            rows: 2,
            shape,
            load: Load::default(),
            completed_before: at,
        };
        // Contexts of 10, 12, 14, 16 and 18 tokens.
        for (measured, beyond) in [(9, 5), (14, 2), (17, 1), (18, 0)] {
            let mut coverage = StepCoverage::new(StepTime::Custom(Arc::new(UpTo(measured))));
            coverage.on(at, Occurrence::Quiet(InstanceId(0), &run));
            assert_eq!((coverage.steps, coverage.extrapolated), (5, beyond), "{measured}");
        }
    }
}
