//! `meta.yaml`: what was measured, with what, when.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::io::import::error::LayerImportError;
use crate::io::text;
use crate::profiles;

#[derive(Debug, Deserialize)]
pub(super) struct Meta {
    profiler_version: String,
    pub(super) vllm_version: String,
    hardware: String,
    profiled_at: String,
    pub(super) model: String,
    variant: String,
    pub(super) skew_fit: SkewFit,
    /// Who measured, where it was not its profiler.
    source: Option<String>,
    /// Whose kernels they are, where they are not vLLM's.
    engine: Option<String>,
    licence: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SkewFit {
    pub(super) enabled: bool,
    pub(super) bucket_axes: Option<BucketAxes>,
    #[serde(default)]
    pub(super) per_tp: BTreeMap<u32, SkewOfTp>,
}

/// Classes by their right-inclusive bounds, the outermost bounding nothing.
#[derive(Debug, Deserialize)]
pub(super) struct BucketAxes {
    pub(super) n_bins: Vec<f64>,
    pub(super) n_labels: Vec<String>,
    pub(super) skew_rate_bins: Vec<f64>,
    pub(super) skew_rate_labels: Vec<String>,
    pub(super) kv_big_bins: Vec<f64>,
    pub(super) kv_big_labels: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SkewOfTp {
    pub(super) alpha_default: f64,
}

impl Meta {
    pub(super) fn read(folder: &Path) -> Result<Self, LayerImportError> {
        let path = folder.join("meta.yaml");
        let text = text::whole(&path, text::SETTINGS_MIB_MAX)
            .map_err(|error| LayerImportError::read(&path, &error))?;
        let meta: Self = serde_yaml_ng::from_str(&text)
            .map_err(|error| LayerImportError::content(&path, error.to_string()))?;
        if !meta.profiler_version.starts_with("1.") {
            let problem = format!("profiler_version: must be 1.x, got {}", meta.profiler_version);
            return Err(LayerImportError::content(&path, problem));
        }
        Ok(meta)
    }

    /// The GPU by its name in the catalogue.
    pub(super) fn gpu(&self, folder: &Path) -> Result<String, LayerImportError> {
        profiles::gpu(&self.hardware).map(|spec| spec.name).ok_or_else(|| {
            let path = folder.join("meta.yaml");
            let problem = format!("hardware: `{}` is not in the catalogue of GPUs", self.hardware);
            LayerImportError::content(&path, problem)
        })
    }

    pub(super) fn dtype(&self, folder: &Path) -> Result<&'static str, LayerImportError> {
        match self.variant.as_str() {
            "bf16" => Ok("bfloat16"),
            other => Err(LayerImportError::content(
                &folder.join("meta.yaml"),
                format!("variant: must be bf16, got {other}"),
            )),
        }
    }

    pub(super) fn engine(&self) -> &str {
        self.engine.as_deref().unwrap_or("vllm")
    }

    pub(super) fn licence(&self) -> &str {
        self.licence.as_deref().unwrap_or("MIT")
    }

    pub(super) fn day(&self) -> &str {
        self.profiled_at.split('T').next().unwrap_or_default()
    }

    pub(super) fn source(&self, folder: &Path) -> String {
        if let Some(source) = &self.source {
            return source.clone();
        }
        let variant = folder.file_name().and_then(|name| name.to_str()).unwrap_or(&self.variant);
        format!("LLMServingSim layer tables {}/{}/{variant}", self.hardware, self.model)
    }
}
