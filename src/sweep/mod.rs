//! Sweeps: a scenario at many points, each with several seeds.
//!
//! A point is a list of settings, by the path of their keys; which points there are, and in which
//! order, is fixed by the axes and the design ([`Plan`]). Run r of every point has the same seed, so that
//! points are compared on the same requests (common random numbers, [`crate::study`]).
//!
//! With the feature `sweep` the runs of a [`Sweep`] are done. Every run has a key, a hash of all it depends on,
//! and where there is a folder goes to a journal as soon as it has ended; what a journal holds is not simulated
//! again. When all runs have ended, the table of results is made of them in the order of
//! the plan, so that it has the same bytes however often the sweep was interrupted and on however many machines
//! it ran.

mod axis;
mod design;
#[cfg(feature = "sweep")]
mod elsewhere;
mod error;
#[cfg(feature = "sweep")]
mod folder;
#[cfg(feature = "sweep")]
mod journal;
#[cfg(feature = "sweep")]
mod key;
#[cfg(feature = "sweep")]
mod merge;
mod plan;
#[cfg(feature = "sweep")]
mod report;
#[cfg(feature = "sweep")]
mod results;
#[cfg(feature = "sweep")]
mod runs;
#[cfg(feature = "cli")]
mod schema;
mod study;
mod summary;
mod text;
#[cfg(feature = "sweep")]
mod watch;

pub use axis::{Axis, Levels, NumberKind, Range, Scale};
pub use design::Design;
#[cfg(feature = "sweep")]
pub use elsewhere::{Kept, Worker};
pub use error::SweepError;
#[cfg(feature = "sweep")]
pub use journal::{Entry, Outcome};
#[cfg(feature = "sweep")]
pub use merge::{Missing, merge};
pub use plan::{BrokenRule, Plan, Point, Points, RUNS_MAX, Shard};
#[cfg(feature = "sweep")]
pub use report::{PointReport, Report, USUAL};
#[cfg(feature = "sweep")]
pub use results::Results;
#[cfg(feature = "cli")]
pub use schema::schema;
pub use study::{DesignName, Sweep, Vary};
pub use summary::{CONFIDENCE, Estimate, Estimator, is_share};
#[cfg(feature = "sweep")]
pub use watch::Watch;
