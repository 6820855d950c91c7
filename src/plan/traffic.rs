//! The requests of a plan, drawn once.

use std::sync::Arc;

use super::PlanError;
use crate::request::Request;
use crate::rng::Stream;
use crate::units::{SimDuration, SimTime};
use crate::workload::{Workload, resample};

/// Requests in order of arrival.
#[derive(Debug, Clone)]
pub struct Traffic {
    requests: Arc<[Request]>,
}

impl Traffic {
    /// All requests of a workload.
    ///
    /// # Errors
    /// When they cannot be drawn, follow answers, or come all at once.
    pub fn draw(workload: Workload) -> Result<Self, PlanError> {
        if workload.has_follow_ups() {
            return Err(PlanError::Closed("sessions"));
        }
        Self::of(workload.collect::<Result<Vec<_>, _>>()?)
    }

    /// These requests, in order of arrival.
    ///
    /// # Errors
    /// When they come all at once.
    pub fn of(requests: Vec<Request>) -> Result<Self, PlanError> {
        let traffic = Self { requests: requests.into() };
        if traffic.span() == SimDuration::ZERO {
            return Err(PlanError::AtOnce(traffic.len()));
        }
        Ok(traffic)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The requests.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// From the first arrival to the last.
    pub fn span(&self) -> SimDuration {
        match (self.requests.first(), self.requests.last()) {
            (Some(first), Some(last)) => last.arrival - first.arrival,
            _ => SimDuration::ZERO,
        }
    }

    /// Requests per second, from the first arrival to the last.
    pub fn rate_per_s(&self) -> f64 {
        (self.len() - 1) as f64 / self.span().as_secs_f64()
    }

    /// The same requests, `factor` times as fast.
    pub fn at(&self, factor: f64) -> impl Iterator<Item = Request> + Send + use<> {
        let requests = self.requests.clone();
        (0..requests.len()).map(move |place| {
            let mut request = requests[place].clone();
            request.arrival = SimTime::from_secs_f64(request.arrival.as_secs_f64() / factor);
            request
        })
    }

    /// Another stretch of time that could have been this one ([`resample`]). What is repeated shares no cache with its
    /// first time.
    /// Nothing where what was drawn comes at one moment.
    pub fn resampled(&self, blocks: u32, stream: &mut Stream) -> Option<Self> {
        let mut all = Vec::with_capacity(self.len());
        let time = |request: &Request| request.arrival;
        resample(&self.requests, time, (blocks, stream), |request, at, before| {
            let mut request = request.clone();
            request.arrival = at;
            if before > 0 {
                request.content.salt ^= crate::rng::mix(before);
            }
            all.push(request);
        });
        Self::of(all).ok()
    }

    /// The rate in each window of this width, and how long it lasts in seconds: the last one is up to twice
    /// as long, so that none is short.
    pub fn windows(&self, width: SimDuration) -> Vec<(f64, f64)> {
        let Some(first) = self.requests.first() else { return Vec::new() };
        let windows = (self.span().as_nanos() / width.as_nanos().max(1)).max(1);
        let mut counts = vec![0_u64; windows as usize];
        for request in &*self.requests {
            let window = (request.arrival - first.arrival).as_nanos() / width.as_nanos().max(1);
            counts[window.min(windows - 1) as usize] += 1;
        }
        let width_s = width.as_secs_f64();
        let last_s = self.span().as_secs_f64() - (windows - 1) as f64 * width_s;
        let lasts_s = |window: usize| if window + 1 == windows as usize { last_s } else { width_s };
        let counts = counts.into_iter().enumerate();
        counts.map(|(window, count)| (count as f64 / lasts_s(window), lasts_s(window))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    fn every_second(count: u64) -> Traffic {
        let request =
            |second| Request::new(SimTime::ZERO + SimDuration::from_millis(1000 * second), 8, 4);
        Traffic::of((0..count).map(request).collect()).expect("they take time")
    }

    #[test]
    fn the_rate_is_that_of_the_gaps_and_scales() {
        let traffic = every_second(11);
        assert!((traffic.rate_per_s() - 1.0).abs() < 1e-12);
        let twice: Vec<Request> = traffic.at(2.0).collect();
        assert_eq!(twice[10].arrival, SimTime::from_secs_f64(5.0));
        assert_eq!(twice.len(), 11);
    }

    #[test]
    fn another_stretch_has_blocks_of_this_one_in_order_of_time() {
        let traffic = every_second(1000);
        let mut stream = Seed(7).stream("resample", 0);
        let other = traffic.resampled(20, &mut stream).expect("it takes time");
        assert!(other.requests().is_sorted_by_key(|request| request.arrival));
        // Blocks of 50 or 51 requests each.
        assert!((950..=1050).contains(&other.len()), "{}", other.len());
        let salted = other.requests().iter().filter(|request| request.content.salt != 0).count();
        assert!(salted > 0 && salted < other.len(), "{salted} are repeated");
    }

    #[test]
    fn windows_count_all() {
        let traffic = every_second(25);
        let windows = traffic.windows(SimDuration::from_millis(10_000));
        // Of 24 seconds, the second window has those from the tenth on.
        assert_eq!(windows.len(), 2);
        let counted: f64 = windows.iter().map(|(rate, lasts_s)| rate * lasts_s).sum();
        assert!((counted - 25.0).abs() < 1e-9, "{windows:?}");
        assert_eq!(traffic.windows(SimDuration::from_millis(100_000)).len(), 1);
    }
}
