//! The benchmark report: what `sglang.bench_serving` and `vllm bench serve` print and write,
//! computed from a run and read back from logs.
//!
//! [`BenchInput`] is what a client saw, [`BenchSummary`] what both tools compute of it,
//! [`SglangRun`] and [`VllmRun`] write it byte for byte as the tools do, [`read`] finds such
//! output in any text, and [`Comparison`] puts a measured run beside a simulated one.

mod block;
mod compare;
mod goodput;
mod input;
mod json;
mod keys;
mod parse;
mod sglang;
mod summary;
mod vllm;

pub use compare::{ComparedFigure, Comparison, ComparisonRow};
pub use goodput::Goodput;
pub(super) use goodput::Kept;
pub use goodput::SloError;
pub use goodput::SloMetric;
pub use goodput::Slos;
pub use input::BenchInput;
pub use input::BenchRecord;
pub use input::BenchRequest;
pub use input::CacheTiers;
pub use input::ClientMode;
pub use input::Outcome;
pub use input::SecondBuckets;
pub use input::TokenGaps;
pub use input::peak_concurrency;
pub use input::peak_tokens;
pub use json::Json;
pub use json::JsonLayout;
pub use json::NonFinite;
pub use keys::Figure;
pub use keys::Latency;
pub use keys::MetricKey;
pub use keys::Statistic;
pub use keys::Tool;
pub(crate) use parse::quote_non_finite;

pub use parse::Found;
pub use parse::Generation;
pub use parse::Measured;
pub use parse::Origin;
pub use parse::ReadProblem;
pub use parse::read;
pub use parse::read_json;
pub use parse::read_text;
pub use sglang::CacheReportFlag;
pub use sglang::RequestRate;
pub use sglang::SglangGeneration;
pub use sglang::SglangRun;
pub use summary::BenchSummary;
pub use summary::CacheReport;
pub use summary::Distribution;
pub use vllm::VllmFlagError;
pub use vllm::VllmGeneration;
pub use vllm::VllmHeader;
pub use vllm::VllmRun;
