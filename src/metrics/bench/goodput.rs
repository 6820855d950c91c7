//! Goodput: the rate of requests that meet every SLO, and the share of requests that
//! keep each (SGLang 0.5.23 and vLLM 0.33.0, `--goodput ttft:500 tpot:50 e2el:4000`).

use super::input::BenchRequest;
use super::json::python_general;

/// A latency that can have a limit for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SloMetric {
    /// Time to first token.
    Ttft,
    /// Time per output token after the first; 0 for answers of one token.
    Tpot,
    /// End-to-end latency.
    E2el,
}

impl SloMetric {
    const ALL: [Self; 3] = [Self::Ttft, Self::Tpot, Self::E2el];

    /// The tools' name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::E2el => "e2el",
        }
    }

    fn of(self, request: &BenchRequest) -> f64 {
        match self {
            Self::Ttft => request.ttft_s,
            Self::Tpot => request.tpot_s().unwrap_or(0.0),
            Self::E2el => request.latency_s,
        }
    }
}

/// The limits of latencies, in the order they were given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slos(Vec<(SloMetric, f64)>);

/// Why an SLO cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SloError {
    /// No `KEY:VALUE` pair.
    #[error(
        "--goodput: `{0}` is not a KEY:VALUE pair; write, for example, ttft:500 (milliseconds)"
    )]
    Pair(String),
    /// An unknown name.
    #[error("--goodput: `{0}` is not a latency; give ttft, tpot or e2el")]
    Metric(String),
    /// No usable number.
    #[error(
        "--goodput: {metric}: `{value}` must be a number of milliseconds, at least 0, such as 500"
    )]
    Value {
        /// The metric's name.
        metric: &'static str,
        /// What was given.
        value: String,
    },
    /// Given twice.
    #[error("--goodput: {0} is given twice; give each latency once")]
    Twice(&'static str),
    /// Nothing given.
    #[error("--goodput: give at least one KEY:VALUE pair, for example ttft:500")]
    Empty,
}

impl Slos {
    /// SLOs from `KEY:VALUE` words, values in milliseconds; a word may hold several separated
    /// by blanks.
    ///
    /// # Errors
    /// When there is no pair, a name is unknown or repeated, or a value is no number from 0 up.
    pub fn parse<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Result<Self, SloError> {
        let mut slos: Vec<(SloMetric, f64)> = Vec::new();
        for word in words {
            for pair in word.as_ref().split_whitespace() {
                let (name, value) =
                    pair.split_once(':').ok_or_else(|| SloError::Pair(pair.to_owned()))?;
                let metric = SloMetric::ALL.into_iter().find(|metric| metric.name() == name);
                let metric = metric.ok_or_else(|| SloError::Metric(name.to_owned()))?;
                let limit_ms = value.parse().ok().filter(|ms: &f64| ms.is_finite() && *ms >= 0.0);
                let limit_ms = limit_ms.ok_or_else(|| SloError::Value {
                    metric: metric.name(),
                    value: value.to_owned(),
                })?;
                if slos.iter().any(|(known, _)| *known == metric) {
                    return Err(SloError::Twice(metric.name()));
                }
                slos.push((metric, limit_ms));
            }
        }
        if slos.is_empty() { Err(SloError::Empty) } else { Ok(Self(slos)) }
    }

    /// Each metric with its limit in milliseconds.
    pub fn limits_ms(&self) -> impl Iterator<Item = (SloMetric, f64)> {
        self.0.iter().copied()
    }
}

impl std::fmt::Display for Slos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (metric, limit_ms)) in self.limits_ms().enumerate() {
            let gap = if index > 0 { " " } else { "" };
            write!(f, "{gap}{}:{}", metric.name(), python_general(limit_ms))?;
        }
        Ok(())
    }
}

