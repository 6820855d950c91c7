//! Lengths without times: CSV with a prompt and an output column, as a tokenizer makes them from
//! `ShareGPT`'s conversations. Conversations with an empty side count as skipped. The rows have no
//! arrival; a workload gives them one.

use super::layout::Layout;
use super::layout::Timing;

pub(super) const LAYOUT: Layout = Layout {
    timing: Timing::Absent,
    prompt: &["prompt_len", "prompt_tokens", "input_tokens", "input_len"],
    output: &["output_len", "output_tokens", "completion_tokens"],
    ..Layout::EMPTY
};
