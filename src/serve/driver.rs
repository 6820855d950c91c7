//! The thread that owns the simulated cluster and keeps it in step with the clock on the wall.
//!
//! It sleeps until something is due: an event of the cluster, a delivery to a client, or a command. What
//! comes from clients comes through one queue, with the instant at which it came.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::answer::{Answer, End};
use super::clock::{Clock, wall};
use super::counters::{Counters, Siblings};
use super::handover::{Part, Waiting, Waits};
use super::kv_events::Telling;
use super::lengths::Lengths;
use super::ports::Chosen;
use super::prefixes::Prefixes;
use super::relay::{Relay, Stream};
use super::trace::TraceLog;
use crate::cluster::Role;
use crate::engine::scheduler::Load;
use crate::ids::{AdapterId, ClassId, InstanceId, ModelId, RequestId, SessionId};
use crate::io::traces::TraceError;
use crate::metrics::{BenchReport, Caution, Recorder, Summary};
use crate::request::{Content, Request, Segment};
use crate::resolved::Scenario;
use crate::scenario::FaultConfig;
use crate::sim::{Counts, Live};
use crate::units::SimTime;

/// Handled between two looks at the queue of commands, so that neither waits long for the other.
const EVENTS_AT_ONCE: usize = 256;
/// How far the cluster may be behind the clock before that is said, on the wall.
const BEHIND: Duration = Duration::from_millis(50);
/// How often that is said at most.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// A request of a client.
#[derive(Debug)]
pub(super) struct Submission {
    /// When it came.
    pub(super) came: Instant,
    pub(super) prompt: Arc<[u32]>,
    /// The limit of its answer, if it has one.
    pub(super) max_tokens: Option<u32>,
    pub(super) min_tokens: u32,
    pub(super) ignore_eos: bool,
    pub(super) model: ModelId,
    pub(super) adapter: Option<AdapterId>,
    pub(super) class: ClassId,
    pub(super) session: Option<SessionId>,
    /// Other answers to the same prompt, if it has several.
    pub(super) siblings: Option<Arc<Siblings>>,
    /// Whether its client has tokens as they come.
    pub(super) streams: bool,
    pub(super) priority: i32,
    pub(super) salt: u64,
    /// The replica that it is sent to, where its client chooses.
    pub(super) replica: Option<InstanceId>,
    pub(super) part: Part,
    pub(super) answer: Arc<Answer>,
}

/// What a replica is doing.
#[derive(Debug, Clone)]
pub(super) struct Replica {
    pub(super) load: Load,
    pub(super) counters: Counters,
    /// Tokens of KV memory, and those that requests hold.
    pub(super) kv_tokens: [u64; 2],
    pub(super) is_up: bool,
    pub(super) facts: Facts,
    /// The adapters of requests that it runs, and of those that wait there.
    pub(super) adapters: [BTreeSet<AdapterId>; 2],
}

/// What a replica is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) role: Role,
    pub(super) block_tokens: u32,
    pub(super) max_model_len: u32,
    pub(super) keeps_prefixes: bool,
    /// Drafts that a step verifies for each request, if it speculates.
    pub(super) drafts: Option<u32>,
    /// Adapters that running requests may use at once, if it has any.
    pub(super) max_adapters: Option<u32>,
}

/// What there is to see at a moment.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) now: SimTime,
    pub(super) speed: f64,
    pub(super) replicas: Vec<Replica>,
    /// How far the cluster is behind the clock, on the wall.
    pub(super) behind_s: f64,
    pub(super) open: usize,
}

/// What the driver is asked to do.
#[derive(Debug)]
pub(super) enum Command {
    Submit(Box<Submission>),
    /// The client of a request is gone.
    Cancel(Arc<Answer>),
    /// All requests are ended, or those of a replica.
    AbortAll(Option<InstanceId>),
    /// The prefix caches are emptied, or that of a replica; whether they could be, because nothing is running.
    Flush(Option<InstanceId>, oneshot::Sender<bool>),
    /// Whether a replica serves; any, where none is named.
    IsUp(Option<InstanceId>, oneshot::Sender<bool>),
    Fault(FaultConfig),
    Speed(f64),
    Look(oneshot::Sender<Look>),
    Report(oneshot::Sender<Box<Summary>>),
    Stop,
}

/// The way to the driver, for any thread.
#[derive(Debug, Clone)]
pub(super) struct Handle(mpsc::Sender<Command>);

