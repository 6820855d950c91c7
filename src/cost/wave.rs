//! Step time of data-parallel ranks in lock step.
//!
//! Every rank computes attention and all else but the experts for its own requests. The experts, spread over
//! the GPUs of all ranks, compute the tokens of all; between both, tokens travel ([`Exchange`]). A step
//! lasts as long as the slowest rank's own part and the part of all together. With several GPUs to a
//! rank its tokens are shared out over them before they travel (vLLM 0.33.0, `vllm/config/parallel.py`,
//! `use_sequence_parallel_moe`), so that of the two all-reduces of a layer with experts the second
//! becomes an all-gather, half of one.

use std::sync::Arc;

use rand_distr::{Distribution, LogNormal};

use super::calibration::Calibration;
use super::{CostModel, CudaGraphs, Exchange, StepShape, StepTime};
use crate::model::ModelSpec;
use crate::rng::{Seed, mix};
use crate::units::SimDuration;

/// Steps that draw an imbalance of their own, before they begin anew in another order.
const DRAWS: usize = 4096;

/// What one rank does in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RankStep {
    /// Of its requests; with none it goes along with a token of padding.
    pub shape: StepShape,
    /// Requests that it admits.
    pub new_requests: u32,
    /// How long it computes on its own.
    pub own: SimDuration,
}

impl RankStep {
    /// Whether it has no request in the step.
    pub fn is_dummy(&self) -> bool {
        self.shape.tokens() == 0
    }
}

/// Prices the steps of ranks in lock step.
#[derive(Debug, Clone)]
pub struct Wave {
    model: StepTime,
    calibration: Calibration,
    exchange: Exchange,
    /// Of the all-reduces of the model, those that ranks still do.
    all_reduces: f64,
    imbalance: Option<ImbalanceDraws>,
}

impl Wave {
    /// Of ranks whose own steps `model` prices, with the experts of all GPUs.
    pub fn new(spec: &ModelSpec, model: StepTime, ranks: u32, exchange: Exchange) -> Self {
        let sparse = f64::from(spec.sparse_layers()) / f64::from(spec.num_layers());
        Self {
            calibration: model.calibration(),
            model,
            exchange,
            all_reduces: if ranks > 1 { 1.0 - 0.25 * sparse } else { 1.0 },
            imbalance: None,
        }
    }

    /// The same with an imbalance of experts that is drawn for each step.
    #[must_use]
    pub fn with_imbalance(mut self, draws: Option<ImbalanceDraws>) -> Self {
        self.imbalance = draws;
        self
    }

    /// The same for another replica, which draws on its own.
    #[must_use]
    pub fn of_replica(&self, replica: u64) -> Self {
        let imbalance = self.imbalance.as_ref().map(|draws| draws.of_replica(replica));
        Self { imbalance, ..self.clone() }
    }

    /// How long the step of this number lasts; fills in what each rank takes on its own.
    pub fn price(&self, step: u64, ranks: &mut [RankStep]) -> SimDuration {
        let (mut all, mut most) = (0, 0);
        let mut slowest = SimDuration::ZERO;
        for rank in ranks {
            let shape = if rank.is_dummy() { dummy(rank.shape.cuda_graph) } else { rank.shape };
            let mut parts = self.model.parts(&shape);
            parts.experts = 0.0;
            parts.all_reduce *= self.all_reduces;
            rank.own = self.calibration.step_duration(&parts, &shape);
            slowest = slowest.max(rank.own);
            let rows = shape.padded_tokens();
            all += rows;
            most = most.max(rows);
        }
        let by = self.imbalance.as_ref().map_or(1.0, |draws| draws.of(step));
        let shared = self.calibration.experts * self.model.expert_secs(all, by)
            + self.calibration.all_reduce * self.exchange.secs(all, most);
        slowest + SimDuration::from_secs_f64(shared)
    }
}

/// The step of a rank without requests: one token whose outcome nobody looks at.
fn dummy(cuda_graph: Option<u32>) -> StepShape {
    StepShape { decode_seqs: 1, cuda_graph, ..StepShape::default() }
}

/// All ranks replay graphs of one size, or none does (vLLM 0.33.0, `vllm/v1/worker/dp_utils.py`).
pub fn agree_on_graph(graphs: &CudaGraphs, ranks: &mut [RankStep]) -> Option<u32> {
    let size = |rank: &RankStep| {
        let shape = if rank.is_dummy() { dummy(None) } else { rank.shape };
        graphs.replayed(&shape)
    };
    let agreed = ranks.iter().map(size).try_fold(0, |most, size| Some(most.max(size?)));
    for rank in ranks {
        rank.shape.cuda_graph = agreed;
    }
    agreed
}

/// Halvings until a scale is known to the last bits.
const SCALE_HALVINGS: usize = 80;

/// How much more the busiest GPU has to do in each step than in the long run.
#[derive(Debug, Clone)]
pub struct ImbalanceDraws {
    factors: Arc<[f64]>,
    offset: u64,
}

impl ImbalanceDraws {
    /// Around `imbalance`, the busiest of `gpus` GPUs' tokens over the mean: what is above 1 is log-normal with
    /// this standard deviation of its logarithm, cut where one GPU gets all tokens, and the mean is kept.
    ///
    /// # Panics
    /// When the deviation is not finite.
    pub fn new(imbalance: f64, sigma: f64, gpus: u32, seed: Seed) -> Self {
        let law = LogNormal::new(0.0, sigma).expect("a finite deviation");
        let mut stream = seed.stream("expert_imbalance", 0);
        let drawn: Vec<f64> = (0..DRAWS).map(|_| law.sample(&mut stream)).collect();
        let (excess, most) = (imbalance - 1.0, f64::from(gpus) - 1.0);
        let cut = |scale: f64| drawn.iter().map(move |draw| (scale * draw).min(most));
        let mean = |scale: f64| cut(scale).sum::<f64>() / DRAWS as f64;
        // The cut takes from the mean; a larger scale gives it back.
        let (mut low, mut high) = (0.0, 1.0);
        while mean(high) < excess && mean(high) < most {
            high *= 2.0;
        }
        for _ in 0..SCALE_HALVINGS {
            let middle = 0.5 * (low + high);
            if mean(middle) < excess { low = middle } else { high = middle }
        }
        let factors = cut(high).map(|above| (1.0 + above) / imbalance).collect();
        Self { factors, offset: mix(seed.0) }
    }

    /// The same draws in an order of its own for each replica.
    #[must_use]
    pub fn of_replica(&self, replica: u64) -> Self {
        Self { factors: Arc::clone(&self.factors), offset: mix(self.offset ^ replica) }
    }

    fn of(&self, step: u64) -> f64 {
        self.factors[(mix(self.offset ^ step) % DRAWS as u64) as usize]
    }
}

#[cfg(test)]
mod tests;
