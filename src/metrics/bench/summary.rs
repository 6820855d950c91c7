//! The figures both tools compute from what the client saw.
//!
//! Floats agree with the tools' to the last digit: sums in numpy's order, percentiles with numpy's
//! linear interpolation, seconds turned into milliseconds last. An empty list gives 0.

use crate::engine::DraftCounts;
use crate::metrics::gaps::BinnedGaps;
use crate::stats;
use crate::stats::LogBins;
use crate::stats::Sample;
use crate::stats::Weighted;
use crate::threads;

use super::goodput::Goodput;
use super::goodput::Slos;
use super::input::BenchInput;
use super::input::BenchRequest;
use super::input::CacheTiers;
use super::input::ClientMode;
use super::input::TokenGaps;
use super::input::peak_answers;
use super::keys::Figure;
use super::keys::Latency;
use super::keys::MetricKey;
use super::keys::Statistic;

const MS_PER_S: f64 = 1000.0;
const NANOS_PER_S: f64 = 1e9;

/// One latency over all successful requests (ITL: over all gaps).
#[derive(Debug, Clone)]
pub struct Distribution {
    count: u64,
    mean_s: f64,
    std_dev_s: f64,
    ordered: Ordered,
}

#[derive(Debug, Clone)]
enum Ordered {
    Each(Vec<f64>),
    Weighted(Weighted),
    Binned(BinnedGaps),
    /// Whole numbers, and how many of them a second has.
    Bins(LogBins, f64),
}

impl Distribution {
    /// The distribution of these values, in seconds.
    ///
    /// # Panics
    /// When a value is NaN.
    pub fn of_values(mut values_s: Vec<f64>) -> Self {
        assert!(values_s.iter().all(|x| !x.is_nan()), "a latency is a number");
        let (mean_s, std_dev_s) = (stats::mean(&values_s), stats::std_dev(&values_s));
        stats::radix::sort(&mut values_s);
        Self { count: values_s.len() as u64, mean_s, std_dev_s, ordered: Ordered::Each(values_s) }
    }

    /// The distribution of a weighted sample, in seconds.
    pub fn of_weighted(sample: Weighted) -> Self {
        let (count, mean_s, std_dev_s) = moments(&sample);
        Self { count, mean_s, std_dev_s, ordered: Ordered::Weighted(sample) }
    }

    /// The distribution of gaps in bins.
    pub fn of_binned(sample: BinnedGaps) -> Self {
        let (count, mean_s, std_dev_s) = moments(&sample);
        Self { count, mean_s, std_dev_s, ordered: Ordered::Binned(sample) }
    }

    /// The distribution of whole numbers, of which a second has so many.
    pub(in crate::metrics) fn of_bins(bins: LogBins, per_s: f64) -> Self {
        let (count, mean, std_dev) = moments(&bins);
        let (mean_s, std_dev_s) = (mean / per_s, std_dev / per_s);
        Self { count, mean_s, std_dev_s, ordered: Ordered::Bins(bins, per_s) }
    }

    /// The distribution of gaps between tokens.
    pub(in crate::metrics) fn of_gaps(gaps: TokenGaps) -> Self {
        match gaps {
            TokenGaps::Each(gaps) => Self::of_values(gaps),
            TokenGaps::Weighted(gaps) => Self::of_weighted(gaps),
            TokenGaps::Binned(gaps) => Self::of_binned(gaps),
            TokenGaps::LogBinned(gaps) => Self::of_bins(gaps, NANOS_PER_S),
        }
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The arithmetic mean in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.mean_s * MS_PER_S
    }

    /// The population standard deviation in milliseconds.
    pub fn std_dev_ms(&self) -> f64 {
        self.std_dev_s * MS_PER_S
    }

    /// `numpy.median` in milliseconds: the middle value, or the mean of the two in the middle. It
    /// may differ from the 50th percentile in the last digit.
    pub fn median_ms(&self) -> f64 {
        let Some(last) = self.count.checked_sub(1) else { return 0.0 };
        let (low, high) = (self.order_statistic(last / 2), self.order_statistic(last.div_ceil(2)));
        let median_s = if last.is_multiple_of(2) { low } else { f64::midpoint(low, high) };
        median_s * MS_PER_S
    }

    /// The `p`-th percentile (0 to 100) in milliseconds, numpy-linear.
    pub fn percentile_ms(&self, p: f64) -> f64 {
        let percentile_s = match &self.ordered {
            Ordered::Each(values) => stats::percentile_sorted(values, p),
            Ordered::Weighted(sample) => sample.percentile(p),
            Ordered::Binned(sample) => sample.percentile(p),
            Ordered::Bins(bins, per_s) => bins.percentile(p) / per_s,
        };
        percentile_s * MS_PER_S
    }