impl Handle {
    /// Tells the driver. When it has gone, who waits for an answer is told.
    pub(super) fn tell(&self, command: Command) {
        if let Err(mpsc::SendError(Command::Submit(submission))) = self.0.send(command) {
            submission.answer.change(|progress| {
                progress.end.get_or_insert(End::ShuttingDown);
            });
        }
    }

    /// Asks the driver; nothing when it has gone.
    pub(super) async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.tell(question(sender));
        receiver.await.ok()
    }
}

/// What is left when the server has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) counts: Counts,
    pub(super) recorder: Recorder,
    pub(super) caution: Caution,
    /// Faults that it was told of, at the instants at which they happened or will.
    pub(super) told: Vec<FaultConfig>,
    /// Whether the trace could be written.
    pub(super) traced: Result<(), TraceError>,
}

/// What hears of the run.
type Heard<'a> = (&'a mut Relay, (&'a mut Recorder, &'a mut Caution));

/// The driver.
#[derive(Debug)]
pub(super) struct Driver {
    scenario: Scenario,
    live: Live,
    clock: Clock,
    relay: Relay,
    recorder: Recorder,
    caution: Caution,
    prefixes: Prefixes,
    lengths: Lengths,
    chosen: Chosen,
    waiting: Waiting,
    trace: Option<TraceLog>,
    told: Vec<FaultConfig>,
    /// Where caches are told of.
    kv_events: Option<Telling>,
    commands: mpsc::Receiver<Command>,
    hear: fn(&str),
    said: Option<Instant>,
}

impl Driver {
    /// A driver of a cluster, and the way to it. Time stands still until [`run`](Self::run).
    pub(super) fn new(
        (scenario, live): (Scenario, Live),
        (relay, recorder, caution): (Relay, Recorder, Caution),
        (prefixes, lengths, chosen): (Prefixes, Lengths, Chosen),
        (trace, kv_events): (Option<TraceLog>, Option<Telling>),
        speed: f64,
        hear: fn(&str),
    ) -> (Self, Handle) {
        let (sender, commands) = mpsc::channel();
        let clock = Clock::start(speed);
        let said = None;
        let driver = Self {
            scenario,
            live,
            clock,
            relay,
            recorder,
            caution,
            prefixes,
            lengths,
            chosen,
            waiting: Waiting::default(),
            trace,
            told: Vec::new(),
            kv_events,
            commands,
            hear,
            said,
        };
        (driver, Handle(sender))
    }

    /// The cluster.
    pub(super) fn live(&self) -> &Live {
        &self.live
    }

    /// Keeps the cluster in step until it is told to stop, or nobody is left who could.
    pub(super) fn run(mut self) -> Ended {
        self.clock = Clock::start(self.clock.speed());
        loop {
            let is_behind = self.catch_up();
            let command = if is_behind {
                match self.commands.try_recv() {
                    Ok(command) => Some(command),
                    Err(mpsc::TryRecvError::Empty) => None,
                    Err(mpsc::TryRecvError::Disconnected) => return self.end(),
                }
            } else {
                let rest = self.rest();
                match self.commands.recv_timeout(rest) {
                    Ok(command) => Some(command),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return self.end(),
                }
            };
            match command {
                None => {}
                Some(Command::Stop) => return self.end(),
                Some(command) => self.obey(command),
            }
        }
    }

    /// How long nothing is due.
    fn rest(&mut self) -> Duration {
        let next = [self.live.next_change(), self.relay.next_due(), self.waiting.next()];
        let next = next.into_iter().flatten().min();
        match next {
            Some(at) => self.clock.wall_at(at).saturating_duration_since(wall()),
            None => Duration::from_hours(1),
        }
    }

    /// Lets happen what is due, a bounded part at a time; whether there is more.
    fn catch_up(&mut self) -> bool {
        let now = self.clock.now();
        let is_more = self.advance(now, EVENTS_AT_ONCE);
        if is_more {
            self.say_behind();
        }
        self.end_waits();
        if let Some(kv_events) = &mut self.kv_events {
            kv_events.tell(&mut self.live);
        }
        self.relay.hand_over(&self.clock, self.live.now().min(now));
        is_more
    }