/// How many requests met the SLOs.
#[derive(Debug, Clone, PartialEq)]
pub struct Goodput {
    /// The SLOs.
    pub slos: Slos,
    /// Requests that kept all of them, per second.
    pub request_goodput: f64,
    /// The share of all requests, failed ones included, that kept all of them.
    pub attainment: f64,
    /// The share of all requests that met each SLO.
    pub attainment_by_metric: Vec<(SloMetric, f64)>,
}

/// How many of the requests so far keep SLOs.
#[derive(Debug, Clone)]
pub(in crate::metrics) struct Kept {
    slos: Slos,
    requests: u64,
    all: u64,
    each: Vec<u64>,
}

impl Kept {
    pub(in crate::metrics) fn new(slos: Slos) -> Self {
        Self { requests: 0, all: 0, each: vec![0; slos.0.len()], slos }
    }

    pub(in crate::metrics) fn add(&mut self, request: &BenchRequest) {
        self.requests += 1;
        let mut keeps_all = request.succeeded();
        for (kept, (metric, limit_ms)) in self.each.iter_mut().zip(self.slos.limits_ms()) {
            // both tools divide the limit by 1,000 and compare seconds
            let keeps = request.succeeded() && metric.of(request) <= limit_ms / 1000.0;
            *kept += u64::from(keeps);
            keeps_all &= keeps;
        }
        self.all += u64::from(keeps_all);
    }

    pub(in crate::metrics) fn join(&mut self, other: &Self) {
        self.requests += other.requests;
        self.all += other.all;
        for (sum, kept) in self.each.iter_mut().zip(&other.each) {
            *sum += kept;
        }
    }
}

impl Goodput {
    pub(super) fn new(slos: Slos, requests: &[BenchRequest], duration_s: f64) -> Self {
        let mut kept = Kept::new(slos);
        for request in requests {
            kept.add(request);
        }
        Self::of(kept, duration_s)
    }

    pub(in crate::metrics) fn of(kept: Kept, duration_s: f64) -> Self {
        let Kept { slos, requests, all, each } = kept;
        let share = |good: u64| if requests == 0 { 0.0 } else { good as f64 / requests as f64 };
        let by_metric = slos.limits_ms().zip(each).map(|((metric, _), kept)| (metric, share(kept)));
        Self {
            request_goodput: all as f64 / duration_s,
            attainment: share(all),
            attainment_by_metric: by_metric.collect(),
            slos,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slos_keep_their_order_and_print_as_given() {
        let slos = Slos::parse(["e2el:4000 ttft:500", "tpot:37.5"]).unwrap();
        assert_eq!(slos.to_string(), "e2el:4000 ttft:500 tpot:37.5");
    }

    #[test]
    fn a_bad_slo_says_what_would_be_right() {
        for (words, message) in [
            (
                "ttft",
                "--goodput: `ttft` is not a KEY:VALUE pair; write, for example, ttft:500 (milliseconds)",
            ),
            ("itl:5", "--goodput: `itl` is not a latency; give ttft, tpot or e2el"),
            (
                "tpot:x",
                "--goodput: tpot: `x` must be a number of milliseconds, at least 0, such as 500",
            ),
            (
                "tpot:-1",
                "--goodput: tpot: `-1` must be a number of milliseconds, at least 0, such as 500",
            ),
            ("ttft:1 ttft:2", "--goodput: ttft is given twice; give each latency once"),
            (" ", "--goodput: give at least one KEY:VALUE pair, for example ttft:500"),
        ] {
            assert_eq!(Slos::parse([words]).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn an_answer_of_one_token_keeps_every_tpot() {
        let one = BenchRequest { output_tokens: 1, latency_s: 9.0, ..BenchRequest::default() };
        let two = BenchRequest { output_tokens: 2, ..one };
        let slos = Slos::parse(["tpot:50"]).unwrap();
        // (9 − 0)/1 s is more than 50 ms: one of two is good, in 4 s
        let goodput = Goodput::new(slos, &[one, two], 4.0);
        assert!((goodput.attainment - 0.5).abs() < 1e-12);
        assert!((goodput.request_goodput - 0.25).abs() < 1e-12);
    }
}
