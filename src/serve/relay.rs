//! What a run tells is told on: to answers, when their clients have it, and to the counters of replicas.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::answer::{End, Owed};
use super::clock::Clock;
use super::counters::{Counters, Lasted};
use super::lengths::Drawn;
use crate::cluster::Role;
use crate::engine::{Finish, Life};
use crate::ids::{InstanceId, RequestId};
use crate::sim::{Live, Observer, Occurrence};
use crate::units::{SimDuration, SimTime};

/// A request whose answer is not over.
#[derive(Debug)]
pub(super) struct Stream {
    answer: Owed,
    /// That of the server that prefills, where another one decodes.
    prefill: Option<Owed>,
    pub(super) prompt: Arc<[u32]>,
    length: Drawn,
    arrival: SimTime,
    /// Where it is, and since when.
    instance: Option<InstanceId>,
    queued: SimTime,
    /// Tokens of which deliveries have been told.
    told: u32,
    first: Option<SimTime>,
    last: SimTime,
}

impl Stream {
    pub(super) fn new(
        answer: Owed,
        prefill: Option<Owed>,
        prompt: Arc<[u32]>,
        length: Drawn,
    ) -> Self {
        Self {
            answer,
            prefill,
            prompt,
            length,
            arrival: SimTime::ZERO,
            instance: None,
            queued: SimTime::ZERO,
            told: 0,
            first: None,
            last: SimTime::ZERO,
        }
    }
}

/// What a client is to have, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Delivery {
    at: SimTime,
    order: u64,
    request: RequestId,
    tokens: u32,
    is_last: bool,
}

/// An answer that is over, but for its delivery.
#[derive(Debug)]
struct Over {
    answer: Owed,
    end: End,
    cached_tokens: u32,
}

/// A request that is over, for those who may quote its answer, and for its trace.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) id: RequestId,
    pub(super) prompt: Arc<[u32]>,
    pub(super) tokens: u32,
    /// Whether its client has the answer.
    pub(super) is_answered: bool,
}

/// The observer between a run and its clients.
#[derive(Debug)]
pub(super) struct Relay {
    streams: FxHashMap<RequestId, Stream>,
    over: FxHashMap<RequestId, Over>,
    due: BinaryHeap<Reverse<Delivery>>,
    order: u64,
    /// Instances of which outcomes were told since they were last looked at.
    stepped: Vec<InstanceId>,
    ended: Vec<Ended>,
    /// Whether requests wait between the servers that prefill and those that decode.
    waits_between: bool,
    /// Requests whose prompts were computed for other servers, since that was asked.
    prefilled: Vec<RequestId>,
    /// Answers of servers that prefill, as they end.
    prompts: Vec<(SimTime, Owed, End, u32)>,
    /// The request that is coming; its id is told when it arrives.
    coming: Option<Stream>,
    pub(super) counters: Vec<Counters>,
}

impl Relay {
    pub(super) fn new(counters: Vec<Counters>) -> Self {
        Self {
            streams: FxHashMap::default(),
            over: FxHashMap::default(),
            due: BinaryHeap::new(),
            order: 0,
            stepped: Vec::new(),
            ended: Vec::new(),
            waits_between: false,
            prefilled: Vec::new(),
            prompts: Vec::new(),
            coming: None,
            counters,
        }
    }

    /// Requests wait between the servers that prefill and those that decode, until they are sent on.
    pub(super) fn wait_between(&mut self) {
        self.waits_between = true;
    }

