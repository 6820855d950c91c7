//! How often a request is tried, and how long the router waits between attempts.

use rand::RngExt;

use crate::rng::Stream;
use crate::units::SimDuration;

/// Thirty years: times add up.
const LONGEST_MS: u64 = 1_000_000_000_000;

/// The settings of retries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    /// Attempts, the first one too.
    pub(crate) attempts: u32,
    /// The first wait, in ms.
    pub(crate) initial_ms: u64,
    /// The longest wait, in ms.
    pub(crate) max_ms: u64,
    /// By how much it grows with each attempt.
    pub(crate) multiplier: f32,
    /// By which share of itself it is longer or shorter at most.
    pub(crate) jitter: f32,
}

impl Backoff {
    /// The wait after attempt `index`, counted from 0, without what is drawn; in ms.
    pub(crate) fn wait_ms(&self, index: u32) -> u64 {
        let grown = self.initial_ms as f64 * f64::from(self.multiplier).powi(index.cast_signed());
        (grown as u64).min(self.max_ms)
    }

    /// The wait after so many attempts have failed, at least one; `None` if that was the last one.
    pub(crate) fn draw(&self, failed: u32, stream: &mut Stream) -> Option<SimDuration> {
        if failed >= self.attempts {
            return None;
        }
        let wait = self.wait_ms(failed - 1);
        let share = self.jitter.max(0.0);
        let share = f64::from(stream.random_range(-share..=share));
        let drawn = wait.saturating_add_signed((wait as f64 * share).round() as i64);
        Some(SimDuration::from_millis(drawn.min(LONGEST_MS)))
    }

    /// The shortest and the longest wait there, in ms.
    pub(crate) fn bounds_ms(&self, index: u32) -> (u64, u64) {
        let wait = self.wait_ms(index);
        let most = (wait as f64 * f64::from(self.jitter.max(0.0))).round() as u64;
        (wait.saturating_sub(most), wait.saturating_add(most))
    }
}

/// Whether a request is tried again after such a status.
pub(crate) fn is_retried(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rng::Seed;

    #[test]
    fn waits_grow_to_their_limit() {
        let backoff =
            Backoff { attempts: 5, initial_ms: 50, max_ms: 200, multiplier: 1.5, jitter: 0.2 };
        // 50, 75, 112.5, 168.75, 253.1
        let waits: Vec<_> = (0..5).map(|index| backoff.wait_ms(index)).collect();
        assert_eq!(waits, [50, 75, 112, 168, 200]);
        assert_eq!(backoff.bounds_ms(0), (40, 60));
    }

    proptest! {
        #[test]
        fn a_wait_that_is_drawn_lies_within_its_bounds(
            attempts in 1_u32..8,
            initial_ms in 1_u64..1000,
            max_ms in 1_u64..u64::MAX,
            multiplier in 1.0_f32..5.0,
            jitter in 0.0_f32..1.0,
            seed: u64,
        ) {
            let backoff = Backoff { attempts, initial_ms, max_ms, multiplier, jitter };
            let mut stream = Seed(seed).stream("retries", 0);
            for failed in 1..attempts {
                let (shortest, longest) = backoff.bounds_ms(failed - 1);
                let drawn = backoff.draw(failed, &mut stream).expect("attempts are left");
                prop_assert!((shortest..=longest).contains(&(drawn.as_nanos() / 1_000_000)));
            }
            prop_assert_eq!(backoff.draw(attempts, &mut stream), None);
        }
    }

    #[test]
    fn waits_are_longer_as_often_as_shorter() {
        let backoff =
            Backoff { attempts: 2, initial_ms: 1000, max_ms: 5000, multiplier: 1.5, jitter: 0.2 };
        let mut stream = Seed(3).stream("retries", 0);
        let drawn = |_| backoff.draw(1, &mut stream).map_or(0, |wait| wait.as_nanos() / 1_000_000);
        // Uniform within 800 and 1200 ms: five standard deviations of the mean of 2000 are 13 ms.
        let mean = (0..2000).map(drawn).sum::<u64>() as f64 / 2000.0;
        assert!((mean - 1000.0).abs() < 13.0, "{mean}");
    }
}
