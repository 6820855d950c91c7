//! `LLMServingSim`'s datasets: JSON lines with `arrival_time_ns`, `input_toks`, `output_toks`, and
//! `hash_ids` of full blocks of 16 tokens. Its agentic rows (`sub_requests`) are no single requests
//! and are refused for the keys they lack.

use super::format::TimeUnit;
use super::layout::Layout;

pub(super) const LAYOUT: Layout = Layout {
    unit: Some(TimeUnit::Nanoseconds),
    block_tokens: 16,
    arrival: &["arrival_time_ns"],
    prompt: &["input_toks"],
    output: &["output_toks"],
    session: &["session_id"],
    hash_ids: &["hash_ids"],
    ..Layout::EMPTY
};
