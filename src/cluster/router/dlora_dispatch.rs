//! The dispatch of dLoRA (OSDI 2024; LLMServe/dLoRA-artifact, `vllm/engine/engine_manager.py`,
//! `get_engine_req_model_cnt` and `select_engine`).
//!
//! Requests that are outstanding at an instance make batches: whole ones of a single adapter, which run merged
//! and cost less, and whole ones of what is left over. An instance costs
//! `merged_cost` · Σ ⌊count / B⌋ + ⌊Σ (count mod B) / B⌋, where counts are those of its adapters, requests that
//! use none among them. The least cost wins: of the holders, or, where adapters may be exchanged for a request, also of
//! others that would exchange one, which costs more.
//!
//! Otherwise than there: of equal costs, which are the rule below a batch, the fewest outstanding requests win,
//! not the first holder.

use super::{Needs, Route};
use crate::cluster::ClusterView;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::scenario::DloraDispatchConfig;

/// The least cost of batches; of equal ones the fewest outstanding requests.
#[derive(Debug, Clone, Copy)]
pub struct DloraDispatch(DloraDispatchConfig);

impl DloraDispatch {
    /// A router with these settings.
    pub fn new(config: DloraDispatchConfig) -> Self {
        Self(config)
    }

    /// What the outstanding requests of an instance cost, in batches that are not merged.
    fn cost(&self, counts: &[u32]) -> f64 {
        let size = self.0.batch_size;
        let merged: u32 = counts.iter().map(|count| count / size).sum();
        let rest: u32 = counts.iter().map(|count| count % size).sum();
        self.0.merged_cost * f64::from(merged) + f64::from(rest / size)
    }
}

impl Route for DloraDispatch {
    fn route(&mut self, _: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        let key = |id: InstanceId| {
            let cost = self.cost(view.adapters.outstanding(id)) + view.adapters.swap_cost(id);
            (cost, view.outstanding[id.index()].requests, id)
        };
        let least = view.up().map(key).min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        least.expect("an instance is up").2
    }

    fn needs(&self) -> Needs {
        Needs { by_adapter: true, ..Needs::OUTSTANDING }
    }
}
