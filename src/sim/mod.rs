//! The run: the only place that knows both time and machines.
//!
//! [`Simulation::run`] owns the clock, the event queue and the requests on their way. It asks
//! machines what they want and schedules it; [`Observer`]s hear what happened.

mod build;
mod conditional;
mod counts;
mod dead_ends;
mod drafting;
mod drive;
mod event;
mod faults;
mod front;
mod gate;
mod handoff;
mod handover;
mod lanes;
pub mod laws;
mod layer_table;
mod leave;
mod limit;
mod live;
mod local;
mod lora;
mod migrate;
mod observe;
mod pairs;
mod pipeline;
mod pools;
mod pulse;
mod router_time;
mod run;
mod scale;
mod sending;
mod separable;
mod source;
mod step_table;
mod step_time;
mod tier_plan;
mod tiers;
mod told;
mod transit;
mod wake;
mod warm_up;
mod wave;
mod wires;

pub use build::{cluster, cluster_priced_by, instance, simulation, simulation_on};
pub use counts::Counts;
pub use live::Live;
pub use observe::{Observer, Occurrence, Slowness};
pub use run::Simulation;
pub use separable::{Lane, Separable};
pub use source::{Requests, Source};
pub use step_time::{step_time, step_times};
