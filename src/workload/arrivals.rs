//! When requests arrive.
//!
//! Renewal processes (Poisson, gamma, Weibull) draw one gap after another from the run's
//! `arrivals` stream, the first request after the first gap, and hold nothing else. The tools'
//! processes repeat what SGLang 0.5.23 (`sglang/benchmark/serving.py`), vLLM 0.33.0
//! (`vllm/benchmarks/serve.py`) and vLLM 0.6 (`benchmarks/benchmark_serving.py`) draw. A real
//! client adds about a millisecond of lateness per relative sleep, which is left out.

mod sine;

use rand::distr::Distribution;
use rand_distr::Exp1;
use rand_distr::Gamma;
use rand_distr::Weibull;

use crate::ids::AdapterId;
use crate::rng::Seed;
use crate::rng::Stream;
use crate::scenario::ArrivalConfig;
use crate::scenario::RampUp;
use crate::scenario::RampUpConfig;
use crate::stats;
use crate::units::SimTime;
use crate::workload::adapter_counts::AdapterCounts;
use crate::workload::numpy::LegacyRandom;
use crate::workload::source::LATEST_S;
use crate::workload::tools::Tools;
use crate::workload::trace::WorkloadError;
use sine::Sine;

/// A source of arrival times, in order, that never ends by itself.
#[derive(Debug)]
pub(super) enum Arrivals {
    AllAtOnce,
    Constant {
        rate_per_s: f64,
        sent: u64,
    },
    Renewal {
        gaps: Gaps,
        scale_s: f64,
        stream: Box<Stream>,
        now: SimTime,
    },
    /// The first at zero, then exponential gaps from a tool's own generator.
    Sleeping {
        numpy: LegacyRandom,
        mean_s: f64,
        now_s: f64,
    },
    Sine(Sine),
    /// Of several adapters, and whose the last one was.
    OfAdapters(Box<AdapterCounts>, Option<AdapterId>),
    Times(std::vec::IntoIter<f64>),
}

/// The shape of the gaps of a renewal process, before scaling.
#[derive(Debug)]
pub(super) enum Gaps {
    Exponential,
    Gamma(Gamma<f64>),
    Weibull(Weibull<f64>),
}

impl Arrivals {
    /// The process of a configuration; `None` where a trace says when requests arrive.
    pub(super) fn open(
        config: &ArrivalConfig,
        count: usize,
        seed: Seed,
        tools: Tools,
    ) -> Result<Option<Self>, WorkloadError> {
        let renewal = |gaps, scale_s| Self::Renewal {
            gaps,
            scale_s,
            stream: Box::new(seed.stream("arrivals", 0)),
            now: SimTime::ZERO,
        };
        let refused = |what: &str| WorkloadError::Unusable(format!("arrivals: {what}"));
        Ok(Some(match *config {
            ArrivalConfig::AllAtOnce {} => Self::AllAtOnce,
            ArrivalConfig::Constant { rate_per_s } => Self::Constant { rate_per_s, sent: 0 },
            ArrivalConfig::Poisson { rate_per_s } => renewal(Gaps::Exponential, 1.0 / rate_per_s),
            ArrivalConfig::Gamma { rate_per_s, cv } => {
                let shape = 1.0 / (cv * cv);
                let gamma = Gamma::new(shape, 1.0)
                    .map_err(|_| refused(&format!("cv must be above 0, got {cv}")))?;
                renewal(Gaps::Gamma(gamma), 1.0 / (rate_per_s * shape))
            }
            ArrivalConfig::Weibull { rate_per_s, shape } => {
                let weibull = Weibull::new(1.0, shape)
                    .map_err(|_| refused(&format!("shape must be above 0, got {shape}")))?;
                let mean = stats::gamma(1.0 + 1.0 / shape);
                renewal(Gaps::Weibull(weibull), 1.0 / (rate_per_s * mean))
            }
            ArrivalConfig::Sine { rate_per_s, amplitude, period_s } => {
                let stream = Box::new(seed.stream("arrivals", 0));
                Self::Sine(Sine { rate_per_s, amplitude, period_s, stream, now_s: 0.0 })
            }
            ArrivalConfig::Sglang { rate_per_s } | ArrivalConfig::Vllm2024 { rate_per_s } => {
                Self::Sleeping { numpy: tools.numpy, mean_s: 1.0 / rate_per_s, now_s: 0.0 }
            }
            ArrivalConfig::Vllm { rate_per_s, burstiness, ramp_up } => {
                let rate = match (rate_per_s, ramp_up) {
                    (_, Some(ramp)) => VllmRate::Ramp(ramp),
                    (Some(rate_per_s), None) => VllmRate::Steady(rate_per_s),
                    (None, None) => return Err(refused("give rate_per_s or ramp_up")),
                };
                let mut numpy = tools.numpy;
                Self::Times(vllm_arrivals_s(rate, burstiness, count, &mut numpy).into_iter())
            }
            ArrivalConfig::AdapterCounts(ref counts) => {
                let arrivals = AdapterCounts::open(counts, count, seed, tools.seed)?;
                Self::OfAdapters(Box::new(arrivals), None)
            }
            ArrivalConfig::Trace(_) => return Ok(None),
        }))
    }

