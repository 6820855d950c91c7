//! The built-in catalogue of models, GPUs and measured step times, compiled in from `profiles/`.
//!
//! Names are found whatever their case, with or without the organisation before the slash, and by
//! the aliases a file lists. Every entry keeps its source, confidence and the month it was checked.

mod catalogue;
mod cost;
mod layers;
mod model_table;
mod stand_in;
mod steps;

use serde::Deserialize;

use crate::hardware::GpuSpec;
use crate::host::HostProfile;
use crate::model::ModelSpec;
use catalogue::{Catalogue, behind_slash};

pub use cost::{
    CostProfile, compare_versions, operator_table, operator_table_for, operator_tables,
};
pub use layers::{layer_table, layer_tables};
pub use model_table::ModelTable;
pub use stand_in::{StandIn, model_or_stand_in, published, stand_in};
pub use steps::{step_table, step_tables};

/// One entry of the catalogue: a spec with where it comes from.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile<T> {
    /// Other names of the same thing.
    pub aliases: Vec<String>,
    /// Where the figures come from.
    pub source: String,
    /// The licence of a model's weights; absent for hardware.
    #[serde(default)]
    pub licence: Option<String>,
    /// How sure the figures are: `high`, `medium` or `low`.
    pub confidence: String,
    /// The month the figures were last checked.
    pub checked: String,
    /// The thing itself.
    pub spec: T,
}

macro_rules! files {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../profiles/", $folder, "/", $name, ".toml")))),*]
    };
}

