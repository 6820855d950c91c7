//! What happened: records of requests, gaps between tokens, and the reports made of them.

pub mod bench;
mod breakdown;
mod coverage;
mod faults;
mod gaps;
mod kv_need;
mod preemptions;
mod record;
mod recorder;
mod report;
mod saturation;
mod series;
mod steps;
mod transfers;
mod warnings;

pub use breakdown::Breakdown;
pub use faults::{FaultLog, FaultReport};
pub use gaps::GapCounter;
pub use preemptions::{Lost, Preemptions};
pub use record::{RequestRecord, Status};
pub use recorder::{Recorder, Timeline};
pub use report::{BenchReport, BenchWriter};
pub use series::{Quantity, Series};
pub use steps::{StepLog, StepRecord};
pub use transfers::{Carried, TransferReport};
pub use warnings::{Caution, Warnings};
