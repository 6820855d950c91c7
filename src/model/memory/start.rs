//! What the start-up of an engine leaves for KV: the parts that are taken off, per GPU.
//!
//! vLLM (0.4 to 0.33, `vllm/v1/worker/gpu_worker.py`, `determine_available_memory`; V0
//! `vllm/worker/worker.py`) runs a step of `max_num_batched_tokens` and the sampler before it sizes its cache:
//!
//! KV = utilization · memory − weights − peak of activations − what CUDA took outside `PyTorch`,
//!
//! and from 0.21 on − an estimate of captured graphs. SGLang (0.2 to 0.5.23,
//! `sglang/srt/model_executor/model_runner.py`) profiles nothing: KV = free after loading − (1 − share) · free
//! before loading. TensorRT-LLM (`PyTorch` back end, 0.20 to 1.2, `tensorrt_llm/_torch/pyexecutor/_util.py`) measures
//! the peak of a dry run: KV = share · (memory − peak without its cache).
//!
//! What the peak is made of follows from shapes (`forward.rs`, `sampler.rs`). What is outside `PyTorch` does not:
//! contexts, modules of kernels and buffers of communicators are constants here, read off logs of few starts.

use std::fmt;

use serde::Serialize;

use super::forward::{self, Run};
use super::loading::Generation;
use super::sampler::SamplerKernels;
use crate::model::checkpoint::Checkpoint as ModelSpec;
use crate::units::Bytes;

/// A version of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EngineVersion {
    major: u32,
    minor: u32,
    patch: u32,
}

impl EngineVersion {
    /// The vLLM whose schedulers the project follows.
    pub const VLLM: Self = Self::new(0, 33);

    /// The SGLang whose schedulers the project follows.
    pub const SGLANG: Self = Self::patched(0, 5, 23);

    /// The last vLLM that knows no engine but V0.
    pub const LAST_V0: Self = Self::new(0, 7);

    /// The first of `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self::patched(major, minor, 0)
    }

    /// Version `major.minor.patch`.
    pub const fn patched(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// The version at the beginning of a text like `0.21.0` or `v0.8.5.dev22+g15`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().trim_start_matches('v').split(['.', '+', '-', 'r']);
        let mut next = || numbers.next()?.parse().ok();
        Some(Self::patched(next()?, next()?, next().unwrap_or(0)))
    }

    /// The first version number in a text, as in `v0.11.0` or `image vllm_0.8.5.sif`.
    pub fn find(text: &str) -> Option<Self> {
        let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
        words.filter(|word| word.contains('.')).find_map(Self::parse)
    }

    /// Whether it is a vLLM whose engine is V0.
    pub fn is_v0(self) -> bool {
        self < Self::new(0, 8)
    }

    /// vLLM's share of GPU memory unless it is told another (0.33.0, `vllm/config/cache.py`; 0.92 in the starts of
    /// 0.22 and later that set none).
    pub fn gpu_memory_utilization(self) -> f64 {
        if self < Self::new(0, 22) { 0.9 } else { 0.92 }
    }
}

impl fmt::Display for EngineVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A GPU, as far as the start-up depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// Whose kernels it runs.
    pub generation: Generation,
    /// Whether a switch joins it with its peers and multiplies what they send (NVLS), which takes buffers on each.
    pub has_multicast: bool,
}

/// What an engine takes of GPU memory beside weights and KV, per GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StartUp {
    /// Peak of activations in the profiled step.
    pub activation: Bytes,
    /// What is not `PyTorch`'s: modules of kernels, communicators.
    pub non_torch: Bytes,
    /// What is taken off for captured graphs.
    pub graphs: Bytes,
}

impl StartUp {
    /// All of it.
    pub const fn total(&self) -> Bytes {
        Bytes(self.activation.0 + self.non_torch.0 + self.graphs.0)
    }
}

/// A start of vLLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VllmStart {
    /// Its version.
    pub version: EngineVersion,
    /// The GPUs.
    pub card: Card,
    /// GPUs that share every matrix.
    pub tp: u32,
    /// Tokens of the profiled step: `max_num_batched_tokens`.
    pub step_tokens: u32,
    /// Sequences whose tokens are sampled: `max_num_seqs`.
    pub sequences: u32,
    /// How they are.
    pub sampler: SamplerKernels,
    /// Whether layers run as a compiled graph: not with `enforce_eager`, not in V0.
    pub is_compiled: bool,
    /// Graphs that are captured.
    pub graphs: u32,
}

