//! What a run tells is told on: to answers, when their clients have it, and to the counters of replicas.

mod adapters;
mod counting;
mod observer;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub(super) use self::adapters::AdaptersInUse;
use super::answer::{End, Owed};
use super::clock::Clock;
use super::counters::{Cached, Came, Counted, Counters, Output, Phases, Siblings};
use super::lengths::Drawn;
use crate::cluster::Role;
use crate::engine::{Life, StepResult};
use crate::ids::{AdapterId, InstanceId, RequestId};
use crate::sim::Live;
use crate::units::{SimDuration, SimTime};

/// A request whose answer is not over.
#[derive(Debug)]
pub(super) struct Stream {
    answer: Owed,
    /// That of the server that prefills, where another one decodes.
    prefill: Option<Owed>,
    pub(super) prompt: Arc<[u32]>,
    length: Drawn,
    /// Whether its client has tokens as they come.
    pub(super) streams: bool,
    pub(super) adapter: Option<AdapterId>,
    /// Answers to the same prompt, where there are several.
    pub(super) siblings: Option<Arc<Siblings>>,
    arrival: SimTime,
    /// Where it is, and since when.
    instance: Option<InstanceId>,
    queued: SimTime,
    /// Tokens of which deliveries have been told.
    told: u32,
    first: Option<SimTime>,
    last: SimTime,
    /// Its latest output, as the server that it simulates sees outputs.
    output: Option<Output>,
    /// Where its adapter is counted as in use.
    uses_adapter_at: Option<InstanceId>,
    /// Where it was admitted, and what was found for its prompt then.
    admitted: Option<InstanceId>,
    cached: Cached,
    /// What was found on the server that prefilled it, where another one decodes.
    cached_before: u32,
    /// Its life there, until that server is done with it.
    prompt_life: Option<(InstanceId, Life, SimTime)>,
    /// Where there is memory for its KV, which has not come.
    awaited: Option<InstanceId>,
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
            streams: false,
            adapter: None,
            siblings: None,
            arrival: SimTime::ZERO,
            instance: None,
            queued: SimTime::ZERO,
            told: 0,
            first: None,
            last: SimTime::ZERO,
            output: None,
            uses_adapter_at: None,
            admitted: None,
            cached: Cached::default(),
            cached_before: 0,
            prompt_life: None,
            awaited: None,
        }
    }

    /// Tokens of it come out, so many with those before, of which `new` are.
    fn came(&self, at: SimTime, tokens: u32, new: u32) -> Came {
        Came {
            at,
            arrival: self.arrival,
            first: self.first.unwrap_or(at),
            new,
            tokens,
            streams: self.streams,
            prompt_tokens: self.prompt.len() as u32,
            cached: self.cached,
            end: None,
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
    /// Whether a server is done with a prompt when that is computed, and not only when its KV has been fetched.
    ends_with_prompts: bool,
    /// Whether requests wait between the servers that prefill and those that decode.
    waits_between: bool,
    /// By instance, whether it decodes what others prefill.
    receives: Vec<bool>,
    /// Requests whose prompts were computed for other servers, since that was asked.
    prefilled: Vec<RequestId>,
    /// Answers of servers that prefill, as they end.
    prompts: Vec<(SimTime, Owed, End, u32)>,
    /// The request that is coming; its id is told when it arrives.
    coming: Option<Stream>,
    pub(super) counters: Vec<Counters>,
    /// By instance.
    pub(super) adapters: Vec<AdaptersInUse>,
    /// Instances of which tokens were counted since they were last looked at.
    counted: Vec<InstanceId>,
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
            ends_with_prompts: false,
            waits_between: false,
            receives: vec![false; counters.len()],
            prefilled: Vec::new(),
            prompts: Vec::new(),
            coming: None,
            adapters: vec![AdaptersInUse::default(); counters.len()],
            counters,
            counted: Vec::new(),
        }
    }

    /// Servers are done with prompts when they are computed.
    pub(super) fn end_with_prompts(&mut self) {
        self.ends_with_prompts = true;
    }

    /// This instance decodes what others prefill.
    pub(super) fn receive_at(&mut self, instance: InstanceId) {
        self.receives[instance.index()] = true;
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

    /// The prompt of a request is computed for another server.
    fn prompt_computed(&mut self, at: SimTime, instance: InstanceId, life: &Life) {
        let Some(stream) = self.streams.get_mut(&life.id) else { return };
        stream.cached_before = life.cached_tokens;
        if let Some((before, ..)) = stream.prompt_life.replace((instance, *life, stream.queued)) {
            self.counters[before.index()].underway.sent -= 1;
        }
        self.counters[instance.index()].underway.sent += 1;
        if self.ends_with_prompts {
            self.prefill_over(at, life.id);
        }
    }

    /// The server that prefills a request is done with it.
    fn prefill_over(&mut self, at: SimTime, id: RequestId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if let Some((instance, life, queued)) = stream.prompt_life.take() {
            let life = Life { generated: 1, ..life };
            let counters = &mut self.counters[instance.index()];
            counters.underway.sent -= 1;
            counters.prompt_came(&stream.came(at, 1, 1));
            self.counted.push(instance);
            let first = life.first_token.unwrap_or(at);
            let phases = Phases::of(&life, (stream.arrival, queued), Some(first), at);
            let counted = Counted {
                life: &life,
                max_tokens: 1,
                cached_tokens: life.cached_tokens,
                streams: stream.streams,
                siblings: None,
                is_prompt: true,
            };
            counters.over(End::Length, &phases, &counted);
        }
        let Some(answer) = stream.prefill.take() else { return };
        self.prompts.push((at, answer, End::Length, stream.cached_before));
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
        for instance in self.counted.drain(..) {
            self.counters[instance.index()].step_is_out();
        }
    }

    /// Tokens of a request up to the last of so many are delivered at `at`.
    fn tokens(&mut self, instance: InstanceId, id: RequestId, tokens: u32, at: SimTime) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let at = at.max(stream.last);
        let new = tokens.saturating_sub(stream.told);
        if stream.first.is_none() {
            stream.first = Some(at);
        }
        let came = stream.came(at, tokens, new);
        self.counters[instance.index()].came(&mut stream.output, &came);
        self.counted.push(instance);
        if let Some(adapter) = stream.adapter
            && stream.uses_adapter_at != Some(instance)
        {
            if let Some(before) = stream.uses_adapter_at.replace(instance) {
                self.adapters[before.index()].end(adapter);
            }
            self.adapters[instance.index()].begin(adapter, self.order);
        }
        (stream.told, stream.last) = (tokens, at);
        self.deliver(at, id, tokens, false);
    }

    /// Something came out of an instance.
    fn came(&mut self, instance: InstanceId, result: &StepResult) {
        if result.tokens > 0 || !result.landed.is_empty() {
            self.stepped.push(instance);
        }
    }

    fn deliver(&mut self, at: SimTime, request: RequestId, tokens: u32, is_last: bool) {
        self.order += 1;
        let delivery = Delivery { at, order: self.order, request, tokens, is_last };
        self.due.push(Reverse(delivery));
    }

    /// A request is over. What it came to has been computed at `at`.
    fn end(&mut self, at: SimTime, id: RequestId, life: Option<&Life>, end: End) {
        self.awaited_is_over(id);
        let Some(mut stream) = self.streams.remove(&id) else { return };
        if let Some((instance, ..)) = stream.prompt_life {
            self.counters[instance.index()].underway.sent -= 1;
        }
        if let (Some(instance), Some(adapter)) = (stream.uses_adapter_at, stream.adapter) {
            self.adapters[instance.index()].end(adapter);
        }
        if let Some(prefill) = stream.prefill.take() {
            self.prompts.push((at, prefill, end, 0));
        }
        let (mut tokens, mut cached_tokens, mut at) = (stream.told, 0, at.max(stream.last));
        if let Some(life) = life {
            at = at.max(life.last_token);
            // A server that decodes tells what the one that prefilled has found.
            cached_tokens = life.cached_tokens.max(stream.cached_before);
            let new = life.generated.saturating_sub(tokens);
            tokens = tokens.max(life.generated);
            if let Some(instance) = stream.instance {
                if new > 0 && stream.first.is_none() {
                    stream.first = Some(life.first_token.unwrap_or(at));
                }
                let came = Came { end: Some(end), ..stream.came(at, tokens, new) };
                let counters = &mut self.counters[instance.index()];
                counters.came(&mut stream.output, &came);
                self.counted.push(instance);
                let counted = Counted {
                    life,
                    max_tokens: stream.length.max_tokens,
                    cached_tokens,
                    streams: stream.streams,
                    siblings: stream.siblings.as_deref(),
                    is_prompt: false,
                };
                let since = (stream.arrival, stream.queued);
                counters.over(end, &Phases::of(life, since, stream.first, at), &counted);
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

/// Seconds, for those who count in them.
pub(super) fn seconds(duration: SimDuration) -> f64 {
    duration.as_secs_f64()
}