    /// Requests whose prompts were computed for other servers, since this was asked last.
    pub(super) fn prefilled(&mut self) -> impl Iterator<Item = RequestId> + 'static {
        std::mem::take(&mut self.prefilled).into_iter()
    }

    /// The prompt of a request that is not over.
    pub(super) fn prompt_of(&self, id: RequestId) -> Option<&Arc<[u32]>> {
        self.streams.get(&id).map(|stream| &stream.prompt)
    }

    /// A request goes on at a server that decodes it, with an answer of its own.
    pub(super) fn go_on(&mut self, id: RequestId, answer: Owed, length: Drawn, at: SimTime) {
        if let Some(stream) = self.streams.get_mut(&id) {
            answer.change(|progress| progress.id = Some(id));
            (stream.answer, stream.length) = (answer, length);
            (stream.arrival, stream.queued, stream.last) = (at, at, at);
        }
    }

    /// The server that prefills a request is done with it.
    fn prefill_over(&mut self, at: SimTime, instance: InstanceId, id: RequestId, cached: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let Some(answer) = stream.prefill.take() else { return };
        let counters = &mut self.counters[instance.index()];
        counters.generation_tokens += 1;
        counters.first_token(at - stream.arrival, stream.prompt.len() as u64);
        self.prompts.push((at, answer, End::Length, cached));
        if self.waits_between {
            self.prefilled.push(id);
        }
    }

    /// The next request that arrives is this one.
    pub(super) fn expect(&mut self, stream: Stream) {
        self.coming = Some(stream);
    }

    /// Requests whose answers are not over.
    pub(super) fn open(&self) -> usize {
        self.streams.len() + self.over.len()
    }

    /// Requests that are over since this was asked last.
    pub(super) fn ended(&mut self) -> impl Iterator<Item = Ended> + '_ {
        self.ended.drain(..)
    }

    /// When the next delivery is due.
    pub(super) fn next_due(&self) -> Option<SimTime> {
        self.due.peek().map(|first| first.0.at)
    }

    /// Looks what came out of the steps that were told.
    pub(super) fn collect(&mut self, live: &Live) {
        let mut stepped = std::mem::take(&mut self.stepped);
        for instance in stepped.drain(..) {
            if live.role(instance) == Role::Prefill {
                continue;
            }
            live.answers(instance, &mut |id, generated| {
                let Some(stream) = self.streams.get(&id) else { return };
                if generated > stream.told {
                    let at = live.delivered(instance, id).max(live.now());
                    self.tokens(instance, id, generated, at);
                }
            });
        }
        self.stepped = stepped;
    }

    /// Tokens of a request up to the last of so many are delivered at `at`.
    fn tokens(&mut self, instance: InstanceId, id: RequestId, tokens: u32, at: SimTime) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let at = at.max(stream.last);
        let new = tokens.saturating_sub(stream.told);
        let counters = &mut self.counters[instance.index()];
        counters.generation_tokens += u64::from(new);
        if stream.first.is_none() {
            stream.first = Some(at);
            counters.first_token(at - stream.arrival, stream.prompt.len() as u64);
        } else {
            counters.gap(at - stream.last, new);
        }
        (stream.told, stream.last) = (tokens, at);
        self.deliver(at, id, tokens, false);
    }

    fn deliver(&mut self, at: SimTime, request: RequestId, tokens: u32, is_last: bool) {
        self.order += 1;
        let delivery = Delivery { at, order: self.order, request, tokens, is_last };
        self.due.push(Reverse(delivery));
    }

    /// A request is over. What it came to has been computed at `at`.
    fn end(&mut self, at: SimTime, id: RequestId, life: Option<&Life>, end: End) {
        let Some(mut stream) = self.streams.remove(&id) else { return };
        if let Some(prefill) = stream.prefill.take() {
            self.prompts.push((at, prefill, end, 0));
        }
        let (mut tokens, mut cached_tokens, mut at) = (stream.told, 0, at.max(stream.last));
        if let Some(life) = life {
            at = at.max(life.last_token);
            cached_tokens = life.cached_tokens;
            let new = life.generated.saturating_sub(tokens);
            tokens = tokens.max(life.generated);
            if let Some(instance) = stream.instance {
                let counters = &mut self.counters[instance.index()];
                counters.generation_tokens += u64::from(new);
                if new > 0 && stream.first.is_none() {
                    let first = life.first_token.unwrap_or(at);
                    stream.first = Some(first);
                    counters.first_token(first - stream.arrival, stream.prompt.len() as u64);
                } else if new > 0 {
                    counters.gap(at - stream.last, new);
                }
                let scheduled = life.first_scheduled.unwrap_or(at);
                counters.over(
                    end,
                    &Lasted {
                        all: at - stream.arrival,
                        queue: scheduled.saturating_since(stream.queued),
                        prefill: stream.first.map(|first| first.saturating_since(scheduled)),
                        decode: stream.first.map(|first| at.saturating_since(first)),
                        inference: at.saturating_since(scheduled),
                    },
                    (life, stream.length.max_tokens),
                );
            }
        }
        let (prompt, is_answered) = (stream.prompt.clone(), end.is_answer());
        self.ended.push(Ended { id, prompt, tokens, is_answered });
        self.over.insert(id, Over { answer: stream.answer, end, cached_tokens });
        self.deliver(at, id, tokens, true);
    }

    /// Hands over what is due until now.
    pub(super) fn hand_over(&mut self, clock: &Clock, now: SimTime) {
        for (at, answer, end, cached_tokens) in self.prompts.drain(..) {
            answer.end_with(end, |progress| {
                progress.tokens = u32::from(end.is_answer());
                (progress.due, progress.cached_tokens) = (clock.wall_at(at), cached_tokens);
            });
        }
        while let Some(Reverse(first)) = self.due.peek().filter(|first| first.0.at <= now) {
            let Delivery { at, request, tokens, is_last, .. } = *first;
            self.due.pop();
            let due = clock.wall_at(at);
            if is_last {
                let Some(over) = self.over.remove(&request) else { continue };
                over.answer.end_with(over.end, |progress| {
                    (progress.tokens, progress.due) = (tokens, due);
                    progress.cached_tokens = over.cached_tokens;
                });
            } else {
                let open = self.streams.get(&request).map(|stream| &stream.answer);
                let answer = open.or_else(|| self.over.get(&request).map(|over| &over.answer));
                if let Some(answer) = answer {
                    answer.change(|progress| (progress.tokens, progress.due) = (tokens, due));
                }
            }
        }
    }

    /// The server ends: answers that are not over end now.
    pub(super) fn abandon(&mut self) {
        self.streams.clear();
        self.prompts.clear();
        self.over.clear();
        self.due.clear();
    }

    /// The requests whose answers are not over, of one instance or of all.
    pub(super) fn inside(&self, instance: Option<InstanceId>) -> Vec<RequestId> {
        let is_there = |stream: &Stream| instance.is_none() || stream.instance == instance;
        let open = self.streams.iter().filter(|(_, stream)| is_there(stream));
        let mut open: Vec<RequestId> = open.map(|(id, _)| *id).collect();
        open.sort_unstable();
        open
    }
}

