//! `LLMServingSim`'s per-layer tables: a folder `…/GPU/ORGANISATION/MODEL/VARIANT` with `meta.yaml`
//! and a folder `tpN` of `dense.csv`, `per_sequence.csv`, `attention.csv`, `moe.csv` and
//! `skew_fit.csv` (version 1.0.0 of its profiler, casys-kaist/LLMServingSim, MIT).

mod attention;
mod experts;
mod meta;
mod skew;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::LayerImportError;
use super::reduce::{Reduction, Tensor};
use crate::cost::{
    AllReduceHost, ExpertsProfile, LayerProfile, Numbers, RowsProfile, SequencesProfile,
};
use crate::io::text;
use crate::profiles;
use meta::Meta;

pub(super) use attention::{Measured, Slice};

/// What to import, and how much of it to keep.
#[derive(Debug, Clone)]
pub struct LayerImport {
    /// The folder that holds `meta.yaml`.
    pub folder: PathBuf,
    /// GPUs that share every matrix.
    pub tensor_parallel_size: u32,
    /// Mean error, as a share of a layer's time, up to which points of the attention grid are left
    /// out; 0 keeps all.
    pub tolerance: f64,
    /// All-reduces of the host of the measurements, if known.
    pub all_reduce: Option<AllReduceHost>,
}

/// Reads the tables of one tensor parallel size. Also tells what reducing them cost.
///
/// # Errors
/// When a file is missing or says something that is not understood.
pub fn import_layers(what: &LayerImport) -> Result<(LayerProfile, Reduction), LayerImportError> {
    let meta = Meta::read(&what.folder)?;
    let tp = what.tensor_parallel_size;
    let folder = what.folder.join(format!("tp{tp}"));
    let rows = rows(&folder.join("dense.csv"))?;
    let experts = experts::read(&what.folder, tp)?;
    let layer = LayerNs::new(&rows, experts.as_ref());
    let measured = attention::read(&folder.join("attention.csv"))?;
    let (attention, reduction) =
        Tensor::new(&measured).reduced(what.tolerance, &|tokens| layer.at(tokens) / 1e3);
    let profile = LayerProfile {
        source: meta.source(&what.folder),
        licence: meta.licence().to_owned(),
        measured: meta.day().to_owned(),
        gpu: meta.gpu(&what.folder)?,
        model: profiles::model(&meta.model).map_or_else(|| meta.model.clone(), |spec| spec.name),
        dtype: meta.dtype(&what.folder)?.to_owned(),
        tensor_parallel_size: tp,
        engine: meta.engine().to_owned(),
        engine_version: meta.vllm_version.clone(),
        rows,
        sequences: sequences(&folder.join("per_sequence.csv"))?,
        attention,
        experts,
        skew: skew::read(&meta, &folder, tp)?,
        all_reduce: what.all_reduce,
    };
    // What was read may still not make a profile.
    let profile = LayerProfile::parse(&profile.to_toml())?;
    Ok((profile, reduction))
}

/// The rows of a CSV file, by the names of its columns.
fn csv_rows<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, LayerImportError> {
    let text = text::whole(path, text::RESULTS_MIB_MAX);
    let text = text.map_err(|error| LayerImportError::read(path, &error))?;
    let rows = csv::Reader::from_reader(text.as_bytes()).into_deserialize();
    let rows = rows.collect::<Result<Vec<T>, _>>();
    let rows = rows.map_err(|error| LayerImportError::content(path, error.to_string()))?;
    if rows.is_empty() {
        return Err(LayerImportError::content(path, "holds no rows"));
    }
    Ok(rows)
}

/// No operator takes longer: a longer time is in another unit.
pub(super) const LONGEST_US: f64 = 1e7;

/// Refuses what is no time of an operator.
fn check_time(path: &Path, what: &str, time_us: f64) -> Result<(), LayerImportError> {
    if (0.0..=LONGEST_US).contains(&time_us) {
        return Ok(());
    }
    let problem = format!("{what}: time_us must be a time up to 10 s, got {time_us}");
    Err(LayerImportError::content(path, problem))
}

#[derive(Debug, Deserialize)]
struct Timed {
    layer: String,
    #[serde(alias = "tokens", alias = "sequences")]
    count: u32,
    time_us: f64,
}

