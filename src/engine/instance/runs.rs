//! Steps in which nothing is decided: walked ahead in one go, taken in at their end or when something
//! comes from outside.

use std::ops::Range;

use super::faults::slowed;
use super::{Batch, EngineEvent, Instance, Stepping};
use crate::cost::StepWalk;
use crate::engine::flight::Flight;
use crate::engine::host::HostPart;
use crate::engine::quiet::{QuietRun, QuietStep, RunLength};
use crate::engine::scheduler::{QuietSteps, RunsQuiet};
use crate::units::{SimDuration, SimTime};

/// Behind steps of other kinds, which are told apart, no run is planned unless so many steps may come before the
/// next input: without this bound, runs of 20,000 requests that come every one or two steps took 1 to 2 % more instructions.
const LED_STEPS_MIN: usize = 10;

/// Steps that are walked ahead.
struct Ahead<'a> {
    run: &'a mut Vec<QuietStep>,
    in_flight: &'a Flight,
    /// KV blocks that each step takes, and those that are free.
    claims: &'a [u32],
    free: u32,
    host: HostPart,
    host_free: SimTime,
    device_free: SimTime,
    /// Time of kernels that no cost model has.
    kernels: SimDuration,
    slowdown: Option<f64>,
    /// Nothing is planned beyond it.
    next_input: SimTime,
}

impl StepWalk for Ahead<'_> {
    #[inline]
    fn walk(self, mut next: impl FnMut() -> SimDuration) {
        let Self { run, host, mut free, mut host_free, mut device_free, .. } = self;
        let depth = self.in_flight.len();
        let mut in_flight = self.in_flight.iter();
        run.reserve(self.claims.len());
        for (index, &claims) in self.claims.iter().enumerate() {
            if claims > free {
                break;
            }
            free -= claims;
            // The step that ends here was decided `depth` steps before.
            let (end, post_process) = match index.checked_sub(depth) {
                Some(before) => (run[before].end(), host.post_process),
                None => match in_flight.next() {
                    Some(step) => (step.ends_at(), step.post_process),
                    None => unreachable!("as many steps are in flight"),
                },
            };
            let post_process = host.takes_in(end, host_free, post_process);
            let boundary = end.max(host_free) + post_process;
            let host = host.after(end.saturating_since(host_free));
            let duration = slowed(next() + self.kernels, self.slowdown);
            let (start, duration) = host.timing(boundary, device_free, duration);
            // A host that takes longer than that is decided for step by step.
            let Ok(launch_nanos) = u32::try_from((host.launched(boundary) - boundary).as_nanos())
            else {
                break;
            };
            host_free = host.launched(boundary);
            device_free = start + duration;
            run.push(QuietStep { boundary, start, duration, claims, launch_nanos });
            if boundary >= self.next_input {
                break;
            }
        }
    }
}