/// Of what is outside `PyTorch`, what comes with each peer in the node: where a switch multiplies (NCCL with NVLS,
/// custom all-reduce; starts on H100 and H200 leave 0.3 to 0.9 GiB with TP 2 and 4, and 1.7 to 2.6 with TP 8, of vLLM
/// and SGLang alike) and elsewhere
/// (TP 4 on A100 and RTX 3090: 0.1 to 0.4 GiB).
const PEER_GIB: [f64; 2] = [0.25, 0.1];
/// GPUs of a node at most: peers behind the network have no buffers on the GPU.
const GPUS_PER_NODE: u32 = 8;
/// The same without peers on GPUs of AMD.
const AMD_GIB: f64 = 0.6;
/// The same on GPUs of NVIDIA. vLLM V0: 0.1 to 0.3 in eight starts.
const V0_GIB: f64 = 0.2;
/// V1: 0.0 to 0.1 in nine starts up to 0.11, and on GPUs older than Hopper up to 0.20.
const V1_GIB: f64 = 0.07;
/// V1 on Hopper and newer from [`MORE_MODULES`] on, and everywhere from [`COUNTS_GRAPHS`] on: 0.26 to 0.47 in starts
/// that log it, 0.1 to 0.6 in what others leave. A start that compiles took 0.1 to 0.8 more of 0.21 than one that
/// finds its graphs compiled; this is between both.
const V1_LATER_GIB: f64 = 0.35;
/// The first vLLM whose starts on Hopper log more outside `PyTorch`.
const MORE_MODULES: EngineVersion = EngineVersion::new(0, 12);
/// The first vLLM that takes an estimate of captured graphs off (its log: "enabled (default since v0.21.0)").
const COUNTS_GRAPHS: EngineVersion = EngineVersion::new(0, 21);
/// What a captured graph is estimated to take, read off seven starts: 5 to 8 MiB each.
const GRAPH: Bytes = Bytes(6 << 20);

fn gib(gib: f64) -> u64 {
    Bytes::from_gib(gib).0
}

/// What communicators of so many GPUs take on each.
fn communicators(card: Card, tp: u32) -> u64 {
    let [multicast, plain] = PEER_GIB;
    let peers = f64::from(tp.min(GPUS_PER_NODE).saturating_sub(1));
    gib(peers * if card.has_multicast { multicast } else { plain })
}

impl VllmStart {
    /// What is taken off the share of memory beside the weights.
    pub fn parts(&self, model: &ModelSpec) -> StartUp {
        let graphs =
            if self.version < COUNTS_GRAPHS { 0 } else { u64::from(self.graphs) * GRAPH.0 };
        StartUp {
            activation: self.activation(model),
            non_torch: Bytes(gib(self.modules_gib()) + communicators(self.card, self.tp)),
            graphs: Bytes(graphs),
        }
    }

    /// The larger of a step's peak and the sampler's, which finds the hidden states of the step.
    fn activation(&self, model: &ModelSpec) -> Bytes {
        let run = if self.is_compiled { Run::Compiled } else { Run::Eager };
        let step = forward::peak(model, (run, self.version), self.step_tokens, self.tp);
        let rows = self.sequences.min(self.step_tokens);
        let sampled = self.sampler.bytes(self.version, rows, model.vocab);
        step.max(Bytes(sampled.0 + forward::hidden_states(model, self.step_tokens).0))
    }

    fn modules_gib(&self) -> f64 {
        let is_new = matches!(self.card.generation, Generation::Hopper | Generation::Blackwell);
        let more_from = if is_new { MORE_MODULES } else { COUNTS_GRAPHS };
        match self.card.generation {
            Generation::Other => AMD_GIB,
            _ if self.version.is_v0() => V0_GIB,
            _ if self.version < more_from => V1_GIB,
            _ => V1_LATER_GIB,
        }
    }
}

/// A start of SGLang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SglangStart {
    /// The GPUs.
    pub card: Card,
    /// GPUs that share every matrix.
    pub tp: u32,
}

/// What a CUDA context takes before SGLang looks at what is free: 0.3 to 0.6 GiB in starts on one GPU.
const CONTEXT_GIB: f64 = 0.45;

impl SglangStart {
    /// Memory that is free before the weights are loaded, with the communicators up.
    pub fn free_before_load(&self, memory: Bytes) -> Bytes {
        let taken = gib(CONTEXT_GIB) + communicators(self.card, self.tp);
        Bytes(memory.0.saturating_sub(taken))
    }
}

/// A start of TensorRT-LLM with its `PyTorch` back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrtLlmStart {
    /// The GPUs.
    pub card: Card,
    /// GPUs that share every matrix.
    pub tp: u32,
    /// Tokens of the dry run: `max_num_tokens`.
    pub step_tokens: u32,
}

/// Of the peak of a dry run, what does not grow with its tokens, and how many forward peaks do: both read off six
/// starts of one model (0.20.0, Llama-3.1-8B in FP8 on one H100, 4608 and 8192 tokens).
const DRY_RUN: (f64, f64) = (1.6, 1.4);

