//! The side that prefills where KV caches are handed over by `blocking`: one thread of each instance looks
//! up what is asked for and copies it out, one request after the other.

use std::collections::VecDeque;

use crate::ids::{InstanceId, RequestId};

/// A KV cache that an instance waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Whose.
    pub request: RequestId,
    /// Who waits.
    pub decode: InstanceId,
    /// Of so many tokens.
    pub tokens: u32,
}

/// The KV caches that are asked for at one instance.
#[derive(Debug, Default)]
pub struct Sender {
    asked: VecDeque<Ask>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Idle,
    /// The first one is looked up, and waits for the device.
    Waiting,
    /// The first one waits for the end of a step.
    AfterStep,
    /// One is on its way.
    Sending(RequestId),
}

/// How far a question had come that was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawn {
    /// It was on its way, or behind others.
    Question,
    /// Its KV cache was next, and waited for the device.
    Copy,
    /// Its KV cache was on its way.
    Transfer,
}

impl Sender {
    /// A KV cache is asked for. Whether it is the turn of the first one.
    pub fn ask(&mut self, ask: Ask) -> bool {
        self.asked.push_back(ask);
        self.state == State::Idle
    }

    /// The first one waits, for the end of a step or less; whose it is.
    ///
    /// # Panics
    /// When none is asked for.
    pub fn wait(&mut self, is_after_step: bool) -> RequestId {
        self.state = if is_after_step { State::AfterStep } else { State::Waiting };
        self.asked.front().expect("a KV cache is asked for").request
    }

    /// Whether the first one goes when the step in flight has ended.
    pub fn follows_step(&self) -> bool {
        self.state == State::AfterStep
    }

    /// The first one is sent.
    ///
    /// # Panics
    /// When none is asked for.
    pub fn send(&mut self) -> Ask {
        let ask = self.asked.pop_front().expect("a KV cache is asked for");
        self.state = State::Sending(ask.request);
        ask
    }

    /// Whether the first one is of this request, and waits for a moment in the middle of a step.
    pub fn waits_with(&self, id: RequestId) -> bool {
        self.state == State::Waiting && self.asked.front().is_some_and(|ask| ask.request == id)
    }

    /// A KV cache is not needed any more; nothing where it was not asked for here. Of the one that is on its
    /// way the end is [told](Self::sent) as ever.
    pub fn withdraw(&mut self, id: RequestId) -> Option<Withdrawn> {
        if self.state == State::Sending(id) {
            return Some(Withdrawn::Transfer);
        }
        let place = self.asked.iter().position(|ask| ask.request == id)?;
        self.asked.remove(place);
        let was_next = place == 0 && matches!(self.state, State::Waiting | State::AfterStep);
        if was_next {
            self.state = State::Idle;
        }
        Some(if was_next { Withdrawn::Copy } else { Withdrawn::Question })
    }

    /// Whether one is asked for that nobody has looked up.
    pub fn has_next(&self) -> bool {
        self.state == State::Idle && !self.asked.is_empty()
    }

    /// It has arrived, or will not. Whether it is the turn of another one.
    pub fn sent(&mut self) -> bool {
        self.state = State::Idle;
        !self.asked.is_empty()
    }
}