const MODEL_FILES: &[(&str, &str)] = files!["models":
    "afm-4.5b",
    "ai21-jamba-large-1.6",
    "ai21-jamba-mini-1.6",
    "bloom",
    "bloom-560m",
    "bloom-7b1",
    "c4ai-command-a-03-2025",
    "c4ai-command-r-08-2024",
    "c4ai-command-r-plus-08-2024",
    "c4ai-command-r-v01",
    "c4ai-command-r7b-12-2024",
    "codellama-13b-instruct-hf",
    "codellama-34b-instruct-hf",
    "codellama-70b-instruct-hf",
    "codellama-7b-hf",
    "codestral-22b-v0.1",
    "deepseek-coder-33b-instruct",
    "deepseek-coder-6.7b-instruct",
    "deepseek-llm-67b-chat",
    "deepseek-llm-7b-chat",
    "deepseek-r1-0528-qwen3-8b",
    "deepseek-r1-distill-qwen-1.5b",
    "deepseek-r1-distill-qwen-14b-awq",
    "deepseek-r1-distill-qwen-7b",
    "deepseek-v2",
    "deepseek-v2-lite",
    "deepseek-v3",
    "deepseek-v3.1-nvfp4",
    "deepseek-v3.2",
    "deepseek-v3.2-nvfp4",
    "deepseek-v4-flash",
    "deepseek-v4-flash-fp8",
    "deepseek-v4-flash-nvfp4",
    "deepseek-v4-pro",
    "deepseek-v4-pro-fp8",
    "deepseek-v4-pro-nvfp4",
    "devstral-small-2507",
    "ernie-4.5-21b-a3b-pt",
    "ernie-4.5-300b-a47b-pt",
    "exaone-3.5-32b-instruct",
    "exaone-3.5-7.8b-instruct",
    "exaone-4.0-32b",
    "falcon-40b",
    "falcon-7b",
    "falcon3-10b-instruct",
    "falcon3-3b-instruct",
    "falcon3-7b-instruct",
    "gemma-2-27b-it",
    "gemma-2-2b-it",
    "gemma-2-9b-it",
    "gemma-2b",
    "gemma-3-12b-it",
    "gemma-3-1b-it",
    "gemma-3-270m-it",
    "gemma-3-27b-it",
    "gemma-3-4b-it",
    "gemma-4-26b-a4b",
    "gemma-4-26b-a4b-nvfp4",
    "gemma-4-31b-it",
    "gemma-4-31b-it-nvfp4",
    "gemma-7b",
    "glm-4-32b-0414",
    "glm-4-9b-0414",
    "glm-4-9b-chat-hf",
    "glm-4.5",
    "glm-4.5-air",
    "glm-4.5-air-fp8",
    "glm-4.5-fp8",
    "glm-4.6",
    "glm-4.6-fp8",
    "glm-4.7-flash",
    "glm-5",
    "glm-5-fp8",
    "glm-5-nvfp4",
    "glm-5.1",
    "glm-5.1-fp8",
    "glm-5.1-nvfp4",
    "glm-5.2",
    "glm-5.2-fp8",
    "glm-5.2-nvfp4",
    "gpt-j-6b",
    "gpt-neox-20b",
    "gpt-oss-120b",
    "gpt-oss-120b-eagle3",
    "gpt-oss-20b",
    "gpt2",
    "gpt2-large",
    "gpt2-medium",
    "gpt2-xl",
    "granite-3.3-2b-instruct",
    "granite-3.3-8b-instruct",
    "granite-4.0-h-small",
    "granite-4.0-h-tiny",
    "hunyuan-a13b-instruct",
    "internlm2_5-20b-chat",
    "internlm2_5-7b-chat",
    "internlm3-8b-instruct",
    "kimi-k2-instruct",
    "kimi-k2-instruct-0905",
    "kimi-k2-thinking",
    "kimi-k2.5",
    "kimi-k2.5-nvfp4",
    "kimi-k2.6-nvfp4",
    "kimi-k2.7-code-nvfp4",
    "kimi-k3",
    "kimi-linear-48b-a3b-instruct",
    "ling-1t",
    "ling-flash-2.0",
    "ling-mini-2.0",
    "llama-2-13b-hf",
    "llama-2-70b-hf",
    "llama-2-7b-hf",
    "llama-3-70b",
    "llama-3-8b",
    "llama-3-8b-instruct-fp8",
    "llama-3.1-405b",
    "llama-3.1-405b-instruct-awq-int4",
    "llama-3.1-405b-instruct-fp8",
    "llama-3.1-70b",
    "llama-3.1-70b-instruct-awq-int4",
    "llama-3.1-70b-instruct-fp8",
    "llama-3.1-8b",
    "llama-3.1-8b-instruct-fp8",
    "llama-3.2-1b",
    "llama-3.2-3b",
    "llama-3_1-nemotron-ultra-253b-v1",
    "llama-3_3-nemotron-super-49b-v1",
    "llama-4-maverick-17b-128e-instruct",
    "llama-4-scout-17b-16e-instruct",
    "llama-4-scout-17b-16e-instruct-fp8-dynamic",
    "llama-65b",
    "longcat-flash-chat",
    "mimo-7b-base",
    "mimo-v2-flash",
    "minimax-m2",
    "minimax-m2.5-nvfp4",
    "minimax-m2.7",
    "minimax-m2.7-nvfp4",
    "minimax-m3",
    "ministral-3-14b-instruct-2512",
    "ministral-8b-instruct-2410",
    "mistral-7b-instruct-v0.3",
    "mistral-7b-v0.1",
    "mistral-large-3-675b-base-2512",
    "mistral-large-instruct-2407",
    "mistral-nemo-instruct-2407",
    "mistral-small-24b-instruct-2501",
    "mistral-small-3.1-24b-instruct-2503",
    "mixtral-8x22b-v0.1",
    "mixtral-8x7b-v0.1",
    "moonlight-16b-a3b-instruct",
    "nemotron-h-56b-base-8k",
    "nemotron-h-8b-base-8k",
    "nvidia-nemotron-3-nano-30b-a3b-bf16",
    "nvidia-nemotron-3-nano-30b-a3b-nvfp4",
    "nvidia-nemotron-3-super-120b-a12b-bf16",
    "nvidia-nemotron-3-super-120b-a12b-fp8",
    "nvidia-nemotron-3-super-120b-a12b-nvfp4",
    "nvidia-nemotron-3-ultra-550b-a55b-bf16",
    "nvidia-nemotron-3-ultra-550b-a55b-fp8",
    "nvidia-nemotron-3-ultra-550b-a55b-nvfp4",
    "nvidia-nemotron-nano-12b-v2",
    "nvidia-nemotron-nano-9b-v2",
    "olmo-2-0325-32b-instruct",
    "olmo-2-1124-13b-instruct",
    "olmo-2-1124-7b-instruct",
    "olmo-3-32b-think",
    "olmo-3-7b-instruct",
    "olmoe-1b-7b-0924",
    "opt-1.3b",
    "opt-125m",
    "opt-13b",
    "opt-2.7b",
    "opt-30b",
    "opt-6.7b",
    "opt-66b",
    "phi-2",
    "phi-3-medium-128k-instruct",
    "phi-3-mini-4k-instruct",
    "phi-3.5-mini-instruct",
    "phi-3.5-moe-instruct",
    "phi-4",
    "phi-4-mini-instruct",
    "phi-4-reasoning",
    "pythia-1.4b",
    "pythia-12b",
    "pythia-2.8b",
    "pythia-6.9b",
    "qwen1.5-110b",
    "qwen1.5-14b",
    "qwen1.5-32b",
    "qwen1.5-72b",
    "qwen1.5-7b",
    "qwen1.5-moe-a2.7b",
    "qwen2-0.5b",
    "qwen2-1.5b",
    "qwen2-57b-a14b-instruct",
    "qwen2-7b",
    "qwen2-vl-2b-instruct",
    "qwen2-vl-72b-instruct",
    "qwen2-vl-7b-instruct",
    "qwen2.5-0.5b",
    "qwen2.5-0.5b-instruct-awq",
    "qwen2.5-1.5b",
    "qwen2.5-14b",
    "qwen2.5-32b",
    "qwen2.5-32b-instruct-awq",
    "qwen2.5-3b",
    "qwen2.5-72b",
    "qwen2.5-72b-instruct-awq",
    "qwen2.5-7b",
    "qwen2.5-7b-instruct",
    "qwen2.5-7b-instruct-awq",
    "qwen2.5-7b-instruct-gptq-int4",
    "qwen2.5-vl-32b-instruct",
    "qwen2.5-vl-3b-instruct",
    "qwen2.5-vl-72b-instruct",
    "qwen2.5-vl-7b-instruct",
    "qwen3-0.6b",
    "qwen3-0.6b-fp8",
    "qwen3-1.7b",
    "qwen3-1.7b-fp8",
    "qwen3-14b",
    "qwen3-14b-awq",
    "qwen3-14b-fp8",
    "qwen3-235b-a22b",
    "qwen3-235b-a22b-fp8",
    "qwen3-235b-a22b-instruct-2507",
    "qwen3-235b-a22b-instruct-2507-fp8",
    "qwen3-235b-a22b-nvfp4",
    "qwen3-30b-a3b",
    "qwen3-30b-a3b-fp8",
    "qwen3-32b",
    "qwen3-32b-awq",
    "qwen3-32b-fp8",
    "qwen3-32b-fp8-static-pertensor",
    "qwen3-4b",
    "qwen3-4b-fp8",
    "qwen3-4b-instruct-2507",
    "qwen3-4b-instruct-2507-fp8",
    "qwen3-8b",
    "qwen3-8b-awq",
    "qwen3-8b-fp8",
    "qwen3-coder-30b-a3b-instruct",
    "qwen3-coder-30b-a3b-instruct-fp8",
    "qwen3-coder-480b-a35b-instruct",
    "qwen3-coder-480b-a35b-instruct-fp8",
    "qwen3-coder-480b-a35b-instruct-w8a8",
    "qwen3-embedding-8b",
    "qwen3-next-80b-a3b",
    "qwen3-next-80b-a3b-fp8",
    "qwen3-reranker-0.6b",
    "qwen3-vl-235b-a22b-instruct",
    "qwen3-vl-2b-instruct",
    "qwen3-vl-30b-a3b-instruct",
    "qwen3-vl-32b-instruct",
    "qwen3-vl-32b-thinking",
    "qwen3-vl-4b-instruct",
    "qwen3-vl-8b-instruct",
    "qwen3.5-122b-a10b",
    "qwen3.5-122b-a10b-nvfp4",
    "qwen3.5-27b",
    "qwen3.5-35b-a3b",
    "qwen3.5-397b-a17b",
    "qwen3.5-397b-a17b-nvfp4",
    "qwen3.5-9b",
    "seed-oss-36b-instruct",
    "smollm2-1.7b-instruct",
    "smollm2-135m-instruct",
    "smollm2-360m-instruct",
    "smollm3-3b",
    "solar-10.7b-v1.0",
    "starcoder2-15b",
    "starcoder2-3b",
    "starcoder2-7b",
    "step-3.7-flash",
    "step-3.7-flash-fp8",
    "tinyllama-1.1b-chat-v1.0",
    "vicuna-33b-v1.3",
    "yi-34b",
    "yi-6b",
    "yi-9b",
];

