//! From a model, a GPU and its tables to what a step is priced by.

use std::sync::Arc;

use super::attention::{Decode, Prefill};
use super::grid::Polyline;
use super::mixers::{MixerTimes, kv_name};
use super::products;
use super::profile::{OperatorProfile, ProductTable};
use super::times::{AttentionTimes, MeasuredAttention, Prefills};
use super::{
    HEAD_ROWS, Layers, OperatorModel, Reach, Rows, SLOWEST, StateSecs, TABLE_ROWS, TYPICAL_ROWS,
    Term,
};
use crate::cost::StepTimeSource;
use crate::cost::contexts::{self, Heads, Reading, readings};
use crate::cost::roofline::{Device, ELEMENTWISE_SECS, RooflineOptions};
use crate::cost::states::States;
use crate::model::{Experts, KvDtype, Layer, Matrix, Mixer, Module};
use crate::scenario::Communication;

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

/// Tables of other attention than grouped that take so many times what the roofline says, at these sequences and this
/// context, are of kernels that no engine would choose (DeepSeek-V4 of SGLang 0.5.14 on RTX PRO 6000 takes 20 to 70
/// times as long, DeepSeek-V3.2 on others 0.7 to 2.5 times).
const SLOWEST_MIXER: f64 = 6.0;
const TYPICAL_DECODES: [f64; 2] = [64.0, 4096.0];

fn is_believed(measured: &Polyline, roofline_secs: f64) -> bool {
    measured.at(f64::from(TYPICAL_ROWS)) <= SLOWEST * roofline_secs
}

/// Said of kernels that were measured, and are not taken.
const SET_ASIDE: &str = " (measured, and set aside: far slower than the GPU allows)";

fn doubt(measured: Option<&Polyline>) -> &'static str {
    measured.map_or("", |_| SET_ASIDE)
}

/// A model on a GPU, while its figures are worked out.
pub(super) struct Build<'a> {
    pub(super) device: Device<'a>,
    pub(super) profile: &'a OperatorProfile,
    pub(super) options: &'a RooflineOptions,
    /// What was not measured.
    pub(super) gaps: Vec<String>,
}

impl Build<'_> {
    pub(super) fn model(mut self) -> OperatorModel {
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
            source: Arc::new(self.source()),
        }
    }

    fn layers(&mut self) -> Layers {
        let model = self.device.model;
        let mut layers = Layers {
            elementwise: ELEMENTWISE_SECS * self.device.parts(),
            all_reduce: self.all_reduces(),
            ..Layers::default()
        };
        if model.streams > 1 {
            self.gap("hyper-connections, but for what they move".to_owned());
        }
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
            products::experts(self.profile, dtype, hidden, shape, self.device.expert_gpus)
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
        vec![Term { times: self.device.parts(), secs: Rows::Measured(secs) }]
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
        let (mut measured, mut rest, mut prefills) = (Vec::new(), Vec::new(), Vec::new());
        for alike in by_kernels(&all) {
            let part = match alike[0].heads(self.device.tp) {
                Some(heads) => self.grouped_attention(&alike, &heads, &mut reach),
                None => self.mixer_attention(&alike, &mut reach),
            };
            match part {
                Some(part) => {
                    if part.prefill.is_none() {
                        prefills.extend(alike);
                    }
                    measured.push(part);
                }
                None => rest.extend(alike),
            }
        }
        let is_read = |reading: &&Reading| {
            reading.is_grouped() || rest.contains(reading) || prefills.contains(reading)
        };
        let bounds = all.iter().filter(is_read).filter_map(|reading| reading.window);
        let window = bounds.min_by(|a, b| a.context().total_cmp(&b.context()));
        let secs = |some: &[Reading]| (!some.is_empty()).then(|| self.device.attention_of(some));
        let (rest, prefills) = (secs(&rest), secs(&prefills));
        (AttentionTimes { measured, rest, prefills, window }, reach)
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
            prefill: Some(prefill.surface(layers, context)),
            prefills: Prefills::OfMeans,
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
            Mixer::Compressed(compressed) if compressed.ratio == 0 => {
                (None, "attention of a window of latent vectors alone", Prefills::ByPairs)
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
        let [sequences, context] = TYPICAL_DECODES;
        let bound = self.device.attention_of(alike).decode_secs(sequences, context);
        if times.decode.at(sequences, context) > SLOWEST_MIXER * bound {
            self.gap(format!("{name}{SET_ASIDE}"));
            return None;
        }
        reach.meet(times.reach());
        if times.prefill.is_none() {
            self.gap(format!("prefill of {name}"));
        }
        let MixerTimes { decode, prefill, .. } = times;
        Some(MeasuredAttention { decode, prefill, prefills, windowed: None })
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

    fn source(&self) -> StepTimeSource {
        let OperatorProfile { engine, version, gpu, .. } = self.profile;
        StepTimeSource::OperatorTable {
            engine: engine.clone(),
            version: version.clone(),
            measured_on: gpu.clone(),
            not_measured: self.gaps.clone(),
        }
    }

    fn provenance(&self) -> String {
        let OperatorProfile { engine, version, gpu, source, .. } = self.profile;
        let gaps = if self.gaps.is_empty() {
            String::new()
        } else {
            format!("; from the roofline: {}", self.gaps.join(", "))
        };
        let window = contexts::said(self.device.model);
        format!("operator table of {engine} {version} on {gpu} ({source}){gaps}{window}")
    }
}
