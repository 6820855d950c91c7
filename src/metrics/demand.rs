//! What a run asked of its replicas.

use crate::engine::Finish;
use crate::request::Request;
use crate::resolved::{Demand, Scenario};
use crate::sim::{Observer, Occurrence};
use crate::units::SimTime;

/// From the least to the most of something, once there is one.
type Range<T> = Option<[T; 2]>;

/// The observer of what requests ask.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Demanded {
    arrivals: Range<SimTime>,
    /// When the engines had answered them.
    ends: Range<SimTime>,
    served: u64,
    /// Of all that were served.
    prompt_tokens: u64,
    output_tokens: u64,
}

impl Demanded {
    /// The next request arrives.
    #[inline]
    pub(super) fn add(&mut self, request: &Request) {
        self.arrivals = joined(self.arrivals, Some([request.arrival; 2]));
    }

    /// Adds what another saw.
    pub(super) fn join(&mut self, other: Self) {
        self.arrivals = joined(self.arrivals, other.arrivals);
        self.ends = joined(self.ends, other.ends);
        self.served += other.served;
        self.prompt_tokens += other.prompt_tokens;
        self.output_tokens += other.output_tokens;
    }

    /// What was asked of the replicas of a scenario; nothing where none was answered.
    pub(super) fn of(&self, scenario: &Scenario) -> Option<Demand> {
        let rate = scenario.replicas_that_share().zip(self.rate_per_s());
        let rate = rate.map(|(replicas, rate)| rate / f64::from(replicas));
        let mean = |tokens: u64| [tokens as f64 / self.served as f64; 2];
        (self.served > 0).then(|| Demand {
            requests_per_s_per_replica: rate.map(|rate| [rate; 2]),
            prompt_tokens: mean(self.prompt_tokens),
            output_tokens: mean(self.output_tokens),
        })
    }

    /// Requests per second that were served: as fast as they came or as they were answered, whatever is slower. Of
    /// those that come all at once the first answer is waited for too.
    fn rate_per_s(&self) -> Option<f64> {
        let ([first, last], [first_end, last_end]) = (self.arrivals?, self.ends?);
        let (gaps, time) = if first == last {
            (self.served, last_end - first)
        } else {
            (self.served - 1, (last - first).max(last_end - first_end))
        };
        let seconds = time.as_secs_f64();
        (gaps > 0 && seconds > 0.0).then(|| gaps as f64 / seconds)
    }
}

impl Observer for Demanded {
    #[inline]
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        if let Occurrence::Left(_, life, Finish::Done) = what {
            self.ends = joined(self.ends, Some([at; 2]));
            self.served += 1;
            self.prompt_tokens += u64::from(life.prompt_tokens);
            self.output_tokens += u64::from(life.generated);
        }
    }
}

#[inline]
fn joined<T: Ord + Copy>(one: Range<T>, other: Range<T>) -> Range<T> {
    match (one, other) {
        (Some([a, b]), Some([c, d])) => Some([a.min(c), b.max(d)]),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(arrivals: [u64; 2], ends: [u64; 2], served: u64) -> Demanded {
        let range = |range: [u64; 2]| Some(range.map(|s| SimTime::from_secs_f64(s as f64)));
        Demanded { arrivals: range(arrivals), ends: range(ends), served, ..Demanded::default() }
    }

    #[test]
    fn the_rate_is_that_of_what_was_served() {
        // As they came: 60 gaps in 10 s, answered over 8 s.
        assert_eq!(seen([0, 10], [3, 11], 61).rate_per_s(), Some(6.0));
        // More came than were served: 60 gaps over 30 s.
        assert_eq!(seen([0, 10], [2, 32], 61).rate_per_s(), Some(2.0));
        // All at once, and answered in one step.
        assert_eq!(seen([1, 1], [5, 5], 8).rate_per_s(), Some(2.0));
        // One alone has no rate among others that were not answered.
        assert_eq!(seen([0, 10], [3, 3], 1).rate_per_s(), None);
        assert_eq!(Demanded::default().rate_per_s(), None);
    }
}
