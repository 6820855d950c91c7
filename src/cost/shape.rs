//! What a cost model may see of a step, and the trait it implements.

use std::sync::Arc;

use super::Calibration;
use super::Coverage;
use super::LayerTable;
use super::Linear;
use super::OperatorModel;
use super::Pipeline;
use super::Roofline;
use super::StepParts;
use super::StepTable;
use super::StepTimeSource;
use crate::units::SimDuration;

/// One step as a cost model sees it: sums over the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepShape {
    /// Sequences that decode: one new token each, plus the drafts they verify.
    pub decode_seqs: u32,
    /// Σ over decoding sequences of the tokens already in their context, token.
    pub decode_context_tokens: u64,
    /// The longest of those contexts, token.
    pub decode_context_max: u32,
    /// Sequences that prefill.
    pub prefill_seqs: u32,
    /// Σ over prefilling sequences of the tokens computed in this step.
    pub prefill_tokens: u32,
    /// Σ over prefilling sequences of the tokens already in their context, token.
    pub prefill_context_tokens: u64,
    /// Σ over prefilling sequences of new·(cached + new/2): the attention work, token².
    pub prefill_attention: u64,
    /// Σ over prefilling sequences of the square of the tokens computed in this step, token².
    pub prefill_squares: u64,
    /// Keys that a token of a prefill visits at most in layers with a window; 0 where that is not
    /// counted.
    pub prefill_window: u32,
    /// What [`prefill_attention`](Self::prefill_attention) is in such layers, token².
    pub window_attention: u64,
    /// Rows whose logits are sampled.
    pub logit_rows: u32,
    /// Speculative tokens verified.
    pub draft_tokens: u32,
    /// Σ over them of the tokens already in the context of their sequence, token².
    pub draft_context_tokens: u64,
    /// Distinct LoRA adapters in the batch.
    pub adapters: u16,
    /// Σ over those adapters of their ranks.
    pub adapter_ranks: u32,
    /// Tokens of sequences with an adapter.
    pub lora_tokens: u32,
    /// Σ over tokens of the rank of their adapter.
    pub lora_rank_tokens: u64,
    /// The padded batch size when a captured CUDA graph is replayed; `None` in eager mode.
    pub cuda_graph: Option<u32>,
}

impl StepShape {
    /// An empty step that counts the attention of layers with a window:
    /// [`StepTime::prefill_window`] of the model that will price it.
    pub fn seeing(prefill_window: u32) -> Self {
        Self { prefill_window, ..Self::default() }
    }

    /// Adds a decoding sequence with `context` tokens computed before, verifying `drafts`.
    pub fn add_decode(&mut self, context: u32, drafts: u32) {
        self.decode_seqs += 1;
        self.decode_context_tokens += u64::from(context);
        self.decode_context_max = self.decode_context_max.max(context);
        self.logit_rows += 1 + drafts;
        self.draft_tokens += drafts;
        self.draft_context_tokens += u64::from(drafts) * u64::from(context);
    }

    /// Adds `seqs` decoding sequences with `context` tokens computed before, all together, the
    /// longest of them `longest`.
    #[inline]
    pub fn add_decodes(&mut self, seqs: u32, context: u64, longest: u32) {
        self.decode_seqs += seqs;
        self.decode_context_tokens += context;
        self.decode_context_max = self.decode_context_max.max(longest);
        self.logit_rows += seqs;
    }

    /// Every decoding sequence goes on by one token.
    pub fn advance_decodes(&mut self) {
        self.decode_context_tokens += u64::from(self.decode_seqs);
        self.decode_context_max += u32::from(self.decode_seqs > 0);
    }

    /// Every decoding sequence goes on by so many tokens.
    pub fn advance_decodes_by(&mut self, tokens: u32) {
        self.decode_context_tokens += u64::from(self.decode_seqs) * u64::from(tokens);
        self.decode_context_max += tokens * u32::from(self.decode_seqs > 0);
    }

    /// Adds a prefilling sequence: `new` tokens on top of `cached`, its last row sampled or not.
    #[inline]
    pub fn add_prefill(&mut self, new: u32, cached: u32, sampled: bool) {
        let (n, c) = (u64::from(new), u64::from(cached));
        self.prefill_seqs += 1;
        self.prefill_tokens += new;
        self.prefill_context_tokens += c;
        self.prefill_attention += n * c + n * n / 2;
        self.prefill_squares += n * n;
        let window = u64::from(self.prefill_window);
        let below = window.saturating_sub(c).min(n);
        self.window_attention += below * c + below * below / 2 + (n - below) * window;
        self.logit_rows += u32::from(sampled);
    }