    /// The largest value in milliseconds.
    pub fn max_ms(&self) -> f64 {
        match &self.ordered {
            Ordered::Each(values) => values.last().copied().unwrap_or(0.0) * MS_PER_S,
            Ordered::Weighted(sample) => sample.max() * MS_PER_S,
            Ordered::Binned(sample) => sample.max() * MS_PER_S,
            Ordered::Bins(bins, per_s) => bins.max() / per_s * MS_PER_S,
        }
    }

    /// This statistic in milliseconds.
    pub fn statistic_ms(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::Mean => self.mean_ms(),
            Statistic::Median => self.median_ms(),
            Statistic::StdDev => self.std_dev_ms(),
            Statistic::Max => self.max_ms(),
            Statistic::Percentile(p) => self.percentile_ms(p),
        }
    }

    fn order_statistic(&self, index: u64) -> f64 {
        match &self.ordered {
            Ordered::Each(values) => values[index as usize],
            Ordered::Weighted(sample) => sample.order_statistic(index),
            Ordered::Binned(sample) => sample.order_statistic(index),
            Ordered::Bins(bins, per_s) => bins.order_statistic(index) / per_s,
        }
    }
}

/// Number, mean and deviation of a sample.
fn moments(sample: &impl Sample) -> (u64, f64, f64) {
    (sample.count(), sample.mean(), sample.std_dev())
}

/// Cached prompt tokens over all successful requests.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheReport {
    /// Prompt tokens of successful requests.
    pub prompt_tokens: u64,
    /// Those of them that came from a cache.
    pub cached_tokens: u64,
    /// Which cache they came from, if known.
    pub tiers: Option<CacheTiers>,
}

impl CacheReport {
    /// Cached tokens per prompt token, in percent; 0 without prompts.
    pub fn hit_rate_pct(&self) -> f64 {
        match self.prompt_tokens {
            0 => 0.0,
            tokens => self.cached_tokens as f64 / tokens as f64 * 100.0,
        }
    }
}

/// What both tools compute, before either prints it.
#[derive(Debug, Clone)]
pub struct BenchSummary {
    /// Seconds from just before the first arrival to the end of the last request.
    pub duration_s: f64,
    /// Successful requests.
    pub completed: u64,
    /// Failed requests.
    pub failed: u64,
    /// Prompt tokens of successes.
    pub input_tokens: u64,
    /// Those of them that stand for images.
    pub input_vision_tokens: u64,
    /// Generated tokens of successes.
    pub output_tokens: u64,
    /// The same answers encoded again.
    pub retokenized_output_tokens: u64,
    /// Σ latency of successes / duration: the mean number in flight.
    pub concurrency: f64,
    /// The largest number of tokens in a second.
    pub peak_output_tokens_per_s: f64,
    /// The largest number of requests that touch a second.
    pub peak_concurrent_requests: u64,
    /// Drafts verified, with speculative decoding.
    pub drafts: DraftCounts,
    /// Send to last token.
    pub e2e: Distribution,
    /// Send to first token.
    pub ttft: Distribution,
    /// Mean gap of a request, for answers of two tokens and more.
    pub tpot: Distribution,
    /// Gaps between tokens.
    pub itl: Distribution,
    /// Cached prompt tokens.
    pub cache: CacheReport,
    /// Requests that met the SLOs, where there are any.
    pub goodput: Option<Goodput>,
}

impl BenchSummary {
    /// Summarises what a client saw; `slos` asks for goodput.
    ///
    /// # Panics
    /// When the duration is not positive, or a time is NaN.
    pub fn new(input: BenchInput, slos: Option<Slos>) -> Self {
        assert!(input.duration_s > 0.0, "a benchmark lasts, got {} s", input.duration_s);
        let input = as_seen(input);
        let successes = || input.requests.iter().filter(|request| request.succeeded());
        let total = |tokens: fn(&BenchRequest) -> u32| {
            successes().map(|request| u64::from(tokens(request))).sum::<u64>()
        };
        let latencies_s: Vec<f64> = successes().map(|request| request.latency_s).collect();
        let concurrency = stats::sum(&latencies_s) / input.duration_s;
        let (input_tokens, output_tokens) =
            (total(|r| r.prompt_tokens), total(|r| r.output_tokens));
        let completed = latencies_s.len() as u64;
        let ttfts_s = || successes().map(|r| r.ttft_s).collect();
        let tpots_s = || successes().filter_map(BenchRequest::tpot_s).collect();
        let gaps = input.gaps;
        let ((e2e, ttft), (tpot, itl)) = threads::both(
            || (Distribution::of_values(latencies_s), Distribution::of_values(ttfts_s())),
            || (Distribution::of_values(tpots_s()), Distribution::of_gaps(gaps)),
        );
        Self {
            duration_s: input.duration_s,
            completed,
            failed: input.requests.len() as u64 - completed,
            input_tokens,
            input_vision_tokens: input.input_vision_tokens,
            output_tokens,
            retokenized_output_tokens: input.retokenized_output_tokens.unwrap_or(output_tokens),
            concurrency,
            peak_output_tokens_per_s: input.peak_output_tokens_per_s,
            peak_concurrent_requests: input.peak_concurrent_requests,
            drafts: input.drafts,
            e2e,
            ttft,
            tpot,
            itl,
            cache: CacheReport {
                prompt_tokens: input_tokens,
                cached_tokens: total(|r| r.cached_tokens),
                tiers: input.cache_tiers.clone(),
            },
            goodput: slos.map(|slos| Goodput::new(slos, &input.requests, input.duration_s)),
        }
    }

