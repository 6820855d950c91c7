//! Drives one engine through a recording's requests in virtual time.

use serde_json::{Value, json};

use super::recording::{RecordedRequest, Recording, RecordingError};
use super::{sglang, stages, vllm};
use crate::cost::{Linear, StepTime};
use crate::des::{Class, EventQueue};
use crate::engine::scheduler::{Handoff, Scheduler};
use crate::engine::{Batch, EngineEvent, EntryKind, Finish, Instance, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::units::{SimDuration, SimTime};

/// The lines of a replay.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) steps: Vec<Value>,
    pub(super) results: Vec<Value>,
}

/// The law of the recordings: 2000 µs a step, 20 µs a prefilled token, 30 µs a decoding row.
pub(super) const STEP_TIME: Linear = Linear {
    base: SimDuration::from_micros(2000),
    prefill_token: SimDuration::from_micros(20),
    decode_seq: SimDuration::from_micros(30),
    prefill_base: None,
    prefill_seq_nanos: 0,
    context_token_picos: 0,
};

#[derive(Debug, Clone, Copy)]
enum Event {
    Arrival(RequestId),
    Abort(RequestId),
    Transferred(RequestId),
    /// Only the last one that was asked for counts.
    Advance(u32),
}

pub(super) fn replay(recording: &Recording) -> Result<Replay, RecordingError> {
    let scheduler = match recording.engine.as_str() {
        "vllm" => vllm::scheduler(recording)?,
        "sglang" => sglang::scheduler(recording)?,
        other => {
            let message =
                format!("engine `{other}`: recordings of `vllm` and `sglang` can be replayed");
            return Err(recording.not_modelled(message));
        }
    };
    let step_time = if let Scheduler::VllmV1(vllm) = &scheduler {
        stages::step_time(vllm.stages())
    } else {
        // Recordings of SGLang count each verified token of a decoding request as a row.
        let rows = u64::from(1 + sglang::drafts(recording));
        StepTime::Linear(Linear { decode_seq: STEP_TIME.decode_seq * rows, ..STEP_TIME })
    };
    let mut instance = Instance::new(scheduler, step_time).as_recorded();
    let mut queue = inputs(&recording.requests);
    let mut log = Log::new(recording);
    let (mut is_awaited, mut wakes) = (false, 0);
    while let Some((now, event)) = queue.pop() {
        match event {
            Event::Arrival(id) => {
                let recorded = &recording.requests[id.index()];
                if instance.enqueue(id, &recorded.request, recorded.handoff).is_err() {
                    log.outcomes[id.index()].status = Some("rejected");
                }
            }
            Event::Abort(id) => instance.abort(id),
            Event::Transferred(id) => instance.transferred(id),
            Event::Advance(asked) if asked != wakes => continue,
            Event::Advance(_) => {
                let next = instance.advance(now, |instance, event| log.note(now, instance, event));
                is_awaited = next.is_some();
                if let Some(at) = next {
                    wakes += 1;
                    queue.push(at, Class::Step, Event::Advance(wakes));
                }
                for (at, id) in log.transfers.drain(..) {
                    queue.push(at, Class::Transfer, Event::Transferred(id));
                }
                continue;
            }
        }
        // Without a step in flight it waits for a moment at most, and inputs come before.
        if !is_awaited || instance.is_idle() {
            wakes += 1;
            queue.push(now, Class::Step, Event::Advance(wakes));
            is_awaited = true;
        }
    }
    Ok(log.finish(instance.scheduler()))
}

/// Arrivals and aborts, at one instant arrivals first, then by number.
fn inputs(requests: &[RecordedRequest]) -> EventQueue<Event> {
    let mut queue = EventQueue::default();
    let ids = || (0..requests.len()).map(RequestId::from_index);
    for id in ids() {
        queue.push(requests[id.index()].request.arrival, Class::Input, Event::Arrival(id));
    }
    for id in ids() {
        if let Some(at) = requests[id.index()].abort {
            queue.push(at, Class::Input, Event::Abort(id));
        }
    }
    queue
}

/// What became of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub(super) status: Option<&'static str>,
    first_sched_step: Option<u64>,
    first_token: Option<(u64, SimTime)>,
    finish_step: Option<u64>,
    finish: Option<SimTime>,
    output_tokens: u32,
    /// The limit that the engine set.
    pub(super) max_tokens: u32,
    pub(super) preemptions: u32,
    pub(super) first_prefix_hit: Option<u32>,
    was_loaded: bool,
}

struct Log<'a> {
    recording: &'a Recording,
    steps: Vec<Value>,
    outcomes: Vec<Outcome>,
    transfers: Vec<(SimTime, RequestId)>,
}

impl<'a> Log<'a> {
    fn new(recording: &'a Recording) -> Self {
        Self {
            recording,
            steps: Vec::new(),
            outcomes: vec![Outcome::default(); recording.requests.len()],
            transfers: Vec::new(),
        }
    }

