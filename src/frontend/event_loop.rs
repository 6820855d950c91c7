//! The event loop of a process that talks HTTP: requests and outputs in one queue.

use std::collections::VecDeque;

use super::FrontEndTimes;
use super::server::Server;
use crate::units::{SimDuration, SimTime};

/// One thread that works through what has come, first come, first served.
#[derive(Debug, Clone, Default)]
pub(super) struct EventLoop {
    /// Busy until all that has come is done.
    server: Server,
    /// Turns over outputs that have not begun, in order: requests pass them, because a
    /// message is looked at when the turn before it is over and not in the order of the queue.
    pending: VecDeque<Turn>,
}

/// A turn over outputs that has not begun.
#[derive(Debug, Clone, Copy)]
struct Turn {
    begin: SimTime,
    /// Whether it takes further messages.
    merges: bool,
}

/// A message with outputs as it is served.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    /// When its first chunk is begun.
    pub(super) first_chunk: SimTime,
    /// Chunks that are sent.
    pub(super) chunks: u32,
    /// From one turn over its outputs to the next.
    turn: SimDuration,
}

impl Message {
    /// When the chunk of the output at this place is out.
    pub(super) fn sent(&self, place: u32, times: &FrontEndTimes) -> SimTime {
        let turns = place / times.outputs_per_turn;
        let within = place % times.outputs_per_turn;
        self.first_chunk + self.turn * u64::from(turns) + times.chunks(within + 1)
    }
}

impl EventLoop {
    /// Whether all that has come is done.
    pub(super) fn is_idle(&self, at: SimTime) -> bool {
        self.server.is_idle(at)
    }

    /// Work for a request comes at `at`: when it is done.
    pub(super) fn handle(&mut self, at: SimTime, work: SimDuration, wake: SimDuration) -> SimTime {
        self.forget_begun(at);
        let Some(&Turn { begin, .. }) = self.pending.front() else {
            return self.server.serve(at, work, wake);
        };
        for turn in &mut self.pending {
            turn.begin += work;
        }
        self.server.delay(work);
        begin + work
    }

    /// A message of so many outputs comes at `at`; to read prompts before first outputs and to close
    /// answers takes so long beside.
    pub(super) fn send(
        &mut self,
        at: SimTime,
        rows: u32,
        (priming, finishing): (SimDuration, SimDuration),
        times: &FrontEndTimes,
    ) -> Message {
        self.forget_begun(at);
        let outputs = times.message + times.output * u64::from(rows) + priming;
        let merges = times.merges_messages && rows <= times.outputs_per_turn;
        if let Some(turn) = self.pending.back().filter(|turn| merges && turn.merges) {
            // A chunk has the tokens of both messages.
            let first_chunk = turn.begin + outputs;
            self.server.delay(outputs + finishing);
            return Message { first_chunk, chunks: 0, turn: SimDuration::ZERO };
        }
        let begin = self.server.start(at, times.api_wake);
        let per_turn = rows.min(times.outputs_per_turn);
        let turn = times.output * u64::from(per_turn) + times.chunks(per_turn);
        let first_chunk = begin + times.message + times.output * u64::from(per_turn) + priming;
        self.server.keep_until(begin + outputs + times.chunks(rows) + finishing);
        if begin > at + times.api_wake {
            self.pending.push_back(Turn { begin, merges });
        }
        Message { first_chunk, chunks: times.chunks_of(rows), turn }
    }

    fn forget_begun(&mut self, at: SimTime) {
        while self.pending.front().is_some_and(|turn| turn.begin <= at) {
            self.pending.pop_front();
        }
    }
}
