//! What studies of many runs share: a scenario that any thread can simulate, and the figures of a run
//! by name.
//!
//! Runs that are compared see the same requests: each consumer of randomness draws from a stream of
//! its own ([`crate::rng`]), so that two scenarios of one seed have the same arrivals, lengths and
//! content (common random numbers), and what differs between their figures is what differs between
//! the scenarios.

mod case;
mod figures;
mod policies;

pub(crate) use case::cluster;
pub use case::{Case, Recording, Run, StudyError};
pub use figures::{CUT_ANSWERS, Figures, LOSSES, Sense, parts, sense};
pub use policies::Policies;
