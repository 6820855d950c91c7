//! The operator tables of `AIConfigurator` (ai-dynamo/aiconfigurator, Apache-2.0): folders
//! `GPU/FAMILY/ENGINE/VERSION` below `systems/data`, measured kernel by kernel.
//!
//! Kept are the shapes that models have: matrix products from 256 to 65,536 inputs and outputs at
//! about twenty numbers of rows, attention without a window, experts without expert parallelism,
//! all-reduces in a CUDA graph. Of rows measured more than once the fastest counts.

mod cube;
mod layers;
mod mixers;
mod norms;
mod reduce;
mod states;
mod write;

use std::path::{Path, PathBuf};

use super::ImportError;
use super::raw::{self, Columns, RawTable};
use crate::cost::{OperatorProfile, Rates};
use crate::hardware::GpuSpec;
use crate::io::text;
use crate::profiles;

pub use write::to_toml;

/// Which tables to import.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The folder of the GPU: `h100_sxm`.
    pub system: &'a str,
    /// `vllm` or `sglang`.
    pub engine: &'a str,
    /// The version of the engine, the name of a folder.
    pub version: &'a str,
}

/// Folders of GPUs and their names in the catalogue.
const SYSTEMS: [(&str, &str); 10] = [
    ("a100_sxm", "A100-SXM4-80GB"),
    ("b200_sxm", "B200-SXM-180GB"),
    ("b300_sxm", "B300-SXM"),
    ("b60", "Arc-Pro-B60"),
    ("gb200", "GB200"),
    ("gb300", "GB300"),
    ("h100_sxm", "H100-SXM5-80GB"),
    ("h200_sxm", "H200-SXM-141GB"),
    ("l40s", "L40S"),
    ("rtx_pro_6000_server", "RTX-PRO-6000-Blackwell-Server"),
];

/// L2 caches in MB, from the vendors' data sheets.
const L2_MB: [(&str, f64); 10] = [
    ("a100_sxm", 40.0),
    ("b200_sxm", 126.0),
    ("b300_sxm", 126.0),
    ("b60", 18.0),
    ("gb200", 126.0),
    ("gb300", 126.0),
    ("h100_sxm", 50.0),
    ("h200_sxm", 50.0),
    ("l40s", 96.0),
    ("rtx_pro_6000_server", 128.0),
];

/// Reduces the tables of one GPU, engine and version.
///
/// # Errors
/// When the GPU is unknown, a needed table is missing, or a file cannot be read.
pub fn import(folder: &Path, selection: &Selection<'_>) -> Result<OperatorProfile, ImportError> {
    let gpu = gpu_of(selection.system)?;
    let l2 = L2_MB.iter().find(|(system, _)| *system == selection.system);
    let l2_bytes = 1e6 * l2.map_or(0.0, |(_, mb)| *mb);
    let tables = Tables { folder, selection };
    let rates = Rates {
        memory_gb_s: gpu.memory_bandwidth_gb_s,
        bf16_tflops: gpu.bf16_tflops,
        fp8_tflops: gpu.fp8_tflops,
        fp4_tflops: gpu.fp4_tflops,
    };
    let gemm = tables.needed("gemm", "gemm_perf", &["m", "n", "k"], &["gemm_dtype"])?;
    let decode = tables.needed("attention", "generation_attention_perf", &DECODE, &KV)?;
    let prefill = tables.needed("attention", "context_attention_perf", &PREFILL, &KV)?;
    let moe = tables.read("moe", "moe_perf", &MOE, &["moe_dtype", "distribution"])?;
    let comm = tables.read(
        "comm",
        "custom_allreduce_perf",
        &["num_gpus", "message_size"],
        &["backend"],
    )?;
    // Over PCIe all-reduces are those of the host that was measured, which no other need have.
    let mut all_reduce = reduce::all_reduce(&comm);
    all_reduce.retain(|table| !gpu.reduces_over_pcie(table.gpus));
    let mut profile = OperatorProfile {
        source: "ai-dynamo/aiconfigurator, systems/data".to_owned(),
        licence: "Apache-2.0".to_owned(),
        date: "read 2026-11; the tables do not say when they were measured".to_owned(),
        gpu: gpu.name,
        engine: selection.engine.to_owned(),
        version: selection.version.to_owned(),
        rates,
        products: reduce::products(&gemm, &rates),
        decode_attention: reduce::decode_attention(&decode, l2_bytes, &rates),
        prefill_attention: reduce::prefill_attention(&prefill),
        experts: reduce::experts(&moe),
        all_reduce,
        mixers: Vec::new(),
        states: Vec::new(),
    };
    profile.mixers = mixers::import(&tables, &profile)?;
    profile.states = states::import(&tables)?;
    Ok(profile)
}