impl Instance {
    /// Something came from outside at `now`: a run ends with the last step before. Returns when to
    /// call [`advance`](Self::advance), if that has changed.
    #[inline]
    pub fn interrupt(
        &mut self,
        now: SimTime,
        mut tell: impl FnMut(&Self, EngineEvent<'_>),
    ) -> Option<SimTime> {
        if self.run.is_empty() {
            return None;
        }
        let steps = self.run.partition_point(|step| step.boundary < now);
        self.run_length.interrupted(steps);
        self.finish_run(steps, &mut tell);
        self.wakes_at()
    }

    /// Walks the steps ahead in which nothing is decided.
    pub(super) fn plan_run(&mut self) {
        let is_full = self.in_flight.len() == self.in_flight_max;
        let is_disturbed = !self.aborts.is_empty()
            || !self.transfers.is_empty()
            || !self.lost_transfers.is_empty();
        let is_single = self.stepping == Stepping::Single || self.drafting.is_some();
        if is_single || self.pipeline.is_some() || !is_full || is_disturbed {
            return;
        }
        let Some(lead) = self.lead() else { return };
        let runs = self.scheduler.quiet_runs();
        let Some(quiet) = runs.and_then(RunsQuiet::quiet) else { return };
        let steps = (quiet.steps as usize).min(self.steps_ahead());
        let mut shape = quiet.shape;
        shape.cuda_graph = self.graphs.replayed(&shape);
        let steps = (steps as u64).min(self.graphs.alike(&shape)) as usize;
        if let Some(runs) = self.scheduler.quiet_runs() {
            runs.quiet_claims(steps, &mut self.run_claims);
        }
        let mut host = self.host.of(&shape, 0);
        let mut kernels = SimDuration::ZERO;
        if let Some(lora) = &self.lora {
            host = host.delayed(lora.walk(quiet.passed_over));
            kernels = lora.kernels(&shape);
        }
        (self.run_shape, self.run_host, self.run_lead) = (shape, host, lead);
        self.cost.walk_decodes(
            &shape,
            Ahead {
                run: &mut self.run,
                in_flight: &self.in_flight,
                claims: &self.run_claims,
                free: self.scheduler.load().kv_blocks_free,
                host,
                host_free: self.host_free,
                device_free: self.device_free,
                kernels,
                slowdown: self.slowdown,
                next_input: self.next_input,
            },
        );
    }

    /// How many of the steps in flight, the oldest first, have to be taken in one by one; `None` where a run
    /// cannot begin before they are.
    fn lead(&mut self) -> Option<usize> {
        let is_pure =
            |batch: &Batch| batch.plan.entries.is_empty() && batch.plan.preempted.is_empty();
        let others = (1..).zip(self.in_flight.iter()).filter(|(_, batch)| !is_pure(batch));
        let Some((lead, _)) = others.last() else { return Some(0) };
        let may_lead =
            self.tells_late && self.wave.is_none() && self.steps_ahead() >= LED_STEPS_MIN;
        if !may_lead {
            return None;
        }
        let runs = self.scheduler.quiet_runs()?;
        let mut batches = self.in_flight.iter().take(lead);
        batches.all(|batch| runs.is_foreseen(&batch.plan)).then_some(lead)
    }

    /// How many steps it is worth to plan ahead.
    #[inline]
    fn steps_ahead(&self) -> usize {
        if self.next_input == SimTime::MAX {
            return self.run_length.steps();
        }
        let nanos = self.next_input.as_nanos().saturating_sub(self.last_completion.as_nanos());
        let mut shortest = u64::MAX;
        for step in self.in_flight.iter() {
            shortest = shortest.min(step.duration.as_nanos());
        }
        // With none in flight any number of steps may come before the input.
        let steps = if shortest == u64::MAX { nanos } else { nanos / shortest.max(1) };
        (steps as usize).saturating_add(4).min(RunLength::MOST)
    }

    /// Takes in the first `steps` steps of the run and forgets the rest.
    pub(super) fn finish_run(
        &mut self,
        steps: usize,
        tell: &mut impl FnMut(&Self, EngineEvent<'_>),
    ) {
        debug_assert!(self.run_foretold <= steps, "what is told of has happened");
        let run = std::mem::take(&mut self.run);
        let lead = std::mem::take(&mut self.run_lead).min(steps);
        for index in 0..lead {
            let ended = self.in_flight.pop().expect("the steps before a run are in flight");
            self.complete(run[index].boundary, ended, &[], tell);
            let until = if index + 1 == lead { steps } else { index + 1 };
            self.take_in(&run, index..until, true, tell);
        }
        if lead == 0 && steps > 0 {
            self.take_in(&run, 0..steps, false, tell);
        }
        self.run = run;
        self.run.clear();
        self.run_foretold = 0;
    }

    /// Takes in steps of the run, where the outcome at the first boundary was told before, or not.
    fn take_in(
        &mut self,
        run: &[QuietStep],
        range: Range<usize>,
        begins_told: bool,
        tell: &mut impl FnMut(&Self, EngineEvent<'_>),
    ) {
        let mut shape = self.run_shape;
        shape.advance_decodes_by(range.start as u32);
        let steps = &run[range];
        let Some(last) = steps.last() else { return };
        let told = QuietRun {
            steps,
            first_step: self.steps,
            rows: shape.decode_seqs,
            shape,
            load: self.scheduler.load(),
            completed_before: self.last_completion,
            begins_told,
        };
        let runs = self.scheduler.quiet_runs();
        runs.expect("who told quiet steps runs them").run_quiet(QuietSteps {
            decided: steps.len() as u64,
            outcomes: told.outcomes().len() as u64,
            claims: steps.iter().map(|step| step.claims).sum(),
            completed: last.boundary,
        });
        self.last_completion = last.boundary;
        // The last steps are in flight now.
        let depth = self.in_flight_max;
        let ended = steps.len().saturating_sub(depth);
        shape.advance_decodes_by(ended as u32);
        for (step, number) in steps[ended..].iter().zip(self.steps + ended as u64..) {
            if self.in_flight.len() == depth {
                self.in_flight.pop();
            }
            let batch = self.in_flight.next_mut();
            batch.plan.clear();
            batch.plan.decodes = shape.decode_seqs;
            batch.plan.shape = shape;
            batch.step = number;
            batch.scheduled_at = step.boundary;
            batch.starts_at = step.start;
            batch.duration = step.duration;
            batch.post_process = self.run_host.post_process;
            self.in_flight.launch();
            shape.advance_decodes();
        }
        self.steps += steps.len() as u64;
        self.host_free = last.host_free();
        self.device_free = last.end();
        if let Some(front) = &mut self.front {
            front.stream(told.outcomes().iter().map(|step| step.boundary), told.rows);
        }
        tell(self, EngineEvent::Quiet(&told));
    }
}
