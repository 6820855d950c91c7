//! What a start served, and on what: names of records, looked up.

use std::path::Path;

use super::start::Start;
use crate::hardware::GpuSpec;
use crate::io::text;
use crate::load::{LoadError, fail};
use crate::model::{Format, KvDtype, ModelSpec, Module, Packing, Scheme};
use crate::profiles;
use crate::validate::gpu_names;

/// Models of a folder beside those of the catalogue.
pub(super) struct Models {
    /// Names in lower case without the owner, and the texts of their `config.json`.
    files: Vec<(String, String)>,
}

/// How the files of a folder end.
const ENDING: &str = ".config.json";

/// Cards that differ from one of the catalogue in what memory does not depend on.
const SAME_MEMORY: [(&str, &str); 2] =
    [("A800-80GB", "A100-SXM4-80GB"), ("H800-80GB", "H100-SXM5-80GB")];

impl Models {
    /// The models of a folder, if one is given.
    pub(super) fn read(folder: Option<&Path>) -> Result<Self, LoadError> {
        let Some(folder) = folder else { return Ok(Self { files: Vec::new() }) };
        let name = folder.display().to_string();
        let entries = std::fs::read_dir(folder).map_err(|error| fail(&name, error))?;
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| fail(&name, error))?.path();
            let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
            let Some(model) = file.strip_suffix(ENDING) else { continue };
            let text = text::whole(&path, text::SETTINGS_MIB_MAX)
                .map_err(|error| fail(&path.display().to_string(), error))?;
            let short = model.rsplit("--").next().unwrap_or(model);
            files.push((short.to_lowercase(), text));
        }
        files.sort();
        Ok(Self { files })
    }

    /// The model of a start, in the number format that it says.
    pub(super) fn of(&self, start: &Start) -> Result<ModelSpec, String> {
        let Some(written) = start.logged_text("model") else {
            return Err("the record names no model".to_owned());
        };
        let spec = self.named(written)?;
        in_format(spec, start)
    }

    fn named(&self, written: &str) -> Result<ModelSpec, String> {
        let error = match self.whole_name(written) {
            Ok(spec) => return Ok(spec),
            Err(error) => error,
        };
        // A checkpoint whose name says how another one was quantised.
        let Some((base, format)) = Format::of_name(written) else { return Err(error) };
        let spec = self.whole_name(base).map_err(|_| error)?;
        Ok(spec.in_format(format))
    }

    fn whole_name(&self, written: &str) -> Result<ModelSpec, String> {
        // Folders of ModelScope have three underscores for a point.
        let written = written.trim_end_matches('/').replace("___", ".");
        let short = written.rsplit('/').next().unwrap_or(&written);
        let usual = short.to_lowercase().replace("qwen-2.5", "qwen2.5");
        let catalogue = || profiles::model(&written).or_else(|| profiles::model(&usual));
        let lower = short.to_lowercase();
        match (catalogue(), self.files.iter().find(|(name, _)| *name == lower)) {
            (Some(spec), _) => Ok(spec),
            (None, Some((_, text))) => {
                ModelSpec::from_hf_config(text, None, short).map_err(|error| error.to_string())
            }
            (None, None) => Err(format!("{short} is neither in the catalogue nor in --models")),
        }
    }
}

/// The model as it is served: a checkpoint in 16 bits may be quantised while it is loaded.
fn in_format(mut spec: ModelSpec, start: &Start) -> Result<ModelSpec, String> {
    let told = start.text("quantization").unwrap_or_default().to_lowercase();
    let has = spec.main_packing();
    let fits = match (told.as_str(), has) {
        ("", _) => true,
        ("fp8", None) => {
            spec = spec.quantized(Scheme::Fp8 { block: None }, &Module::CONVERTIBLE);
            true
        }
        (_, None) => false,
        (told, Some(Packing::Fp8 | Packing::Fp8Blocks { .. } | Packing::Mxfp8)) => {
            told.contains("fp8") || told.contains("modelopt")
        }
        (told, Some(Packing::Mxfp4)) => told.contains("mxfp4"),
        (told, Some(Packing::IntGroups { .. })) => {
            ["awq", "gptq", "compressed"].iter().any(|word| told.contains(word))
        }
        (told, Some(Packing::Nvfp4)) => told.contains("fp4") || told.contains("compressed"),
        (told, Some(Packing::Int8)) => told.contains("compressed") || told.contains("int8"),
    };
    if fits { Ok(spec) } else { Err(format!("{} in {told} is not known", spec.name)) }
}

/// The GPU of a start.
pub(super) fn gpu(start: &Start) -> Result<GpuSpec, String> {
    let Some(written) = start.text("gpu") else {
        return Err("the record names no GPU".to_owned());
    };
    let named = SAME_MEMORY.iter().find(|(card, _)| *card == written).map(|(_, gpu)| *gpu);
    let found = gpu_names::find(named.unwrap_or(written)).map(|(gpu, _)| gpu);
    found.or_else(|| of_class(written)).ok_or_else(|| format!("{written} is not in the catalogue"))
}

/// The GPU of a class that is written `MI350X/MI355X class`, where all that it names have equal memory.
fn of_class(written: &str) -> Option<GpuSpec> {
    let names = written.strip_suffix(" class")?.split('/');
    let gpus: Option<Vec<_>> = names.map(|name| Some(gpu_names::find(name)?.0)).collect();
    let gpus = gpus?;
    let first = gpus.first()?;
    gpus.iter().all(|gpu| gpu.memory() == first.memory()).then(|| first.clone())
}

/// The type of KV of a start.
pub(super) fn kv_dtype(start: &Start, model: &ModelSpec) -> Result<KvDtype, String> {
    match start.text("kv_cache_dtype").unwrap_or("auto") {
        "auto" => Ok(model.kv_cache_dtype),
        "bfloat16" | "float16" => Ok(KvDtype::Auto),
        told if told.starts_with("fp8") => Ok(KvDtype::Fp8),
        told => Err(format!("KV in {told} is not modelled")),
    }
}
