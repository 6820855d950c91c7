//! Migration of requests and adapters between two replicas, as dLoRA does it (OSDI 2024;
//! LLMServe/dLoRA-artifact, `vllm/engine/engine_manager.py`, `migration_schedule`, and `migration_ilp.py`).
//!
//! * `pair.rs`: which two replicas
//! * `problem.rs`: what is to be shared out between them, and what a plan costs
//! * `ilp.rs`: the best plan, by integer linear programming
//! * `greedy.rs`: a good plan, request by request
//!
//! All of it is pure: it sees counts and means, no clock, no queue and no length of an answer.

mod greedy;
#[cfg(feature = "ilp")]
mod ilp;
mod pair;
mod problem;

#[cfg(test)]
mod tests;

pub use greedy::greedy;
#[cfg(feature = "ilp")]
pub use ilp::{Requests, ilp};
pub use pair::{ReplicaLoad, pair};
pub use problem::{Movable, Plan, Problem};
