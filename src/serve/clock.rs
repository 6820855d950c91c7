//! Simulated time beside the clock on the wall.

use std::time::{Duration, Instant};

use crate::units::SimTime;

/// The instant on the wall.
#[expect(clippy::disallowed_methods, reason = "a server keeps the time of its clients")]
pub(super) fn wall() -> Instant {
    Instant::now()
}

/// How simulated time follows the clock on the wall: so many times as fast, from a moment on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    wall: Instant,
    at: SimTime,
    speed: f64,
}

impl Clock {
    /// Slower and faster than this is refused.
    pub(super) const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=100_000.0;
    /// It stops after 507 years: what begins by then ends within the 584 years of simulated time.
    pub(super) const LATEST: SimTime = SimTime::from_nanos(16_000_000_000_000_000_000);

    /// Time zero is now.
    pub(super) fn start(speed: f64) -> Self {
        Self { wall: wall(), at: SimTime::ZERO, speed }
    }

    pub(super) fn speed(&self) -> f64 {
        self.speed
    }

    /// The simulated time now.
    pub(super) fn now(&self) -> SimTime {
        self.at(wall())
    }

    /// The simulated time at an instant; none is before the clock was set.
    pub(super) fn at(&self, wall: Instant) -> SimTime {
        let passed = wall.saturating_duration_since(self.wall);
        let passed = (passed.as_nanos() as f64 * self.speed) as u64;
        SimTime::from_nanos(self.at.as_nanos().saturating_add(passed)).min(Self::LATEST)
    }

    /// The instant at which it is that time.
    pub(super) fn wall_at(&self, at: SimTime) -> Instant {
        let ahead = at.saturating_since(self.at).as_nanos() as f64 / self.speed;
        // Ten years are far enough away, and within what an instant holds.
        self.wall + Duration::from_nanos((ahead as u64).min(315_360_000_000_000_000))
    }

    /// It is `at` now, and from now on time goes by so fast.
    pub(super) fn set(&mut self, at: SimTime, speed: f64) {
        *self = Self { wall: wall(), at, speed };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_the_same_time_at_any_speed() {
        for speed in [0.001, 1.0, 20.0, 100_000.0] {
            let clock = Clock::start(speed);
            for at in [0.0, 1e-3, 12.5, 86_400.0].map(SimTime::from_secs_f64) {
                let back = clock.at(clock.wall_at(at));
                let tick = (2.0 * speed).max(2.0);
                let off = back.as_nanos().abs_diff(at.as_nanos()) as f64;
                assert!(off <= tick + 1e-9 * at.as_nanos() as f64, "{at} at {speed}: {back}");
            }
        }
    }

    #[test]
    fn a_change_of_speed_moves_no_time() {
        let mut clock = Clock::start(1000.0);
        let before = clock.now();
        clock.set(before, 0.001);
        let after = clock.now();
        assert!(after >= before);
        assert!((after - before).as_secs_f64() < 10_000.0 * 1e-3 + 10.0);
        assert!((clock.now() - after).as_secs_f64() < 0.1);
    }

    #[test]
    fn time_stops_before_it_overflows() {
        let mut clock = Clock::start(1.0);
        clock.set(SimTime::from_nanos(Clock::LATEST.as_nanos() - 1), 100_000.0);
        assert_eq!(clock.at(wall() + Duration::from_hours(1_000)), Clock::LATEST);
        let left = SimTime::MAX - Clock::LATEST;
        assert!(left.as_secs_f64() > 2e9, "a fault of 1e9 s that begins 1e9 s later");
    }
}
