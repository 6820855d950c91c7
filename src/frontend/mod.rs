//! What stands between the client and the scheduler of a replica: the processes of its server, each of
//! which does one thing after the other.
//!
//! A request passes the event loop of a process that talks HTTP, is tokenised, passes the loop again
//! ([`FrontEnd::accept`], [`FrontEnd::go_on`]), and reaches the scheduler's queue. The outputs of a step
//! come back as one message ([`FrontEnd::answer`]): the loop goes through them in turns and sends a chunk
//! for each, so that the last stream of a step waits for all others. What the loop does for requests
//! delays chunks, and chunks delay requests. Nobody holds the scheduler back: messages wait.
//!
//! Work is taken in as it comes, in order, and says at once when it will be done; only what has to wait
//! behind messages that come in faster than they are served passes them, as it does in an event loop.
//! Messages of steps that only decode need no event of their own: they are looked at when something
//! else comes to the loop.
//!
//! * `times.rs`: service times of a replica
//! * `server.rs`: a process that does one thing after the other
//! * `event_loop.rs`: requests and outputs in one event loop

mod event_loop;
mod server;
mod times;

use rustc_hash::FxHashMap;

use self::event_loop::{EventLoop, Message};
pub use self::server::Server;
pub use self::times::FrontEndTimes;
use self::times::Place;
use crate::ids::RequestId;
use crate::units::{SimDuration, SimTime};

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It waits for its next turn until then: [`FrontEnd::go_on`] comes next.
    Waits(SimTime),
    /// In the queue of the scheduler at that time.
    Submitted(SimTime),
}

/// An output with consequences: a first token, or a last one.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Of which request.
    pub request: RequestId,
    /// Whether it is the last one.
    pub is_last: bool,
    /// When the client has it; told by [`FrontEnd::answer`].
    pub at: SimTime,
}

/// The processes around the scheduler of one replica.
#[derive(Debug, Clone)]
pub struct FrontEnd {
    times: FrontEndTimes,
    loops: Vec<EventLoop>,
    tokenizers: Vec<Server>,
    intake: Server,
    detokenizer: Server,
    /// The client's thread, as far as it reads the chunks of this replica.
    reader: Server,
    streams: FxHashMap<RequestId, Stream>,
    /// Of each process, the last message with outputs.
    messages: Vec<Option<Answered>>,
    /// Requests accepted, to share them out.
    accepted: u32,
    /// Messages up to this moment have been taken in.
    heard: SimTime,
    /// Whether its outputs go to clients: those of replicas that only prefill do not.
    speaks: bool,
}

/// What is known of a request between its connection and its last chunk.
#[derive(Debug, Clone, Copy)]
struct Stream {
    prompt_tokens: u32,
    process: u32,
    /// What comes next on its way to the scheduler.
    stage: u32,
    /// When the client had its first token.
    first: Option<SimTime>,
    /// When it had the last one of which that was asked.
    last: SimTime,
}

/// A message with outputs on its way to the client.
#[derive(Debug, Clone, Copy)]
struct Answered {
    message: Message,
    rows: u32,
    /// When the client begins to read its chunks.
    read: SimTime,
}

impl Answered {
    /// When the client has the output at this place.
    fn seen(&self, place: u32, times: &FrontEndTimes) -> SimTime {
        let sent = self.message.sent(place, times) + times.network;
        sent.max(self.read + times.chunks_read(place)) + times.client_chunk
    }
}

impl FrontEnd {
    /// Processes with nothing to do, whose outputs go to clients or not.
    pub fn new(times: FrontEndTimes, speaks: bool) -> Self {
        let processes = times.processes as usize;
        Self {
            loops: vec![EventLoop::default(); processes],
            tokenizers: vec![Server::default(); processes],
            intake: Server::default(),
            detokenizer: Server::default(),
            reader: Server::default(),
            streams: FxHashMap::default(),
            messages: vec![None; processes],
            accepted: 0,
            heard: SimTime::ZERO,
            speaks,
            times,
        }
    }

    /// The same processes with nothing to do, at time zero.
    #[must_use]
    pub fn at_time_zero(self) -> Self {
        Self::new(self.times, self.speaks)
    }

    /// Forgets all requests: the server has crashed.
    pub fn forget(&mut self) {
        let accepted = self.accepted;
        *self = Self { accepted, heard: self.heard, ..Self::new(self.times.clone(), self.speaks) };
    }

    /// A request comes to the server at `now`. Messages that came before have been taken in.
    pub fn accept(&mut self, now: SimTime, request: RequestId, prompt_tokens: u32) -> Progress {
        let process = self.accepted % self.times.processes;
        self.accepted = self.accepted.wrapping_add(1);
        let stream = Stream { prompt_tokens, process, stage: 0, first: None, last: now };
        self.streams.insert(request, stream);
        self.serve(now, request, stream)
    }

    /// A request goes on; nothing of one that was forgotten meanwhile.
    pub fn go_on(&mut self, now: SimTime, request: RequestId) -> Option<Progress> {
        let stream = *self.streams.get(&request)?;
        Some(self.serve(now, request, stream))
    }

