//! Azure LLM inference traces, 2023 (Splitwise) and 2024 (DynamoLLM): CSV with the columns
//! `TIMESTAMP,ContextTokens,GeneratedTokens`, stamps as wall-clock time with up to nine fractional
//! digits (the published files have seven), UTC unless an offset follows. The stamps of the 2023
//! files say 16 November, their page the 11th; the stamps count here.

use super::format::TimeUnit;
use super::layout::Layout;

pub(super) const LAYOUT: Layout = Layout {
    unit: Some(TimeUnit::WallClock),
    arrival: &["TIMESTAMP"],
    prompt: &["ContextTokens"],
    output: &["GeneratedTokens"],
    ..Layout::EMPTY
};
