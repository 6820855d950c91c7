//! Step time from measured times of each operator of a layer, on this GPU with this model.
//!
//! A step is the sum over its layers of the operators on all its new tokens, of attention over what
//! prefills and decodes together, of routed experts and of two all-reduces, and of embedding, last
//! norm, output head and sampler. Tables are linear between measured points. Unequal contexts cost
//! more than equal ones of the same mean: a share alpha of what they would cost if all were as long
//! as the longest ([`SkewProfile`]), where the profile has measured alpha.
//!
//! All-reduces are a matter of the host and not in the profile's tables: latency and bytes over
//! rate. Left out: LoRA adapters, pipeline and data parallelism.

mod attention;
mod axis;
mod decodes;
mod experts;
mod numbers;
mod profile;
mod skew;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::Calibration;
use super::CostModel;
use super::Coverage;
use super::StepParts;
use super::StepShape;
use super::StepTimeSource;
use super::calibration::StepSum;
use super::decode_run::DecodeAttention;
use crate::model::{KvDtype, ModelSpec, Reach};
use crate::units::SimDuration;
use attention::Attention;
use experts::Experts;
use skew::Skew;

pub(super) use axis::Curve;
pub(super) use decodes::DecodeLine;
pub use numbers::Numbers;
pub use profile::{
    AllReduceHost, AttentionProfile, ExpertsProfile, LayerProfile, LayerProfileError, RowsProfile,
    SequencesProfile, SkewProfile,
};

/// Rows that are priced by one look-up.
const TABLE_ROWS: u32 = 8192;
/// Sequences that are priced by one look-up.
const TABLE_SEQS: u32 = 1024;
/// Bytes of an activation.
const ACTIVATION_BYTES: f64 = 2.0;

/// How an engine runs a model on its GPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerTableOptions {
    /// GPUs that share every matrix.
    pub tensor_parallel_size: u32,
    /// Type of the KV cache.
    pub kv_cache_dtype: KvDtype,
    /// GPUs that hold whole experts each, if they do: these, or those of several ranks.
    pub expert_gpus: Option<u32>,
    /// All-reduces on this host; `None` for those of the profile.
    pub all_reduce: Option<AllReduceHost>,
    /// Fit to this host.
    pub calibration: Calibration,
}

/// Why a profile does not price a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerTableError {
    /// The profile itself.
    #[error(transparent)]
    Profile(#[from] LayerProfileError),
    /// It is of something else.
    #[error("the profile has {what} {found}, the scenario {asked}")]
    Other {
        /// What differs.
        what: &'static str,
        /// In the profile.
        found: String,
        /// In the scenario.
        asked: String,
    },
    /// Experts are not measured like this.
    #[error(
        "the profile has the times of whole experts: with tensor_parallel_size {0} set \
         enable_expert_parallel"
    )]
    SharedExperts(u32),
    /// The layers of a model with experts and the profile's operators do not match.
    #[error("the profile has no times for {0}")]
    Missing(&'static str),
    /// Attention is measured for layers of one kind.
    #[error(
        "the profile has one time of attention for all layers, and {0} of those of the model see a \
         window: take another type"
    )]
    Windows(u32),
    /// Layers with linear attention.
    #[error(
        "the profile has one kind of attention, and the model has linear attention too: take another type"
    )]
    States,
    /// All-reduces of an unknown host.
    #[error(
        "with tensor_parallel_size {0} all_reduce_latency_us and all_reduce_gb_s have to be given: \
         they depend on the host, and the profile names none"
    )]
    AllReduce(u32),
}

/// Operators on the rows of a step, all layers, in seconds.
#[derive(Debug, Clone, Copy, Default)]
struct RowSecs {
    products: f64,
    elementwise: f64,
    experts: f64,
}

/// Prices steps by a layer profile.
#[derive(Debug, Clone)]
pub struct LayerTable {
    /// By rows.
    rows: Arc<[RowSecs]>,
    above: Arc<Above>,
    /// Head and sampler, by sequences.
    heads: Arc<[[f64; 2]]>,
    attention: Arc<Attention>,
    skew: Option<Arc<Skew>>,
    all_reduce_secs: f64,
    all_reduce_secs_per_row: f64,
    calibration: Calibration,
    provenance: Arc<str>,
    source: Arc<StepTimeSource>,
}

/// What steps with more rows than the table are priced from.
#[derive(Debug)]
struct Above {
    products: Curve,
    elementwise: Curve,
    experts: Option<Experts>,
    head: Curve,
    sampler: Curve,
    measured_rows: u32,
    measured_seqs: u32,
}

impl Above {
    fn secs(&self, rows: u32) -> RowSecs {
        if rows == 0 {
            return RowSecs::default();
        }
        let count = f64::from(rows);
        RowSecs {
            products: self.products.at(count),
            elementwise: self.elementwise.at(count),
            experts: self.experts.as_ref().map_or(0.0, |experts| experts.secs(rows)),
        }
    }