    /// All the way at once, for who has to know now: what comes to the loop meanwhile waits for it.
    pub fn pass(&mut self, now: SimTime, request: RequestId, prompt_tokens: u32) -> SimTime {
        let mut progress = self.accept(now, request, prompt_tokens);
        loop {
            match progress {
                Progress::Submitted(at) => return at,
                Progress::Waits(at) => match self.go_on(at, request) {
                    Some(next) => progress = next,
                    None => return at,
                },
            }
        }
    }

    fn serve(&mut self, now: SimTime, request: RequestId, mut stream: Stream) -> Progress {
        let Stream { prompt_tokens, process, .. } = stream;
        let process = process as usize;
        // With nobody else there what follows is done at once, but for what takes long.
        let mut goes_on = self.loops[process].is_idle(now);
        let mut at = now;
        let progress = loop {
            let Some(stage) = self.times.stages.get(stream.stage as usize) else {
                break Progress::Submitted(self.take_in(at, prompt_tokens));
            };
            let work = stage.work(prompt_tokens);
            if stage.place == Place::Tokenizer {
                let tokenizer = &mut self.tokenizers[process];
                at = tokenizer.serve(at, work, self.times.tokenizer_wake);
                goes_on = false;
            } else if at > now && !(goes_on && stage.follows) {
                break Progress::Waits(at);
            } else {
                at = self.loops[process].handle(at, work, self.times.api_wake);
            }
            stream.stage += 1;
        };
        self.streams.insert(request, stream);
        progress
    }

    fn take_in(&mut self, at: SimTime, prompt_tokens: u32) -> SimTime {
        let times = &self.times;
        self.intake.serve(
            at + times.intake_delay,
            times.taking_in(prompt_tokens),
            times.intake_wake,
        )
    }

    /// The scheduler has the outcome of a step in which `rows` requests brought out tokens, of which
    /// those named have consequences: when the client has them.
    pub fn answer(&mut self, now: SimTime, rows: u32, outputs: &mut [Output]) {
        if !self.speaks || rows == 0 {
            return;
        }
        self.heard = self.heard.max(now);
        let at = self.pass_detokenizer(now, rows);
        let processes = self.times.processes;
        for process in 0..processes {
            // Requests take turns with the processes.
            let share = (rows + processes - 1 - process) / processes;
            if share > 0 {
                self.answer_from(process, at, share, outputs);
            }
        }
    }

    fn answer_from(&mut self, process: u32, at: SimTime, rows: u32, outputs: &mut [Output]) {
        let (mut goes_on, mut prompts, mut lasts) = (0_u64, 0, 0);
        for output in &*outputs {
            let Some(stream) = self.of(process, output) else { continue };
            lasts += u64::from(output.is_last);
            match stream.first {
                None => prompts += u64::from(stream.prompt_tokens),
                Some(_) => goes_on += 1,
            }
        }
        let times = &self.times;
        let beside = (times.first_output_per_token * prompts, times.finish * lasts);
        let message = self.loops[process as usize].send(at, rows, beside, times);
        let read = self.reader.start(message.first_chunk + times.network, times.client_wake);
        let reading = times.client_chunk * u64::from(message.chunks);
        self.reader.keep_until(read + reading);
        let answered = Answered { message, rows, read };
        self.messages[process as usize] = Some(answered);
        let (mut old, mut new) = (0_u64, 0_u32);
        for output in outputs {
            let Some(stream) = self.of(process, output) else { continue };
            // New streams come last. Where the others are in the batch is not told: as if spread over it.
            let place = if stream.first.is_none() {
                new += 1;
                rows.saturating_sub(new)
            } else {
                old += 1;
                (u64::from(rows) * (2 * old - 1) / (2 * goes_on)) as u32
            };
            // Chunks of a stream never overtake each other.
            output.at = answered.seen(place, &self.times).max(stream.last);
            if let Some(stream) = self.streams.get_mut(&output.request) {
                stream.first.get_or_insert(output.at);
                stream.last = output.at;
            }
        }
    }

    /// The stream of an output, if this process serves it.
    fn of(&self, process: u32, output: &Output) -> Option<Stream> {
        self.streams.get(&output.request).copied().filter(|stream| stream.process == process)
    }

    /// When the client has the last token of a request of which an outcome was told, first tokens exactly. Of
    /// others it is not told where they are in their message: as if they were in its middle.
    pub fn delivered(&self, request: RequestId) -> Option<SimTime> {
        let stream = self.streams.get(&request)?;
        let answered = self.messages[stream.process as usize]?;
        Some(answered.seen(answered.rows / 2, &self.times).max(stream.last))
    }

    /// A request is over: when the client had its first token.
    pub fn close(&mut self, request: RequestId) -> Option<SimTime> {
        self.streams.remove(&request)?.first
    }

    /// Outcomes of steps that only decode came at these moments, in order: those not heard of are
    /// taken in.
    pub fn stream(&mut self, outcomes: impl Iterator<Item = SimTime>, rows: u32) {
        let heard = self.heard;
        for at in outcomes.skip_while(|at| *at <= heard) {
            self.answer(at, rows, &mut []);
        }
    }

    fn pass_detokenizer(&mut self, now: SimTime, rows: u32) -> SimTime {
        let times = &self.times;
        let at = now + times.outlet_delay + times.outlet_output * u64::from(rows);
        let Some(detokenizing) = times.detokenizing(rows) else { return at };
        self.detokenizer.serve(at, detokenizing, SimDuration::ZERO) + times.detokenizer_delay
    }
}
