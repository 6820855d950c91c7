//! The thread that owns the simulated cluster and keeps it in step with the clock on the wall.
//!
//! It sleeps until something is due: an event of the cluster, a delivery to a client, or a command. What
//! comes from clients comes through one queue, with the instant at which it came.
//!
//! * `command.rs`: what it is asked; `looks.rs`: what there is to see; `faults.rs`: faults that it is told
//! * `pairs.rs`: requests of a server that prefills and one that decodes

mod command;
mod faults;
mod looks;
mod pairs;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

pub(super) use command::{Command, Facts, Handle, Look, Replica, Submission};

use super::answer::{Answer, End, Owed};
use super::clock::{Clock, wall};
use super::handover::{Part, Waiting};
use super::kv_events::Telling;
use super::lengths::Lengths;
use super::ports::Chosen;
use super::prefixes::Prefixes;
use super::relay::{Relay, Stream};
use super::trace::TraceLog;
use super::windows::Windows;
use crate::cluster::Role;
use crate::ids::{InstanceId, RequestId};
use crate::io::traces::TraceError;
use crate::metrics::{Caution, Recorder, Summary};
use crate::request::{Content, Request, Segment};
use crate::resolved::Scenario;
use crate::scenario::FaultConfig;
use crate::sim::{Counts, Live};
use crate::units::{SimDuration, SimTime};

