//! Vidur's profiles of operators (microsoft/vidur, MIT): a folder `…/compute/GPU/ORGANISATION/MODEL`
//! with `mlp.csv` and `attention.csv`, and the all-reduces of a host, `…/network/HOST/all_reduce.csv`.
//! Times are medians in ms, of one layer on one GPU.
//!
//! Vidur times neither output head nor sampler. The head is estimated: as long as the first product of
//! the MLP, which has the same inputs, times the ratio of their outputs. The sampler takes no time.
//! Attention of prefills beside decodes is the sum of both alone.

mod all_reduce;
mod attention;
mod rows;
mod table;

use std::path::{Path, PathBuf};

use super::error::LayerImportError;
use super::llmservingsim::LayerNs;
use super::reduce::{Reduction, Tensor};
use crate::cost::{AllReduceHost, LayerProfile};
use crate::hardware::GpuSpec;
use crate::model::ModelSpec;
use crate::profiles;

/// What to import, and how much of it to keep.
#[derive(Debug, Clone)]
pub struct VidurImport {
    /// The folder of `mlp.csv` and `attention.csv`.
    pub folder: PathBuf,
    /// The GPU; by default the third part of the folder's path from its end.
    pub gpu: Option<String>,
    /// The model; by default the last two parts of the folder's path.
    pub model: Option<String>,
    /// GPUs that share every matrix.
    pub tensor_parallel_size: u32,
    /// Mean error, as a share of a layer's time, up to which points of the attention grid are left
    /// out; 0 keeps all.
    pub tolerance: f64,
    /// Measured all-reduces of a host.
    pub all_reduce_table: Option<PathBuf>,
    /// All-reduces of a host, where there is no table.
    pub all_reduce: Option<AllReduceHost>,
}

/// What was made of the tables.
#[derive(Debug, Clone, PartialEq)]
pub struct VidurProfile {
    /// The profile.
    pub profile: LayerProfile,
    /// What leaving points of the attention grid out cost.
    pub reduction: Reduction,
    /// Mean error of latency and rate, as a share of the measured all-reduces, where there is a table
    /// of them.
    pub all_reduce_error: Option<f64>,
}

/// Reads the tables of one tensor parallel size.
///
/// # Errors
/// When a file is missing or says something that is not understood, or when the model or GPU is not
/// in the catalogue.
pub fn import_vidur(what: &VidurImport) -> Result<VidurProfile, LayerImportError> {
    let (gpu, model) = (gpu(what)?, model(what)?);
    let tp = what.tensor_parallel_size;
    let mlp = what.folder.join("mlp.csv");
    let rows::Rows { rows, sequences } = rows::read(&mlp, &model, tp)?;
    let measured = attention::read(&what.folder.join("attention.csv"), &model, tp)?;
    let layer = LayerNs::new(&rows, None);
    let (attention, reduction) =
        Tensor::new(&measured).reduced(what.tolerance, &|tokens| layer.at(tokens) / 1e3);
    let fitted = match &what.all_reduce_table {
        Some(path) => Some(all_reduce::fit(path, tp)?),
        None => None,
    };
    let profile = LayerProfile {
        source: format!("Vidur data/profiling, {} on {}", model.name, gpu.name),
        licence: "MIT".to_owned(),
        measured: "unstated".to_owned(),
        gpu: gpu.name,
        model: model.name,
        dtype: "float16".to_owned(),
        tensor_parallel_size: tp,
        engine: "sarathi-serve".to_owned(),
        engine_version: "unstated".to_owned(),
        rows,
        sequences,
        attention,
        experts: None,
        skew: None,
        all_reduce: fitted.map(|(host, _)| host).or(what.all_reduce),
    };
    // What was read may still not make a profile.
    let profile = LayerProfile::parse(&profile.to_toml())?;
    Ok(VidurProfile { profile, reduction, all_reduce_error: fitted.map(|(_, error)| error) })
}

fn gpu(what: &VidurImport) -> Result<GpuSpec, LayerImportError> {
    let name = match &what.gpu {
        Some(name) => name.clone(),
        None => from_end(&what.folder, 2),
    };
    profiles::gpu(&name).ok_or_else(|| {
        let problem = format!("`{name}` is not in the catalogue of GPUs: name one with --gpu");
        LayerImportError::content(&what.folder, problem)
    })
}

fn model(what: &VidurImport) -> Result<ModelSpec, LayerImportError> {
    let name = match &what.model {
        Some(name) => name.clone(),
        None => format!("{}/{}", from_end(&what.folder, 1), from_end(&what.folder, 0)),
    };
    let problem =
        |problem: &str| LayerImportError::content(&what.folder, format!("`{name}` {problem}"));
    let model = profiles::model(&name)
        .ok_or_else(|| problem("is not in the catalogue of models: name one with --model"))?;
    if model.experts().is_some() {
        return Err(problem("has experts, which Vidur does not time"));
    }
    Ok(model)
}

/// A part of a path, counted from its end.
fn from_end(path: &Path, index: usize) -> String {
    let part = path.components().rev().nth(index);
    part.map_or(String::new(), |part| part.as_os_str().to_string_lossy().into_owned())
}
