//! Step times of recordings with several pipeline stages: each takes an equal share of the step, in whole
//! microseconds, and a step goes on to the next at once.

use std::sync::Arc;

use super::drive::STEP_TIME;
use crate::cost::{CostModel, Hop, Pipeline, StepShape, StepTime};
use crate::units::SimDuration;

/// One of so many stages.
#[derive(Debug)]
struct Share {
    stages: u64,
}

impl CostModel for Share {
    fn step_duration(&self, shape: &StepShape) -> SimDuration {
        let micros = STEP_TIME.step_duration(shape).as_nanos() / 1000;
        SimDuration::from_micros(micros / self.stages)
    }
}

/// The law of the recordings over so many stages.
pub(super) fn step_time(stages: u32) -> StepTime {
    if stages <= 1 {
        return StepTime::Linear(STEP_TIME);
    }
    let share: Arc<dyn CostModel> = Arc::new(Share { stages: stages.into() });
    let each = (0..stages).map(|_| StepTime::Custom(Arc::clone(&share))).collect();
    StepTime::Pipeline(Pipeline::new(each, Hop::NONE, "equal shares"))
}
