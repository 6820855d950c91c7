//! One record per request, written once and completed when it leaves.

use serde::{Deserialize, Serialize};

use super::Breakdown;
use crate::engine::Finish;
use crate::ids::{ClassId, InstanceId};
use crate::request::Request;
use crate::units::{SimDuration, SimTime};

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It had not left when the run ended: the client stopped, or the engine can never serve it.
    Unfinished,
    /// Answered in full.
    Finished,
    /// Refused by the engine, or turned away by the gateway.
    Rejected,
    /// Left by its client.
    Aborted,
    /// Given up by its client, because it took too long.
    TimedOut,
    /// Lost with its replica, or refused because no replica was up.
    Failed,
}

impl Status {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [
        Self::Unfinished,
        Self::Finished,
        Self::Rejected,
        Self::Aborted,
        Self::TimedOut,
        Self::Failed,
    ];

    /// The word for it in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unfinished => "unfinished",
            Self::Finished => "finished",
            Self::Rejected => "rejected",
            Self::Aborted => "aborted",
            Self::TimedOut => "timed_out",
            Self::Failed => "failed",
        }
    }
}

impl From<Finish> for Status {
    fn from(finish: Finish) -> Self {
        match finish {
            Finish::Done => Self::Finished,
            Finish::Aborted => Self::Aborted,
            Finish::TimedOut => Self::TimedOut,
            Finish::Failed => Self::Failed,
            Finish::Rejected => Self::Rejected,
        }
    }
}

/// What happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRecord {
    /// When the client wanted to send it.
    pub arrival: SimTime,
    /// When it did: later than `arrival` where the client limits its concurrency.
    pub sent: SimTime,
    /// When it reached the queue of its instance, or was given up before.
    pub queued: SimTime,
    /// When a step first worked on it.
    pub first_scheduled: SimTime,
    /// When its first token came out.
    pub first_token: SimTime,
    /// When it left.
    pub finish: SimTime,
    /// From losing its memory to its next token, over all preemptions.
    pub preempted: SimDuration,
    /// The part of that before its first token.
    pub preempted_in_prefill: SimDuration,
    /// Time of its decoding in steps that prefilled others.
    pub stalled: SimDuration,
    /// Where another instance decodes, or KV comes from a tier below: from the request for the KV to its
    /// arrival.
    pub transfer: SimDuration,
    /// Where another instance decodes: the rest of the time from the end of the prefill to the first
    /// step there.
    pub handoff: SimDuration,
    /// Prompt length in tokens.
    pub prompt_tokens: u32,
    /// Tokens that came out.
    pub output_tokens: u32,
    /// Prompt tokens found in the prefix cache when it was first admitted.
    pub cached_tokens: u32,
    /// Times it lost its memory and started over.
    pub preemptions: u32,
    /// The instance that served it.
    pub instance: InstanceId,
    /// Its class.
    pub class: ClassId,
    /// How it ended.
    pub status: Status,
    /// Whether `transfer` comes before `first_scheduled`: from a tier below.
    pub loads_first: bool,
}

/// What speculative decoding did for a request; apart from its record, which most runs have without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestDrafts {
    /// Drafts verified.
    pub draft_tokens: u32,
    /// Those of them that were accepted, also where the answer ended before them.
    pub accepted_tokens: u32,
}

impl RequestRecord {
    /// Of a request that is due now; nothing more is known of it.
    pub(super) fn arrived(at: SimTime, request: &Request) -> Self {
        Self {
            arrival: request.arrival,
            sent: at,
            queued: at,
            first_scheduled: at,
            first_token: at,
            finish: at,
            preempted: SimDuration::ZERO,
            preempted_in_prefill: SimDuration::ZERO,
            stalled: SimDuration::ZERO,
            transfer: SimDuration::ZERO,
            handoff: SimDuration::ZERO,
            prompt_tokens: request.prompt_tokens,
            output_tokens: 0,
            cached_tokens: 0,
            preemptions: 0,
            instance: InstanceId(0),
            class: request.class,
            status: Status::Unfinished,
            loads_first: false,
        }
    }

    /// Its client sends it: all that is known of it happens later.
    #[inline]
    pub(super) fn sent_to(&mut self, instance: InstanceId, at: SimTime) {
        (self.sent, self.queued, self.first_scheduled) = (at, at, at);
        (self.first_token, self.finish) = (at, at);
        self.instance = instance;
    }

    /// Time to first token, as a client measures it.
    pub fn ttft(&self) -> SimDuration {
        self.first_token - self.sent
    }

    /// From sending to the last token.
    pub fn e2e(&self) -> SimDuration {
        self.finish - self.sent
    }

    /// Mean time per output token after the first; `None` for answers of one token.
    pub fn tpot(&self) -> Option<SimDuration> {
        let gaps = self.output_tokens.checked_sub(1).filter(|&gaps| gaps > 0)?;
        let decode = self.finish - self.first_token;
        Some(SimDuration::from_nanos(decode.as_nanos() / u64::from(gaps)))
    }

    /// From sending to the first step that works on it.
    pub fn queueing(&self) -> SimDuration {
        self.first_scheduled - self.sent
    }

    /// Where its end-to-end time went; `None` for a request that was neither answered nor rejected.
    /// What it waited at the gateway is part of `api` here; [`Recorder::breakdown_of`] splits it off.
    ///
    /// [`Recorder::breakdown_of`]: super::Recorder::breakdown_of
    pub fn breakdown(&self) -> Option<Breakdown> {
        matches!(self.status, Status::Finished | Status::Rejected).then(|| Breakdown::of(self))
    }
}
