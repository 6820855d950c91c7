//! Step time of a model whose layers lie on several stages (pipeline parallelism).
//!
//! Every stage prices its own layers; the last one has the head and the sampler. Between two stages the
//! hidden states and the residual of every new token travel: each GPU sends its share to its counterpart,
//! and the GPUs of the next stage gather the rest from each other (vLLM 0.33.0,
//! `vllm/distributed/parallel_state.py`, `isend_tensor_dict` with `all_gather_group`).

use std::sync::Arc;

use super::roofline::Device;
use super::{
    CostModel, Coverage, RooflineError, RooflineOptions, StepParts, StepShape, StepTime,
    StepTimeSource,
};
use crate::hardware::GpuSpec;
use crate::model::ModelSpec;
use crate::scenario::PipelineLink;
use crate::units::SimDuration;

/// Bytes of the hidden state and of the residual, for each element.
const ACTIVATION_BYTES: f64 = 2.0 * 2.0;

/// The way of activations from one stage to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hop {
    /// Seconds of a small message.
    latency: f64,
    secs_per_row: f64,
}

impl Hop {
    /// No time.
    pub const NONE: Self = Self { latency: 0.0, secs_per_row: 0.0 };

    /// Between stages of `tp` GPUs each. To gather takes half of what an all-reduce of the same bytes does,
    /// which scatters sums before.
    ///
    /// # Errors
    /// When the heads cannot be shared by so many GPUs, or these are not in one node.
    pub fn between(
        model: &ModelSpec,
        gpu: &GpuSpec,
        tp: u32,
        link: PipelineLink,
    ) -> Result<Self, RooflineError> {
        let options = RooflineOptions { tensor_parallel_size: tp, ..RooflineOptions::default() };
        let (latency, per_byte) = Device::new(model, gpu, &options)?.all_reduce();
        let sent = (1e-6 * link.latency_us, 1e9 * link.gb_per_s);
        Ok(Self::new((model.hidden, tp), sent, (latency / 2.0, per_byte / 2.0)))
    }

    /// Between stages of `tp` GPUs, of activations of `hidden` elements, at `bytes_per_s` of a GPU in one
    /// direction. The GPUs of a stage gather over `gather`, seconds of a small message and seconds per byte.
    fn new(
        (hidden, tp): (u32, u32),
        (latency, bytes_per_s): (f64, f64),
        gather: (f64, f64),
    ) -> Self {
        let row = ACTIVATION_BYTES * f64::from(hidden);
        let sent = row / f64::from(tp) / bytes_per_s;
        let (gather_latency, gather_per_byte) = if tp > 1 { gather } else { (0.0, 0.0) };
        Self { latency: latency + gather_latency, secs_per_row: sent + row * gather_per_byte }
    }

    fn secs(&self, rows: u32) -> f64 {
        self.latency + self.secs_per_row * f64::from(rows)
    }
}

/// Prices steps of a replica stage by stage.
#[derive(Debug, Clone)]
pub struct Pipeline {
    stages: Arc<[StepTime]>,
    hop: Hop,
    provenance: Arc<str>,
}

impl Pipeline {
    /// Stages in the order in which a step goes through them.
    ///
    /// # Panics
    /// When there are none.
    pub fn new(stages: Vec<StepTime>, hop: Hop, described: &str) -> Self {
        let first = stages.first().expect("a pipeline has a stage");
        let provenance = format!("{}; {described}", first.provenance()).into();
        Self { stages: stages.into(), hop, provenance }
    }

    /// How many stages there are.
    pub fn stages(&self) -> usize {
        self.stages.len()
    }

    /// How long a stage works on a step of this shape.
    ///
    /// # Panics
    /// When there is no such stage.
    pub fn stage_duration(&self, stage: usize, shape: &StepShape) -> SimDuration {
        self.stages[stage].step_duration(&self.seen(stage, shape))
    }

    /// How long the activations of a step of this shape travel from one stage to the next.
    pub fn hop_duration(&self, shape: &StepShape) -> SimDuration {
        SimDuration::from_secs_f64(self.hop.secs(shape.tokens()))
    }

    /// A step as a stage sees it: only the last samples.
    fn seen(&self, stage: usize, shape: &StepShape) -> StepShape {
        let is_last = stage + 1 == self.stages.len();
        StepShape { logit_rows: if is_last { shape.logit_rows } else { 0 }, ..*shape }
    }

    pub(super) fn prefill_window(&self) -> u32 {
        self.stages.iter().map(StepTime::prefill_window).max().unwrap_or(0)
    }