    /// Adds the sequences of another step; a captured graph is left out.
    pub fn join(&mut self, other: &Self) {
        self.decode_seqs += other.decode_seqs;
        self.decode_context_tokens += other.decode_context_tokens;
        self.decode_context_max = self.decode_context_max.max(other.decode_context_max);
        self.prefill_seqs += other.prefill_seqs;
        self.prefill_tokens += other.prefill_tokens;
        self.prefill_context_tokens += other.prefill_context_tokens;
        self.prefill_attention += other.prefill_attention;
        self.prefill_squares += other.prefill_squares;
        self.window_attention += other.window_attention;
        self.logit_rows += other.logit_rows;
        self.draft_tokens += other.draft_tokens;
        self.draft_context_tokens += other.draft_context_tokens;
        self.adapters += other.adapters;
        self.adapter_ranks += other.adapter_ranks;
        self.lora_tokens += other.lora_tokens;
        self.lora_rank_tokens += other.lora_rank_tokens;
    }

    /// Rows that go through the layers: every new token of the step.
    pub fn tokens(&self) -> u32 {
        self.prefill_tokens + self.decode_seqs + self.draft_tokens
    }

    /// The rows that are computed: a captured graph has its own number.
    #[inline]
    pub fn padded_tokens(&self) -> u32 {
        self.tokens().max(self.cuda_graph.unwrap_or(0))
    }

    /// As many equal prefills as take as much: how many, the tokens of each, and those computed before. All prefills
    /// together have as many tokens, squares of them, and pairs; nothing without prefills.
    pub(super) fn equal_prefills(&self) -> Option<[f64; 3]> {
        if self.prefill_tokens == 0 {
            return None;
        }
        let tokens = f64::from(self.prefill_tokens);
        let each = self.prefill_squares as f64 / tokens;
        let cached = (self.prefill_attention as f64 / tokens - each / 2.0).max(0.0);
        Some([tokens / each, each, cached])
    }

    /// The sequences in the step.
    pub fn seqs(&self) -> u32 {
        self.prefill_seqs + self.decode_seqs
    }
}

/// Prices a step.
pub trait CostModel: std::fmt::Debug + Send + Sync {
    /// How long the device works on a step of this shape.
    fn step_duration(&self, shape: &StepShape) -> SimDuration;

    /// What that time is made of, before calibration. A model that knows no parts counts
    /// everything as matrix products.
    fn parts(&self, shape: &StepShape) -> StepParts {
        StepParts { products: self.step_duration(shape).as_secs_f64(), ..StepParts::default() }
    }

    /// How far the shape is from what was measured.
    fn coverage(&self, _shape: &StepShape) -> Coverage {
        Coverage::Law
    }
}

/// The cost models of the project; `Custom` is the door for users of the library.
#[derive(Debug, Clone)]
pub enum StepTime {
    /// An affine law in tokens and sequences.
    Linear(Linear),
    /// From the shapes of a model and the rates of a GPU.
    Roofline(Roofline),
    /// From measured times of operators.
    Operators(OperatorModel),
    /// From measured times of each operator of a layer.
    LayerTable(LayerTable),
    /// From measured times of whole steps.
    StepTable(StepTable),
    /// From those of the stages that a step goes through.
    Pipeline(Pipeline),
    /// A model of the user's own.
    Custom(Arc<dyn CostModel>),
}

impl StepTime {
    /// For [`StepShape::seeing`]: 0 where no layer has a window.
    pub fn prefill_window(&self) -> u32 {
        match self {
            Self::Roofline(model) => model.prefill_window(),
            Self::Operators(model) => model.prefill_window(),
            Self::Pipeline(model) => model.prefill_window(),
            Self::Linear(_) | Self::LayerTable(_) | Self::StepTable(_) | Self::Custom(_) => 0,
        }
    }

    /// How the parts of a step are put together.
    pub(super) fn calibration(&self) -> Calibration {
        match self {
            Self::Roofline(model) => model.calibration(),
            Self::Operators(model) => model.calibration(),
            Self::LayerTable(model) => model.calibration(),
            Self::Linear(_) | Self::StepTable(_) | Self::Pipeline(_) | Self::Custom(_) => {
                Calibration::default()
            }
        }
    }

