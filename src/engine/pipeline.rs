//! The stages of a replica, on groups of GPUs of their own, through which steps go one after the other.

use super::StepPlan;
use crate::cost;
use crate::ids::RequestId;
use crate::units::{SimDuration, SimTime};

/// When a step goes through the stages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    /// The first stage begins it.
    pub(super) enters: SimTime,
    /// The last stage begins it.
    pub(super) starts: SimTime,
    /// The last stage has computed it.
    pub(super) ends: SimTime,
}

/// When the stages of a replica are free, and when tokens on their way are known.
#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    cost: cost::Pipeline,
    /// When each stage has computed what it was given.
    free: Vec<SimTime>,
    /// When each way to the next stage is free.
    link_free: Vec<SimTime>,
    /// Of each place in the scheduler's arena: whose token was sampled last, and when it is known.
    sampled: Vec<(RequestId, SimTime)>,
}

/// When the hosts of the stages have launched a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launch {
    /// When the first stage could begin it.
    pub(super) at: SimTime,
    /// When the last kernel of each stage is launched.
    pub(super) whole: SimTime,
}

impl Pipeline {
    pub(super) fn new(cost: &cost::Pipeline) -> Self {
        Self {
            free: vec![SimTime::ZERO; cost.stages()],
            link_free: vec![SimTime::ZERO; cost.stages() - 1],
            cost: cost.clone(),
            sampled: Vec::new(),
        }
    }

    /// How many stages there are.
    pub(super) fn stages(&self) -> u64 {
        self.free.len() as u64
    }

    /// Sends a step through the stages. It begins no earlier than the tokens are known that it goes on
    /// from, unless `is_recorded`: the virtual devices of recorded schedules do not look at tokens.
    pub(super) fn run(
        &mut self,
        plan: &StepPlan,
        launch: Launch,
        is_recorded: bool,
        slowed: impl Fn(SimDuration) -> SimDuration,
    ) -> Passage {
        let shape = &plan.shape;
        let stages = self.free.len();
        let hop = self.cost.hop_duration(shape);
        let known = if is_recorded { SimTime::ZERO } else { self.known(plan) };
        let mut there = launch.at.max(known);
        let enters = there.max(self.free[0]);
        let mut start = enters;
        for stage in 0..stages {
            start = there.max(self.free[stage]);
            let work = slowed(self.cost.stage_duration(stage, shape));
            let end = launch.whole.max(start + work);
            self.free[stage] = end;
            if let Some(free) = self.link_free.get_mut(stage) {
                *free = end.max(*free) + hop;
                there = *free;
            }
        }
        let end = self.free[stages - 1];
        self.sample(plan, end);
        Passage { enters, starts: start, ends: end }
    }

    /// When all tokens are known that a step goes on from.
    fn known(&self, plan: &StepPlan) -> SimTime {
        let of_entry = |entry: &super::Entry| {
            let (request, known) = self.sampled.get(entry.slot as usize)?;
            (*request == entry.request).then_some(*known)
        };
        plan.entries.iter().filter_map(of_entry).fold(SimTime::ZERO, SimTime::max)
    }

    fn sample(&mut self, plan: &StepPlan, end: SimTime) {
        for entry in plan.entries.iter().filter(|entry| entry.samples) {
            let slot = entry.slot as usize;
            if self.sampled.len() <= slot {
                self.sampled.resize(slot + 1, (entry.request, SimTime::ZERO));
            }
            self.sampled[slot] = (entry.request, end);
        }
    }
}