    pub(super) fn provenance(&self) -> &str {
        &self.provenance
    }

    /// That of its first stage: all have kernels of one kind.
    pub(super) fn source(&self) -> StepTimeSource {
        self.stages[0].source()
    }
}

impl CostModel for Pipeline {
    /// All stages one after the other, with nothing else on the way.
    fn step_duration(&self, shape: &StepShape) -> SimDuration {
        let stages = (0..self.stages()).map(|stage| self.stage_duration(stage, shape));
        let hops = self.hop_duration(shape) * (self.stages() as u64 - 1);
        stages.fold(hops, |sum, stage| sum + stage)
    }

    /// Those of all stages. The way between them counts among the all-reduces.
    fn parts(&self, shape: &StepShape) -> StepParts {
        let hops = (self.stages() - 1) as f64 * self.hop.secs(shape.tokens());
        let begun = StepParts { all_reduce: hops, ..StepParts::default() };
        let stages = self.stages.iter().enumerate();
        stages.fold(begun, |sum, (index, stage)| sum.with(&stage.parts(&self.seen(index, shape))))
    }

    fn coverage(&self, shape: &StepShape) -> Coverage {
        let stages = self.stages.iter();
        stages.map(|stage| stage.coverage(shape)).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Calibration, Roofline, RooflineOptions};
    use crate::profiles;

    fn pipeline(stages: u32, hop: Hop) -> (StepTime, Pipeline) {
        let model = profiles::model("Llama-3.1-8B").unwrap();
        let gpu = profiles::gpu("L40S").unwrap();
        let options = RooflineOptions {
            calibration: Calibration { head: 1.5, ..Calibration::default() },
            ..RooflineOptions::default()
        };
        let price = |model: &_| StepTime::Roofline(Roofline::new(model, &gpu, &options).unwrap());
        let parts = model.stages(stages).iter().map(|stage| price(&stage.model)).collect();
        (price(&model), Pipeline::new(parts, hop, "stages"))
    }

    fn shapes() -> [StepShape; 3] {
        let mut decodes = StepShape::default();
        decodes.add_decodes(17, 9000, 1000);
        let mut mixed = decodes;
        mixed.add_prefill(700, 30, true);
        let mut chunk = StepShape::default();
        chunk.add_prefill(2048, 0, false);
        [decodes, mixed, chunk]
    }

    #[test]
    fn stages_take_together_what_one_would_and_only_the_last_samples() {
        let nothing = Hop::new((4096, 1), (0.0, f64::INFINITY), (0.0, 0.0));
        for stages in [1, 2, 3, 5] {
            let (whole, parts) = pipeline(stages, nothing);
            for shape in shapes() {
                let [whole, parts] = [whole.step_duration(&shape), parts.step_duration(&shape)];
                // Each stage is rounded to a nanosecond.
                let off = whole.as_nanos().abs_diff(parts.as_nanos());
                assert!(off <= u64::from(stages), "{stages} stages: {whole} and {parts}");
            }
        }
        let (_, parts) = pipeline(2, nothing);
        let [decodes, ..] = shapes();
        let silent = StepShape { logit_rows: 0, ..decodes };
        assert_eq!(parts.stage_duration(0, &decodes), parts.stage_duration(0, &silent));
        assert!(parts.stage_duration(1, &decodes) > parts.stage_duration(1, &silent));
    }

    #[test]
    fn activations_travel_in_shares_and_are_gathered() {
        // 4 B · 1000 elements · 10 rows = 40 kB: half of it at 1 MB/s, then all of it at 4 MB/s.
        let hop = Hop::new((1000, 2), (1e-3, 1e6), (2e-3, 0.25e-6));
        let (_, parts) = pipeline(3, hop);
        let mut shape = StepShape::default();
        shape.add_prefill(10, 0, true);
        assert_eq!(parts.hop_duration(&shape), SimDuration::from_millis(1 + 20 + 2 + 10));
        let alone = Hop::new((1000, 1), (1e-3, 1e6), (2e-3, 0.25e-6));
        let (_, parts) = pipeline(3, alone);
        assert_eq!(parts.hop_duration(&shape), SimDuration::from_millis(1 + 40));
        let stages = (0..3).map(|stage| parts.stage_duration(stage, &shape).as_nanos());
        let sum: u64 = stages.sum::<u64>() + 2 * 41_000_000;
        assert_eq!(parts.step_duration(&shape).as_nanos(), sum);
    }
}