    /// Head and sampler.
    fn head_secs(&self, sequences: u32) -> [f64; 2] {
        if sequences == 0 {
            return [0.0; 2];
        }
        [self.head.at(f64::from(sequences)), self.sampler.at(f64::from(sequences))]
    }
}

impl LayerTable {
    /// Prices a model by a profile of it.
    ///
    /// # Errors
    /// When the profile is broken, of another model, precision or parallel size, or lacks
    /// something that the model needs.
    pub fn new(
        profile: &LayerProfile,
        model: &ModelSpec,
        options: &LayerTableOptions,
    ) -> Result<Self, LayerTableError> {
        profile.check()?;
        check_match(profile, model, options)?;
        let windowed = model.attentions().filter(|mixer| mixer.reach() != Reach::Full).count();
        if windowed > 0 {
            return Err(LayerTableError::Windows(windowed as u32));
        }
        if model.state_layers() > 0 {
            return Err(LayerTableError::States);
        }
        let tp = options.tensor_parallel_size;
        let experts = Experts::of(profile, model, options)?;
        let by_sequences =
            |ns: &Numbers| Curve::new(floats(&profile.sequences.sequences, 1.0), floats(ns, 1e-9));
        let above = Above {
            head: by_sequences(&profile.sequences.lm_head_ns),
            sampler: by_sequences(&profile.sequences.sampler_ns),
            products: products(profile, model),
            elementwise: elementwise(profile, model),
            experts,
            measured_rows: profile.rows.tokens.last().map_or(0, |last| *last as u32),
            measured_seqs: profile.sequences.sequences.last().map_or(0, |last| *last as u32),
        };
        let layers = f64::from(model.num_layers());
        let (mut all_reduce_secs, mut all_reduce_secs_per_row) = (0.0, 0.0);
        if tp > 1 {
            let host = options.all_reduce.or(profile.all_reduce);
            let host = host.ok_or(LayerTableError::AllReduce(tp))?;
            all_reduce_secs = 2.0 * layers * host.latency_us * 1e-6;
            let bytes = ACTIVATION_BYTES * f64::from(model.hidden);
            all_reduce_secs_per_row = 2.0 * layers * bytes / (host.gb_s * 1e9);
        }
        Ok(Self {
            rows: (0..=TABLE_ROWS).map(|rows| above.secs(rows)).collect(),
            heads: (0..=TABLE_SEQS).map(|count| above.head_secs(count)).collect(),
            above: Arc::new(above),
            attention: Arc::new(Attention::new(&profile.attention, layers)),
            skew: profile.skew.as_ref().map(|skew| Arc::new(Skew::new(skew))),
            all_reduce_secs,
            all_reduce_secs_per_row,
            calibration: options.calibration,
            provenance: format!(
                "{}; {} {}, measured {}, {}",
                profile.source,
                profile.engine,
                profile.engine_version,
                profile.measured,
                profile.licence
            )
            .into(),
            source: Arc::new(StepTimeSource::LayerTable {
                engine: profile.engine.clone(),
                version: profile.engine_version.clone(),
                source: profile.source.clone(),
            }),
        })
    }

    /// The same tables with another fit to the host.
    #[must_use]
    pub fn calibrated(&self, calibration: Calibration) -> Self {
        Self { calibration, ..self.clone() }
    }

    /// Where the figures come from, in one line for a report.
    pub fn provenance(&self) -> &str {
        &self.provenance
    }

    pub(super) fn source(&self) -> &StepTimeSource {
        &self.source
    }

    pub(super) fn calibration(&self) -> Calibration {
        self.calibration
    }

    pub(super) fn expert_secs(&self, rows: u32) -> f64 {
        let priced = self.rows.get(rows as usize).map(|secs| secs.experts);
        priced.unwrap_or_else(|| self.above.secs(rows).experts)
    }

    fn decode_attention(&self, shape: &StepShape) -> f64 {
        if shape.decode_seqs == 0 {
            return 0.0;
        }
        let mut line = DecodeLine::new(&self.attention, self.skew.as_deref(), shape.decode_seqs);
        line.secs(shape.decode_context_tokens, shape.decode_context_max)
    }

    /// The steps that follow one of this shape in a decode run; `None` where they are no decodes.
    pub(super) fn decode_law(&self, shape: &StepShape) -> Option<(StepSum, DecodeAttention<'_>)> {
        if shape.decode_seqs == 0 || shape.prefill_tokens > 0 {
            return None;
        }
        let sum = self.calibration.sum(&self.parts(shape), shape);
        let line = DecodeLine::new(&self.attention, self.skew.as_deref(), shape.decode_seqs);
        Some((sum, DecodeAttention::Layers(line)))
    }

