//! Step time: from the shape of a step to its duration.
//!
//! A cost model sees sums over the batch ([`StepShape`]), never requests, so that a step is priced
//! in O(1) and from everything in it at once.

mod linear;
mod shape;

pub use linear::Linear;
pub use shape::{CostModel, StepShape, StepTime};
