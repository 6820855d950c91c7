//! What a benchmark client saw: one record a request, the gaps between tokens, and the two peaks
//! that the tools take from one-second buckets.
//!
//! Times are seconds as `f64`, because the tools compute in Python floats and their figures are
//! reproduced to the last digit. `start_s` is the moment the request is sent, after the client's
//! concurrency limit let it go (vLLM 0.33.0 `vllm/benchmarks/serve.py`, SGLang 0.5.23
//! `sglang/benchmark/serving.py`).

use crate::engine::DraftCounts;
use crate::metrics::CountsBySecond;
use crate::metrics::gaps::BinnedGaps;
use crate::stats::{LogBins, Weighted};

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// It was answered in full.
    #[default]
    Succeeded,
    /// It failed: its tokens and times are left out of every sum.
    Failed,
}

/// Whether the client reads tokens as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientMode {
    /// Tokens are read one by one.
    #[default]
    Streaming,
    /// The answer is read as a whole: the first token is seen with the last, so that TTFT equals
    /// E2E, TPOT is 0, and no gap between tokens is seen.
    NonStreaming,
}

impl ClientMode {
    /// Of a client that streams, or does not.
    pub fn of(streaming: bool) -> Self {
        if streaming { Self::Streaming } else { Self::NonStreaming }
    }
}

/// One request as the client saw it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BenchRequest {
    /// When it was sent, in seconds on any clock common to all requests.
    pub start_s: f64,
    /// First token − start, in seconds.
    pub ttft_s: f64,
    /// Last token − start, in seconds.
    pub latency_s: f64,
    /// Prompt length in tokens.
    pub prompt_tokens: u32,
    /// Tokens generated.
    pub output_tokens: u32,
    /// Prompt tokens that came from a cache.
    pub cached_tokens: u32,
    /// How it ended.
    pub outcome: Outcome,
}

impl BenchRequest {
    /// Whether it counts.
    pub fn succeeded(&self) -> bool {
        self.outcome == Outcome::Succeeded
    }

    /// The time per output token after the first, in seconds; nothing for answers of one token.
    pub fn tpot_s(&self) -> Option<f64> {
        (self.output_tokens > 1)
            .then(|| (self.latency_s - self.ttft_s) / f64::from(self.output_tokens - 1))
    }
}

/// A request together with its gaps, as the tools' clients keep it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchRecord {
    /// The request.
    pub request: BenchRequest,
    /// The gaps between its tokens (vLLM: between its chunks), in seconds.
    pub itl_s: Vec<f64>,
    /// What went wrong; empty for a success.
    pub error: String,
}

/// The gaps between tokens of all successful requests, in seconds.
#[derive(Debug, Clone)]
pub enum TokenGaps {
    /// One by one, request after request in the order of sending.
    Each(Vec<f64>),
    /// Each gap with the number of times it occurred.
    Weighted(Weighted),
    /// The same in bins.
    Binned(BinnedGaps),
    /// Too many to be kept, in whole nanoseconds.
    LogBinned(LogBins),
}

/// Where cached prompt tokens came from, over all successful requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheTiers {
    /// Tokens found in device memory.
    pub device_tokens: u64,
    /// Tokens found in host memory.
    pub host_tokens: u64,
    /// Tokens found in storage.
    pub storage_tokens: u64,
    /// The name of the storage; reported when any token came from it.
    pub storage_backend: Option<String>,
}

/// Everything a summary is computed from.
#[derive(Debug, Clone)]
pub struct BenchInput {
    /// From just before the first arrival to the end of the last request, in seconds.
    pub duration_s: f64,
    /// Every request, in the order of sending.
    pub requests: Vec<BenchRequest>,
    /// The gaps between tokens.
    pub gaps: TokenGaps,
    /// The largest number of tokens (vLLM: chunks) in any one-second bucket.
    pub peak_output_tokens_per_s: f64,
    /// The largest number of requests that touch any one-second bucket.
    pub peak_concurrent_requests: u64,
    /// Drafts verified, with speculative decoding.
    pub drafts: DraftCounts,
    /// Tokens of the answers encoded again; the number generated when nothing is given, since a
    /// simulated answer has no text.
    pub retokenized_output_tokens: Option<u64>,
    /// Tokens of images within the prompts.
    pub input_vision_tokens: u64,
    /// Where cached tokens came from, if that is known.
    pub cache_tiers: Option<CacheTiers>,
    /// Whether the client streams.
    pub client: ClientMode,
}

impl BenchInput {
    /// An input with the peak of concurrent requests taken from the requests and nothing optional.
    pub fn new(
        duration_s: f64,
        requests: Vec<BenchRequest>,
        gaps: TokenGaps,
        peak_output_tokens_per_s: f64,
    ) -> Self {
        Self {
            duration_s,
            peak_concurrent_requests: peak_concurrency(&requests),
            requests,
            gaps,
            peak_output_tokens_per_s,
            drafts: DraftCounts::default(),
            retokenized_output_tokens: None,
            input_vision_tokens: 0,
            cache_tiers: None,
            client: ClientMode::Streaming,
        }
    }