    /// Lets happen what is due before `until`, up to so many events; whether there may be more.
    fn advance(&mut self, until: SimTime, events: usize) -> bool {
        for _ in 0..events {
            let mut heard: Heard<'_> = (&mut self.relay, (&mut self.recorder, &mut self.caution));
            if !self.live.advance(until, &mut heard) {
                return false;
            }
            self.after_event();
        }
        true
    }

    fn after_event(&mut self) {
        self.relay.collect(&self.live);
        for id in self.relay.prefilled() {
            self.waiting.hold(id, self.live.now());
        }
        for ended in self.relay.ended() {
            let stream = Segment::answer_stream(ended.id);
            if ended.is_answered {
                self.prefixes.answered(&ended.prompt, ended.id.0, stream, ended.tokens);
            }
            if let Some(trace) = &mut self.trace {
                trace.end(ended.id, ended.tokens);
            }
            if let Some(kv_events) = &mut self.kv_events {
                kv_events.end(ended.id);
            }
        }
    }

    fn say_behind(&mut self) {
        let behind = self.behind();
        let is_said = self.said.is_some_and(|said| said.elapsed() < SAID_EVERY);
        if behind > BEHIND && !is_said {
            self.said = Some(wall());
            let speed = self.clock.speed();
            (self.hear)(&format!(
                "warning: the cluster is {:.2} s behind the clock at speed {speed}: tokens come late. A \
                 lower --speed, fewer replicas or fewer requests help",
                behind.as_secs_f64()
            ));
        }
    }

