//! Routed experts: a table over tokens and over the experts that these reach.

use super::LayerTableError;
use super::LayerTableOptions;
use super::axis::Axis;
use super::profile::LayerProfile;
use crate::cost::roofline::power;
use crate::model::ModelSpec;

/// Experts of all layers on one GPU. Under uniform routing `rows` tokens reach
/// E·(1 − (1 − k/E)^rows) experts.
#[derive(Debug, Clone)]
pub(super) struct Experts {
    tokens: Axis,
    activated: Axis,
    /// By tokens, then experts.
    secs: Vec<f64>,
    /// Experts of the model, and of one GPU.
    count: f64,
    held: f64,
    idle_share: f64,
    /// GPUs among which the experts are divided: each computes as many pairs of token and expert
    /// as this share of the tokens would need.
    gpus: f64,
}

impl Experts {
    /// `None` for a model without experts.
    pub(super) fn of(
        profile: &LayerProfile,
        model: &ModelSpec,
        options: &LayerTableOptions,
    ) -> Result<Option<Self>, LayerTableError> {
        let rows = &profile.rows;
        if model.dense_layers() > 0
            && (rows.gate_up_proj_ns.is_none()
                || rows.act_fn_ns.is_none()
                || rows.down_proj_ns.is_none())
        {
            return Err(LayerTableError::Missing("dense layers"));
        }
        let Some(shape) = model.experts() else { return Ok(None) };
        if shape.shared_width > 0 {
            return Err(LayerTableError::Missing("shared experts"));
        }
        let table = profile.experts.as_ref().ok_or(LayerTableError::Missing("experts"))?;
        let gpus = options.tensor_parallel_size;
        if gpus > 1 && options.expert_gpus.is_none() {
            return Err(LayerTableError::SharedExperts(gpus));
        }
        let gpus = options.expert_gpus.unwrap_or(gpus);
        let (count, gpus) = (f64::from(shape.count), f64::from(gpus));
        let layers = f64::from(model.sparse_layers());
        Ok(Some(Self {
            tokens: Axis::new(super::floats(&table.tokens, 1.0)),
            activated: Axis::new(super::floats(&table.activated, 1.0)),
            secs: super::floats(&table.experts_ns, 1e-9 * layers),
            count,
            held: count / gpus,
            idle_share: 1.0 - f64::from(shape.per_token) / count,
            gpus,
        }))
    }

    pub(super) fn secs(&self, rows: u32) -> f64 {
        let reached = self.held * (1.0 - power(self.idle_share, rows));
        debug_assert!(reached <= self.count);
        let tokens = self.tokens.locate(f64::from(rows) / self.gpus);
        let experts = self.activated.locate(reached);
        let row = |tokens: usize| {
            let at = tokens * self.activated.len() + experts.index;
            self.secs[at] + experts.share * (self.secs[at + 1] - self.secs[at])
        };
        let below = row(tokens.index);
        below + tokens.share * (row(tokens.index + 1) - below)
    }
}