const KV: [&str; 2] = ["kv_cache_dtype", "attn_dtype"];
const DECODE: [&str; 7] =
    ["batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size", "isl"];
const PREFILL: [&str; 6] =
    ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size"];
const MOE: [&str; 7] = [
    "num_tokens",
    "hidden_size",
    "inter_size",
    "topk",
    "num_experts",
    "moe_tp_size",
    "moe_ep_size",
];

fn gpu_of(system: &str) -> Result<GpuSpec, ImportError> {
    let known = SYSTEMS.iter().find(|(folder, _)| *folder == system);
    known.and_then(|(_, name)| profiles::gpu(name)).ok_or_else(|| {
        let names: Vec<&str> = SYSTEMS.iter().map(|(folder, _)| *folder).collect();
        ImportError::Missing(format!(
            "--gpu: no GPU of the catalogue is known for `{system}`; known are {}",
            names.join(", ")
        ))
    })
}

struct Tables<'a> {
    folder: &'a Path,
    selection: &'a Selection<'a>,
}

impl Tables<'_> {
    fn needed(
        &self,
        family: &str,
        stem: &str,
        numbers: &[&str],
        words: &[&str],
    ) -> Result<RawTable, ImportError> {
        let table = self.read(family, stem, numbers, words)?;
        if table.rows.is_empty() {
            let Selection { system, engine, version } = self.selection;
            return Err(ImportError::Missing(format!(
                "{}: there is no table {stem} in {system}/{family}/{engine}/{version}",
                self.folder.display()
            )));
        }
        Ok(table)
    }

    /// The table of the version, else of the nearest below, else of the nearest above; empty where
    /// there is none at all.
    fn read(
        &self,
        family: &str,
        stem: &str,
        numbers: &[&str],
        words: &[&str],
    ) -> Result<RawTable, ImportError> {
        let columns = Columns { numbers, words };
        for folder in self.folders(family)? {
            if let Some(table) = raw::read(&folder, stem, columns)? {
                return Ok(table);
            }
        }
        Ok(RawTable::default())
    }

    /// What is said of how the table was collected that `read` finds; empty where nothing is.
    fn notes(&self, family: &str, stem: &str) -> Result<String, ImportError> {
        let has = |folder: &PathBuf| {
            ["txt", "csv", "parquet"]
                .iter()
                .any(|end| folder.join(format!("{stem}.{end}")).is_file())
        };
        let folder = self.folders(family)?.into_iter().find(has);
        let Some(file) = folder.map(|folder| folder.join("collection_meta.yaml")) else {
            return Ok(String::new());
        };
        if !file.is_file() {
            return Ok(String::new());
        }
        text::whole(&file, text::RESULTS_MIB_MAX)
            .map_err(|error| ImportError::read(&file, error.to_string()))
    }

    /// The folders of a family, that of the version first.
    fn folders(&self, family: &str) -> Result<Vec<PathBuf>, ImportError> {
        let Selection { system, engine, version } = self.selection;
        let versions = self.folder.join(system).join(family).join(engine);
        if !versions.is_dir() {
            return Ok(Vec::new());
        }
        let entries = std::fs::read_dir(&versions);
        let entries = entries.map_err(|error| ImportError::read(&versions, error.to_string()))?;
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort_by(|a, b| profiles::compare_versions(a, b));
        let above = names.partition_point(|name| profiles::compare_versions(name, version).is_le());
        let order = names[..above].iter().rev().chain(&names[above..]);
        Ok(order.map(|name| versions.join(name)).collect())
    }
}

#[cfg(test)]
mod tests;
