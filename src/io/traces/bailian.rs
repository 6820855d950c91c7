//! Bailian (Qwen) usage traces: JSON lines with `timestamp` in seconds, `input_length`,
//! `output_length`, and `hash_ids`, one for every 16 prompt tokens. The chain of turns
//! (`chat_id`, `parent_chat_id`) is not followed: it would take memory for every chat, and the
//! hash ids already say what turns share.

use super::format::TimeUnit;
use super::layout::Layout;

pub(super) const LAYOUT: Layout = Layout {
    unit: Some(TimeUnit::Seconds),
    block_tokens: 16,
    arrival: &["timestamp"],
    prompt: &["input_length"],
    output: &["output_length"],
    hash_ids: &["hash_ids"],
    ..Layout::EMPTY
};