    /// Everything that is due before `at` has happened.
    fn reach(&mut self, at: SimTime) -> SimTime {
        let at = at.max(self.live.now());
        while self.advance(at, EVENTS_AT_ONCE) {}
        at
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submission) => self.submit(submission),
            Command::Cancel(answer) => self.cancel(&answer),
            Command::AbortAll(replica) => {
                for waits in self.waiting.leave(|it| replica.is_none() || it.replica == replica) {
                    end(&waits.answer, End::Aborted);
                }
                for id in self.relay.inside(replica) {
                    self.abort(id);
                }
            }
            Command::Flush(replica, reply) => {
                let is_idle = self.relay.inside(replica).is_empty();
                if is_idle {
                    self.flush(replica);
                }
                // Who asked may have gone.
                let _gone = reply.send(is_idle);
            }
            Command::IsUp(replica, reply) => {
                let all = 0..self.live.instances().len() as u32;
                let mut asked = all.map(InstanceId).filter(|id| replica.is_none_or(|it| it == *id));
                let _gone = reply.send(asked.any(|id| self.live.is_up(id)));
            }
            Command::Fault(fault) => {
                let now = self.clock.now();
                self.reach(now);
                self.inject(fault);
            }
            Command::Speed(speed) => {
                let now = self.clock.now();
                self.reach(now);
                self.clock.set_speed(speed);
            }
            Command::Look(reply) => drop(reply.send(self.look())),
            Command::Report(reply) => drop(reply.send(Box::new(self.report()))),
            Command::Stop => {}
        }
    }

    fn submit(&mut self, submission: Box<Submission>) {
        let at = self.reach(self.clock.at(submission.came));
        if let Some(replica) = submission.replica {
            if !self.live.is_up(replica) {
                // Nobody listens there.
                return end(&submission.answer, End::Failed);
            }
            self.chosen.set(replica);
            if submission.part == Part::Whole && self.live.role(replica) == Role::Decode {
                self.live.decode_alone(replica);
            }
        }
        match submission.part {
            Part::Whole => self.send(at, *submission, None),
            Part::Prompt => {
                // Who decodes it will have an answer of its own.
                let (answer, prefill) = (Answer::new(), submission.answer.clone());
                self.send(at, Submission { answer, ..*submission }, Some(prefill));
            }
            Part::Answer(id) => self.go_on(at, id, &submission),
            Part::Room(room) => self.meet(at, room, submission),
        }
    }

    /// A request comes to one of its two servers: it waits for the other, or goes to both.
    fn meet(&mut self, at: SimTime, room: u64, submission: Box<Submission>) {
        let Some(other) = self.waiting.take(room) else {
            return self.waiting.put(room, submission, at);
        };
        let decodes = |it: &Submission| {
            it.replica.is_some_and(|replica| self.live.role(replica) == Role::Decode)
        };
        let (prefill, decode) = match (decodes(&other), decodes(&submission)) {
            (false, true) => (other, submission),
            (true, false) => (submission, other),
            // Two rooms of one name: the servers of a pair are one of each kind.
            _ => {
                end(&other.answer, End::Rejected);
                return end(&submission.answer, End::Rejected);
            }
        };
        let both = [prefill.replica, decode.replica];
        if prefill.prompt != decode.prompt || both.iter().flatten().any(|id| !self.live.is_up(*id))
        {
            end(&prefill.answer, End::Failed);
            return end(&decode.answer, End::Failed);
        }
        both.into_iter().flatten().for_each(|replica| self.chosen.set(replica));
        self.send(at, *decode, Some(prefill.answer));
    }

    /// A request is sent to the cluster; who prefills it only has an answer too.
    fn send(&mut self, at: SimTime, submission: Submission, prefill: Option<Arc<Answer>>) {
        let Submission { prompt, answer, ignore_eos, priority, model, adapter, salt, .. } =
            submission;
        let Submission { class, session, streams, siblings, .. } = submission;
        let asked = submission.max_tokens;
        let drawn = self.lengths.draw(asked, submission.min_tokens, ignore_eos);
        let segments = self.prefixes.segments(&prompt);
        let request = Request {
            max_tokens: drawn.max_tokens,
            ignore_eos: drawn.output_tokens == drawn.max_tokens,
            content: Content { salt, segments: Some(segments.into()) },
            priority,
            model,
            adapter,
            class,
            session,
            ..Request::new(at, prompt.len() as u32, drawn.output_tokens)
        };
        let mut stream = Stream::new(answer, prefill, prompt.clone(), drawn.max_tokens);
        (stream.streams, stream.adapter, stream.siblings) = (streams, adapter, siblings);
        self.relay.expect(stream);
        let mut heard: Heard<'_> = (&mut self.relay, (&mut self.recorder, &mut self.caution));
        let id = self.live.submit(at, request.clone(), &mut heard);
        if let Some(trace) = &mut self.trace {
            trace.begin(id, &request);
        }
        if let Some(kv_events) = &mut self.kv_events {
            kv_events.begin(id, prompt, adapter);
        }
        self.after_event();
    }

    /// A request whose prompt is computed goes on to the server that was asked to decode it.
    fn go_on(&mut self, at: SimTime, id: RequestId, submission: &Submission) {
        let is_its = self.relay.prompt_of(id).is_some_and(|prompt| *prompt == submission.prompt);
        if !is_its || !self.live.is_between(id) {
            return end(&submission.answer, End::Failed);
        }
        let Submission { max_tokens, min_tokens, ignore_eos, ref answer, .. } = *submission;
        let drawn = self.lengths.draw(max_tokens, min_tokens, ignore_eos);
        self.relay.go_on(id, answer.clone(), drawn.max_tokens, at);
        let mut heard: Heard<'_> = (&mut self.relay, (&mut self.recorder, &mut self.caution));
        let change = |request: &mut Request| {
            (request.max_tokens, request.output_tokens) = (drawn.max_tokens, drawn.output_tokens);
            request.ignore_eos = drawn.output_tokens == drawn.max_tokens;
        };
        self.live.go_on(at, id, change, &mut heard);
        self.after_event();
    }

    /// Ends what has waited too long for another connection.
    fn end_waits(&mut self) {
        while let Some(waits) = self.waiting.over(self.live.now()) {
            match waits {
                Waits::InRoom(room) => {
                    if let Some(submission) = self.waiting.take(room) {
                        end(&submission.answer, End::Failed);
                    }
                }
                Waits::WithKv(id) if self.live.is_between(id) => self.abort(id),
                Waits::WithKv(_) => {}
            }
        }
    }

    fn cancel(&mut self, answer: &Answer) {
        match answer.progress().id {
            Some(id) => self.abort(id),
            // It has not met the other server.
            None => drop(self.waiting.leave(|it| std::ptr::eq(&raw const *it.answer, answer))),
        }
    }

    fn abort(&mut self, id: RequestId) {
        let at = self.reach(self.clock.now());
        let mut heard: Heard<'_> = (&mut self.relay, (&mut self.recorder, &mut self.caution));
        self.live.cancel(at, id, &mut heard);
        self.after_event();
    }

    fn flush(&mut self, only: Option<InstanceId>) {
        let now = self.clock.now();
        self.reach(now);
        let all = 0..self.live.instances().len() as u32;
        for replica in all.filter(|id| only.is_none_or(|only| only.0 == *id)) {
            let at_s = self.live.now().as_secs_f64();
            self.inject(FaultConfig::LostCache { replica, at_s });
        }
    }

    /// A fault that happens now, or when it says.
    fn inject(&mut self, fault: FaultConfig) {
        let fault = from(fault, self.live.now());
        self.live.inject(&fault);
        self.told.push(fault);
    }

    fn look(&mut self) -> Look {
        let now = self.live.now();
        let tokens = self.scenario.kinds();
        let is_lora = self.scenario.lora().is_some();
        let mut adapters = if is_lora { self.relay.adapters() } else { Vec::new() };
        let replicas = (0..).map(InstanceId).zip(self.live.instances()).map(|(id, instance)| {
            let load = instance.load_at(now);
            let group = &self.scenario.groups[tokens.of(id)];
            let block = group.settings.block_size();
            let of = |blocks: u32| u64::from(blocks) * u64::from(block);
            Replica {
                load,
                counters: self.relay.counters[id.index()].clone(),
                kv_tokens: [of(load.kv_blocks), of(load.kv_blocks_held())],
                is_up: self.live.is_up(id),
                facts: Facts {
                    role: self.live.role(id),
                    block_tokens: block,
                    max_model_len: group.settings.max_model_len(),
                    keeps_prefixes: group.cluster.engine.keeps_prefixes(),
                    drafts: group.speculation().map(|it| it.drafts).filter(|drafts| *drafts > 0),
                    max_adapters: group.cluster.engine.adapter_slots().filter(|_| is_lora),
                },
                adapters: adapters.get_mut(id.index()).map(std::mem::take).unwrap_or_default(),
            }
        });
        Look {
            now,
            speed: self.clock.speed(),
            replicas: replicas.collect(),
            behind_s: self.behind().as_secs_f64(),
            open: self.relay.open(),
        }
    }

    /// How long the next thing that happens has been due.
    fn behind(&mut self) -> Duration {
        let due = self.live.next_change().map(|at| self.clock.wall_at(at));
        due.map_or(Duration::ZERO, |due| wall().saturating_duration_since(due))
    }

    fn report(&self) -> Summary {
        let report = BenchReport::new(&self.recorder, &self.scenario);
        Summary::new(&self.scenario, &self.live.counts(), &self.recorder, &report)
    }

    fn end(mut self) -> Ended {
        let now = self.clock.now();
        self.reach(now);
        for waits in self.waiting.leave(|_| true) {
            end(&waits.answer, End::ShuttingDown);
        }
        let open = self.relay.inside(None);
        self.relay.abandon();
        for id in open {
            self.abort(id);
        }
        let Self { live, mut relay, mut recorder, mut caution, told, trace, .. } = self;
        let mut heard: Heard<'_> = (&mut relay, (&mut recorder, &mut caution));
        let counts = live.close(&mut heard);
        let traced = trace.map_or(Ok(()), TraceLog::finish);
        Ended { counts, recorder, caution, told, traced }
    }
}