/// Times by operator on the grid that all share.
fn operators(path: &Path) -> Result<(Numbers, BTreeMap<String, Numbers>), LayerImportError> {
    let mut by_operator: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
    for row in csv_rows::<Timed>(path)? {
        check_time(path, &row.layer, row.time_us)?;
        let ns = (row.time_us * 1e3).round() as u64;
        // Of repeated measurements the fastest counts.
        let points = by_operator.entry(row.layer).or_default();
        points.entry(row.count.into()).and_modify(|known| *known = ns.min(*known)).or_insert(ns);
    }
    let grid: Vec<u64> =
        by_operator.values().next().map(|p| p.keys().copied().collect()).unwrap_or_default();
    if let Some((name, _)) = by_operator.iter().find(|(_, p)| !p.keys().eq(grid.iter())) {
        let problem = format!("{name}: is not measured at the same points as the others");
        return Err(LayerImportError::content(path, problem));
    }
    let numbers = |points: BTreeMap<u64, u64>| Numbers(points.into_values().collect());
    Ok((Numbers(grid), by_operator.into_iter().map(|(name, p)| (name, numbers(p))).collect()))
}

fn rows(path: &Path) -> Result<RowsProfile, LayerImportError> {
    let (tokens, mut found) = operators(path)?;
    let mut must = |name: &str| {
        let times = found.remove(name);
        times.ok_or_else(|| LayerImportError::content(path, format!("has no layer `{name}`")))
    };
    let mut rows = RowsProfile {
        tokens,
        embedding_ns: must("embedding")?,
        layernorm_ns: must("layernorm")?,
        qkv_proj_ns: must("qkv_proj")?,
        rotary_emb_ns: must("rotary_emb")?,
        o_proj_ns: must("o_proj")?,
        final_layernorm_ns: must("final_layernorm")?,
        ..RowsProfile::default()
    };
    rows.qk_norm_ns = found.remove("qk_norm");
    rows.gate_up_proj_ns = found.remove("gate_up_proj");
    rows.act_fn_ns = found.remove("act_fn");
    rows.down_proj_ns = found.remove("down_proj");
    match found.keys().next() {
        None => Ok(rows),
        Some(name) => Err(LayerImportError::content(path, format!("layer `{name}` is not known"))),
    }
}

fn sequences(path: &Path) -> Result<SequencesProfile, LayerImportError> {
    let (sequences, mut found) = operators(path)?;
    let mut must = |name: &str| {
        let times = found.remove(name);
        times.ok_or_else(|| LayerImportError::content(path, format!("has no layer `{name}`")))
    };
    let (lm_head_ns, sampler_ns) = (must("lm_head")?, must("sampler")?);
    match found.keys().next() {
        None => Ok(SequencesProfile { sequences, lm_head_ns, sampler_ns }),
        Some(name) => Err(LayerImportError::content(path, format!("layer `{name}` is not known"))),
    }
}

/// A layer's time without attention in ns, at the next measured number of tokens.
pub(super) struct LayerNs<'a> {
    tokens: &'a [u64],
    ns: Vec<u64>,
    experts: Option<&'a ExpertsProfile>,
}

impl<'a> LayerNs<'a> {
    pub(super) fn new(rows: &'a RowsProfile, experts: Option<&'a ExpertsProfile>) -> Self {
        let once = [&rows.qkv_proj_ns, &rows.rotary_emb_ns, &rows.o_proj_ns];
        let maybe = [&rows.qk_norm_ns, &rows.gate_up_proj_ns, &rows.act_fn_ns, &rows.down_proj_ns];
        let parts = || once.into_iter().chain(maybe.into_iter().flatten());
        let at =
            |index: usize| 2 * rows.layernorm_ns[index] + parts().map(|ns| ns[index]).sum::<u64>();
        Self { tokens: &rows.tokens, ns: (0..rows.tokens.len()).map(at).collect(), experts }
    }

    pub(super) fn at(&self, tokens: u64) -> f64 {
        let next = |grid: &[u64]| {
            grid.partition_point(|point| *point < tokens).min(grid.len().saturating_sub(1))
        };
        // As few experts as there can be: a layer takes this long at least.
        let experts = self.experts.map_or(0, |experts| {
            experts.experts_ns[next(&experts.tokens) * experts.activated.len()]
        });
        (self.ns[next(self.tokens)] + experts) as f64
    }
}