/// Handled between two looks at the queue of commands, so that neither waits long for the other.
const EVENTS_AT_ONCE: usize = 256;
/// How many of them requests that come may be: a long prompt takes as long as a hundred steps.
const REQUESTS_AT_ONCE: usize = 16;
/// Commands between two looks at what is due.
const COMMANDS_AT_ONCE: usize = 64;
/// How far the cluster may be behind the clock before that is said, on the wall.
const BEHIND: Duration = Duration::from_millis(50);
/// How often that is said at most.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// What is left when the server has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) counts: Counts,
    pub(super) recorder: Recorder,
    pub(super) caution: Caution,
    /// Faults that it was told of, at the instants at which they happened or will; nothing if there were too many.
    pub(super) told: Option<Vec<FaultConfig>>,
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
    /// Requests that have come, and when they come to the cluster: it may be behind.
    pending: VecDeque<(SimTime, Box<Submission>)>,
    windows: Windows,
    trace: Option<TraceLog>,
    /// Kept where there is a trace.
    told: Option<Vec<FaultConfig>>,
    /// Replicas whose caches were emptied, and nothing has come to them since.
    emptied: BTreeSet<u32>,
    /// Where caches are told of.
    kv_events: Option<Telling>,
    commands: mpsc::Receiver<Command>,
    hear: fn(&str),
    said: Option<Instant>,
    /// Whether more is due than was done at once.
    is_behind: bool,
    /// Whether there are no more numbers for requests.
    is_full: bool,
    /// The latest report that took long, and until when it is told.
    reported: Option<(Instant, Summary)>,
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
        let windows = Windows::of(&scenario.faults);
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
            pending: VecDeque::new(),
            windows,
            told: trace.is_some().then(Vec::new),
            emptied: BTreeSet::new(),
            trace,
            kv_events,
            commands,
            hear,
            said: None,
            is_behind: false,
            is_full: false,
            reported: None,
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
            self.catch_up();
            if let Some(why) = self.is_at_end() {
                (self.hear)(&format!("{why}: the server ends"));
                return self.end();
            }
            let mut rest = if self.is_behind { Duration::ZERO } else { self.rest() };
            for _ in 0..COMMANDS_AT_ONCE {
                match self.commands.recv_timeout(std::mem::take(&mut rest)) {
                    Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return self.end(),
                    Ok(command) => self.obey(command),
                    Err(RecvTimeoutError::Timeout) => break,
                }
            }
        }
    }

    /// Why a run cannot go on, if it cannot.
    fn is_at_end(&self) -> Option<&'static str> {
        if self.live.now() >= Clock::LATEST {
            Some("simulated time is over after 507 years")
        } else if self.is_full {
            Some("there are no more numbers for requests after 2^32")
        } else {
            None
        }
    }

    /// How long nothing is due.
    fn rest(&mut self) -> Duration {
        let pending = self.pending.front().map(|(at, _)| *at);
        let next = [self.live.next_change(), self.relay.next_due(), self.waiting.next(), pending];
        let next = next.into_iter().flatten().min();
        match next {
            Some(at) => self.clock.wall_at(at).saturating_duration_since(wall()),
            None => Duration::from_hours(1),
        }
    }

    /// Lets happen what is due, a bounded part at a time.
    fn catch_up(&mut self) {
        let now = self.clock.now();
        self.is_behind = self.advance(now, EVENTS_AT_ONCE);
        if self.is_behind {
            self.say_behind();
        }
        self.end_waits();
        if let Some(kv_events) = &mut self.kv_events {
            kv_events.tell(&mut self.live);
        }
        self.relay.hand_over(&self.clock, self.live.now().min(now));
    }

    /// Lets happen what is due before `until`, requests that come among it, up to so many events; whether there may
    /// be more.
    fn advance(&mut self, until: SimTime, events: usize) -> bool {
        let mut requests = 0;
        for _ in 0..events {
            let comes = self.pending.front().map(|(at, _)| *at).filter(|at| *at <= until);
            if self.one_event(comes.unwrap_or(until)) {
                continue;
            }
            let next = comes.and_then(|_| self.pending.pop_front());
            let Some((at, submission)) = next else { return false };
            self.submit(at, submission);
            requests += 1;
            if requests == REQUESTS_AT_ONCE {
                break;
            }
        }
        true
    }

    /// Lets happen the next thing that is due before `until`, and whether there was one.
    fn one_event(&mut self, until: SimTime) -> bool {
        let mut heard: Heard<'_> = (&mut self.relay, (&mut self.recorder, &mut self.caution));
        let is_one = self.live.advance(until, &mut heard);
        if is_one {
            self.after_event();
        }
        is_one
    }

    /// When what a person or a client does now comes to the cluster, before which everything that is due has
    /// happened: now, or as far as it has come if it is behind. Nobody waits until it has caught up.
    fn present(&mut self) -> SimTime {
        if !self.is_behind {
            let now = self.clock.now();
            self.is_behind = self.advance(now, EVENTS_AT_ONCE);
        }
        if self.is_behind {
            // The instant is brought to its end.
            let after = self.live.now() + SimDuration::from_nanos(1);
            while self.one_event(after) {}
        }
        self.live.now()
    }

    fn after_event(&mut self) {
        self.relay.collect(&self.live);
        for id in self.relay.prefilled() {
            self.waiting.hold(id, self.live.now());
        }
        for ended in self.relay.ended() {
            self.emptied.clear();
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

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submission) => {
                let at = self.clock.at(submission.came);
                let last = self.pending.back().map(|(last, _)| *last);
                self.pending.push_back((last.map_or(at, |last| at.max(last)), submission));
            }
            Command::Cancel(answer) => self.cancel_ordered([answer]),
            Command::End(answers) => self.cancel_ordered(answers),
            Command::AbortAll(replica) => self.abort_all(replica),
            Command::Flush(replica, reply) => {
                // Who asked may have gone.
                let _gone = reply.send(self.flush(replica));
            }
            Command::IsUp(replica, reply) => {
                let all = 0..self.live.instances().len() as u32;
                let mut asked = all.map(InstanceId).filter(|id| replica.is_none_or(|it| it == *id));
                let _gone = reply.send(asked.any(|id| self.live.is_up(id)));
            }
            Command::Fault(fault, reply) => {
                let _gone = reply.send(self.plan(fault));
            }
            Command::Speed(speed) => self.set_speed(speed),
            Command::Look(reply) => drop(reply.send(self.look())),
            Command::Report(reply) => drop(reply.send(Box::new(self.report()))),
            Command::Stop => {}
        }
    }

    /// Time goes on from where the cluster is: what it was behind is dropped.
    fn set_speed(&mut self, speed: f64) {
        let now = self.present();
        self.clock.set(now, speed);
        for (at, _) in &mut self.pending {
            *at = now.min(*at);
        }
        self.is_behind = false;
    }

    /// A request comes to the cluster.
    fn submit(&mut self, at: SimTime, submission: Box<Submission>) {
        let at = at.max(self.live.now());
        if submission.answer.progress().end.is_some() {
            // Its client has gone, or somebody ended it before it was here.
            return;
        }
        self.is_full = self.is_full || self.live.is_full();
        if self.is_full {
            return submission.answer.end(End::ShuttingDown);
        }
        if let Some(replica) = submission.replica {
            if !self.live.is_up(replica) {
                // Nobody listens there.
                return submission.answer.end(End::Failed);
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
                let mut submission = *submission;
                let prefill = std::mem::replace(&mut submission.answer, Owed::to_nobody());
                self.send(at, submission, Some(prefill));
            }
            Part::Answer(id) => self.go_on(at, id, *submission),
            Part::Room(room) => self.meet(at, room, submission),
        }
    }

    /// A request is sent to the cluster; who prefills it only has an answer too.
    fn send(&mut self, at: SimTime, submission: Submission, prefill: Option<Owed>) {
        self.emptied.clear();
        let drawn = self.lengths.draw(submission.wanted());
        let Submission { prompt, answer, adapter, siblings, .. } = submission;
        let segments = self.prefixes.segments(&prompt);
        let request = Request {
            max_tokens: drawn.max_tokens,
            ignore_eos: submission.ignore_eos,
            content: Content { salt: submission.salt, segments: Some(segments.into()) },
            priority: submission.priority,
            model: submission.model,
            adapter,
            class: submission.class,
            session: submission.session,
            ..Request::new(at, prompt.len() as u32, drawn.output_tokens)
        };
        let mut stream = Stream::new(answer, prefill, prompt.clone(), drawn);
        (stream.streams, stream.adapter, stream.siblings) = (submission.streams, adapter, siblings);
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

    /// These requests are ended by one order.
    fn cancel_ordered(&mut self, answers: impl IntoIterator<Item = Arc<Answer>>) {
        let answers: Vec<Arc<Answer>> = answers.into_iter().collect();
        if let Some(first) = answers.first().and_then(|answer| answer.progress().id) {
            self.relay.abort_ordered(first);
        }
        for answer in &answers {
            self.cancel(answer);
        }
    }

    fn cancel(&mut self, answer: &Answer) {
        // What the cluster does until now may bring the request to it.
        let now = self.present();
        if let Some(id) = answer.progress().id {
            return self.abort(now, id);
        }
        // It has not met the other server, or is on its way to the cluster.
        for waits in self.waiting.leave(|it| it.answer.is_of(answer)) {
            waits.answer.end(End::Aborted);
        }
        end(answer, End::Aborted);
    }

    fn abort_all(&mut self, replica: Option<InstanceId>) {
        self.relay.abort_of_all_ordered(replica);
        let now = self.present();
        let is_its = |it: &Submission| replica.is_none() || it.replica == replica;
        for waits in self.waiting.leave(is_its) {
            waits.answer.end(End::Aborted);
        }
        for (_, submission) in self.pending.iter().filter(|(_, it)| is_its(it)) {
            submission.answer.change(|progress| {
                progress.end.get_or_insert(End::Aborted);
            });
        }
        for id in self.relay.inside(replica) {
            self.abort(now, id);
        }
    }

    fn abort(&mut self, at: SimTime, id: RequestId) {
        let mut heard: Heard<'_> = (&mut self.relay, (&mut self.recorder, &mut self.caution));
        self.live.cancel(at, id, &mut heard);
        self.after_event();
    }

    /// The end: what is due is told, and who waits for more hears that there will be none. What the cluster is behind
    /// is dropped.
    fn end(mut self) -> Ended {
        let now = self.present();
        self.relay.hand_over(&self.clock, now);
        let open = self.relay.inside(None);
        self.relay.abandon();
        for id in open {
            self.abort(now, id);
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