/// A request that the cluster does not have is over.
fn end(answer: &Answer, end: End) {
    answer.change(|progress| {
        progress.end.get_or_insert(end);
    });
}

/// A fault whose time counts from `now` on.
fn from(mut fault: FaultConfig, now: SimTime) -> FaultConfig {
    let mut earliest = now.as_secs_f64();
    // After weeks the floats before and after a nanosecond lie apart, and what is over cannot happen.
    while SimTime::from_secs_f64(earliest) < now {
        earliest = earliest.next_up();
    }
    match &mut fault {
        FaultConfig::Crash { at_s, .. }
        | FaultConfig::Straggler { at_s, .. }
        | FaultConfig::SlowLink { at_s, .. }
        | FaultConfig::LostCache { at_s, .. }
        | FaultConfig::LostTransfers { at_s, .. } => *at_s = at_s.max(earliest),
        FaultConfig::Random(_) => {}
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_the_moment_is_never_before_it() {
        for bits in 40..64 {
            for odd in 0..1000_u64 {
                let now = SimTime::from_nanos((1 << bits) - 1 - odd * odd);
                let fault = from(FaultConfig::LostCache { replica: 0, at_s: 0.0 }, now);
                let FaultConfig::LostCache { at_s, .. } = fault else { unreachable!() };
                assert!(SimTime::from_secs_f64(at_s) >= now, "{now}: {at_s}");
            }
        }
    }
}
