//! Is one scenario better than another, or is it chance: differences of figures over runs of several
//! seeds, with intervals, and what may be said of them.
//!
//! * [`Difference`]: the mean difference of one figure with its Student interval, absolute and relative.
//! * [`Rounds`]: how many seeds it takes to know it well enough, without spoiling the interval.
//! * [`holm`]: which of several differences stand when all are looked at together.
//! * [`Verdict`]: better, worse, or no difference found.
//!
//! A question ([`Compare`]) is read into a [`Contest`], whose runs give what was found ([`Compared`]).
//!
//! A run of one seed gives one value of each figure; a percentile is a statistic of a run like any other.
//! Runs of one seed see the same requests in both scenarios (common random numbers), so that the
//! differences within seeds vary far less than the figures themselves.
//!
//! Left out: what step times and other parameters are not known by; an interval is that of the seeds alone.

mod contestant;
mod difference;
mod findings;
mod holm;
mod interval;
mod json;
mod question;
mod rounds;
mod runs;
mod text;
mod verdict;

#[cfg(test)]
mod tests;

pub use contestant::Contestant;
pub use difference::{Basis, Difference, Draws, Pairing, Relative};
pub use findings::{Against, Finding, Findings, Part, is_told, plain, title};
pub use holm::holm;
pub use interval::{Interval, quantity};
pub use question::{Compare, CompareError, Compared, Contest};
pub use rounds::Rounds;
pub use runs::{One, Runs, Wanted};
pub use verdict::Verdict;
