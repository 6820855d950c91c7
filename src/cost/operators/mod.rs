//! Step time from measured times of single operators ("operator tables").
//!
//! A step is the sum over its layers of matrix products, experts, attention, element-wise kernels
//! and all-reduces, and of the output head, each taken from tables that were measured on the GPU
//! with the kernels of one engine version, for shapes of any model. Between measured shapes the
//! share of the roofline is interpolated; beyond the largest measured size times go on in
//! proportion to the work, and the step counts as extrapolated.
//!
//! Decode attention counts every decoding sequence and, of prefilling ones, the share of their
//! context that was computed before; the rest is priced by the prefill kernel, whose time for n
//! whole prompts of S tokens is shared out in proportion to the pairs of tokens that are left. Layers
//! with a sliding window are priced by the same tables, of what lies in the window.
//!
//! Latent, sparse and compressed attention and layers with states have tables of their own
//! ([`MixerTable`], [`StateTable`]).
//!
//! What no table holds falls back to the [roofline](super::Roofline): formats and shapes of
//! experts that were not measured, attention of a kind that the GPU has no table of, more GPUs than
//! all-reduces were measured with.
//! Left out: what the roofline leaves out, and the quantisation of activations apart from products.

mod attention;
mod grid;
mod latent;
mod mixers;
mod products;
mod profile;
mod reads;
mod sparse;
mod states;
mod tables;

use std::sync::Arc;

use super::calibration::{Calibration, Coverage, StepParts, StepSum};
use super::contexts::{self, Heads, Reading, readings};
use super::decode_run::DecodeAttention;
use super::roofline::{
    AttentionSecs, DecodeTokens, Device, ELEMENTWISE_SECS, Experts as ExpertSecs, Product,
    RooflineError, RooflineOptions, Sampling,
};
use super::states::States;
use super::window::Window;
use super::{CostModel, StepShape};
use crate::hardware::GpuSpec;
use crate::model::{Experts, KvDtype, Layer, Matrix, Mixer, ModelSpec, Module};
use crate::scenario::Communication;
use crate::units::SimDuration;
use attention::{Decode, Prefill};
use grid::{Polyline, Surface};
use mixers::kv_name;
use reads::Reads;

pub(super) use reads::DecodeReads;

pub use mixers::MixerTimes;
pub use states::StateTimes;

pub use profile::{
    AllReduceTable, Codes, DecodeTable, ExpertTable, OperatorProfile, PrefillTable, ProductTable,
    ProfileError, Rates,
};
pub use tables::{MixerKind, MixerTable, StateKind, StateTable};

/// Rows that are priced by a look-up; larger steps are summed when they occur.
const TABLE_ROWS: u32 = 8192;
/// Some tables hold the time of a launch, or of a kernel that no engine would choose: beyond this
/// many times the roofline at a typical number of rows they are not believed (8-bit products in
/// blocks of vLLM 0.24 take 60 to 90 µs whatever their size, those of SGLang 6 to 24 µs).
const SLOWEST: f64 = 2.0;
const TYPICAL_ROWS: u32 = 64;
/// Rows of the output head that are priced by a look-up.
const HEAD_ROWS: u32 = 2048;

/// Prices steps of one model on one kind of GPU from measured operators.
#[derive(Debug, Clone)]
pub struct OperatorModel {
    rows: Arc<[StepParts]>,
    layers: Arc<Layers>,
    head: Arc<[f64]>,
    attention: Arc<AttentionTimes>,
    sampling: Sampling,
    states: StateSecs,
    calibration: Calibration,
    reach: Reach,
    provenance: Arc<str>,
}

/// A term of the layers: so many times this function of the rows.
#[derive(Debug, Clone)]
struct Term {
    times: f64,
    secs: Rows,
}

/// A function of rows, measured or from the roofline.
#[derive(Debug, Clone)]
enum Rows {
    Measured(Polyline),
    Product(Product),
    Experts(ExpertSecs),
}