    fn note(&mut self, now: SimTime, instance: &Instance, event: EngineEvent<'_>) {
        debug_assert!(instance.scheduler().is_balanced(), "memory does not add up at {now}");
        match event {
            EngineEvent::Planned(batch) => self.planned(now, instance, batch),
            EngineEvent::Empty(plan) => self.plan(now, plan),
            EngineEvent::Completed(batch, result) => {
                self.completed(now, instance, batch, result);
            }
            EngineEvent::Left(result) => self.left(now, instance, result, None),
            EngineEvent::Landed(_) => unreachable!("no recorded engine gets tokens from elsewhere"),
            EngineEvent::Quiet(_) => unreachable!("recorded steps are told one by one"),
        }
    }

    fn planned(&mut self, now: SimTime, instance: &Instance, batch: &Batch) {
        let line = match instance.scheduler() {
            Scheduler::VllmV1(scheduler) => vllm::step_line(batch, scheduler),
            Scheduler::Sglang(scheduler) => sglang::step_line(batch, scheduler),
            other => unreachable!("no schedules are recorded of {other:?}"),
        };
        self.steps.push(line);
        for entry in &batch.plan.entries {
            let outcome = &mut self.outcomes[entry.request.index()];
            if entry.kind == EntryKind::New && outcome.first_sched_step.is_none() {
                outcome.first_sched_step = Some(batch.step);
                let hit = batch.plan.hits.iter().find(|(id, _)| *id == entry.request);
                outcome.first_prefix_hit =
                    hit.map(|&(_, tokens)| tokens).filter(|_| !outcome.was_loaded);
            }
        }
        self.plan(now, &batch.plan);
    }

    fn plan(&mut self, now: SimTime, plan: &StepPlan) {
        for id in &plan.preempted {
            self.outcomes[id.index()].preemptions += 1;
        }
        for &(id, tokens) in &plan.loads {
            self.outcomes[id.index()].was_loaded = true;
            // An engine that offloads knows itself when its blocks come.
            if !self.recording.offloads() {
                self.transfer(now, id, tokens);
            }
        }
    }

    fn transfer(&mut self, now: SimTime, id: RequestId, tokens: u32) {
        let (base, per_token) = self.recording.requests[id.index()].transfer;
        self.transfers.push((now + base + per_token * u64::from(tokens), id));
    }

    fn completed(&mut self, now: SimTime, instance: &Instance, batch: &Batch, result: &StepResult) {
        for id in &result.first_tokens {
            self.outcomes[id.index()].first_token = Some((batch.step, now));
        }
        self.left(now, instance, result, Some(batch.step));
        let finished: Vec<u32> = result.finished.iter().map(|(life, _)| life.id.0).collect();
        if let Some(line) = self.steps.get_mut(batch.step as usize) {
            line["fin"] = json!(finished);
        }
    }

    fn left(&mut self, now: SimTime, instance: &Instance, result: &StepResult, step: Option<u64>) {
        for (life, finish) in &result.finished {
            let outcome = &mut self.outcomes[life.id.index()];
            outcome.output_tokens = life.generated;
            outcome.max_tokens = life.max_tokens;
            outcome.finish = Some(now);
            outcome.finish_step = step;
            match finish {
                Finish::Done => outcome.status = Some("length"),
                Finish::Aborted => outcome.status = Some("aborted"),
                Finish::Rejected => outcome.status = Some("rejected"),
                Finish::Failed => outcome.status = Some("failed"),
                Finish::TimedOut => unreachable!("engines know no such end"),
            }
            let is_sent = self.recording.requests[life.id.index()].handoff
                == Handoff::DecodedElsewhere
                && *finish == Finish::Done;
            if is_sent && let Scheduler::VllmV1(vllm) = instance.scheduler() {
                self.transfer(now, life.id, vllm.computed_tokens(life.id).unwrap_or_default());
            }
        }
    }

    fn finish(mut self, scheduler: &Scheduler) -> Replay {
        for (index, outcome) in self.outcomes.iter_mut().enumerate() {
            if let Some(life) = scheduler.life(RequestId::from_index(index)) {
                outcome.output_tokens = life.generated;
                outcome.max_tokens = life.max_tokens;
            }
        }
        let micros = |at: SimTime| at.as_nanos() / 1000;
        let results = self.outcomes.iter().enumerate().map(|(index, outcome)| {
            let mut line = json!({
                "type": "result",
                "id": format!("r{index:04}"),
                "status": outcome.status.unwrap_or("unfinished"),
                "first_sched_step": outcome.first_sched_step,
                "first_token_step": outcome.first_token.map(|(step, _)| step),
                "first_token_us": outcome.first_token.map(|(_, at)| micros(at)),
                "finish_step": outcome.finish_step,
                "finish_us": outcome.finish.map(micros),
                "output_tokens": outcome.output_tokens,
            });
            match scheduler {
                Scheduler::VllmV1(_) => vllm::add_result(&mut line, outcome),
                Scheduler::Sglang(_) => {
                    sglang::add_result(&mut line, outcome, &self.recording.requests[index]);
                }
                other => unreachable!("no schedules are recorded of {other:?}"),
            }
            line
        });
        Replay { results: results.collect(), steps: self.steps }
    }
}