impl Observer for Relay {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Arrived(id, _) => {
                if let Some(stream) = self.coming.take() {
                    for answer in [Some(&stream.answer), stream.prefill.as_ref()] {
                        let Some(answer) = answer else { continue };
                        answer.change(|progress| progress.id = Some(id));
                    }
                    self.streams.insert(id, Stream { arrival: at, ..stream });
                }
            }
            Occurrence::Sent(id, instance) | Occurrence::Forwarded(id, instance) => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.instance = Some(instance);
                }
            }
            Occurrence::Queued(instance, id, _) => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    (stream.instance, stream.queued) = (Some(instance), at);
                }
            }
            Occurrence::Planned(instance, batch, _) => {
                let counters = &mut self.counters[instance.index()];
                counters.planned(&batch.plan);
                for (id, hit) in &batch.plan.hits {
                    if let Some(stream) = self.streams.get(id) {
                        counters.looked_up(stream.prompt.len() as u64, u64::from(*hit));
                    }
                }
            }
            Occurrence::HandedOver(instance, life) if self.waits_between => {
                self.prefill_over(at, instance, life.id, life.cached_tokens);
            }
            // With memory set aside first, a server has ended a request when its KV is there.
            Occurrence::Released(instance, id) if !self.waits_between => {
                self.prefill_over(at, instance, id, 0);
            }
            Occurrence::Displaced(instance, requests) => {
                self.counters[instance.index()].preemptions += requests.len() as u64;
            }
            Occurrence::Stepped(instance, _, result, _)
            | Occurrence::Landed(instance, result, _) => {
                if result.tokens > 0 || !result.landed.is_empty() {
                    self.stepped.push(instance);
                }
                self.counters[instance.index()].drafts.add(&result.drafts);
            }
            Occurrence::Left(_, life, finish) => {
                let is_cut = life.asked_tokens > life.output_tokens;
                let of = self.streams.get(&life.id);
                let ends_itself = of.is_some_and(|stream| stream.length.ends_itself);
                let end = match finish {
                    Finish::Done if is_cut || !ends_itself => End::Length,
                    Finish::Done => End::Stop,
                    Finish::Aborted => End::Aborted,
                    Finish::Rejected => End::Rejected,
                    Finish::TimedOut | Finish::Failed => End::Failed,
                };
                self.end(at, life.id, Some(life), end);
            }
            Occurrence::Refused(_, id) => self.end(at, id, None, End::Rejected),
            Occurrence::GaveUp { request, life, finish, tries_again: false } => {
                let end = match finish {
                    Finish::Aborted => End::Aborted,
                    Finish::Rejected => End::Busy,
                    _ => End::Failed,
                };
                self.end(at, request, life, end);
            }
            _ => {}
        }
    }
}

/// Seconds, for those who count in them.
pub(super) fn seconds(duration: SimDuration) -> f64 {
    duration.as_secs_f64()
}