const GPU_FILES: &[(&str, &str)] = files!["gpus":
    "a10",
    "a100-pcie-80gb",
    "a100-sxm4-40gb",
    "a100-sxm4-80gb",
    "a10g",
    "a30",
    "a40",
    "a800-sxm4-80gb",
    "arc-pro-b60",
    "ascend-910b",
    "ascend-910c",
    "ascend-a3-die",
    "b200-sxm-180gb",
    "b300-sxm",
    "gaudi3",
    "gb10",
    "gb200",
    "gb300",
    "gh200-144gb",
    "gh200-96gb",
    "h100-nvl",
    "h100-pcie-80gb",
    "h100-sxm5-64gb",
    "h100-sxm5-80gb",
    "h20",
    "h20-3e",
    "h200-nvl",
    "h200-sxm-141gb",
    "h800-sxm5-80gb",
    "l20",
    "l4",
    "l40",
    "l40s",
    "mi300x",
    "mi308x",
    "mi325x",
    "mi350x",
    "mi355x",
    "rtx-3090",
    "rtx-4090",
    "rtx-4090d",
    "rtx-5090",
    "rtx-5090d",
    "rtx-6000-ada",
    "rtx-a6000",
    "rtx-pro-6000-blackwell-max-q",
    "rtx-pro-6000-blackwell-server",
    "rtx-pro-6000-blackwell-workstation",
    "t4",
    "tpu-v6e",
    "tpu-v7x",
    "tpu-v7x-device",
    "trainium2",
    "trainium3",
    "v100-pcie-32gb",
];

