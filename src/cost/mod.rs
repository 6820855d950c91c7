//! Step time: from the shape of a step to its duration.
//!
//! A cost model sees sums over the batch ([`StepShape`]), never requests, so that a step is priced
//! in O(1) and from everything in it at once.

mod calibration;
mod contexts;
mod decode_run;
mod drafting;
mod exchange;
mod graph;
mod layers;
mod linear;
mod lora;
mod operators;
mod pipeline;
mod roofline;
mod shape;
mod shares;
mod source;
mod states;
mod steps;
mod wave;
mod window;

pub use calibration::{Calibration, Coverage, StepParts};
pub use decode_run::StepWalk;
pub use drafting::{DraftPasses, DraftTime, Drafting};
pub use exchange::Exchange;
pub use graph::{CapturedSizes, CudaGraphs};
pub use layers::{
    AllReduceHost, AttentionProfile, ExpertsProfile, LayerProfile, LayerProfileError, LayerTable,
    LayerTableError, LayerTableOptions, Numbers, RowsProfile, SequencesProfile, SkewProfile,
};
pub use linear::Linear;
pub use lora::LoraTimes;
pub use operators::{
    AllReduceTable, Codes, DecodeTable, ExpertTable, MixerKind, MixerTable, MixerTimes,
    OperatorModel, OperatorProfile, PrefillTable, ProductTable, ProfileError, Rates, StateKind,
    StateTable, StateTimes,
};
pub use pipeline::{Hop, Pipeline};
pub use roofline::{Roofline, RooflineError, RooflineOptions};
pub use shape::{CostModel, StepShape, StepTime};
pub use source::StepTimeSource;
pub use steps::{
    DecodeContextProfile, DecodeProfile, OnePromptProfile, PromptsProfile, StepProfile,
    StepProfileError, StepTable, StepTableError, StepTableOptions,
};
pub use wave::{ImbalanceDraws, RankStep, Wave, agree_on_graph};
