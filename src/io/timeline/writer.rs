//! The observer that writes a timeline while the run goes on.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::Window;
use super::events::Events;
use super::lanes::Lanes;
use crate::cost::StepShape;
use crate::engine::scheduler::Load;
use crate::engine::{Batch, EntryKind, Life, QuietRun, StepResult};
use crate::ids::{InstanceId, RequestId};
use crate::metrics::{Preemptions, Status};
use crate::sim::{Observer, Occurrence};
use crate::units::{SimDuration, SimTime};

/// A phase in the life of a request; as in the breakdown of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// At its client, which has not sent it.
    Held,
    /// Waiting at the gateway.
    Gateway,
    Api,
    Queued,
    Prefill,
    Decode,
    Preempted,
    Transfer,
}

impl Phase {
    const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Gateway => "gateway",
            Self::Api => "api",
            Self::Queued => "queued",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Preempted => "preempted",
            Self::Transfer => "transfer",
        }
    }
}

/// A phase that is over.
#[derive(Debug, Clone, Copy)]
struct Span {
    phase: Phase,
    from: SimTime,
    until: SimTime,
}

/// A share of a prefill, on the device.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    from: SimTime,
    until: SimTime,
    tokens: u32,
    computed: u32,
}

/// A request that has not left.
#[derive(Debug, Clone)]
struct Open {
    instance: InstanceId,
    prompt_tokens: u32,
    sent: SimTime,
    phase: Phase,
    since: SimTime,
    spans: Vec<Span>,
    chunks: Vec<Chunk>,
}

impl Open {
    fn enter(&mut self, at: SimTime, phase: Phase) {
        self.spans.push(Span { phase: self.phase, from: self.since, until: at });
        (self.phase, self.since) = (phase, at);
    }
}

const COUNTERS: [&str; 3] = ["running", "waiting", "KV blocks in use"];

/// The counters of an instance: those shown last, and those of now.
#[derive(Debug, Clone, Copy, Default)]
struct Levels {
    shown: Option<[u32; 3]>,
    before_window: Option<[u32; 3]>,
}

/// Writes the timeline of a run.
#[derive(Debug)]
pub struct TimelineWriter<W> {
    events: Events<W>,
    window: Window,
    requests: BTreeMap<RequestId, Open>,
    preemptions: Preemptions,
    levels: Vec<Levels>,
    lanes: Vec<Lanes>,
    end: SimTime,
}

impl<W: Write> TimelineWriter<W> {
    /// Begins a timeline of so many instances, each with this label.
    pub fn new(out: W, window: Window, instances: u32, label: &str) -> Self {
        let mut events = Events::new(out);
        for instance in (0..instances).map(InstanceId) {
            events.instance(instance, label);
        }
        Self {
            events,
            window,
            requests: BTreeMap::new(),
            preemptions: Preemptions::default(),
            levels: vec![Levels::default(); instances as usize],
            lanes: vec![Lanes::default(); instances as usize],
            end: SimTime::ZERO,
        }
    }

