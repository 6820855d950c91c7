//! Mooncake traces (FAST'25 release): JSON lines with `timestamp` in milliseconds, `input_length`,
//! `output_length`, and `hash_ids`, one for every 512 prompt tokens, the last partial block
//! included. Two equal ids mean equal tokens from the start of the prompt on. `AIPerf`'s superset
//! is read too where rows have these keys; its texts and delays are not.
//!
//! The conversation trace's stamps are multiples of three seconds, ten requests at one instant:
//! latency tails of a raw replay are an artefact of that.

use super::format::TimeUnit;
use super::layout::Layout;

pub(super) const LAYOUT: Layout = Layout {
    unit: Some(TimeUnit::Milliseconds),
    block_tokens: 512,
    arrival: &["timestamp"],
    prompt: &["input_length"],
    output: &["output_length"],
    session: &["session_id"],
    hash_ids: &["hash_ids"],
    ..Layout::EMPTY
};
