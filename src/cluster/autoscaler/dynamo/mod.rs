//! The planner of NVIDIA Dynamo 1.6.1, decision by decision.
//!
//! It looks at the load of replicas every few seconds and moves by one replica at a time, and at what is predicted of the requests
//! every few minutes and moves as far as that asks for. With both, what is predicted is the floor of what the load decides.
//! It is told what there is ([`LoadTick`], [`Demand`]) and answers with the replicas there are to be; it knows no clock.
//!
//! * `planner.rs`: ticks, floors and reasons
//! * `thresholds.rs`: decisions by fixed thresholds
//! * `sla.rs`: decisions by latencies
//! * `capacity.rs`: requests per second of a replica
//! * `budget.rs`: the budget of GPUs
//! * `predictor.rs`: the next interval
//! * `pilot.rs`: when it looks, and what it has seen until then
//! * `replica.rs`: the replicas of the simulation
//! * `forward.rs`: what is known of replicas, and how long a forward pass takes
//!
//! Left out: the modes `prefill` and `decode` of a planner of one pool, budgets of power, and the performance model, which is
//! whatever implements [`ForwardTime`]: the cost
//! model of a replica in a simulation.

mod budget;
mod capacity;
mod forward;
mod pilot;
mod planner;
mod predictor;
mod replica;
mod sla;
mod thresholds;

#[cfg(test)]
mod tests;

pub use forward::{Capabilities, ForwardPassMetrics, ForwardTime};
pub use pilot::{Pilot, Seen};
pub use planner::{
    Counts, Demand, ForwardTimes, LoadDecision, LoadTick, Mode, Planner, Reason, ThroughputDecision,
};
pub use predictor::Predictor;
pub use replica::{capabilities, forward_pass_metrics};