impl Term {
    fn secs(&self, rows: u32) -> f64 {
        self.times
            * match &self.secs {
                Rows::Measured(line) => line.at(f64::from(rows)),
                Rows::Product(product) => product.secs(f64::from(rows)),
                Rows::Experts(experts) => experts.secs(rows),
            }
    }
}

/// All layers as functions of the rows.
#[derive(Debug, Clone, Default)]
struct Layers {
    products: Vec<Term>,
    experts: Vec<Term>,
    elementwise: f64,
    elementwise_row: f64,
    all_reduce: Vec<Term>,
}

impl Layers {
    /// Seconds of all layers at so many rows, attention apart.
    fn parts(&self, rows: u32) -> StepParts {
        if rows == 0 {
            return StepParts::default();
        }
        let sum = |terms: &[Term]| terms.iter().map(|term| term.secs(rows)).sum();
        StepParts {
            products: sum(&self.products),
            experts: sum(&self.experts),
            elementwise: self.elementwise + self.elementwise_row * f64::from(rows),
            all_reduce: sum(&self.all_reduce),
            ..StepParts::default()
        }
    }
}

impl Layers {
    /// The experts, where the busiest GPU has so many times its usual share: only those of the
    /// roofline lie on GPUs of their own.
    fn expert_secs(&self, rows: u32, by: f64) -> f64 {
        if rows == 0 {
            return 0.0;
        }
        let secs = |term: &Term| match &term.secs {
            Rows::Experts(experts) => term.times * experts.skewed(by).secs(rows),
            Rows::Measured(_) | Rows::Product(_) => term.secs(rows),
        };
        self.experts.iter().map(secs).sum()
    }
}

/// Attention of all layers: of heads that were measured, and the rest from the roofline.
#[derive(Debug, Clone)]
struct AttentionTimes {
    measured: Vec<MeasuredAttention>,
    rest: Option<AttentionSecs>,
    /// Keys that prefills visit at most in the layers with the smallest bound.
    window: Option<Window>,
}

/// Attention of layers with the same heads.
#[derive(Debug, Clone)]
struct MeasuredAttention {
    /// By sequences and mean context.
    decode: Surface,
    /// By prompts and their mean length.
    prefill: Surface,
    prefills: Prefills,
    /// The share of the layers that have a window, and the window.
    windowed: Option<(f64, Window)>,
}

/// What of the time of whole prompts a step with parts of prompts takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefills {
    /// In proportion to the pairs of tokens.
    ByPairs,
    /// That of prompts up to where the step ends less that of prompts up to where it begins.
    ByParts,
}

impl MeasuredAttention {
    fn prefill_secs(&self, shape: &StepShape) -> f64 {
        if shape.prefill_attention == 0 {
            return 0.0;
        }
        let (prompts, prompt) = (f64::from(shape.prefill_seqs), mean_prompt(shape));
        if self.prefills == Prefills::ByParts {
            let begin = shape.prefill_context_tokens as f64 / prompts;
            let before = if begin > 0.0 { self.prefill.at(prompts, begin) } else { 0.0 };
            return (self.prefill.at(prompts, prompt) - before).max(0.0);
        }
        // The pairs of a whole prompt are half its square.
        let secs = |pairs: f64| {
            2.0 * pairs / (prompts * prompt * prompt) * self.prefill.at(prompts, prompt)
        };
        let pairs = shape.prefill_attention as f64;
        let Some((share, window)) = &self.windowed else { return secs(pairs) };
        secs((1.0 - share) * pairs + share * window.pairs(shape) as f64)
    }

    fn reads(&self, shape: &StepShape) -> DecodeReads<'_> {
        DecodeReads::new(&self.decode, self.windowed, shape)
    }
}

impl AttentionTimes {
    /// Of the sequences that decode, and of those that prefill.
    fn of(&self, shape: &StepShape) -> (f64, f64) {
        let (mut decode, mut prefill) = self.rest.map_or((0.0, 0.0), |rest| rest.of(shape));
        for part in &self.measured {
            decode += part.reads(shape).secs(shape.decode_context_tokens);
            prefill += part.prefill_secs(shape);
        }
        (decode, prefill)
    }

