//! Whether what servers tell of each other holds.
//!
//! Servers of one source may share a host, or nothing at all. A fit to runs of several servers is tried on themselves: each
//! is predicted by a fit to the others. If that errs more of any kind of figure than what was expected before, these servers
//! tell nothing of each other, and less of one that nobody measured.

use super::observation::noise;
use crate::metrics::bench::{Figure, Latency, MetricKey};
use crate::stats::{mean, sample_std_dev};

/// Log ratio at which a figure counts half of what one that is off by any factor does: twice the 25 % by which servers
/// differ, as where [`strangers`](super::strangers) are doubted.
const UNLIKE: f64 = 0.5;

/// Kinds of figures that are judged apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of runs, or of whole requests.
    Durations,
    FirstTokens,
    NextTokens,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Durations, Self::FirstTokens, Self::NextTokens];

    /// Nothing of what no fit looks at.
    fn of(key: MetricKey) -> Option<Self> {
        match key {
            MetricKey::Figure(Figure::Duration) | MetricKey::Latency(Latency::E2e, _) => {
                Some(Self::Durations)
            }
            MetricKey::Latency(Latency::Ttft, _) => Some(Self::FirstTokens),
            MetricKey::Latency(Latency::Tpot | Latency::Itl, _) => Some(Self::NextTokens),
            MetricKey::Figure(_) => None,
        }
    }
}

/// A figure of a server that took no part in a fit: measured, as it was predicted before the fit, and after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Predicted {
    pub(super) key: MetricKey,
    pub(super) measured: f64,
    pub(super) before: f64,
    pub(super) after: f64,
}

impl Predicted {
    /// By how much further off it is after the fit. What repetitions differ by is no error.
    fn worse(&self) -> f64 {
        let by_chance = noise(self.key).unwrap_or_default();
        let off = |value: f64| {
            let ratio = (value / self.measured).ln().abs().max(by_chance);
            ratio / (1.0 + ratio / UNLIKE)
        };
        off(self.after) - off(self.before)
    }
}

/// Whether servers that took no part in a fit are predicted better than before it; `servers` has the figures of each, two or
/// more. No kind of figure may be worse at the mean over the servers, and all together must be better by half a standard error,
/// as few servers do not tell more (as where `profiles/fit_priors.py` takes factors).
pub(super) fn holds(servers: &[Vec<Predicted>]) -> bool {
    debug_assert!(servers.len() > 1, "one server tells nothing of others");
    let of_server = |figures: &Vec<Predicted>, kind: Kind| -> Option<f64> {
        let of_kind = figures.iter().filter(|one| Kind::of(one.key) == Some(kind));
        let worse: Vec<f64> = of_kind.map(Predicted::worse).collect();
        (!worse.is_empty()).then(|| mean(&worse))
    };
    let is_worse = |kind: Kind| {
        let of_kind = servers.iter().filter_map(|figures| of_server(figures, kind));
        mean(&of_kind.collect::<Vec<_>>()) > 0.0
    };
    let of_all = |figures: &Vec<Predicted>| -> f64 {
        Kind::ALL.into_iter().filter_map(|kind| of_server(figures, kind)).sum()
    };
    let all: Vec<f64> = servers.iter().map(of_all).collect();
    let standard_error = sample_std_dev(&all) / (all.len() as f64).sqrt();
    mean(&all) + standard_error / 2.0 <= 0.0 && !Kind::ALL.into_iter().any(is_worse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predicted(name: &str, before: f64, after: f64) -> Predicted {
        let key = MetricKey::parse(name).expect("it is a figure");
        Predicted { key, measured: 10.0, before, after }
    }

    /// Of two servers that are off alike.
    fn both(figures: &[Predicted]) -> bool {
        holds(&[figures.to_vec(), figures.to_vec()])
    }

    #[test]
    fn what_brings_every_kind_nearer_holds() {
        let nearer =
            vec![predicted("mean_ttft_ms", 5.0, 8.0), predicted("mean_tpot_ms", 14.0, 11.0)];
        assert!(both(&nearer));
        assert!(both(&[]), "nobody says otherwise");
    }

    #[test]
    fn what_brings_one_kind_further_away_does_not() {
        let further = predicted("mean_ttft_ms", 9.0, 7.0);
        assert!(!both(&[further, predicted("mean_tpot_ms", 20.0, 10.0)]));
        assert!(!both(&[predicted("mean_e2el_ms", 9.0, 7.0)]));
        // Of the mean over servers: others that gain more make up for it.
        let mut servers = vec![vec![predicted("p99_ttft_ms", 20.0, 11.0)]; 3];
        servers.push(vec![further]);
        assert!(holds(&servers));
    }

    #[test]
    fn a_gain_that_chance_may_have_made_does_not_hold() {
        let gain = vec![predicted("mean_ttft_ms", 14.0, 10.0)];
        let loss = vec![predicted("mean_ttft_ms", 10.0, 13.0)];
        assert!(!holds(&[gain.clone(), loss]));
        assert!(both(&gain));
    }

    #[test]
    fn what_repetitions_differ_by_is_no_error() {
        // 1 % of a duration.
        assert!(both(&[predicted("duration", 10.01, 10.09)]));
        assert!(!both(&[predicted("duration", 10.01, 10.19)]));
    }

    #[test]
    fn each_server_counts_once() {
        let nearer = vec![predicted("mean_ttft_ms", 8.0, 9.0)];
        let further = vec![predicted("mean_ttft_ms", 9.5, 8.0); 9];
        assert!(!holds(&[nearer.clone(), further.clone()]));
        let mut servers = vec![nearer; 6];
        servers.push(further);
        assert!(holds(&servers), "9 figures of one beside 6 of others");
    }

    #[test]
    fn one_that_is_far_off_counts_little_but_further_off_is_worse() {
        // From a hundredth to a fiftieth of what was measured is less of a gain than 5 % are of a loss near it.
        let gain = vec![predicted("mean_ttft_ms", 0.1, 0.2)];
        assert!(!holds(&[gain, vec![predicted("mean_ttft_ms", 9.5, 9.0)]]));
        // From a factor of 1.8 to one of 20.
        assert!(!both(&[predicted("mean_ttft_ms", 18.0, 200.0)]));
    }
}
