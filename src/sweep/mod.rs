//! Sweeps: a scenario at many points, each with several seeds.
//!
//! A point is a list of settings, by the path of their keys; which points there are, and in which
//! order, is fixed by the axes and the design. Replica r of every point has the same seed, so that
//! points are compared on the same requests (common random numbers, [`crate::study`]).
//! Simulating and keeping results is the command line's; nothing here reads a scenario.

mod axis;
mod design;
mod plan;
mod summary;

pub use axis::{Axis, Levels, NumberKind, Range, Scale};
pub use design::Design;
pub use plan::{BrokenRule, Plan, Point, Points, RUNS_MAX, Shard};
pub use summary::{CONFIDENCE, Estimate, Estimator};
