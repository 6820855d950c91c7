//! Schedules of examples, step by step.

use crate::cost::StepShape;
use crate::engine::scheduler::{Handoff, Schedule};
use crate::engine::{StepPlan, StepResult};
use crate::ids::RequestId;
use crate::request::Request;
use crate::units::{SimDuration, SimTime};

/// Requests in order of arrival: the step before which they come, prompt and answer tokens.
pub(in super::super) type Arrivals<'a> = &'a [(u32, u32, u32)];

/// The plans of all steps, each a millisecond long, until everybody has left.
fn plans(scheduler: &mut dyn Schedule, arrivals: Arrivals<'_>) -> Vec<StepPlan> {
    let mut plans: Vec<StepPlan> = Vec::new();
    let mut arrivals = (0..).map(RequestId).zip(arrivals).peekable();
    let mut now = SimTime::ZERO;
    loop {
        let step = plans.len() as u32;
        while let Some((id, (_, prompt, output))) =
            arrivals.next_if(|(_, (before, ..))| *before <= step)
        {
            let request = Request::new(now, *prompt, *output);
            scheduler.enqueue(id, &request, Handoff::None).expect("it is taken");
        }
        let mut plan = StepPlan::default();
        scheduler.schedule(now, &mut plan);
        assert!(scheduler.is_balanced(), "memory adds up after plan {step}");
        if plan.is_empty() {
            let load = scheduler.load();
            assert_eq!((load.waiting, load.running), (0, 0), "nobody is stuck");
            assert_eq!(load.kv_blocks, load.kv_blocks_free);
            return plans;
        }
        now += SimDuration::from_millis(1);
        let mut result = StepResult::default();
        scheduler.complete(now, &plan, &mut result);
        assert!(plans.len() < 1000, "the example ends");
        plans.push(plan);
    }
}

/// Who computes how many tokens in each step, as `id:tokens`, and who lost its memory, as
/// `!id`.
pub(in super::super) fn steps(scheduler: &mut dyn Schedule, arrivals: Arrivals<'_>) -> Vec<String> {
    let line = |plan: &StepPlan| {
        let shares = plan.entries.iter().map(|e| format!("{}:{}", e.request, e.tokens));
        let losses = plan.preempted.iter().map(|id| format!("!{id}"));
        shares.chain(losses).collect::<Vec<_>>().join(" ")
    };
    plans(scheduler, arrivals).iter().map(line).collect()
}

/// What the cost model sees of each step.
pub(in super::super) fn shapes(
    scheduler: &mut dyn Schedule,
    arrivals: Arrivals<'_>,
) -> Vec<StepShape> {
    plans(scheduler, arrivals).iter().map(|plan| plan.shape).collect()
}
