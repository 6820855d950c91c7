//! CSV and JSON lines of no particular project: the columns are stated
//! ([`ColumnMap`](super::ColumnMap)) or go by the names below. The clock's unit is stated, or the
//! end of the column's name (`_s`, `_ms`, `_us`, `_ns`), or a date; a bare number under a bare name
//! is refused, since units differ by nine orders of magnitude between projects. Zero tokens are
//! refused too: nobody said what they mean.

use super::layout::Layout;
use super::layout::Zero;

/// Names without a unit that are seconds wherever they are used.
pub(super) const SECONDS_BY_CUSTOM: [&str; 1] = ["arrived_at"];

pub(super) const LAYOUT: Layout = Layout {
    zero: Zero::Refused,
    arrival: &[
        "arrival_s",
        "arrival_ms",
        "arrival_us",
        "arrival_ns",
        "arrival_time_s",
        "arrival_time_ms",
        "arrival_time_us",
        "arrival_time_ns",
        "timestamp_s",
        "timestamp_ms",
        "timestamp_us",
        "timestamp_ns",
        "arrived_at",
        "send_s",
        "send_time_us",
        "arrival",
        "arrival_time",
        "arrival_timestamp",
        "timestamp",
        "time",
    ],
    prompt: &[
        "prompt_tokens",
        "input_tokens",
        "num_prefill_tokens",
        "input_length",
        "prompt_length",
        "input_len",
        "prompt_len",
        "input_toks",
        "prompt_size",
        "request_tokens",
        "Request tokens",
        "ContextTokens",
    ],
    output: &[
        "output_tokens",
        "completion_tokens",
        "generated_tokens",
        "num_decode_tokens",
        "output_length",
        "output_len",
        "output_toks",
        "token_size",
        "response_tokens",
        "Response tokens",
        "GeneratedTokens",
    ],
    session: &["session", "session_id", "conversation_id", "Session ID"],
    hash_ids: &["hash_ids"],
    block: &["hash_block_tokens"],
    ..Layout::EMPTY
};