    /// The next arrival; `None` when a process of a fixed number of arrivals has given them all.
    pub(super) fn next(&mut self) -> Option<SimTime> {
        match self {
            Self::AllAtOnce => Some(SimTime::ZERO),
            Self::Constant { rate_per_s, sent } => {
                *sent += 1;
                Some(at(*sent as f64 / *rate_per_s))
            }
            Self::Renewal { gaps, scale_s, stream, now } => {
                let gap: f64 = match gaps {
                    Gaps::Exponential => Exp1.sample(stream),
                    Gaps::Gamma(gamma) => gamma.sample(stream),
                    Gaps::Weibull(weibull) => weibull.sample(stream),
                };
                *now += at(gap * *scale_s).since(SimTime::ZERO);
                Some(*now)
            }
            Self::Sleeping { numpy, mean_s, now_s } => {
                let arrival = at(*now_s);
                *now_s += numpy.exponential(*mean_s);
                Some(arrival)
            }
            Self::Sine(sine) => Some(at(sine.next_s())),
            Self::OfAdapters(arrivals, of) => {
                let (at_s, adapter) = arrivals.next()?;
                *of = Some(adapter);
                Some(at(at_s))
            }
            Self::Times(times) => times.next().map(at),
        }
    }
}

impl Arrivals {
    /// Whose the last arrival was, where arrivals are of adapters.
    pub(super) fn adapter(&self) -> Option<AdapterId> {
        match self {
            Self::OfAdapters(_, adapter) => *adapter,
            _ => None,
        }
    }
}

/// A moment in seconds; one so late that no run takes it, where the clock does not reach so far.
fn at(seconds: f64) -> SimTime {
    SimTime::from_secs_f64(seconds.min(2.0 * LATEST_S))
}

/// The rate of vLLM's client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum VllmRate {
    /// `--request-rate`, in requests per second.
    Steady(f64),
    /// `--ramp-up-strategy`.
    Ramp(RampUpConfig),
}

impl VllmRate {
    fn at(self, index: usize, count: usize) -> f64 {
        let ramp = match self {
            Self::Steady(rate_per_s) => return rate_per_s,
            Self::Ramp(ramp) => ramp,
        };
        let progress = index as f64 / count.saturating_sub(1).max(1) as f64;
        let (start, end) = (ramp.start_rate_per_s, ramp.end_rate_per_s);
        match ramp.strategy {
            RampUp::Linear => start + (end - start) * progress,
            RampUp::Exponential => start * (end / start).powf(progress),
        }
    }
}

/// The send times of `vllm bench serve` in seconds: cumulated gamma gaps of shape `burstiness`,
/// then, without a ramp, scaled so that the last is count / rate.
pub fn vllm_arrivals_s(
    rate: VllmRate,
    burstiness: f64,
    count: usize,
    numpy: &mut LegacyRandom,
) -> Vec<f64> {
    let mut now = 0.0;
    let mut times: Vec<f64> = (0..count)
        .map(|index| {
            let rate_per_s = rate.at(index, count);
            now += if burstiness.is_infinite() {
                1.0 / rate_per_s
            } else {
                numpy.gamma(burstiness, 1.0 / (rate_per_s * burstiness))
            };
            now
        })
        .collect();
    if let VllmRate::Steady(rate_per_s) = rate
        && now > 0.0
    {
        let factor = count as f64 / rate_per_s / now;
        for time in &mut times {
            *time *= factor;
        }
    }
    times
}

#[cfg(test)]
mod tests;
