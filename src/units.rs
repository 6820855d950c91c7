//! Quantities with units: simulated time in integer nanoseconds, memory in bytes, rates.
//!
//! Time never touches a float between events: durations are added as integers, so that a run is
//! the same on every machine. `f64` appears at two edges only, where a cost model or a random
//! draw becomes a duration ([`SimDuration::from_secs_f64`]) and where a report prints one.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

use serde::{Deserialize, Serialize};

/// An instant of the simulation: nanoseconds since the start of the run. 64 bits last 584 years.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SimTime(u64);

/// A span of simulated time in nanoseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SimDuration(u64);

const NANOS_PER_SEC: f64 = 1e9;

impl SimTime {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than every event of any run.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `secs` seconds after the start.
    ///
    /// # Panics
    /// When `secs` is negative, not finite, or beyond 584 years.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self(SimDuration::from_secs_f64(secs).0)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC
    }

    /// The span since another time, nothing if that is later.
    #[inline]
    pub const fn saturating_since(self, other: Self) -> SimDuration {
        SimDuration(self.0.saturating_sub(other.0))
    }

    /// The span from `earlier` to `self`.
    ///
    /// # Panics
    /// When `earlier` is later than `self`: time never decreases.
    pub fn since(self, earlier: Self) -> SimDuration {
        self - earlier
    }
}

impl SimDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A span of `secs` seconds, rounded to the nearest nanosecond; `None` when `secs` is
    /// negative, not finite, or beyond 584 years.
    #[inline]
    pub fn try_from_secs_f64(secs: f64) -> Option<Self> {
        const WHOLE: f64 = (1_u64 << 52) as f64;
        let nanos = secs * NANOS_PER_SEC;
        if (0.0..WHOLE / 2.0).contains(&nanos) {
            // `f64::round` without its call: from 2^52 on floats are whole, and so is a sum with it, which is
            // rounded to an even number in the middle of two.
            let sum = nanos + WHOLE;
            let whole = sum.to_bits() & ((1 << 52) - 1);
            return Some(Self(whole + u64::from(nanos - (sum - WHOLE) >= 0.5)));
        }
        (nanos >= 0.0 && nanos < u64::MAX as f64).then(|| Self(nanos.round() as u64))
    }

    /// A span of `secs` seconds, rounded to the nearest nanosecond. The only place where a float
    /// becomes time.
    ///
    /// # Panics
    /// When `secs` is negative, not finite, or beyond 584 years.
    #[inline]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self::try_from_secs_f64(secs)
            .unwrap_or_else(|| panic!("a duration must be finite and not negative, got {secs} s"))
    }

    /// Nanoseconds in this span.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds in this span.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC
    }

    /// Milliseconds in this span.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add<SimDuration> for SimTime {
    type Output = Self;
    fn add(self, span: SimDuration) -> Self {
        Self(self.0 + span.0)
    }
}

impl AddAssign<SimDuration> for SimTime {
    fn add_assign(&mut self, span: SimDuration) {
        self.0 += span.0;
    }
}

impl Sub for SimTime {
    type Output = SimDuration;
    fn sub(self, earlier: Self) -> SimDuration {
        SimDuration(self.0 - earlier.0)
    }
}

impl Add for SimDuration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for SimDuration {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Mul<u64> for SimDuration {
    type Output = Self;
    fn mul(self, count: u64) -> Self {
        Self(self.0 * count)
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", self.as_secs_f64())
    }
}

impl fmt::Display for SimDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000_000 => write!(f, "{:.1} µs", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.3} ms", self.as_millis_f64()),
            _ => write!(f, "{:.3} s", self.as_secs_f64()),
        }
    }
}

/// An amount of memory in bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `gib` × 2³⁰ bytes, rounded down.
    pub fn from_gib(gib: f64) -> Self {
        Self((gib * f64::from(1 << 30)) as u64)
    }

    /// This amount in GiB (2³⁰ bytes).
    pub fn as_gib(self) -> f64 {
        self.0 as f64 / f64::from(1 << 30)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            1024..1_048_576 => write!(f, "{:.1} KiB", self.0 as f64 / 1024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.1} MiB", self.0 as f64 / 1_048_576.0),
            _ => write!(f, "{:.2} GiB", self.as_gib()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_round_to_the_nearest_nanosecond() {
        assert_eq!(SimDuration::from_secs_f64(1.5e-9).as_nanos(), 2);
        assert_eq!(SimDuration::from_secs_f64(0.1).as_nanos(), 100_000_000);
        let ends =
            [0.0, 0.49, 0.5, 1.5, 2.5, 1e6 + 0.5, 2_f64.powi(51) - 0.5, 2_f64.powi(52) + 1.0];
        let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let random = (0..10_000).map(|n| (spread(n) >> (n % 60)) as f64 / 8.0);
        for nanos in ends.into_iter().chain(random) {
            let secs = nanos / NANOS_PER_SEC;
            let rounded = (secs * NANOS_PER_SEC).round() as u64;
            assert_eq!(SimDuration::from_secs_f64(secs).as_nanos(), rounded, "{nanos} ns");
        }
    }

    #[test]
    fn a_duration_is_neither_negative_nor_endless() {
        for secs in [-1e-9, f64::NAN, f64::INFINITY, 1e12] {
            assert_eq!(SimDuration::try_from_secs_f64(secs), None, "{secs}");
        }
    }

    #[test]
    fn spans_print_in_the_unit_a_reader_expects() {
        assert_eq!(SimDuration::from_micros(3).to_string(), "3.0 µs");
        assert_eq!(SimDuration::from_micros(3_250).to_string(), "3.250 ms");
        assert_eq!(SimTime::from_nanos(1_500_000_000).to_string(), "1.500000 s");
        assert_eq!(Bytes(24 << 30).to_string(), "24.00 GiB");
    }
}
