//! Rules that scenarios keep or break.

use crate::problem::Problem;
use crate::units::SimDuration;

/// Thirty years.
pub(super) const LONGEST_S: f64 = 1e9;
/// What a step or a request may take apart from others.
const BRIEF_S: f64 = 1e3;

/// Collects broken rules.
pub(super) struct Rules {
    pub(super) problems: Vec<Problem>,
}

impl Rules {
    pub(super) fn broken(&mut self, path: &str, message: &str) {
        self.problems.push(Problem::new(path, message));
    }

    pub(super) fn check(
        &mut self,
        holds: bool,
        path: &str,
        rule: &str,
        value: impl std::fmt::Display,
    ) {
        if !holds {
            self.problems.push(Problem::must_be(path, rule, value));
        }
    }

    pub(super) fn letters(&mut self, path: &str, text: &str, most: usize) {
        let (count, rule) = (text.chars().count(), format!("of at most {most} characters"));
        self.check(count <= most, path, &rule, count);
    }

    pub(super) fn count(&mut self, path: &str, value: u32) {
        self.check(value >= 1, path, "at least 1", value);
    }

    pub(super) fn positive(&mut self, path: &str, value: f64) {
        self.check(value > 0.0 && value.is_finite(), path, "a finite number above 0", value);
    }

    pub(super) fn not_negative(&mut self, path: &str, value: f64) {
        self.check(value >= 0.0 && value.is_finite(), path, "a finite number of at least 0", value);
    }

    /// A factor of a time, small enough that the product fits the clock.
    pub(super) fn factor(&mut self, path: &str, value: f64) {
        self.check((0.0..=1e3).contains(&value), path, "a factor from 0 to 1000", value);
    }

    /// A time, in a unit of which a second has so many, that fits the clock together with others.
    pub(super) fn time(&mut self, path: &str, value: f64, per_second: f64) {
        let holds = value >= 0.0 && value / per_second <= LONGEST_S;
        self.check(holds, path, "a time from 0 to 10⁹ seconds", value);
    }

    /// The same for what comes with every step or request: many of them have to fit the clock.
    pub(super) fn brief(&mut self, path: &str, value: f64, per_second: f64) {
        let holds = value >= 0.0 && value / per_second <= BRIEF_S;
        self.check(holds, path, "a time from 0 to 1000 seconds", value);
    }

    /// The same for what takes time, in seconds.
    pub(super) fn lasting(&mut self, path: &str, seconds: f64) {
        let span = SimDuration::try_from_secs_f64(seconds);
        let holds = seconds <= LONGEST_S && span.is_some_and(|span| span.as_nanos() > 0);
        self.check(holds, path, "a time above 0 and up to 10⁹ seconds", seconds);
    }

    /// What a NIC carries, in GB/s.
    pub(super) fn nic(&mut self, path: &str, gb_per_s: f64) {
        let holds = gb_per_s * 1e9 >= 1.0 && gb_per_s.is_finite();
        self.check(holds, path, "a finite rate of 1 byte/s at least", gb_per_s);
    }

    /// What comes from memory or disk, in GB/s.
    pub(super) fn carried(&mut self, path: &str, gb_per_s: f64) {
        let holds = gb_per_s * 1e9 >= 1e3 && gb_per_s.is_finite();
        self.check(holds, path, "a finite rate of 1 kB/s at least", gb_per_s);
    }

    /// How much of a peak is reached; fits may find a little more than all of it.
    pub(super) fn efficiency(&mut self, path: &str, value: f64) {
        self.check((1e-3..=10.0).contains(&value), path, "between 0.001 and 10", value);
    }

    pub(super) fn share(&mut self, path: &str, value: f64) {
        self.check(value > 0.0 && value <= 1.0, path, "above 0 and at most 1", value);
    }
}
