//! Which adapter a request uses.

use rand::RngExt;

use crate::ids::AdapterId;
use crate::rng::Seed;
use crate::rng::Stream;
use crate::scenario::AdapterMix;
use crate::scenario::AdapterPopularity;
use crate::units::{SimDuration, SimTime};
use crate::workload::draft::AdapterName;
use crate::workload::draft::Draft;
use crate::workload::trace::WorkloadError;

/// Popularity that moves on.
#[derive(Debug, Clone, Copy)]
struct Drift {
    interval: SimDuration,
    shift: u64,
}

/// Assigns adapters to requests in order of arrival.
#[derive(Debug)]
pub(super) struct Adapters {
    count: u32,
    /// Cumulated shares, where they are drawn unequally.
    shares: Vec<f64>,
    in_turn: bool,
    drift: Option<Drift>,
    /// Names of adapters, where arrivals or a trace say who uses which.
    names: Option<Vec<String>>,
    stream: Box<Stream>,
}

impl Adapters {
    /// For at least one adapter.
    pub(super) fn new(mix: &AdapterMix, seed: Seed) -> Self {
        let count = mix.count();
        // Equal shares are drawn as whole numbers.
        let weights: Vec<f64> = match mix.popularity {
            AdapterPopularity::Uniform {} | AdapterPopularity::RoundRobin {} => Vec::new(),
            _ => mix.weights().unwrap_or_default(),
        };
        let is_given = mix.popularity == (AdapterPopularity::AsGiven {});
        let total: f64 = weights.iter().sum();
        let mut below = 0.0;
        let cumulated = weights.iter().map(|weight| {
            below += weight;
            below / total
        });
        Self {
            count,
            shares: cumulated.collect(),
            in_turn: matches!(mix.popularity, AdapterPopularity::RoundRobin {}),
            drift: mix.drift.map(|drift| Drift {
                interval: SimDuration::from_secs_f64(drift.interval_s),
                shift: u64::from(drift.shift),
            }),
            names: is_given.then(|| mix.names().collect()),
            stream: Box::new(seed.stream("adapters", 0)),
        }
    }

    /// The adapter of the `index`-th request.
    ///
    /// # Errors
    /// When a trace names an adapter that there is not.
    pub(super) fn next(&mut self, draft: &Draft, index: u64) -> Result<AdapterId, WorkloadError> {
        if let Some(names) = &self.names {
            return given(names, draft, index);
        }
        let drawn = self.drawn(index);
        Ok(self.moved(draft.arrival, drawn))
    }

    /// Who has the place of an adapter at this time.
    fn moved(&self, at: SimTime, adapter: AdapterId) -> AdapterId {
        let Some(drift) = self.drift else { return adapter };
        let intervals = at.as_nanos() / drift.interval.as_nanos();
        let count = u64::from(self.count);
        let moved = (intervals % count) * (drift.shift % count) + u64::from(adapter.0);
        AdapterId((moved % count) as u32)
    }

    fn drawn(&mut self, index: u64) -> AdapterId {
        if self.in_turn {
            return AdapterId((index % u64::from(self.count)) as u32);
        }
        if self.shares.is_empty() {
            return AdapterId(self.stream.random_range(0..self.count));
        }
        let uniform: f64 = self.stream.random();
        let chosen = self.shares.partition_point(|share| *share <= uniform);
        AdapterId((chosen as u32).min(self.count - 1))
    }
}

/// The adapter that a source of requests names: by its name, else by its number.
fn given(names: &[String], draft: &Draft, index: u64) -> Result<AdapterId, WorkloadError> {
    let unknown = |named: &str| {
        WorkloadError::Unusable(format!(
            "workload.adapters: request {index} uses the adapter `{named}`, which is none of them; \
             there are {} ({}{})",
            names.len(),
            names.iter().take(NAMED_MOST).cloned().collect::<Vec<_>>().join(", "),
            if names.len() > NAMED_MOST { ", …" } else { "" },
        ))
    };
    match &draft.adapter {
        Some(AdapterName::Number(id)) => Ok(*id),
        Some(AdapterName::Text(text)) => {
            let place = names.iter().position(|name| **name == **text);
            let by_number = || text.parse().ok().filter(|number| *number < names.len());
            let place = place.or_else(by_number).ok_or_else(|| unknown(text))?;
            Ok(AdapterId::from_index(place))
        }
        None => Err(unknown("")),
    }
}

/// Names that a message lists at most.
const NAMED_MOST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{AdapterKind, DriftConfig};

    fn counts(mix: &AdapterMix) -> Vec<u32> {
        let mut adapters = Adapters::new(mix, Seed(7));
        let mut counts = vec![0; mix.count() as usize];
        for index in 0..60_000 {
            counts[adapters.drawn(index).index()] += 1;
        }
        counts
    }

    fn kind(count: u32, weight: f64) -> AdapterKind {
        AdapterKind { count, weight, ..AdapterKind::of_rank(8) }
    }

    #[test]
    fn every_popularity_gives_each_adapter_its_share() {
        let shares = [
            (AdapterPopularity::Uniform {}, [1.0, 1.0, 1.0]),
            (AdapterPopularity::RoundRobin {}, [1.0, 1.0, 1.0]),
            (AdapterPopularity::Zipf { exponent: 1.0 }, [1.0, 0.5, 1.0 / 3.0]),
            (AdapterPopularity::Geometric { base: 2.0 }, [1.0, 0.5, 0.25]),
            (AdapterPopularity::Weights {}, [1.0, 1.0, 4.0]),
        ];
        for (popularity, shares) in shares {
            let total: f64 = shares.iter().sum();
            let kinds = vec![kind(2, 1.0), kind(1, 4.0)];
            let mix = AdapterMix { kinds, popularity, drift: None };
            for (count, share) in counts(&mix).into_iter().zip(shares) {
                let expected = 60_000.0 * share / total;
                // Five standard deviations at most.
                let bound = 5.0 * expected.sqrt();
                assert!((f64::from(count) - expected).abs() < bound, "{popularity:?}: {count}");
            }
        }
    }

    #[test]
    fn popularity_moves_on_at_each_interval_and_is_what_it_was_but_for_the_names() {
        let of = |drift| {
            let popularity = AdapterPopularity::Zipf { exponent: 1.0 };
            let mix = AdapterMix { kinds: vec![kind(5, 1.0)], popularity, drift };
            let mut adapters = Adapters::new(&mix, Seed(7));
            // A request every half second.
            let mut next = move |index: u64| {
                let arrival = SimTime::from_secs_f64(index as f64 / 2.0);
                let drawn = adapters.next(&Draft { arrival, ..Draft::default() }, index);
                drawn.expect("it is drawn").0
            };
            (0..2000).map(&mut next).collect::<Vec<u32>>()
        };
        let stays = of(None);
        let moves = of(Some(DriftConfig { interval_s: 10.0, shift: 3 }));
        for (index, (stays, moves)) in stays.iter().zip(moves).enumerate() {
            // Twenty requests in an interval; the first of the next comes at its beginning.
            let expected = (stays + 3 * (index as u32 / 20)) % 5;
            assert_eq!(moves, expected, "request {index}");
        }
        assert_eq!(
            of(Some(DriftConfig { interval_s: 10.0, shift: 5 })),
            stays,
            "all the way round"
        );
    }
}
