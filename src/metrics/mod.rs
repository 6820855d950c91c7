//! What happened: records of requests, gaps between tokens, and the reports made of them.

mod activity;
pub mod bench;
mod bill;
mod breakdown;
mod cluster;
mod coverage;
mod faults;
mod gaps;
mod kv_need;
mod preemptions;
mod record;
mod recorder;
mod replica;
mod report;
mod saturation;
mod series;
mod steps;
mod timeline;
mod transfers;
mod warnings;

pub use activity::{Activity, StepKind};
pub use bill::{Bill, Cost, Energy, Price};
pub use breakdown::Breakdown;
pub use cluster::{ClusterReport, GroupReport, Imbalance, ReplicaKind, ReplicaReport};
pub use faults::{FaultLog, FaultReport};
pub use gaps::GapCounter;
pub use preemptions::{Lost, Preemptions};
pub use record::{RequestDrafts, RequestRecord, Status};
pub use recorder::Recorder;
pub use replica::ReplicaLog;
pub use report::{BenchReport, BenchWriter};
pub use series::{Quantity, Series};
pub use steps::{StepLog, StepRecord};
pub use timeline::Timeline;
pub use transfers::{Carried, TransferReport};
pub use warnings::{Caution, Warnings};
