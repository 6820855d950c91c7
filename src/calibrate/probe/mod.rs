//! Step times of a running server, from what a client sees of single steps.
//!
//! Two kinds of round tell single steps. A lone prompt: its first token comes after the way to the
//! server and one step that prefills. Streams together: once all have their first token, a gap
//! between tokens is one step that decodes them all. Both are linear in the factors and constants
//! of [`Calibration`](crate::cost::Calibration) and of the affine law, so the fit is a linear least
//! squares problem with what is expected of each parameter beside it.
//!
//! Of repeated first tokens the fastest counts: whatever disturbs a lone request delays it. Of gaps
//! the median counts: a token that comes late lengthens one gap and shortens the next.
//!
//! Left out: steps that prefill and decode at once, and the server's host time apart from its
//! device's.

#[cfg(feature = "probe")]
mod drive;
mod fit;
mod law;
mod plan;
mod point;
#[cfg(feature = "probe")]
mod server;

#[cfg(test)]
mod tests;

pub use fit::{ProbeError, ProbeFit, fit_points};
pub use law::{Law, OutsideOfLaw};
pub use plan::{Limits, Plan, Round};
pub use point::{Answer, Observed, Point};
#[cfg(feature = "probe")]
pub use server::{Probe, Probed, Question, ServerProbeError};
