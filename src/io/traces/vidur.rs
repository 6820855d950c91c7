//! Vidur's processed traces: CSV with `arrived_at` in seconds, `num_prefill_tokens`,
//! `num_decode_tokens`; its length files have no times.

use super::format::TimeUnit;
use super::layout::Layout;
use super::layout::Timing;

pub(super) const LAYOUT: Layout = Layout {
    timing: Timing::Optional,
    unit: Some(TimeUnit::Seconds),
    arrival: &["arrived_at"],
    prompt: &["num_prefill_tokens"],
    output: &["num_decode_tokens"],
    ..Layout::EMPTY
};