    /// Attention of a step that prefills: what its prefill adds, and its decodes.
    fn mixed_attention(&self, shape: &StepShape) -> (f64, f64) {
        let (seqs, longest) = (shape.decode_seqs, shape.decode_context_max);
        let cached = shape.prefill_context_tokens;
        let slice = self.attention.slice(shape.prefill_tokens, cached, seqs);
        if seqs == 0 {
            return (self.attention.secs(slice, 0.0), 0.0);
        }
        let mean = shape.decode_context_tokens as f64 / f64::from(seqs);
        let mut secs = self.attention.secs(slice, mean);
        if let Some(skew) = &self.skew
            && seqs > 1
            && f64::from(longest) > mean
        {
            let most = self.attention.secs(slice, f64::from(longest));
            secs += skew.mixed() * (most - secs).max(0.0);
        }
        let decode = self.attention.decode_secs(seqs, mean).min(secs);
        (secs - decode, decode)
    }
}

impl CostModel for LayerTable {
    fn step_duration(&self, shape: &StepShape) -> SimDuration {
        self.calibration.step_duration(&self.parts(shape), shape)
    }

    fn parts(&self, shape: &StepShape) -> StepParts {
        let rows = shape.padded_tokens();
        let by_rows = match self.rows.get(rows as usize) {
            Some(secs) => *secs,
            None => self.above.secs(rows),
        };
        let mut parts = StepParts {
            products: by_rows.products,
            elementwise: by_rows.elementwise,
            experts: by_rows.experts,
            ..StepParts::default()
        };
        if rows > 0 {
            parts.all_reduce =
                self.all_reduce_secs + self.all_reduce_secs_per_row * f64::from(rows);
        }
        // A prompt that is not yet complete has a row in the output head too.
        let sequences = shape.seqs() + shape.draft_tokens;
        [parts.head, parts.sampler] = match self.heads.get(sequences as usize) {
            Some(secs) => *secs,
            None => self.above.head_secs(sequences),
        };
        if shape.prefill_tokens == 0 {
            parts.decode_attention = self.decode_attention(shape);
        } else {
            (parts.prefill_attention, parts.decode_attention) = self.mixed_attention(shape);
        }
        parts
    }

    fn coverage(&self, shape: &StepShape) -> Coverage {
        let covers = shape.tokens() <= self.above.measured_rows
            && shape.seqs() <= self.above.measured_seqs
            && self.attention.covers(
                shape.prefill_tokens,
                shape.prefill_context_tokens,
                shape.decode_seqs,
                shape.decode_context_max,
            );
        if covers { Coverage::Interpolated } else { Coverage::Extrapolated }
    }
}

fn check_match(
    profile: &LayerProfile,
    model: &ModelSpec,
    options: &LayerTableOptions,
) -> Result<(), LayerTableError> {
    let differs = |what, found: &str, asked: String| {
        (found != asked).then(|| LayerTableError::Other { what, found: found.to_owned(), asked })
    };
    let is_half = model.quantization.is_none() && model.dtype.bytes() == 2;
    // Both 16-bit formats run at the same rates.
    let dtype = if is_half { profile.dtype.as_str() } else { "other weights" };
    let kv = if options.kv_cache_dtype == KvDtype::Auto { "auto" } else { "fp8" };
    let tp = options.tensor_parallel_size.to_string();
    let found = [
        differs("model", &profile.model, model.name.clone()),
        differs("dtype", &profile.dtype, dtype.to_owned()),
        differs("kv_cache_dtype", "auto", kv.to_owned()),
        differs("tensor_parallel_size", &profile.tensor_parallel_size.to_string(), tp),
    ];
    found.into_iter().flatten().next().map_or(Ok(()), Err)
}

fn floats(numbers: &[u64], scale: f64) -> Vec<f64> {
    numbers.iter().map(|number| *number as f64 * scale).collect()
}

/// Σ count · time of operators, in seconds, by rows.
fn sum(profile: &LayerProfile, operators: &[(Option<&Numbers>, u32)]) -> Curve {
    let tokens = &profile.rows.tokens;
    let at = |index: usize| {
        let terms = operators.iter().filter_map(|(ns, count)| Some((ns.as_ref()?, *count)));
        terms.map(|(ns, count)| ns[index] as f64 * f64::from(count) * 1e-9).sum()
    };
    Curve::new(floats(tokens, 1.0), (0..tokens.len()).map(at).collect())
}

fn products(profile: &LayerProfile, model: &ModelSpec) -> Curve {
    let (rows, layers) = (&profile.rows, model.num_layers());
    let dense = model.dense_layers();
    sum(
        profile,
        &[
            (Some(&rows.qkv_proj_ns), layers),
            (Some(&rows.o_proj_ns), layers),
            (rows.gate_up_proj_ns.as_ref(), dense),
            (rows.down_proj_ns.as_ref(), dense),
        ],
    )
}

fn elementwise(profile: &LayerProfile, model: &ModelSpec) -> Curve {
    let (rows, layers) = (&profile.rows, model.num_layers());
    sum(
        profile,
        &[
            (Some(&rows.embedding_ns), 1),
            (Some(&rows.layernorm_ns), 2 * layers),
            (rows.qk_norm_ns.as_ref(), layers),
            (Some(&rows.rotary_emb_ns), layers),
            (rows.act_fn_ns.as_ref(), model.dense_layers()),
            (Some(&rows.final_layernorm_ns), 1),
        ],
    )
}