    /// The routed experts for so many rows, where the busiest GPU has so many times its usual share; 0 of
    /// a model that knows no experts, or counts them elsewhere.
    pub(super) fn expert_secs(&self, rows: u32, by: f64) -> f64 {
        match self {
            Self::Roofline(model) => model.expert_secs(rows, by),
            Self::Operators(model) => model.expert_secs(rows, by),
            Self::LayerTable(model) => model.expert_secs(rows),
            Self::Linear(_) | Self::StepTable(_) | Self::Pipeline(_) | Self::Custom(_) => 0.0,
        }
    }

    /// Its stages, if a step goes through several.
    pub fn pipeline(&self) -> Option<&Pipeline> {
        match self {
            Self::Pipeline(pipeline) => Some(pipeline),
            _ => None,
        }
    }

    /// Where the figures come from and what was assumed, in one line.
    pub fn provenance(&self) -> &str {
        match self {
            Self::Linear(_) => "affine law",
            Self::Roofline(model) => model.provenance(),
            Self::Operators(model) => model.provenance(),
            Self::LayerTable(model) => model.provenance(),
            Self::StepTable(model) => model.provenance(),
            Self::Pipeline(model) => model.provenance(),
            Self::Custom(_) => "a model of the library's user",
        }
    }

    /// Where the figures come from.
    pub fn source(&self) -> StepTimeSource {
        match self {
            Self::Linear(_) => StepTimeSource::Linear,
            Self::Roofline(model) => model.source().clone(),
            Self::Operators(model) => model.source().clone(),
            Self::LayerTable(model) => model.source().clone(),
            Self::StepTable(model) => model.source().clone(),
            Self::Pipeline(model) => model.source(),
            Self::Custom(_) => StepTimeSource::Custom,
        }
    }
}

impl CostModel for StepTime {
    fn step_duration(&self, shape: &StepShape) -> SimDuration {
        match self {
            Self::Linear(model) => model.step_duration(shape),
            Self::Roofline(model) => model.step_duration(shape),
            Self::Operators(model) => model.step_duration(shape),
            Self::LayerTable(model) => model.step_duration(shape),
            Self::StepTable(model) => model.step_duration(shape),
            Self::Pipeline(model) => model.step_duration(shape),
            Self::Custom(model) => model.step_duration(shape),
        }
    }

    fn parts(&self, shape: &StepShape) -> StepParts {
        match self {
            Self::Linear(model) => model.parts(shape),
            Self::Roofline(model) => model.parts(shape),
            Self::Operators(model) => model.parts(shape),
            Self::LayerTable(model) => model.parts(shape),
            Self::StepTable(model) => model.parts(shape),
            Self::Pipeline(model) => model.parts(shape),
            Self::Custom(model) => model.parts(shape),
        }
    }

    fn coverage(&self, shape: &StepShape) -> Coverage {
        match self {
            Self::Linear(model) => model.coverage(shape),
            Self::Roofline(model) => model.coverage(shape),
            Self::Operators(model) => model.coverage(shape),
            Self::LayerTable(model) => model.coverage(shape),
            Self::StepTable(model) => model.coverage(shape),
            Self::Pipeline(model) => model.coverage(shape),
            Self::Custom(model) => model.coverage(shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equal_prefills_take_as_much(
            prefills in proptest::collection::vec((1_u32..9000, 0_u32..100_000), 1..6),
        ) {
            let mut shape = StepShape::default();
            let (mut squares, mut pairs) = (0.0, 0.0);
            for (new, cached) in &prefills {
                shape.add_prefill(*new, *cached, false);
                let (n, c) = (f64::from(*new), f64::from(*cached));
                squares += n * n;
                pairs += n * c + n * n / 2.0;
            }
            let [count, new, cached] = shape.equal_prefills().expect("there are some");
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b + 6.0;
            prop_assert!(near(count * new, f64::from(shape.prefill_tokens)));
            prop_assert!(near(count * new * new, squares));
            prop_assert!(near(count * (new * cached + new * new / 2.0), pairs));
            prop_assert!(count <= prefills.len() as f64 + 1e-9);
        }
    }
}
