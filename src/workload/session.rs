//! Conversations: the next turn's prompt is the history and a new message.
//!
//! Turns are closed within a conversation: a turn is sent a think time after the answer to the
//! one before, so the run must say when an answer is there. Each conversation draws from a stream
//! of its own, so that the order in which answers come changes nothing but times.

use std::sync::Arc;

use rand::RngExt;
use rand::distr::Distribution;
use rand_distr::Exp1;
use rustc_hash::FxHashMap;

use crate::ids::RequestId;
use crate::ids::SessionId;
use crate::request::Content;
use crate::request::Request;
use crate::request::Segment;
use crate::rng::Seed;
use crate::rng::Stream;
use crate::scenario::SessionConfig;
use crate::scenario::ThinkTime;
use crate::units::SimDuration;
use crate::units::SimTime;
use crate::workload::draft::Tokens;
use crate::workload::lengths::TokenSampler;
use crate::workload::trace::WorkloadError;

/// The conversations that go on. Memory grows with those that are open.
#[derive(Debug)]
pub(super) struct Sessions {
    config: SessionConfig,
    message: TokenSampler,
    output: TokenSampler,
    seed: Seed,
    open: FxHashMap<SessionId, Session>,
}

#[derive(Debug)]
struct Session {
    turns_left: u32,
    /// How many tokens the user has said after the first turn.
    said_tokens: u32,
    stream: Stream,
}

impl Sessions {
    pub(super) fn new(config: &SessionConfig, seed: Seed) -> Result<Self, WorkloadError> {
        Ok(Self {
            message: TokenSampler::new(&config.message_tokens)?,
            output: TokenSampler::new(&config.output_tokens)?,
            config: config.clone(),
            seed,
            open: FxHashMap::default(),
        })
    }

    /// A conversation begins with its first turn.
    pub(super) fn begin(&mut self, id: SessionId) {
        let mut stream = self.seed.stream("sessions", u64::from(id.0));
        let turns = stream.random_range(self.config.turns_min..=self.config.turns_max);
        if turns > 1 {
            self.open.insert(id, Session { turns_left: turns - 1, said_tokens: 0, stream });
        }
    }

    /// The turn after `answered`, which request `id` was; `None` when the conversation is over.
    pub(super) fn follow_up(
        &mut self,
        id: RequestId,
        answered: &Request,
        now: SimTime,
    ) -> Option<Request> {
        let key = answered.session?;
        let session = self.open.get_mut(&key)?;
        let message_tokens = self.message.sample(&mut session.stream);
        let output_tokens = self.output.sample(&mut session.stream);
        let think_time = think(self.config.think_time, &mut session.stream);
        let history = u64::from(answered.prompt_tokens) + u64::from(answered.output_tokens);
        let prompt_tokens = history + u64::from(message_tokens);
        let longest = self.config.context_tokens_max.unwrap_or(u32::MAX);
        if prompt_tokens + u64::from(output_tokens) > u64::from(longest) {
            self.open.remove(&key);
            return None;
        }
        let answer =
            Segment { stream: Segment::answer_stream(id), start: 0, len: answered.output_tokens };
        let message =
            Tokens::Messages(u64::from(key.0)).segment(session.said_tokens, message_tokens);
        session.said_tokens += message_tokens;
        session.turns_left -= 1;
        if session.turns_left == 0 {
            self.open.remove(&key);
        }
        let said = answered.content.segments.iter().flat_map(|segments| segments.iter().copied());
        let segments: Arc<[Segment]> = said.chain([answer, message]).collect();
        Some(Request {
            content: Content { segments: Some(segments), ..answered.content.clone() },
            max_tokens: output_tokens,
            output_tokens,
            prompt_tokens: prompt_tokens as u32,
            arrival: now + think_time,
            ..answered.clone()
        })
    }
}

fn think(think_time: ThinkTime, stream: &mut Stream) -> SimDuration {
    match think_time {
        ThinkTime::Constant { time_s } => SimDuration::from_secs_f64(time_s),
        ThinkTime::Exponential { mean_s } => {
            let share: f64 = Exp1.sample(stream);
            SimDuration::from_secs_f64(share * mean_s)
        }
    }
}
