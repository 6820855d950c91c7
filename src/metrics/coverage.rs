//! How many steps lie beyond what the cost model was measured on.

use crate::cost::{CostModel, Coverage, StepShape, StepTime};
use crate::engine::QuietRun;
use crate::ids::InstanceId;
use crate::resolved::Kinds;
use crate::sim::{Observer, Occurrence};
use crate::units::SimTime;

/// Counts steps by their coverage. A model that extrapolates nothing costs nothing.
#[derive(Debug)]
pub(super) struct StepCoverage {
    /// Steps of all instances.
    pub(super) steps: u64,
    /// Those beyond the measured range.
    pub(super) extrapolated: u64,
    /// By group.
    costs: Vec<StepTime>,
    kinds: Kinds,
}

impl StepCoverage {
    /// Of steps that these models price, one for each group of instances.
    pub(super) fn new(costs: Vec<StepTime>, kinds: Kinds) -> Self {
        Self { steps: 0, extrapolated: 0, costs, kinds }
    }

    /// The same, before anything happened.
    pub(super) fn anew(&self) -> Self {
        Self::new(self.costs.clone(), self.kinds.clone())
    }

    /// Adds what another counted.
    pub(super) fn join(&mut self, other: &Self) {
        self.steps += other.steps;
        self.extrapolated += other.extrapolated;
    }

    #[inline]
    fn is_beyond(&self, instance: InstanceId, shape: &StepShape) -> bool {
        self.costs[self.kinds.of(instance)].coverage(shape) == Coverage::Extrapolated
    }

    /// Contexts only grow in a run: where its last step is covered, all are.
    fn of_run(&mut self, instance: InstanceId, run: &QuietRun<'_>) {
        let mut shape = run.shape;
        shape.advance_decodes_by(run.steps.len().saturating_sub(1) as u32);
        if !self.is_beyond(instance, &shape) {
            return;
        }
        let mut shape = run.shape;
        for _ in run.steps {
            self.extrapolated += u64::from(self.is_beyond(instance, &shape));
            shape.advance_decodes();
        }
    }
}

impl Observer for StepCoverage {
    #[inline]
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Planned(instance, batch, _) => {
                self.steps += 1;
                let plan = &batch.plan;
                let is_beyond = if plan.ranks.is_empty() {
                    self.is_beyond(instance, &plan.shape)
                } else {
                    plan.ranks.iter().any(|rank| self.is_beyond(instance, &rank.shape))
                };
                self.extrapolated += u64::from(is_beyond);
            }
            Occurrence::Quiet(instance, run) => {
                self.steps += run.steps.len() as u64;
                self.of_run(instance, run);
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
    use crate::units::SimDuration;

    /// Measured up to so many tokens of context, of all sequences and of the longest.
    #[derive(Debug)]
    struct UpTo(u64, u32);

    impl CostModel for UpTo {
        fn step_duration(&self, _: &StepShape) -> SimDuration {
            SimDuration::from_micros(1)
        }

        fn coverage(&self, shape: &StepShape) -> Coverage {
            let is_inside =
                shape.decode_context_tokens <= self.0 && shape.decode_context_max <= self.1;
            if is_inside { Coverage::Interpolated } else { Coverage::Extrapolated }
        }
    }

    #[test]
    fn the_steps_of_a_run_count_one_by_one() {
        let (at, duration) = (SimTime::ZERO, SimDuration::from_micros(1));
        let steps =
            [QuietStep { boundary: at, start: at, duration, claims: 0, launch_nanos: 0 }; 5];
        let mut shape = StepShape::default();
        shape.add_decodes(2, 10, 5);
        let run = QuietRun {
            steps: &steps,
            first_step: 0,
            rows: 2,
            shape,
            load: Load::default(),
            completed_before: at,
            begins_told: false,
        };
        // Contexts of 10, 12, 14, 16 and 18 tokens, the longest of 5, 6, 7, 8 and 9.
        for (tokens, longest, beyond) in
            [(9, 9, 5), (14, 9, 2), (17, 9, 1), (18, 9, 0), (18, 8, 1), (18, 6, 3)]
        {
            let model = Arc::new(UpTo(tokens, longest));
            let mut coverage = StepCoverage::new(vec![StepTime::Custom(model)], Kinds::default());
            coverage.on(at, Occurrence::Quiet(InstanceId(0), &run));
            let counted = (coverage.steps, coverage.extrapolated);
            assert_eq!(counted, (5, beyond), "{tokens} {longest}");
        }
    }
}