    /// An input from complete records, peaks and all.
    pub fn from_records(duration_s: f64, records: &[BenchRecord]) -> Self {
        let gaps = records.iter().filter(|record| record.request.succeeded());
        let gaps = gaps.flat_map(|record| record.itl_s.iter().copied()).collect();
        let requests = records.iter().map(|record| record.request).collect();
        Self::new(duration_s, requests, TokenGaps::Each(gaps), peak_tokens(records))
    }
}

/// Counts per second since the first request was sent.
#[derive(Debug, Clone, Default)]
pub struct SecondBuckets {
    origin_s: f64,
    counts: CountsBySecond,
}

impl SecondBuckets {
    /// Empty buckets; the first begins at `origin_s`, the earliest start of a successful request.
    pub fn new(origin_s: f64) -> Self {
        Self { origin_s, ..Self::default() }
    }

    /// Counts `tokens` at `time_s`. Moments before the origin are not counted, as in the tools.
    pub fn add(&mut self, time_s: f64, tokens: u64) {
        if time_s < self.origin_s {
            return;
        }
        self.counts.add((time_s - self.origin_s) as usize, tokens);
    }

    /// The largest count; 0 when nothing was counted.
    pub fn peak(&self) -> u64 {
        self.counts.peak()
    }
}

fn first_start_s(requests: impl Iterator<Item = BenchRequest>) -> f64 {
    requests.map(|request| request.start_s).fold(f64::INFINITY, f64::min)
}

/// The largest number of successful requests that touch any one-second bucket, from the bucket of
/// their start to the bucket of their end. More than any instant holds: a request that ends and
/// one that begins within the same second count together.
pub fn peak_concurrency(requests: &[BenchRequest]) -> u64 {
    let successes = || requests.iter().copied().filter(BenchRequest::succeeded);
    let origin_s = first_start_s(successes());
    let (mut starts, mut ends) = (CountsBySecond::default(), CountsBySecond::default());
    for request in successes() {
        let first = (request.start_s - origin_s) as usize;
        let last = ((request.start_s + request.latency_s) - origin_s) as usize;
        starts.add(first, 1);
        ends.add(last.max(first).saturating_add(1), 1);
    }
    CountsBySecond::peak_inside(&starts, &ends)
}

/// The largest number of tokens in any one-second bucket: the first token of each success, and one
/// more after each gap.
pub fn peak_tokens(records: &[BenchRecord]) -> f64 {
    let successes = || records.iter().filter(|record| record.request.succeeded());
    let origin_s = first_start_s(successes().map(|record| record.request));
    let mut buckets = SecondBuckets::new(origin_s);
    for record in successes() {
        let mut time_s = record.request.start_s + record.request.ttft_s;
        buckets.add(time_s, 1);
        for gap_s in &record.itl_s {
            time_s += gap_s;
            buckets.add(time_s, 1);
        }
    }
    buckets.peak() as f64
}

/// The largest number of answers that arrive in any one-second bucket: what a client that does not
/// stream takes for tokens.
pub(super) fn peak_answers(requests: &[BenchRequest]) -> f64 {
    let successes = || requests.iter().copied().filter(BenchRequest::succeeded);
    let mut buckets = SecondBuckets::new(first_start_s(successes()));
    for request in successes() {
        buckets.add(request.start_s + request.latency_s, 1);
    }
    buckets.peak() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(start_s: f64, ttft_s: f64, latency_s: f64) -> BenchRequest {
        BenchRequest { start_s, ttft_s, latency_s, output_tokens: 3, ..BenchRequest::default() }
    }

    #[test]
    fn a_request_that_ends_within_the_second_counts_beside_one_that_begins_in_it() {
        // [10.0, 11.2] touches buckets 0 and 1, [11.5, 11.9] only bucket 1: never together in flight
        let requests = [request(10.0, 0.1, 1.2), request(11.5, 0.1, 0.4)];
        assert_eq!(peak_concurrency(&requests), 2);
    }

    #[test]
    fn failures_count_in_no_bucket() {
        let failed = BenchRequest { outcome: Outcome::Failed, ..request(0.0, 0.1, 5.0) };
        assert_eq!(peak_concurrency(&[failed]), 0);
        assert_eq!(peak_concurrency(&[failed, request(3.0, 0.1, 0.2)]), 1);
    }

    #[test]
    fn years_between_two_requests_take_no_memory() {
        let requests = [request(0.0, 0.1, 1.2), request(1e15, 0.1, 1.0), request(2e15, 0.1, 1.0)];
        assert_eq!(peak_concurrency(&requests), 1);
        let mut buckets = SecondBuckets::new(0.0);
        for (time_s, tokens) in [(0.5, 2), (1e15, 3), (1e15 + 0.5, 4)] {
            buckets.add(time_s, tokens);
        }
        assert_eq!(buckets.peak(), 7);
    }

    #[test]
    fn an_end_before_the_start_counts_as_none_at_all() {
        assert_eq!(peak_concurrency(&[request(9.0, 0.1, -5.0)]), 1);
    }

    #[test]
    fn tokens_fall_into_the_second_they_arrive_in() {
        // tokens at 0.4, 0.9 and 1.4 s after the first start: two in the first second
        let record = BenchRecord {
            request: request(5.0, 0.4, 1.4),
            itl_s: vec![0.5, 0.5],
            error: String::new(),
        };
        assert!((peak_tokens(&[record]) - 2.0).abs() < 1e-12);
    }
}