const HOST_FILES: &[(&str, &str); 3] = files!["hosts": "sglang", "vllm", "vllm_v0"];

static MODELS: Catalogue<ModelSpec, { MODEL_FILES.len() }> =
    Catalogue::new(MODEL_FILES, |spec| &spec.name);
static GPUS: Catalogue<GpuSpec, { GPU_FILES.len() }> = Catalogue::new(GPU_FILES, |spec| &spec.name);

static HOSTS: Catalogue<HostProfile, 3> = Catalogue::new(HOST_FILES, |spec| &spec.engine);

/// All models of the catalogue, in order of their file names.
pub fn models() -> impl Iterator<Item = &'static Profile<ModelSpec>> + Clone {
    MODELS.each()
}

/// All GPUs of the catalogue, in order of their file names.
pub fn gpus() -> impl Iterator<Item = &'static Profile<GpuSpec>> + Clone {
    GPUS.each()
}

/// The model of this name, which may be a Hugging Face id, the part of one behind the slash, or an
/// alias, in any case. The spec carries the name the catalogue uses.
pub fn model(name: &str) -> Option<ModelSpec> {
    MODELS.find(name).map(|profile| profile.spec.clone())
}

/// The GPU of this name or alias, in any case.
pub fn gpu(name: &str) -> Option<GpuSpec> {
    GPUS.find(name).map(|profile| profile.spec.clone())
}

/// What the processes of a server of this engine take, by its name without a version.
pub fn host(engine: &str) -> Option<&'static HostProfile> {
    HOSTS.find(engine).map(|profile| &profile.spec)
}

/// The candidate that `name` most likely means, if one is near: fewer than half of its letters differ, or the name goes
/// on behind the candidate, as `Qwen3-14B-Instruct` behind `Qwen3-14B`.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// What is longer is no misspelt name, and takes long to compare.
    const CHARACTERS_MAX: usize = 200;
    let name = plain(name);
    if name.chars().count() > CHARACTERS_MAX {
        return None;
    }
    let is_near = |of: &str, distance: usize| 2 * distance < of.chars().count();
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let other = plain(candidate);
            let [short_name, short] = [&name, &other].map(|name| behind_slash(name));
            // Of those that the name goes on behind the longest says most.
            let goes_on = goes_on_behind(short_name, short).then(|| usize::MAX - short.len());
            let whole = Some(edit_distance(&name, &other)).filter(|it| is_near(&name, *it));
            let behind = edit_distance(short_name, short);
            let behind = Some(behind).filter(|it| is_near(short_name, *it));
            let distance = whole.into_iter().chain(behind).chain(goes_on.map(|_| 1)).min()?;
            // Who misspells a name begins it right more often than not.
            let alike = name.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
            Some(((distance, goes_on.unwrap_or(0), usize::MAX - alike), candidate))
        })
        .min_by_key(|(order, _)| *order)
        .map(|(_, candidate)| candidate)
}

/// A name in small letters, with one sign for all that people put between its words.
fn plain(name: &str) -> String {
    name.to_lowercase().replace([' ', '_'], "-")
}

/// Whether a name is another one with more words behind it.
fn goes_on_behind(name: &str, other: &str) -> bool {
    let rest = name.strip_prefix(other).filter(|_| !other.is_empty());
    rest.is_some_and(|rest| rest.starts_with(['-', '.', ':']))
}

/// Every name and alias of the models.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    MODELS.names()
}

/// Every name and alias of the GPUs.
pub fn gpu_names() -> impl Iterator<Item = &'static str> {
    GPUS.names()
}