    /// Writes what never left and ends the timeline; what was written to, and how many bytes
    /// before compression.
    ///
    /// # Errors
    /// When anything could not be written.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        for (id, open) in std::mem::take(&mut self.requests) {
            if open.phase != Phase::Held {
                self.close(self.end, id, open, None, Status::Unfinished);
            }
        }
        self.events.finish()
    }

    /// Writes a request with everything that happened to it.
    fn close(
        &mut self,
        at: SimTime,
        id: RequestId,
        mut open: Open,
        life: Option<&Life>,
        status: Status,
    ) {
        let Some(whole) = self.window.clip(open.sent, at) else { return };
        open.enter(at, open.phase);
        let (lane, is_new) = self.lanes[open.instance.index()].place(whole.0, whole.1);
        if is_new {
            self.events.lane(open.instance, lane);
        }
        let row = (open.instance, lane);
        let (output, cached, preemptions) =
            life.map_or((0, 0, 0), |life| (life.generated, life.cached_tokens, life.preemptions));
        self.events.span(
            row,
            whole,
            format_args!("request {id}"),
            format_args!(
                "\"status\":\"{}\",\"prompt_tokens\":{},\"output_tokens\":{output},\
                 \"cached_tokens\":{cached},\"preemptions\":{preemptions}",
                status.name(),
                open.prompt_tokens
            ),
        );
        for span in &open.spans {
            if let Some(clipped) = self.window.clip(span.from, span.until) {
                let name = format_args!("{}", span.phase.name());
                self.events.span(row, clipped, name, format_args!(""));
            }
        }
        for Chunk { from, until, tokens, computed } in open.chunks {
            if let Some(clipped) = self.window.clip(from, until) {
                let args = format_args!("\"tokens\":{tokens},\"computed_tokens\":{computed}");
                self.events.span(row, clipped, format_args!("chunk"), args);
            }
        }
    }

    fn enter(&mut self, at: SimTime, id: RequestId, from: Phase, to: Phase) {
        if let Some(open) = self.requests.get_mut(&id).filter(|open| open.phase == from) {
            open.enter(at, to);
        }
    }

    fn lose(&mut self, at: SimTime, ids: &[RequestId]) {
        for id in ids {
            self.enter(at, *id, Phase::Prefill, Phase::Preempted);
            self.enter(at, *id, Phase::Decode, Phase::Preempted);
        }
    }

    /// A request goes on at another instance; one that decodes has lost its KV.
    fn go_on(&mut self, at: SimTime, life: &Life, left: (InstanceId, Load), to: InstanceId) {
        self.set_levels(at, left.0, left.1);
        if let Some(open) = self.requests.get_mut(&life.id) {
            open.instance = to;
        }
        if life.first_token.is_some() {
            self.lose(at, &[life.id]);
            self.preemptions.lose(at, &[life.id], SimDuration::ZERO);
        }
    }

    fn planned(&mut self, at: SimTime, instance: InstanceId, batch: &Batch, load: Load) {
        self.set_levels(at, instance, load);
        self.lose(at, &batch.plan.preempted);
        self.preemptions.plan(at, instance, batch, SimDuration::ZERO);
        // What starts to load is admitted too, and computes once it has arrived.
        let computes = |id: &RequestId| batch.plan.loads.iter().all(|(loads, _)| loads != id);
        for (id, _) in batch.plan.hits.iter().filter(|(id, _)| computes(id)) {
            self.enter(at, *id, Phase::Queued, Phase::Prefill);
        }
        for entry in batch.plan.entries.iter().filter(|entry| entry.kind == EntryKind::New) {
            self.enter(at, entry.request, Phase::Queued, Phase::Prefill);
        }
        let preempted = batch.plan.preempted.len();
        let step = Step { number: batch.step, start: batch.starts_at, duration: batch.duration };
        self.step(instance, step, &batch.plan.shape, load.waiting, preempted);
    }

    fn stepped(&mut self, at: SimTime, instance: InstanceId, batch: &Batch, result: &StepResult) {
        for entry in &batch.plan.entries {
            let Some(open) = self.requests.get_mut(&entry.request) else { continue };
            let computes = match open.phase {
                Phase::Prefill => true,
                Phase::Preempted => {
                    self.preemptions.is_resumed(entry.request, instance, batch.step)
                }
                _ => false,
            };
            if computes {
                let (from, until) = (batch.starts_at, batch.ends_at());
                let (tokens, computed) = (entry.tokens, entry.computed);
                open.chunks.push(Chunk { from, until, tokens, computed });
            }
        }
        for id in &result.first_tokens {
            self.enter(at, *id, Phase::Prefill, Phase::Decode);
        }
        let requests = &mut self.requests;
        self.preemptions.complete(instance, batch, |id, _| {
            if let Some(open) = requests.get_mut(&id) {
                open.enter(at, Phase::Decode);
            }
        });
    }

    fn quiet(&mut self, instance: InstanceId, run: &QuietRun<'_>) {
        let (mut load, mut shape) = (run.load, run.shape);
        for (number, step) in (run.first_step..).zip(run.steps) {
            load.kv_blocks_free -= step.claims;
            self.set_levels(step.boundary, instance, load);
            let step = Step { number, start: step.start, duration: step.duration };
            self.step(instance, step, &shape, load.waiting, 0);
            shape.advance_decodes();
        }
    }

    fn step(
        &mut self,
        instance: InstanceId,
        step: Step,
        shape: &StepShape,
        waiting: u32,
        preempted: usize,
    ) {
        if self.window.clip(step.start, step.start + step.duration).is_none() {
            return;
        }
        let name = match (shape.prefill_seqs, shape.decode_seqs) {
            (0, _) => "decode",
            (_, 0) => "prefill",
            _ => "mixed",
        };
        let args = format_args!(
            "\"step\":{},\"prefill_seqs\":{},\"prefill_tokens\":{},\"prefill_context_tokens\":{},\
             \"decode_seqs\":{},\"decode_context_tokens\":{},\"draft_tokens\":{},\
             \"waiting\":{waiting},\"preempted\":{preempted}",
            step.number,
            shape.prefill_seqs,
            shape.prefill_tokens,
            shape.prefill_context_tokens,
            shape.decode_seqs,
            shape.decode_context_tokens,
            shape.draft_tokens,
        );
        self.events.step(instance, name, step.start, step.duration, args);
    }

    /// Shows the counters that changed; at the start of the window, all.
    fn set_levels(&mut self, at: SimTime, instance: InstanceId, load: Load) {
        let values = [load.running, load.waiting, load.kv_blocks - load.kv_blocks_free];
        let levels = &mut self.levels[instance.index()];
        if at < self.window.from {
            levels.before_window = Some(values);
        } else if at < self.window.until {
            if let Some(before) = levels.before_window.take() {
                for (name, value) in COUNTERS.iter().zip(before) {
                    self.events.counter(instance, name, self.window.from, value);
                }
                levels.shown = Some(before);
            }
            for (index, value) in values.into_iter().enumerate() {
                if levels.shown.is_none_or(|shown| shown[index] != value) {
                    self.events.counter(instance, COUNTERS[index], at, value);
                }
            }
            levels.shown = Some(values);
        }
    }
}