    /// Completed requests per second.
    pub fn request_throughput(&self) -> f64 {
        self.completed as f64 / self.duration_s
    }

    /// Prompt tokens per second.
    pub fn input_throughput(&self) -> f64 {
        self.input_tokens as f64 / self.duration_s
    }

    /// Generated tokens per second.
    pub fn output_throughput(&self) -> f64 {
        self.output_tokens as f64 / self.duration_s
    }

    /// Prompt and generated tokens per second.
    pub fn total_throughput(&self) -> f64 {
        (self.input_tokens + self.output_tokens) as f64 / self.duration_s
    }

    /// The distribution of this latency.
    pub fn latency(&self, latency: Latency) -> &Distribution {
        match latency {
            Latency::E2e => &self.e2e,
            Latency::Ttft => &self.ttft,
            Latency::Tpot => &self.tpot,
            Latency::Itl => &self.itl,
        }
    }

    fn if_drafting(&self, count: u64) -> Option<f64> {
        (!self.drafts.is_empty()).then_some(count as f64)
    }

    /// The figure under this key; nothing where the run has none (no speculation, no SLOs).
    pub fn metric(&self, key: MetricKey) -> Option<f64> {
        let figure = match key {
            MetricKey::Latency(latency, statistic) => {
                return Some(self.latency(latency).statistic_ms(statistic));
            }
            MetricKey::Figure(figure) => figure,
        };
        Some(match figure {
            Figure::Duration => self.duration_s,
            Figure::Completed => self.completed as f64,
            Figure::Failed => self.failed as f64,
            Figure::InputTokens => self.input_tokens as f64,
            Figure::InputTextTokens => {
                self.input_tokens.saturating_sub(self.input_vision_tokens) as f64
            }
            Figure::InputVisionTokens => self.input_vision_tokens as f64,
            Figure::OutputTokens => self.output_tokens as f64,
            Figure::RetokenizedTokens => self.retokenized_output_tokens as f64,
            Figure::RequestThroughput => self.request_throughput(),
            Figure::InputThroughput => self.input_throughput(),
            Figure::OutputThroughput => self.output_throughput(),
            Figure::TotalThroughput => self.total_throughput(),
            Figure::PeakOutputTokens => self.peak_output_tokens_per_s,
            Figure::PeakRequests => self.peak_concurrent_requests as f64,
            Figure::Concurrency => self.concurrency,
            Figure::AcceptanceRate => self.drafts.acceptance_rate_pct()?,
            Figure::AcceptLength => self.drafts.acceptance_length()?,
            Figure::Drafts => self.if_drafting(self.drafts.verifications())?,
            Figure::DraftTokens => self.if_drafting(self.drafts.draft_tokens())?,
            Figure::AcceptedTokens => self.if_drafting(self.drafts.accepted_tokens())?,
            Figure::RequestGoodput => self.goodput.as_ref()?.request_goodput,
            Figure::SloAttainment => self.goodput.as_ref()?.attainment,
            Figure::MetricAttainment(metric) => {
                let goodput = self.goodput.as_ref()?;
                goodput.attainment_by_metric.iter().find(|(known, _)| *known == metric)?.1
            }
            Figure::PromptTokens => self.cache.prompt_tokens as f64,
            Figure::CachedTokens => self.cache.cached_tokens as f64,
            Figure::CacheHitRate => self.cache.hit_rate_pct(),
        })
    }
}

/// What is left of the input for a client that does not stream.
fn as_seen(mut input: BenchInput) -> BenchInput {
    if input.client == ClientMode::NonStreaming {
        for request in &mut input.requests {
            request.ttft_s = request.latency_s;
        }
        input.gaps = TokenGaps::Each(Vec::new());
        input.peak_output_tokens_per_s = peak_answers(&input.requests);
    }
    input
}

#[cfg(test)]
pub(in crate::metrics::bench) mod tests;