/// Insertions, deletions and substitutions between two words (Levenshtein).
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 0..to.len() {
            let substituted = diagonal + usize::from(letter != to[column]);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_file_is_read_and_no_name_stands_for_two_things() {
        for names in [model_names().collect::<Vec<_>>(), gpu_names().collect()] {
            let mut seen: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
            seen.sort();
            let count = seen.len();
            seen.dedup();
            assert_eq!(seen.len(), count, "{seen:?}");
        }
    }

    #[test]
    fn a_model_is_found_by_id_by_its_last_part_and_by_alias_in_any_case() {
        let name = |asked| model(asked).map(|spec| spec.name);
        let llama = Some("meta-llama/Llama-3.1-8B".to_owned());
        assert_eq!(name("meta-llama/llama-3.1-8b"), llama);
        assert_eq!(name("Llama-3.1-8B"), llama);
        assert_eq!(name("meta-llama/Llama-3.1-8B-Instruct"), llama);
        assert_eq!(name("no-such-model"), None);
    }

    #[test]
    fn what_is_found_without_reading_all_files_is_what_all_of_them_have() {
        // The first model of each name wins, and whole names before those behind the slash.
        let (mut whole, mut part) = (BTreeMap::new(), BTreeMap::new());
        for profile in models() {
            for name in profile.aliases.iter().chain([&profile.spec.name]) {
                whole.entry(name.to_ascii_lowercase()).or_insert_with(|| profile.spec.clone());
                let short = behind_slash(name).to_ascii_lowercase();
                part.entry(short).or_insert_with(|| profile.spec.clone());
            }
        }
        let asked = model_names().flat_map(|name| {
            let short = behind_slash(name);
            let others = [format!("nobody/{short}"), short[1..].to_owned(), short.to_uppercase()];
            others.into_iter().chain([name.to_owned(), short.to_owned()])
        });
        for name in asked.chain([String::new(), "/".to_owned(), "bfloat16".to_owned()]) {
            let asked = name.to_ascii_lowercase();
            let found = whole.get(&asked).or_else(|| part.get(&asked));
            assert_eq!(model(&name), found.cloned(), "{name}");
        }
    }

    #[test]
    fn short_names_of_gpus_mean_the_usual_ones() {
        for (short, full) in [
            ("A10", "A10"),
            ("a100", "A100-SXM4-80GB"),
            ("H100", "H100-SXM5-80GB"),
            ("H200", "H200-SXM-141GB"),
            ("B200", "B200-SXM-180GB"),
            ("L40S", "L40S"),
            ("4090", "RTX-4090"),
            ("NVIDIA GH200 480GB", "GH200-96GB"),
            (
                "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
                "RTX-PRO-6000-Blackwell-Workstation",
            ),
            ("AMD Instinct MI350X", "MI350X"),
            ("Ironwood", "TPU-v7x"),
        ] {
            assert_eq!(gpu(short).map(|spec| spec.name).as_deref(), Some(full), "{short}");
        }
    }

    #[test]
    fn a_misspelling_finds_its_neighbour() {
        assert_eq!(closest("lama-3.1-8b", model_names()), Some("meta-llama/Llama-3.1-8B"));
        assert_eq!(closest("H10O", ["A10", "H100"]), Some("H100"));
        assert_eq!(closest("Qwen3-14b-Instruct", model_names()), Some("Qwen/Qwen3-14B"));
        assert_eq!(closest("H100 NVL 94GB", ["H100", "H100-NVL-94GB"]), Some("H100-NVL-94GB"));
        assert_eq!(closest("H300", ["B300", "H200"]), Some("H200"), "as near, and begins alike");
        assert_eq!(closest("nonsense/foo", model_names()), None);
        assert_eq!(
            closest("H100-80GB-SXM-of-ours", ["H1", "H100", "H100-80GB"]),
            Some("H100-80GB")
        );
        assert_eq!(closest("p99_ttft", ["p99_tpot_ms", "p99_ttft_ms"]), Some("p99_ttft_ms"));
        assert_eq!(closest("something else", ["A10", "H100"]), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }

    #[test]
    fn every_gpu_has_plausible_efficiencies() {
        for profile in gpus() {
            let efficiency = &profile.spec.efficiency;
            for share in [
                efficiency.gemm_bandwidth,
                efficiency.gemm_compute,
                efficiency.attention_bandwidth,
                efficiency.attention_compute,
                efficiency.expert_bandwidth,
            ] {
                assert!((0.2..=1.0).contains(&share), "{}: {share}", profile.spec.name);
            }
            assert!(gpu(&efficiency.measured_on).is_some(), "{}", efficiency.measured_on);
            assert!(efficiency.all_reduce.is_sorted_by_key(|entry| entry.gpus));
        }
    }
}
