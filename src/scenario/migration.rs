//! How adapters and requests move between replicas.

use serde::{Deserialize, Serialize};

/// What moves, and when.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(tag = "policy", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum MigrationConfig {
    /// Nothing: requests go to holders of their adapter and stay there.
    DispatchOnly {},
    /// A request may go to a replica that does not hold its adapter and gives up one for it that none of its
    /// requests use and that others hold, as dLoRA's dispatch with migration does.
    DispatchWithSwap {
        /// What that costs beside the batches that `dlora_dispatch` counts.
        #[serde(default = "swap_cost")]
        swap_cost: f64,
    },
    /// Every so often two replicas share out their requests and adapters anew, as dLoRA does.
    Periodic(PeriodicMigration),
}

/// Some 10 ms of a batch of about a second: 320 MB at 32 GiB/s.
fn swap_cost() -> f64 {
    0.01
}

/// The periodic migration of dLoRA, with its constants (dLoRA-artifact, `vllm/engine/engine_manager.py`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PeriodicMigration {
    /// Between two looks, in s.
    pub interval_s: f64,
    /// Who makes the plan.
    pub solver: MigrationSolver,
    /// What time the plan takes, in ms: until then all is as it was.
    pub solve_ms: f64,
    /// Requests that a replica has beyond the mean to have some moved.
    pub request_threshold: f64,
    /// The share of its KV memory that a replica uses to have some moved.
    pub kv_threshold: f64,
    /// Which requests move.
    pub moves: MovedRequests,
    /// What the plan counts for a request that moves, in s.
    pub move_cost_s: f64,
    /// What the plan counts for a request of an adapter of which none has finished, in s.
    pub default_service_s: f64,
    /// The rate at which the plan has KV beyond the memory of a replica swapped, in 10⁹ B/s.
    pub swap_gb_per_s: f64,
}

impl Default for PeriodicMigration {
    fn default() -> Self {
        Self {
            interval_s: 10.0,
            solver: MigrationSolver::default(),
            solve_ms: 0.0,
            request_threshold: 16.0,
            kv_threshold: 0.9,
            moves: MovedRequests::default(),
            move_cost_s: 0.05,
            default_service_s: 5.0,
            // 32 GiB/s.
            swap_gb_per_s: 34.359_738_368,
        }
    }
}

/// Who makes a plan for two replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MigrationSolver {
    /// The integer linear programme of dLoRA, in which shares of requests move and are rounded.
    #[default]
    Ilp,
    /// A request, an adapter with its requests, or two adapters for each other at a time, as long as that helps.
    Greedy,
}

/// Which requests move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MovedRequests {
    /// Those that wait and those that decode; the KV of the latter is computed again.
    #[default]
    All,
    /// Those on which no step has worked.
    Waiting,
}
