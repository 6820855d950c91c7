//! Step time: from the shape of a step to its duration.
//!
//! A cost model sees sums over the batch ([`StepShape`]), never requests, so that a step is priced
//! in O(1) and from everything in it at once.

mod calibration;
mod graph;
mod linear;
mod operators;
mod roofline;
mod shape;

pub use calibration::{Calibration, Coverage, StepParts};
pub use graph::{CapturedSizes, CudaGraphs};
pub use linear::Linear;
pub use operators::{
    AllReduceTable, Codes, DecodeTable, ExpertTable, OperatorModel, OperatorProfile, PrefillTable,
    ProductTable, ProfileError, Rates,
};
pub use roofline::{Roofline, RooflineError, RooflineOptions};
pub use shape::{CostModel, StepShape, StepTime};