    fn decodes(&self, shape: &StepShape) -> DecodeAttention<'_> {
        match (&self.measured[..], self.rest) {
            ([part], None) => DecodeAttention::Operators(part.reads(shape)),
            ([], Some(rest)) => DecodeAttention::Roofline(rest.decodes(shape)),
            (parts, rest) => DecodeAttention::Several(SeveralReads {
                rest: rest.map(|rest| rest.decodes(shape)),
                parts: parts.iter().map(|part| part.reads(shape)).collect(),
            }),
        }
    }
}

/// The reads of layers of several kinds.
#[derive(Debug, Clone)]
pub(super) struct SeveralReads<'a> {
    rest: Option<DecodeTokens>,
    parts: Vec<DecodeReads<'a>>,
}

impl SeveralReads<'_> {
    #[inline]
    pub(super) fn secs(&mut self, decode_tokens: u64) -> f64 {
        let mut secs = self.rest.map_or(0.0, |rest| rest.secs(decode_tokens));
        for part in &mut self.parts {
            secs += part.secs(decode_tokens);
        }
        secs
    }
}

/// The largest shapes that were measured.
#[derive(Debug, Clone, Copy)]
struct Reach {
    rows: f64,
    sequences: f64,
    context: f64,
    prompt: f64,
}

impl Reach {
    /// Shapes that are within both.
    fn meet(&mut self, [sequences, context, prompt]: [f64; 3]) {
        self.sequences = self.sequences.min(sequences);
        self.context = self.context.min(context);
        self.prompt = self.prompt.min(prompt);
    }
}

/// Layers with states: of kinds that were measured, and the rest at shares of the rates.
#[derive(Debug, Clone)]
struct StateSecs {
    measured: Arc<[StateTimes]>,
    rest: States,
}

impl StateSecs {
    fn secs(&self, shape: &StepShape) -> f64 {
        let mut secs = self.rest.secs(shape);
        let prompts = f64::from(shape.prefill_seqs);
        let tokens = f64::from(shape.prefill_tokens) / prompts.max(1.0);
        for times in &*self.measured {
            secs += times.decode_secs(f64::from(shape.decode_seqs));
            secs += times.prefill_secs(prompts, tokens);
        }
        secs
    }
}

/// Readings that kernels of one kind serve stand together: of grouped attention those with the same heads and at most
/// one window among them, of other kinds what one mixer reads.
fn by_kernels(all: &[Reading]) -> Vec<Vec<Reading>> {
    let mut kinds: Vec<Vec<Reading>> = Vec::new();
    for reading in all {
        let is_same = |other: &Reading| {
            let windows = [other.window, reading.window];
            let one_window = windows.iter().any(Option::is_none) || windows[0] == windows[1];
            match (other.heads(1), reading.heads(1)) {
                (Some(heads), Some(own)) => heads == own && one_window,
                (None, None) => other.mixer == reading.mixer,
                _ => false,
            }
        };
        match kinds.iter_mut().find(|kind| kind.iter().all(is_same)) {
            Some(kind) => kind.push(*reading),
            None => kinds.push(vec![*reading]),
        }
    }
    kinds
}

/// Whether the time of a reading hangs on what is read at most: tables of sparse attention hold that already.
fn measured_elsewhere(reading: &Reading, rest: &[Reading]) -> bool {
    reading.heads(1).is_some() || rest.contains(reading)
}

/// The mean prompt so far of the sequences that prefill.
fn mean_prompt(shape: &StepShape) -> f64 {
    let whole = shape.prefill_context_tokens as f64 + f64::from(shape.prefill_tokens);
    let prefills = f64::from(shape.prefill_seqs);
    if prefills > 0.0 { whole / prefills } else { 0.0 }
}

impl OperatorModel {
    /// Prices a model on a GPU whose operators were measured.
    ///
    /// # Errors
    /// When the heads cannot be shared by so many GPUs, or these are not in one node.
    pub fn new(
        model: &ModelSpec,
        gpu: &GpuSpec,
        profile: &OperatorProfile,
        options: &RooflineOptions,
    ) -> Result<Self, RooflineError> {
        let device = Device::new(model, gpu, options)?;
        let build = Build { device, profile, options, gaps: Vec::new() };
        Ok(build.model())
    }

