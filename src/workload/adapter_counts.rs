//! Arrivals of adapters by hourly counts, as dLoRA's workload generator makes them of the Azure
//! Functions traces (LLMServe/dLoRA-artifact, `vllm/workload_generator/trace.py`).
//!
//! Each adapter is a renewal process with gamma gaps, at its share of the total rate. With a shared
//! stream its gaps are drawn from numpy's generator, seeded anew for each adapter: as many at once as
//! 72 minutes would need at a rate per minute, further ones from the generator as the last adapter left
//! it. What is left out: the times of calls within an hour, which that generator does not look at
//! either.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::distr::Distribution;
use rand_distr::Gamma;

use crate::ids::AdapterId;
use crate::rng::Seed;
use crate::rng::Stream;
use crate::scenario::AdapterCountsConfig;
use crate::scenario::AdapterStreams;
use crate::workload::numpy::LegacyRandom;
use crate::workload::trace::WorkloadError;

/// Gaps drawn at once for each request per second: dLoRA draws for an hour in minutes and a fifth more.
const BATCH: f64 = 60.0 * 1.2;

/// Arrivals of several adapters, in order, that never end by themselves.
#[derive(Debug)]
pub struct AdapterCounts {
    config: AdapterCountsConfig,
    /// The gaps of a rate of `shape` per second.
    gamma: Gamma<f64>,
    shape: f64,
    seed: Seed,
    tool_seed: u32,
    /// Requests of an hour, and those left of the present one.
    of_hour: u64,
    left: u64,
    hour: usize,
    now_s: f64,
    next: BinaryHeap<Reverse<Next>>,
    gaps: Vec<Gaps>,
    /// numpy's generator, as the adapter that drew last left it.
    numpy: LegacyRandom,
}

/// The next arrival of an adapter; of equal ones that of the adapter with the smaller number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Next {
    at_s: f64,
    adapter: u32,
}

impl Eq for Next {}
impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Next {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at_s.total_cmp(&other.at_s).then(self.adapter.cmp(&other.adapter))
    }
}

/// The gaps of one adapter.
#[derive(Debug)]
struct Gaps {
    scale_s: f64,
    source: GapSource,
}

#[derive(Debug)]
enum GapSource {
    Own(Box<Stream>),
    Numpy { drawn: std::vec::IntoIter<f64>, batch: usize },
}

impl AdapterCounts {
    /// The arrivals of a configuration, `count` of them in all its hours together where there are
    /// several hours.
    ///
    /// # Errors
    /// When gaps of this variation cannot be drawn.
    pub fn open(
        config: &AdapterCountsConfig,
        count: usize,
        seed: Seed,
        tool_seed: u32,
    ) -> Result<Self, WorkloadError> {
        let hours = config.hourly_counts.len() as u64;
        let cv = config.cv;
        let shape = 1.0 / (cv * cv);
        let refused =
            |_| WorkloadError::Unusable(format!("arrivals.cv: must be above 0, got {cv}"));
        let of_hour = if hours > 1 { count as u64 / hours } else { u64::MAX };
        let mut arrivals = Self {
            config: config.clone(),
            gamma: Gamma::new(shape, 1.0).map_err(refused)?,
            shape,
            seed,
            tool_seed,
            of_hour,
            left: of_hour,
            hour: 0,
            now_s: 0.0,
            next: BinaryHeap::new(),
            gaps: Vec::new(),
            numpy: LegacyRandom::new(tool_seed),
        };
        arrivals.begin_hour();
        Ok(arrivals)
    }

    /// Draws when an adapter is called next.
    fn expect(&mut self, adapter: u32) {
        let gaps = &mut self.gaps[adapter as usize];
        let at_s = self.now_s + gaps.next((self.gamma, self.shape), &mut self.numpy);
        self.next.push(Reverse(Next { at_s, adapter }));
    }

    fn begin_hour(&mut self) {
        let counts = self.config.hourly_counts[self.hour].clone();
        let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
        let (cv, rate_per_s) = (self.config.cv, self.config.rate_per_s);
        self.next.clear();
        self.gaps.clear();
        for (adapter, count) in (0_u32..).zip(&counts) {
            let share_per_s = rate_per_s * f64::from(*count) / total;
            let source = match self.config.streams {
                AdapterStreams::SharedStream => {
                    let batch = ((share_per_s * BATCH) as usize).max(1);
                    GapSource::Numpy { drawn: Vec::new().into_iter(), batch }
                }
                AdapterStreams::Independent => {
                    let place = (self.hour * counts.len()) as u64 + u64::from(adapter);
                    GapSource::Own(Box::new(self.seed.stream("adapter arrivals", place)))
                }
            };
            self.gaps.push(Gaps { scale_s: cv * cv / share_per_s, source });
            if *count > 0 {
                self.numpy = LegacyRandom::new(self.tool_seed);
                self.expect(adapter);
            }
        }
    }
}