/// When a step runs on the device.
#[derive(Debug, Clone, Copy)]
struct Step {
    number: u64,
    start: SimTime,
    duration: SimDuration,
}

impl<W: Write> TimelineWriter<W> {
    fn arrived(&mut self, at: SimTime, id: RequestId, prompt_tokens: u32) {
        let open = Open {
            instance: InstanceId(0),
            prompt_tokens,
            sent: at,
            phase: Phase::Held,
            since: at,
            spans: Vec::new(),
            chunks: Vec::new(),
        };
        self.requests.insert(id, open);
    }

    /// A request is at the gateway, if it was not there before.
    fn hold(&mut self, at: SimTime, id: RequestId) {
        if let Some(open) = self.requests.get_mut(&id)
            && open.phase != Phase::Gateway
        {
            open.phase = Phase::Gateway;
            (open.sent, open.since) = (at, at);
        }
    }

    fn sent(&mut self, at: SimTime, id: RequestId, instance: InstanceId) {
        let Some(open) = self.requests.get_mut(&id) else { return };
        open.instance = instance;
        if open.phase == Phase::Gateway && at > open.since {
            open.enter(at, Phase::Api);
        } else {
            open.phase = Phase::Api;
            (open.sent, open.since) = (at, at);
        }
    }
}

impl<W: Write> Observer for TimelineWriter<W> {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        self.end = at;
        match what {
            Occurrence::Arrived(id, request) => self.arrived(at, id, request.prompt_tokens),
            Occurrence::Reached(id) | Occurrence::CameBack(id, None) => self.hold(at, id),
            Occurrence::Sent(id, instance) => self.sent(at, id, instance),
            Occurrence::CameBack(id, Some(_)) => self.enter(at, id, Phase::Api, Phase::Gateway),
            Occurrence::Queued(instance, id, load) => {
                self.enter(at, id, Phase::Api, Phase::Queued);
                self.set_levels(at, instance, load);
            }
            Occurrence::Planned(instance, batch, load) => self.planned(at, instance, batch, load),
            Occurrence::Displaced(_, ids) => {
                self.lose(at, ids);
                self.preemptions.lose(at, ids, SimDuration::ZERO);
            }
            Occurrence::Stepped(instance, batch, result, load) => {
                self.stepped(at, instance, batch, result);
                self.set_levels(at, instance, load);
            }
            Occurrence::Landed(instance, result, load) => {
                for id in &result.landed {
                    self.preemptions.take(*id);
                    if let Some(open) = self.requests.get_mut(id) {
                        open.enter(at, Phase::Decode);
                    }
                }
                self.set_levels(at, instance, load);
            }
            Occurrence::Quiet(instance, run) => self.quiet(instance, run),
            Occurrence::HandedOver(_, life) => {
                self.preemptions.take(life.id);
                if let Some(open) = self.requests.get_mut(&life.id) {
                    open.enter(at, Phase::Queued);
                }
            }
            Occurrence::Forwarded(id, instance) => {
                if let Some(open) = self.requests.get_mut(&id) {
                    open.instance = instance;
                }
            }
            Occurrence::TransferBegan(_, id, _) => {
                self.enter(at, id, Phase::Queued, Phase::Transfer);
            }
            Occurrence::LoadBegan(instance, what, load) => {
                self.enter(at, what.request, Phase::Queued, Phase::Transfer);
                self.set_levels(at, instance, load);
            }
            Occurrence::Released(_, id)
            | Occurrence::TransferFailed(_, id)
            | Occurrence::LoadEnded(_, id) => {
                self.enter(at, id, Phase::Transfer, Phase::Queued);
            }
            Occurrence::Left(_, life, finish) => {
                self.preemptions.take(life.id);
                if let Some(open) = self.requests.remove(&life.id) {
                    self.close(at, life.id, open, Some(life), finish.into());
                }
            }
            Occurrence::Refused(_, id) => {
                if let Some(open) = self.requests.remove(&id) {
                    self.close(at, id, open, None, Status::Rejected);
                }
            }
            Occurrence::GaveUp { request, life, finish, .. } => {
                if let Some(open) = self.requests.remove(&request) {
                    self.close(at, request, open, life, finish.into());
                }
            }
            Occurrence::Dropped(instance, life, load) => {
                self.preemptions.take(life.id);
                self.set_levels(at, instance, load);
            }
            Occurrence::Moved { from, to, life, load } => self.go_on(at, life, (from, load), to),
            Occurrence::Crashed(instance, load) | Occurrence::Unreserved(instance, _, load) => {
                self.set_levels(at, instance, load);
            }
            Occurrence::SendingBegan(..)
            | Occurrence::Loading(..)
            | Occurrence::TurnedAway(..)
            | Occurrence::Retried { .. }
            | Occurrence::Recovered(_)
            | Occurrence::Slowed(..)
            | Occurrence::TierMoved(..)
            | Occurrence::TiersEvicted(..)
            | Occurrence::Scaled(..)
            | Occurrence::Swapped(_)
            | Occurrence::Rebalanced { .. }
            | Occurrence::Looked(..) => {}
        }
    }
}