impl TrtLlmStart {
    /// What the dry run takes beside weights and its temporary cache.
    pub fn parts(&self, model: &ModelSpec) -> StartUp {
        let (fixed, peaks) = DRY_RUN;
        let step =
            forward::peak(model, (Run::Compiled, EngineVersion::VLLM), self.step_tokens, self.tp);
        StartUp {
            activation: Bytes((peaks * step.0 as f64) as u64),
            non_torch: Bytes(gib(fixed) + communicators(self.card, self.tp)),
            graphs: Bytes(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Qwen3-4B.
    const JSON: &str = r#"{"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 2560, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 9728, "vocab_size": 151936,
        "max_position_embeddings": 40960, "tie_word_embeddings": true}"#;

    fn start(version: &str, sequences: u32, sampler: SamplerKernels) -> StartUp {
        let model = ModelSpec::from_hf_config(JSON, None, "Qwen3-4B").unwrap();
        let card = Card { generation: Generation::Hopper, has_multicast: true };
        let version = EngineVersion::parse(version).unwrap();
        let (tp, step_tokens, is_compiled, graphs) = (1, 8192, true, 86);
        VllmStart { version, card, tp, step_tokens, sequences, sampler, is_compiled, graphs }
            .parts(&model)
    }

    fn near(bytes: Bytes, gib: f64) {
        assert!((bytes.as_gib() - gib).abs() < 0.06, "{} {gib}", bytes.as_gib());
    }

    /// vLLM 0.10.2 on H100 logs 5.59 GiB with 1024 sequences; 0.12.0 logs 0.59 with few.
    #[test]
    fn the_sampler_of_many_sequences_is_the_peak() {
        near(start("0.10.2", 1024, SamplerKernels::Native).activation, 5.59);
        near(start("0.12.0", 8, SamplerKernels::Native).activation, 0.59);
        let without = start("0.33.0", 1024, SamplerKernels::Native);
        // 3.5 · 1024 · 151,936 · 4 B and 8192 · 2560 · 2 B of hidden states.
        near(without.activation, 2.03 + 0.04);
        assert_eq!(without, start("0.33.0", 1024, SamplerKernels::FlashInfer));
    }

    #[test]
    fn graphs_are_taken_off_by_those_versions_that_count_them() {
        assert_eq!(start("0.20.1", 256, SamplerKernels::Native).graphs, Bytes(0));
        // 86 · 6 MiB; vLLM 0.21.0 estimates 0.54 GiB for a model of 40 layers.
        near(start("0.21.0", 256, SamplerKernels::Native).graphs, 0.54);
    }

    #[test]
    fn versions_are_read_as_engines_print_them() {
        let parse = |text| EngineVersion::parse(text);
        assert_eq!(parse("0.19.2rc1.dev134+gfe9c3d6c5"), Some(EngineVersion::patched(0, 19, 2)));
        assert_eq!(parse("v0.9.2.dev364+gb432b7a28"), Some(EngineVersion::patched(0, 9, 2)));
        assert_eq!(parse("0.29"), Some(EngineVersion::new(0, 29)));
        assert_eq!(parse("main"), None);
        assert!(EngineVersion::new(0, 7).is_v0() && !EngineVersion::new(0, 10).is_v0());
    }

    #[test]
    fn a_version_is_found_in_what_people_write() {
        let find = EngineVersion::find;
        assert_eq!(find("v0.11.0"), Some(EngineVersion::new(0, 11)));
        assert_eq!(find("0.6.3.dev116+g151ef4ef"), Some(EngineVersion::patched(0, 6, 3)));
        let image = "image vllm_0.8.5.sif (V1 engine; 0.1.dev6216)";
        assert_eq!(find(image), Some(EngineVersion::patched(0, 8, 5)));
        let patched = "0.23.0 + residency patch (3 python files)";
        assert_eq!(find(patched), Some(EngineVersion::new(0, 23)));
        assert_eq!(find("commit dea63512bb9bdf7521d591546c52138d9d79e8ce"), None);
        assert_eq!(find("v0 engine, early 2025 fork"), None);
    }

    /// What SGLang logs as available before load: 139.2 of 139.8 GiB on one H200, 76.6 of 79.2 on eight H100.
    #[test]
    fn communicators_grow_with_the_peers() {
        let card = Card { generation: Generation::Hopper, has_multicast: true };
        let free = |tp, memory: f64| {
            SglangStart { card, tp }.free_before_load(Bytes::from_gib(memory)).as_gib()
        };
        assert!((free(1, 139.8) - 139.2).abs() < 0.2);
        assert!((free(8, 79.19) - 76.63).abs() < 0.4);
    }
}