    /// Where the figures come from and what was assumed, in one line for a report.
    pub fn provenance(&self) -> &str {
        &self.provenance
    }

    pub(super) fn calibration(&self) -> Calibration {
        self.calibration
    }

    pub(super) fn expert_secs(&self, rows: u32, by: f64) -> f64 {
        if by.to_bits() != 1.0_f64.to_bits() {
            return self.layers.expert_secs(rows, by);
        }
        let priced = self.rows.get(rows as usize).map(|parts| parts.experts);
        priced.unwrap_or_else(|| self.layers.parts(rows).experts)
    }

    pub(super) fn prefill_window(&self) -> u32 {
        self.attention.window.map_or(0, |window| window.prefill_keys())
    }

    /// The steps that follow one of this shape in a decode run.
    pub(super) fn decode_law(&self, shape: &StepShape) -> (StepSum, DecodeAttention<'_>) {
        let sum = self.calibration.sum(&self.parts(shape), shape);
        (sum, self.attention.decodes(shape))
    }
}

impl CostModel for OperatorModel {
    fn step_duration(&self, shape: &StepShape) -> SimDuration {
        self.calibration.step_duration(&self.parts(shape), shape)
    }

    fn parts(&self, shape: &StepShape) -> StepParts {
        let rows = shape.padded_tokens();
        let layers = match self.rows.get(rows as usize) {
            Some(parts) => *parts,
            None => self.layers.parts(rows),
        };
        let (decode_attention, prefill_attention) = self.attention.of(shape);
        let head = if let Some(secs) = self.head.get(shape.logit_rows as usize) {
            *secs
        } else {
            let last = self.head.len() - 1;
            self.head[last] * f64::from(shape.logit_rows) / last as f64
        };
        StepParts {
            decode_attention,
            prefill_attention,
            head,
            sampler: self.sampling.secs(shape.logit_rows),
            products: layers.products + self.states.secs(shape),
            ..layers
        }
    }

    fn coverage(&self, shape: &StepShape) -> Coverage {
        let reads = Reads::of(shape);
        let is_inside = f64::from(shape.tokens()) <= self.reach.rows
            && reads.sequences <= self.reach.sequences
            && reads.context(shape.decode_context_tokens) <= self.reach.context
            && mean_prompt(shape) <= self.reach.prompt;
        if is_inside { Coverage::Interpolated } else { Coverage::Extrapolated }
    }
}

fn is_believed(measured: &Polyline, roofline_secs: f64) -> bool {
    measured.at(f64::from(TYPICAL_ROWS)) <= SLOWEST * roofline_secs
}

fn doubt(measured: Option<&Polyline>) -> &'static str {
    measured.map_or("", |_| " (measured far slower than the GPU allows)")
}

/// A model on a GPU, while its figures are worked out.
struct Build<'a> {
    device: Device<'a>,
    profile: &'a OperatorProfile,
    options: &'a RooflineOptions,
    /// What was not measured.
    gaps: Vec<String>,
}

