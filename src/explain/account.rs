//! The end-to-end time of a request in parts.

use serde::{Serialize, Serializer};

use super::pick::Picked;
use super::sight::Sight;
use crate::metrics::Recorder;
use crate::units::SimDuration;

/// What a request spends time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// In attempts before the one that was answered, and between them.
    Retries,
    /// Waiting at the gateway.
    Gateway,
    /// On the way to the queue of its engine: network, HTTP, tokenising.
    Api,
    /// In queues of engines, until a step works on it.
    Queued,
    /// Of that, while its adapter could get no slot.
    AdapterSlot,
    /// Of that, while its adapter was loaded.
    AdapterLoad,
    /// Waiting for its KV: from the replica that prefilled it, or from a tier below the GPU.
    Transfer,
    /// From when the first step that works on it is decided until the device starts it.
    FirstStepWait,
    /// From there to its first token.
    Prefill,
    /// Without memory and catching up, before its first token.
    PreemptedBefore,
    /// Its first token on the way to the client: detokenising, HTTP.
    FirstDelivery,
    /// In steps that only decode.
    Decode,
    /// While it decodes, in steps that prefill others or fetch their KV.
    Stalled,
    /// Without memory and catching up, after its first token.
    PreemptedAfter,
    /// Its last token on the way to the client.
    LastDelivery,
}

impl PartKind {
    /// How many there are.
    pub const COUNT: usize = 15;

    /// In the order in which a request goes through them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Retries,
        Self::Gateway,
        Self::Api,
        Self::Queued,
        Self::AdapterSlot,
        Self::AdapterLoad,
        Self::Transfer,
        Self::FirstStepWait,
        Self::Prefill,
        Self::PreemptedBefore,
        Self::FirstDelivery,
        Self::Decode,
        Self::Stalled,
        Self::PreemptedAfter,
        Self::LastDelivery,
    ];

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Retries => "attempts before the last",
            Self::Gateway => "gateway queue",
            Self::Api => "way to the engine",
            Self::Queued => "engine queue",
            Self::AdapterSlot => "waiting for an adapter slot",
            Self::AdapterLoad => "loading its adapter",
            Self::Transfer => "moving its KV",
            Self::FirstStepWait => "until its first step starts",
            Self::Prefill => "prefill",
            Self::PreemptedBefore => "preempted, before the first token",
            Self::FirstDelivery => "first token to the client",
            Self::Decode => "decode",
            Self::Stalled => "decode, held up by others",
            Self::PreemptedAfter => "preempted, while it decoded",
            Self::LastDelivery => "last token to the client",
        }
    }

    /// Whether it is part of the time to the first token.
    pub const fn is_before_first_token(self) -> bool {
        !matches!(self, Self::Decode | Self::Stalled | Self::PreemptedAfter | Self::LastDelivery)
    }
}

/// A part of the time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// How long, in ms.
    #[serde(rename = "ms", serialize_with = "in_ms")]
    pub span: SimDuration,
}

/// The parts of the end-to-end time of a request, those of no time among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    /// In the order of [`PartKind::ALL`].
    pub parts: Vec<Part>,
}

impl Account {
    pub(super) fn new(recorder: &Recorder, picked: &Picked, sight: &Sight) -> Self {
        let place = picked.id.index();
        let last = &recorder.requests[place];
        let parts = recorder.breakdown_of(place).unwrap_or_default();
        let waited = recorder.adapters.wait_of(place);
        let (queued, adapter_load) = split(parts.queued, waited.load);
        let (queued, adapter_slot) = split(queued, waited.slot);
        let delivery = |at, computed: Option<_>| match computed {
            Some(computed) if computed < at => at - computed,
            _ => SimDuration::ZERO,
        };
        let (prefill, first) =
            split(parts.prefill, delivery(last.first_token, sight.first_computed));
        let (prefill, first_step_wait) = split(prefill, sight.first_step_wait);
        let (decode, end) = split(parts.decode, delivery(last.finish, sight.last_computed));
        let (preempted_after, preempted_before) = split(parts.preempted, last.preempted_in_prefill);
        let of = |kind| match kind {
            PartKind::Retries => split(picked.record.e2e(), last.e2e()).0,
            PartKind::Gateway => parts.gateway,
            PartKind::Api => parts.api,
            PartKind::Queued => queued,
            PartKind::AdapterSlot => adapter_slot,
            PartKind::AdapterLoad => adapter_load,
            PartKind::Transfer => parts.transfer,
            PartKind::FirstStepWait => first_step_wait,
            PartKind::Prefill => prefill,
            PartKind::PreemptedBefore => preempted_before,
            PartKind::FirstDelivery => first,
            PartKind::Decode => decode,
            PartKind::Stalled => parts.stalled,
            PartKind::PreemptedAfter => preempted_after,
            PartKind::LastDelivery => end,
        };
        Self { parts: PartKind::ALL.map(|kind| Part { kind, span: of(kind) }).to_vec() }
    }

    /// One of the parts.
    pub fn of(&self, kind: PartKind) -> SimDuration {
        together(self.parts.iter().filter(|part| part.kind == kind))
    }

    /// Those before the first token together: the time to first token.
    pub fn ttft(&self) -> SimDuration {
        together(self.parts.iter().filter(|part| part.kind.is_before_first_token()))
    }

    /// All of them together: the end-to-end time.
    pub fn total(&self) -> SimDuration {
        together(self.parts.iter())
    }
}

fn together<'a>(parts: impl Iterator<Item = &'a Part>) -> SimDuration {
    parts.fold(SimDuration::ZERO, |sum, part| sum + part.span)
}

/// A span without a part of it, and that part, which is not longer.
fn split(whole: SimDuration, part: SimDuration) -> (SimDuration, SimDuration) {
    let part = part.min(whole);
    (SimDuration::from_nanos(whole.as_nanos() - part.as_nanos()), part)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn in_ms<S: Serializer>(span: &SimDuration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_millis_f64())
}
