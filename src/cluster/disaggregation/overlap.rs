//! KV caches that are sent while their prompts are computed.
//!
//! Memory is set aside at the destination before, so that the source can write there whatever it has: by
//! chunk, a chunk's blocks when the step that computed it ends (SGLang 0.5.23, `send_kv_chunk` of
//! `sglang/srt/disaggregation/prefill.py`); by layer, a layer's part of a step's blocks when the step
//! has computed that layer (`MooncakeLayerwiseConnector` of vLLM Ascend). All of one KV cache is one
//! flow, which takes no share of its links while it has sent what there is.
//!
//! Layers are let go in at most [`GROUPS`] groups: all but one of about one size, and the last layer alone. What the last step of a
//! prompt computed last goes with the first token, when the outcome of that step is known: a KV cache never
//! arrives before.

use std::collections::VecDeque;

use super::Disaggregation;
use crate::cluster::wires::Wires;
use crate::ids::{FlowId, InstanceId, RequestId};
use crate::units::{Bytes, SimDuration, SimTime};

/// Groups of layers that a step lets go one after the other; enough for the way of the last layer to
/// dominate what a fast network leaves, and few enough for steps to stay cheap.
const GROUPS: u32 = 8;

/// What of a KV cache is sent at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Granularity {
    /// All of it, when the prompt is computed.
    #[default]
    Whole,
    /// What a step has computed, when it ends.
    Chunks,
    /// What a step has computed of each layer.
    Layers {
        /// Layers of the model.
        count: u32,
    },
}

/// What a step computes of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Whose.
    pub request: RequestId,
    /// Tokens of the prompt that are computed when it ends.
    pub end: u32,
    /// When the device begins.
    pub starts_at: SimTime,
    /// How long it takes.
    pub duration: SimDuration,
}

/// How far a KV cache is sent whose prompt is being computed.
#[derive(Debug, Default)]
pub(super) struct Sending {
    flow: Option<FlowId>,
    /// Bytes that steps let go by themselves.
    planned: u64,
    /// Those that are sent.
    sent: u64,
    /// What is let go next, in order.
    releases: VecDeque<u64>,
}

impl Granularity {
    /// When parts of a chunk may be sent, and how many of its [`parts`](Self::parts) by then; the last
    /// chunk of a prompt keeps its last part.
    fn releases(self, chunk: &Chunk, is_last: bool) -> Vec<(SimTime, u32)> {
        let ends_at = chunk.starts_at + chunk.duration;
        match self {
            Self::Whole => Vec::new(),
            Self::Chunks if is_last => Vec::new(),
            Self::Chunks => vec![(ends_at, 1)],
            Self::Layers { count } => {
                let groups = GROUPS.min(count);
                let ends = |group: u32| (count - 1) * group / (groups - 1).max(1);
                let part = |layers: u32| {
                    let nanos = u128::from(chunk.duration.as_nanos()) * u128::from(layers);
                    SimDuration::from_nanos((nanos / u128::from(count)) as u64)
                };
                let mut all: Vec<_> = (1..groups)
                    .map(|group| (chunk.starts_at + part(ends(group)), ends(group)))
                    .collect();
                if !is_last {
                    all.push((ends_at, count));
                }
                all
            }
        }
    }

    /// Into how many parts of one size the bytes of a chunk fall.
    fn parts(self) -> u32 {
        match self {
            Self::Whole | Self::Chunks => 1,
            Self::Layers { count } => count,
        }
    }
}

impl Disaggregation {
    /// The same, where KV caches are sent while they are computed. The destination has to come first.
    #[must_use]
    pub fn sending(mut self, granularity: Granularity) -> Self {
        self.granularity = granularity;
        self
    }

    /// Whether KV caches are sent while they are computed.
    pub fn sends_early(&self) -> bool {
        self.granularity != Granularity::Whole
    }

    /// A prefill instance is going to compute a part of a prompt: when to [`release`](Self::release)
    /// what; nothing where it has no destination any more.
    pub fn chunk_planned(&mut self, chunk: &Chunk) -> Vec<SimTime> {
        let reserved = self.reserved.get(&chunk.request).filter(|reserved| !reserved.is_lost);
        let Some(&reserved) = reserved else { return Vec::new() };
        let is_last = chunk.end >= reserved.prompt_tokens;
        let ready = if is_last {
            self.bytes_of(reserved.lacking, reserved.decode)
        } else {
            let first = reserved.prompt_tokens - reserved.lacking;
            let whole = chunk.end / self.block_tokens * self.block_tokens;
            self.bytes_of(whole.saturating_sub(first), reserved.decode)
        };
        let sending = self.sending.entry(chunk.request).or_default();
        // A prompt that lost its memory is computed again, but not sent again.
        let Some(bytes) = ready.checked_sub(sending.planned).filter(|bytes| *bytes > 0) else {
            return Vec::new();
        };
        let parts = u64::from(self.granularity.parts());
        let releases = self.granularity.releases(chunk, is_last);
        let mut before = 0;
        for &(_, part) in &releases {
            let until = (u128::from(bytes) * u128::from(part) / u128::from(parts)) as u64;
            sending.releases.push_back(until - before);
            before = until;
        }
        sending.planned += before;
        releases.into_iter().map(|(at, _)| at).collect()
    }

    /// A part of a KV cache is computed, and sent; where from, if it is the first. Nothing is where nobody
    /// waits for it any more.
    pub fn release(
        &mut self,
        wires: &mut Wires,
        id: RequestId,
        now: SimTime,
    ) -> Option<InstanceId> {
        let bytes = self.sending.get_mut(&id)?.releases.pop_front()?;
        self.send(wires, id, bytes, now)
    }

    /// A request that went to the destination first is computed: what is left of its KV is sent.
    /// How much the KV is.
    ///
    /// # Panics
    /// When it went to the source first.
    pub fn send_rest(&mut self, wires: &mut Wires, id: RequestId, now: SimTime) -> Bytes {
        let reserved = self.reserved[&id];
        let bytes = self.bytes_of(reserved.lacking, reserved.decode);
        let sending = self.sending.entry(id).or_default();
        assert!(sending.releases.is_empty(), "request {id} is computed before its parts");
        let left = bytes - sending.sent;
        self.send(wires, id, left, now);
        self.sending.remove(&id);
        self.reserved.remove(&id);
        Bytes(bytes)
    }

    fn send(
        &mut self,
        wires: &mut Wires,
        id: RequestId,
        bytes: u64,
        now: SimTime,
    ) -> Option<InstanceId> {
        let reserved = self.reserved[&id];
        let all = self.bytes_of(reserved.lacking, reserved.decode);
        let sending = self.sending.get_mut(&id).expect("it is being sent");
        sending.sent += bytes;
        let (flow, is_first) = match sending.flow {
            Some(flow) => (flow, false),
            None => (self.open(wires, id, reserved.decode, all, now), true),
        };
        wires.feed(flow, bytes, now);
        if is_first && let Some(sending) = self.sending.get_mut(&id) {
            sending.flow = Some(flow);
        }
        is_first.then(|| self.prefill_of[&id])
    }
}