/// Arrivals in seconds, and whose they are.
impl Iterator for AdapterCounts {
    type Item = (f64, AdapterId);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 && self.hour + 1 < self.config.hourly_counts.len() {
            self.hour += 1;
            self.left = self.of_hour;
            self.begin_hour();
        }
        let Reverse(Next { at_s, adapter }) = self.next.pop()?;
        self.left = self.left.saturating_sub(1);
        self.now_s = at_s;
        self.expect(adapter);
        Some((self.now_s, AdapterId(adapter)))
    }
}

impl Gaps {
    /// The next gap in seconds.
    fn next(&mut self, (gamma, shape): (Gamma<f64>, f64), numpy: &mut LegacyRandom) -> f64 {
        match &mut self.source {
            GapSource::Own(stream) => gamma.sample(stream) * self.scale_s,
            GapSource::Numpy { drawn, batch } => {
                if let Some(gap) = drawn.next() {
                    return gap;
                }
                let scale_s = self.scale_s;
                let gaps: Vec<f64> = (0..*batch).map(|_| numpy.gamma(shape, scale_s)).collect();
                *drawn = gaps.into_iter();
                drawn.next().expect("a batch has a gap")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(counts: &[&[u32]], cv: f64, streams: AdapterStreams) -> AdapterCounts {
        let config = AdapterCountsConfig {
            rate_per_s: 4.0,
            cv,
            hourly_counts: counts.iter().map(|hour| hour.to_vec()).collect(),
            streams,
        };
        AdapterCounts::open(&config, 1000, Seed(3), 0).expect("it can be drawn")
    }

    fn drawn(arrivals: &mut AdapterCounts, count: usize) -> Vec<(f64, AdapterId)> {
        arrivals.take(count).collect()
    }

    fn of_each(drawn: &[(f64, AdapterId)], adapters: usize) -> Vec<u32> {
        let mut counts = vec![0; adapters];
        for (_, adapter) in drawn {
            counts[adapter.index()] += 1;
        }
        counts
    }

    #[test]
    fn the_published_counts_and_the_last_arrival_come_out_of_the_hourly_counts() {
        let mut of = arrivals(&[&[111, 159, 58, 291]], 1.0, AdapterStreams::SharedStream);
        let drawn = drawn(&mut of, 1000);
        assert_eq!(of_each(&drawn, 4), [189, 253, 89, 469]);
        assert_eq!(drawn[999].0.to_bits(), 250.504_618_736_935_1_f64.to_bits());
    }

    #[test]
    fn a_shared_stream_gives_every_adapter_the_same_gaps_by_its_rate() {
        let mut of = arrivals(&[&[1, 3]], 2.0, AdapterStreams::SharedStream);
        let drawn = drawn(&mut of, 40);
        let times = |wanted: u32| drawn.iter().filter(move |one| one.1 == AdapterId(wanted));
        for (slow, fast) in times(0).zip(times(1)) {
            assert!((slow.0 / fast.0 - 3.0).abs() < 1e-9, "{slow:?} {fast:?}");
        }
    }

    #[test]
    fn rates_shares_and_variation_are_those_asked_for() {
        for cv in [0.5, 1.0, 2.0] {
            let mut of = arrivals(&[&[1, 0, 4]], cv, AdapterStreams::Independent);
            let drawn = drawn(&mut of, 200_000);
            let counts = of_each(&drawn, 3);
            let share = f64::from(counts[0]) / 200_000.0;
            assert!(counts[1] == 0 && (share - 0.2).abs() < 0.02, "{counts:?}");
            assert!((200_000.0 / drawn[199_999].0 / 4.0 - 1.0).abs() < 0.03);
            let times: Vec<f64> =
                drawn.iter().filter(|one| one.1 == AdapterId(2)).map(|one| one.0).collect();
            let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
            let of_gaps = (square / gaps.len() as f64).sqrt() / mean;
            assert!((of_gaps / cv - 1.0).abs() < 0.03, "{of_gaps} is not {cv}");
        }
    }

    #[test]
    fn hours_give_equal_numbers_of_requests_one_after_the_other() {
        for streams in [AdapterStreams::Independent, AdapterStreams::SharedStream] {
            let mut of = arrivals(&[&[1, 0], &[0, 1]], 1.0, streams);
            let drawn = drawn(&mut of, 1000);
            assert_eq!(of_each(&drawn[..500], 2), [500, 0]);
            assert_eq!(of_each(&drawn[500..], 2), [0, 500]);
            assert!(drawn.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        }
    }
}