impl Build<'_> {
    fn model(mut self) -> OperatorModel {
        let layers = self.layers();
        let head = self.head();
        let (attention, mut reach) = self.attention();
        let states = self.states();
        let last = |table: &ProductTable| table.rows.last().map_or(0.0, |rows| f64::from(*rows));
        reach.rows = self.profile.products.iter().map(last).fold(f64::INFINITY, f64::min);
        OperatorModel {
            rows: (0..=TABLE_ROWS).map(|rows| layers.parts(rows)).collect(),
            layers: Arc::new(layers),
            head,
            attention: Arc::new(attention),
            sampling: self.device.sampling(self.options.sampler),
            states,
            calibration: self.options.calibration,
            reach,
            provenance: self.provenance().into(),
        }
    }

    fn layers(&mut self) -> Layers {
        let model = self.device.model;
        let mut layers = Layers {
            elementwise: ELEMENTWISE_SECS * f64::from(model.num_layers()),
            all_reduce: self.all_reduces(),
            ..Layers::default()
        };
        for alike in model.layers_alike() {
            let times = f64::from(alike.count);
            let (experts, mut others) = self.device.matrices(&alike);
            self.join_down(&alike.layer, &mut others);
            let mut elements = self.device.attention_elements(&alike);
            if let Some(shape) = &alike.layer.experts {
                let (secs, counted) = self.experts(shape, &experts);
                layers.experts.push(Term { times, secs });
                // The measured expert kernels include the activation function.
                elements += if counted { 0.0 } else { self.device.mlp_elements(&alike) };
            } else {
                elements += self.device.mlp_elements(&alike);
            }
            // The time of experts includes the choice of experts.
            for matrix in others.iter().filter(|matrix| matrix.module != Module::Router) {
                let secs = self.layer_product(matrix);
                layers.products.push(Term { times, secs });
            }
            layers.elementwise_row += times * self.device.elementwise_secs(elements);
        }
        layers
    }

    /// A product of the layers. A measured time is as far above that of multiplications at their
    /// rated speed as the roofline says.
    fn layer_product(&mut self, matrix: &Matrix) -> Rows {
        let [rated, calibrated] = [self.device.product(matrix), self.device.layer_product(matrix)];
        match self.product(matrix) {
            Rows::Measured(line) if self.device.products_compute.to_bits() != 1.0_f64.to_bits() => {
                let ratio = |rows: f64| calibrated.secs(rows) / rated.secs(rows);
                Rows::Measured(line.scaled(ratio))
            }
            Rows::Measured(line) => Rows::Measured(line),
            Rows::Product(_) | Rows::Experts(_) => Rows::Product(calibrated),
        }
    }

    fn product(&mut self, matrix: &Matrix) -> Rows {
        let name = products::dtype(matrix.packing);
        let measured = name.and_then(|name| products::product(self.profile, name, matrix));
        let bound = self.device.product(matrix);
        match measured {
            Some(line) if is_believed(&line, bound.secs(f64::from(TYPICAL_ROWS))) => {
                Rows::Measured(line)
            }
            slow => {
                let name = name.unwrap_or("integers");
                self.gap(format!("products of {name}{}", doubt(slow.as_ref())));
                Rows::Product(bound)
            }
        }
    }

    /// The routed experts of a layer, and whether they were measured.
    fn experts(&mut self, shape: &Experts, matrices: &[Matrix]) -> (Rows, bool) {
        let hidden = self.device.model.hidden;
        let packing = matrices.first().and_then(|matrix| matrix.packing);
        let measured = products::dtype(packing).filter(|_| !self.device.spreads_experts());
        let measured = measured.and_then(|dtype| {
            products::experts(self.profile, dtype, hidden, shape, self.device.tp)
        });
        let bound = self.device.experts(shape, matrices);
        let calibrated = self.device.layer_experts(shape, matrices);
        match measured {
            Some(line) if is_believed(&line, bound.secs(TYPICAL_ROWS)) => {
                let ratio = |rows: f64| {
                    calibrated.secs(rows.round() as u32) / bound.secs(rows.round() as u32)
                };
                let is_rated = self.device.experts_compute.to_bits() == 1.0_f64.to_bits();
                (Rows::Measured(if is_rated { line } else { line.scaled(ratio) }), true)
            }
            slow => {
                let doubt = doubt(slow.as_ref());
                let what = if self.device.spreads_experts() {
                    "experts spread over GPUs"
                } else {
                    "experts of this shape and format"
                };
                self.gap(format!("{what}{doubt}"));
                (Rows::Experts(calibrated), false)
            }
        }
    }

    fn all_reduces(&mut self) -> Vec<Term> {
        let (tp, model) = (self.device.tp, self.device.model);
        if tp == 1 || self.options.communication == Communication::Ignored {
            return Vec::new();
        }
        let row_bytes = 2.0 * f64::from(model.hidden);
        let measured = self.profile.all_reduce.iter().find(|table| table.gpus == tp);
        let table = measured.filter(|_| self.device.own_all_reduce.is_none());
        let secs = if let Some(table) = table {
            products::all_reduce(table, row_bytes)
        } else {
            let is_known =
                self.device.own_all_reduce.is_some() || self.device.gpu.reduces_over_pcie(tp);
            if !is_known {
                self.gap(format!("all-reduces over {tp} GPUs"));
            }
            let (latency, per_byte) = self.device.all_reduce();
            let rows = (0..=18).map(|octave| f64::from(1_u32 << octave));
            Polyline::new(rows.map(|rows| (rows, latency + rows * row_bytes * per_byte)))
        };
        vec![Term { times: self.device.reductions(), secs: Rows::Measured(secs) }]
    }

    fn head(&mut self) -> Arc<[f64]> {
        let matrix = self.device.model.lm_head(self.device.tp);
        let term = Term { times: 1.0, secs: self.product(&matrix) };
        (0..=HEAD_ROWS).map(|rows| if rows == 0 { 0.0 } else { term.secs(rows) }).collect()
    }

    fn attention(&mut self) -> (AttentionTimes, Reach) {
        let all = readings(self.device.model, self.device.tp, self.options.kv_cache_dtype);
        let none = f64::INFINITY;
        let mut reach = Reach { rows: none, sequences: none, context: none, prompt: none };
        let (mut measured, mut rest) = (Vec::new(), Vec::new());
        for alike in by_kernels(&all) {
            let part = match alike[0].heads(self.device.tp) {
                Some(heads) => self.grouped_attention(&alike, &heads, &mut reach),
                None => self.mixer_attention(&alike, &mut reach),
            };
            match part {
                Some(part) => measured.push(part),
                None => rest.extend(alike),
            }
        }
        let is_read = |reading: &&Reading| measured_elsewhere(reading, &rest);
        let bounds = all.iter().filter(is_read).filter_map(|reading| reading.window);
        let window = bounds.min_by(|a, b| a.context().total_cmp(&b.context()));
        let rest = (!rest.is_empty()).then(|| self.device.attention_of(&rest));
        (AttentionTimes { measured, rest, window }, reach)
    }

    /// Attention with keys and values of several heads.
    fn grouped_attention(
        &mut self,
        alike: &[Reading],
        heads: &Heads,
        reach: &mut Reach,
    ) -> Option<MeasuredAttention> {
        let kv_dtype = kv_name(self.options.kv_cache_dtype);
        let decode = Decode::choose(self.profile, kv_dtype, heads);
        let prefill = Prefill::choose(self.profile, heads);
        let (Some(decode), Some(prefill)) = (decode, prefill) else {
            self.gap(format!("attention with a KV cache of {kv_dtype}"));
            return None;
        };
        let [sequences, context] = decode.reach();
        reach.meet([sequences, context, prefill.reach()]);
        let layers: f64 = alike.iter().map(|reading| reading.layers).sum();
        let windowed = alike.iter().filter_map(|reading| Some((reading.layers, reading.window?)));
        let windowed = windowed.reduce(|(a, window), (b, _)| (a + b, window));
        Some(MeasuredAttention {
            decode: decode.surface(layers),
            prefill: prefill.surface(layers, context),
            prefills: Prefills::ByPairs,
            windowed: windowed.map(|(some, window)| (some / layers, window)),
        })
    }

    /// Attention of any other kind, with what chooses its keys.
    fn mixer_attention(
        &mut self,
        alike: &[Reading],
        reach: &mut Reach,
    ) -> Option<MeasuredAttention> {
        let Reading { mixer, layers, .. } = alike[0];
        let (tp, dtype) = (self.device.tp, self.options.kv_cache_dtype);
        let (times, name, prefills) = match &mixer {
            Mixer::Latent(latent) if latent.is_expanded => {
                (None, "expanded latent attention", Prefills::ByPairs)
            }
            Mixer::Latent(latent) if latent.is_sparse => {
                let times = self.profile.sparse_latent_attention(latent, tp, dtype, layers);
                (times, "sparse latent attention", Prefills::ByParts)
            }
            Mixer::Latent(latent) => {
                let times = self.profile.latent_attention(latent, tp, dtype, layers);
                (times, "latent attention", Prefills::ByPairs)
            }
            Mixer::Grouped(grouped) => {
                let times = self.profile.sparse_grouped_attention(grouped, tp, dtype, layers);
                (times, "sparse attention", Prefills::ByParts)
            }
            Mixer::Compressed(compressed) => {
                // Its cache is in 8 bits whatever is asked for.
                let dtype = KvDtype::Fp8;
                let times = self.profile.compressed_attention(compressed, tp, dtype, layers);
                (times, "compressed attention", Prefills::ByParts)
            }
            _ => (None, "attention", Prefills::ByPairs),
        };
        let Some(times) = times else {
            self.gap(name.to_owned());
            return None;
        };
        reach.meet(times.reach());
        let (prefill, prefills) = match times.prefill {
            Some(surface) => (surface, prefills),
            None => {
                self.gap(format!("prefill of {name}"));
                (self.roofline_prefill(alike, reach.context), Prefills::ByPairs)
            }
        };
        Some(MeasuredAttention { decode: times.decode, prefill, prefills, windowed: None })
    }

    /// Whole prompts from the roofline.
    fn roofline_prefill(&self, readings: &[Reading], most: f64) -> Surface {
        let secs = self.device.attention_of(readings);
        Surface::sample([1.0, most], |prompts, tokens| {
            let mut shape = StepShape::default();
            shape.add_prefill(tokens.ceil() as u32, 0, false);
            prompts * secs.of(&shape).1
        })
    }

    /// The projections down, of queries and of keys and values, as the one product that they are in vLLM and SGLang
    /// and in the modules that were measured.
    fn join_down(&self, layer: &Layer, matrices: &mut Vec<Matrix>) {
        let Some(Mixer::Latent(latent)) = layer.mixer else { return };
        let hidden = u64::from(self.device.model.hidden);
        let place = |matrices: &[Matrix], outputs: u32| {
            let wanted = (u64::from(outputs), hidden);
            matrices.iter().position(|matrix| (matrix.outputs, matrix.inputs) == wanted)
        };
        let keys = place(matrices, latent.kv_lora_rank + latent.qk_rope_head_dim);
        let queries = latent.q_lora_rank.and_then(|rank| place(matrices, rank));
        let (Some(keys), Some(queries)) = (keys, queries) else { return };
        matrices[queries].outputs += matrices[keys].outputs;
        matrices[queries].weight_bytes += matrices[keys].weight_bytes;
        matrices.remove(keys);
    }

    /// The states of all layers that keep some.
    fn states(&mut self) -> StateSecs {
        let model = self.device.model;
        let (mut measured, mut rest) = (Vec::new(), Vec::new());
        for (mixer, count) in model.distinct_mixers() {
            let layers = f64::from(count);
            let times = match &mixer {
                Mixer::Delta(delta) => self.profile.delta_net(delta, self.device.tp, layers),
                Mixer::KimiDelta(delta) => self.profile.kimi_delta(delta, self.device.tp, layers),
                _ => None,
            };
            match times {
                Some(times) => measured.push(times),
                None if mixer.has_kv() => {}
                None => {
                    self.gap(format!("states of {mixer} layers"));
                    rest.push((mixer, count));
                }
            }
        }
        let rest = States::of_mixers(&rest, self.device.gpu, self.device.tp);
        StateSecs { measured: measured.into(), rest }
    }

    fn gap(&mut self, what: String) {
        if !self.gaps.contains(&what) {
            self.gaps.push(what);
        }
    }

    fn provenance(&self) -> String {
        let OperatorProfile { engine, version, gpu, source, .. } = self.profile;
        let gaps = if self.gaps.is_empty() {
            String::new()
        } else {
            format!("; not measured, from the roofline: {}", self.gaps.join(", "))
        };
        let window = contexts::said(self.device.model);
        format!("operator table of {engine} {version} on {gpu} ({source}){gaps}{window}")
    }
}

#[cfg(test)]
mod tests;
