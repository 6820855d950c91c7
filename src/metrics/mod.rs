//! What happened: records of requests, gaps between tokens, and the reports made of them.

mod activity;
mod adapters;
pub mod bench;
mod bill;
mod breakdown;
mod classes;
mod cluster;
mod columns;
mod coverage;
mod cut;
mod fairness;
mod faults;
mod gaps;
mod gateway;
mod kv_need;
mod losses;
mod models;
mod preemptions;
mod presence;
mod ranks;
mod record;
mod recorder;
mod replica;
mod report;
mod saturation;
mod scaling;
mod seconds;
mod series;
mod steps;
mod tiers;
mod timeline;
mod transfers;
mod warnings;

pub use activity::{Activity, StepKind};
pub use adapters::{
    AdapterFigures, AdapterLog, AdapterMoves, AdapterSteps, AdapterWait, AdaptersReport, Merging,
    MergingLog, MigrationFigures, MigrationLog,
};
pub use bill::{Bill, Cost, Energy, Price};
pub use breakdown::Breakdown;
pub use classes::{ClassReport, ClassesReport, Limit, Spread};
pub use cluster::{ClusterReport, GroupReport, Imbalance, ReplicaKind, ReplicaReport};
pub use cut::CutAnswers;
pub use fairness::{Fairness, TenantService};
pub use faults::{FaultLog, FaultReport};
pub use gaps::{BinnedGaps, GapCounter};
pub use gateway::{GatewayLog, GatewayReport, TurnedAway};
pub use losses::Losses;
pub use models::{ModelReport, ModelsReport};
pub use preemptions::{Lost, Preemptions};
pub use presence::{Presence, PresenceLog};
pub use ranks::{RankLog, RanksReport};
pub use record::{RequestDrafts, RequestRecord, Status};
pub use recorder::Recorder;
pub use replica::ReplicaLog;
pub use report::{BenchReport, BenchWriter};
pub use saturation::finishes_with_all_waiting;
pub use scaling::{ScaledPool, ScalingLog, ScalingReport};
pub use seconds::CountsBySecond;
pub use series::{Quantity, Series};
pub use steps::{StepLog, StepRecord};
pub use tiers::{ReplicaTiers, TierLog, TierReport, TierTokens};
pub use timeline::Timeline;
pub use transfers::{Carried, TransferReport};
pub use warnings::{Caution, Warnings};
