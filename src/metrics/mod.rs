//! What happened: records of requests, gaps between tokens, and the reports made of them.

pub mod bench;
mod gaps;
mod record;
mod recorder;
mod report;
mod series;
mod steps;

pub use gaps::GapCounter;
pub use record::{RequestRecord, Status};
pub use recorder::{Recorder, Timeline};
pub use report::{BenchReport, BenchWriter};
pub use series::{Quantity, Series};
pub use steps::{StepLog, StepRecord};
