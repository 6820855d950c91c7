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
    Sending,
}

impl Sender {
    /// A KV cache is asked for. Whether it is the turn of the first one.
    pub fn ask(&mut self, ask: Ask) -> bool {
        self.asked.push_back(ask);
        self.state == State::Idle
    }

    /// The first one waits, for the end of a step or less.
    pub fn wait(&mut self, is_after_step: bool) {
        self.state = if is_after_step { State::AfterStep } else { State::Waiting };
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
        self.state = State::Sending;
        self.asked.pop_front().expect("a KV cache is asked for")
    }

    /// It has arrived. Whether it is the turn of another one.
    pub fn sent(&mut self) -> bool {
        self.state = State::Idle;
        !self.asked.is_empty()
    }
}
