//! What is predicted of a start.

use super::start::Start;
use super::subject::{self, Models};
use crate::hardware::GpuSpec;
use crate::model::layout::Machine;
use crate::model::{
    EngineVersion, KvCapacity, KvDtype, KvGroups, Loading, ModelSpec, SamplerKernels, SglangStart,
    StartUp, TrtLlmStart,
};
use crate::resolved::{KvSource, kv_capacity};
use crate::scenario::{
    ClusterConfig, EngineConfig, SglangConfig, VllmConfig, VllmStartUp, VllmV0Config,
};
use crate::units::Bytes;
use crate::validate::engine::CHUNKED_FROM_POSITIONS;

/// A part of GPU memory that a log may state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Memory of the GPU; of SGLang what is free before loading.
    Memory,
    /// Weights.
    Weights,
    /// The peak of activations.
    Activation,
    /// What is outside `PyTorch`.
    NonTorch,
    /// What is taken off for captured graphs.
    Graphs,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Memory, Self::Weights, Self::Activation, Self::NonTorch, Self::Graphs];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Weights => "weights",
            Self::Activation => "activation",
            Self::NonTorch => "non_torch",
            Self::Graphs => "graphs",
        }
    }
}

/// Of what an engine takes its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShareOf {
    /// Of the memory, parts being taken off the share: vLLM, SGLang.
    Memory,
    /// Of what the parts leave: TensorRT-LLM.
    Rest,
}

/// GPU memory of a start, part by part, in bytes per GPU, and the KV cache that it leaves.
#[derive(Debug, Clone)]
pub(super) struct Prediction {
    /// The GPU of the catalogue.
    pub(super) gpu: String,
    share_of: ShareOf,
    pub(super) share: f64,
    /// Each part, in the order of [`Part::ALL`].
    parts: [i64; 5],
    /// Parts that the log gave.
    pub(super) given: Vec<Part>,
    /// Bytes of KV.
    pub(super) kv_bytes: i64,
    /// Tokens of KV, where they do not depend on how long sequences may be.
    pub(super) kv_tokens: Option<i64>,
    bytes_per_token: f64,
}

impl Prediction {
    pub(super) fn part(&self, part: Part) -> i64 {
        self.parts[part as usize]
    }

    /// Takes a part from the log.
    fn give(&mut self, part: Part, bytes: i64) {
        self.parts[part as usize] = bytes;
        self.given.push(part);
    }

    /// Adds up.
    fn close(&mut self, block: (u64, u32)) {
        let [memory, parts @ ..] = self.parts;
        let taken: i64 = parts.iter().sum();
        let bytes = match self.share_of {
            ShareOf::Memory => memory as f64 * self.share - taken as f64,
            ShareOf::Rest => (memory - taken) as f64 * self.share,
        };
        self.kv_bytes = bytes as i64;
        let (bytes, tokens) = block;
        let blocks = self.kv_bytes / bytes.max(1).cast_signed();
        self.kv_tokens = self.kv_tokens.map(|_| blocks * i64::from(tokens));
    }

    /// Tokens as the log counts them, or bytes where either has none: predicted and logged.
    pub(super) fn compared(&self, start: &Start) -> Option<(f64, f64)> {
        let tokens =
            start.logged_bytes("kv_tokens").filter(|_| start.logged_count("dcp").unwrap_or(1) == 1);
        match (self.kv_tokens, tokens, self.logged_kv(start)) {
            (Some(predicted), Some(logged), _) => Some((predicted as f64, logged as f64)),
            (_, _, Some(logged)) => Some((self.kv_bytes as f64, logged)),
            _ => None,
        }
    }

    /// Bytes of KV that the log says, or those of its tokens.
    pub(super) fn logged_kv(&self, start: &Start) -> Option<f64> {
        let of_tokens = || {
            let tokens = start.logged_bytes("kv_tokens").filter(|_| self.kv_tokens.is_some())?;
            Some(tokens as f64 * self.bytes_per_token)
        };
        start.bytes("kv_bytes").map(|bytes| bytes as f64).or_else(of_tokens)
    }
}

/// Predicts a start.
pub(super) fn predict(
    start: &Start,
    models: &Models,
    given: &[Part],
) -> Result<Prediction, String> {
    let gpu = subject::gpu(start)?;
    let model = match models.of(start).and_then(|model| refuse(start).map(|()| model)) {
        Ok(model) => model,
        Err(reason) => return closed(start, &gpu, given).ok_or(reason),
    };
    let kv_dtype = subject::kv_dtype(start, &model)?;
    let cluster = cluster(start, &model, &gpu, kv_dtype)?;
    let found = match start.engine() {
        "vllm" => vllm(start, cluster, &model, &gpu)?,
        "sglang" => sglang(start, cluster, &model, &gpu)?,
        "tensorrt-llm" => trtllm(start, &cluster, &model, &gpu)?,
        other => return Err(format!("{other} is not modelled")),
    };
    let Found { mut prediction, block } = found;
    for part in given {
        if let Some(bytes) = logged(start, *part, &prediction) {
            prediction.give(*part, bytes);
        }
    }
    prediction.close(block);
    Ok(prediction)
}

/// The sum of parts that the log states, of a start whose own cannot be predicted: all but the graphs, which
/// vLLM takes off in some versions only.
fn closed(start: &Start, gpu: &GpuSpec, given: &[Part]) -> Option<Prediction> {
    if start.engine() != "vllm" {
        return None;
    }
    let share = start.real("gpu_memory_utilization")?;
    let nothing = (gpu, gpu.memory(), Bytes(0), StartUp::default());
    let mut sum = prediction(nothing, (ShareOf::Memory, share), (1, 1));
    sum.kv_tokens = None;
    for part in given {
        if let Some(bytes) = logged(start, *part, &sum) {
            sum.give(*part, bytes);
        }
    }
    let needed = [Part::Weights, Part::Activation, Part::NonTorch];
    needed.iter().all(|part| sum.given.contains(part)).then(|| {
        sum.close((1, 1));
        sum
    })
}

/// A prediction whose sum is still to be made, and the bytes and tokens of a block.
struct Found {
    prediction: Prediction,
    block: (u64, u32),
}

/// What is served in ways that are not modelled.
fn refuse(start: &Start) -> Result<(), String> {
    let not_modelled = [
        ("speculative", "memory of a draft model"),
        ("encoder", "memory of an encoder of images, video or sound"),
        ("lora", "adapters of a rank that the record does not say"),
        ("kv_cache_memory_bytes_flag", "KV memory that a flag gives"),
        ("sglang.max_total_tokens_flag", "KV memory that a flag gives"),
    ];
    let needs_none = |key: &str| key == "speculative" && drafts_from_the_prompt(start);
    match not_modelled.iter().find(|(key, _)| start.has(key) && !needs_none(key)) {
        Some((_, what)) => Err(format!("{what} is not modelled")),
        None if start.logged_count("dp").unwrap_or(1) > 1 => {
            Err("data-parallel ranks are not predicted".to_owned())
        }
        None => Ok(()),
    }
}

/// Drafts that repeat what the prompt holds come without a model (`[ngram]` in vLLM's log).
fn drafts_from_the_prompt(start: &Start) -> bool {
    start.text("speculative").is_some_and(|told| told.to_lowercase().contains("ngram"))
}

fn cluster(
    start: &Start,
    model: &ModelSpec,
    gpu: &GpuSpec,
    kv_cache_dtype: KvDtype,
) -> Result<ClusterConfig, String> {
    let tensor_parallel_size =
        start.count("tp").ok_or("the record does not say on how many GPUs")?;
    Ok(ClusterConfig {
        tensor_parallel_size,
        pipeline_parallel_size: start.count("pp").unwrap_or(1).max(1),
        kv_cache_dtype,
        ..ClusterConfig::new(model.name.clone(), gpu.name.clone())
    })
}

/// The KV memory of a cluster, as every run has it.
fn derive(
    cluster: &mut ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<KvCapacity, String> {
    match kv_capacity(cluster, model, gpu, None) {
        Ok(KvSource::Derived(kv)) => Ok(kv),
        Ok(KvSource::Given) => Err("its KV memory is given".to_owned()),
        Err(error) => Err(error.lines("; ")),
    }
}

fn vllm(
    start: &Start,
    mut cluster: ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<Found, String> {
    let version = start.version().unwrap_or(EngineVersion::VLLM);
    let block_size = start.count("block_size").unwrap_or(16);
    cluster.gpu_memory_utilization =
        Some(start.real("gpu_memory_utilization").unwrap_or(version.gpu_memory_utilization()));
    cluster.engine = if version.is_v0() {
        EngineConfig::VllmV0(vllm_v0(start, model, block_size))
    } else {
        EngineConfig::VllmV1(vllm_v1(start, model, block_size))
    };
    let kv = derive(&mut cluster, model, gpu)?;
    let parts = kv.start.unwrap_or_default();
    let share = cluster.gpu_memory_utilization.unwrap_or(1.0);
    let (block_size, grouped) = match &cluster.engine {
        EngineConfig::VllmV1(vllm) => (vllm.block_size, has_groups(&cluster, model, gpu)),
        _ => (block_size, false),
    };
    let found = (gpu, gpu.memory(), kv.weights, parts);
    let mut prediction =
        prediction(found, (ShareOf::Memory, share), (kv.block_bytes.0, block_size));
    prediction.kv_tokens = prediction.kv_tokens.filter(|_| !grouped);
    Ok(Found { prediction, block: (kv.block_bytes.0, block_size) })
}

/// Whether groups of layers share the blocks, so that tokens are not blocks alone.
fn has_groups(cluster: &ClusterConfig, model: &ModelSpec, gpu: &GpuSpec) -> bool {
    let (tp, dtype) = (cluster.tensor_parallel_size, cluster.kv_cache_dtype);
    KvGroups::on(model, Machine::new(gpu.card().generation, tp, dtype)).is_some()
}

/// The first vLLM that captures steps of up to twice its sequences; before, of as many.
const CAPTURES_TWICE: EngineVersion = EngineVersion::new(0, 10);

/// Sequences at most: what the log says, half the largest captured step where that follows from them, or a default.
fn sequences(start: &Start) -> Option<u32> {
    let captured = start.logged_count("cudagraph_max_size").filter(|most| (2..512).contains(most));
    let doubles = start.version().is_none_or(|version| version >= CAPTURES_TWICE);
    let implied = captured.map(|most| if doubles { most / 2 } else { most });
    start.logged_count("max_num_seqs").or(implied).or_else(|| start.count("max_num_seqs"))
}

fn vllm_v1(start: &Start, model: &ModelSpec, block_size: u32) -> VllmConfig {
    let is_pooling =
        ["embedding", "reranker"].iter().any(|word| model.name.to_lowercase().contains(word));
    let sampler = match start.logged_text("sampler") {
        _ if is_pooling => Some(SamplerKernels::Absent),
        Some("flashinfer") => Some(SamplerKernels::FlashInfer),
        _ => None,
    };
    let enforce_eager = start.says("enforce_eager").unwrap_or(false);
    VllmConfig {
        start_up: VllmStartUp {
            version: start.version().map(|version| version.to_string()),
            sampler,
        },
        block_size,
        max_num_batched_tokens: start.count("max_num_batched_tokens"),
        max_num_seqs: sequences(start),
        max_model_len: start.count("max_model_len"),
        enforce_eager,
        ..VllmConfig::default()
    }
}

fn vllm_v0(start: &Start, model: &ModelSpec, block_size: u32) -> VllmV0Config {
    let default = VllmV0Config::default();
    let positions = start.count("max_model_len").unwrap_or(model.max_position);
    let told = start.says("enable_chunked_prefill");
    VllmV0Config {
        block_size,
        max_num_batched_tokens: start.count("max_num_batched_tokens"),
        max_num_seqs: start.count("max_num_seqs").unwrap_or(default.max_num_seqs),
        max_model_len: Some(positions),
        enable_chunked_prefill: told.unwrap_or(positions > CHUNKED_FROM_POSITIONS),
        ..default
    }
}

fn sglang(
    start: &Start,
    mut cluster: ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<Found, String> {
    let page_size = start.count("block_size").unwrap_or(1);
    cluster.engine = EngineConfig::Sglang(SglangConfig {
        mem_fraction_static: start.real("mem_fraction_static"),
        context_length: start.count("max_model_len"),
        chunked_prefill_size: start.count("max_num_batched_tokens").map(u32::cast_signed),
        page_size: Some(page_size),
        ..SglangConfig::default()
    });
    let gpus = cluster.gpus_per_replica();
    let kv = derive(&mut cluster, model, gpu)?;
    let EngineConfig::Sglang(sglang) = &cluster.engine else { unreachable!("it was set above") };
    let share = sglang.mem_fraction_static.unwrap_or_default();
    let free = SglangStart { card: gpu.card(), tp: gpus }.free_before_load(gpu.memory());
    let found = (gpu, free, kv.weights, StartUp::default());
    let block = (kv.block_bytes.0, page_size);
    Ok(Found { prediction: prediction(found, (ShareOf::Memory, share), block), block })
}

/// The first TensorRT-LLM whose usual back end is `PyTorch`'s.
const PYTORCH_BACK_END: EngineVersion = EngineVersion::new(0, 20);

fn trtllm(
    start: &Start,
    cluster: &ClusterConfig,
    model: &ModelSpec,
    gpu: &GpuSpec,
) -> Result<Found, String> {
    if start.version().is_none_or(|version| version < PYTORCH_BACK_END) {
        return Err("workspaces of TensorRT-LLM's C++ back end are not modelled".to_owned());
    }
    let step_tokens = start.count("max_num_batched_tokens").unwrap_or(8192);
    let share = start.real("trtllm.free_gpu_memory_fraction").unwrap_or(0.9);
    let (card, tp) = (gpu.card(), cluster.tensor_parallel_size);
    let weights = model.stages(1)[0].loaded_bytes(tp, 1, Loading::Served(card.generation));
    let parts = TrtLlmStart { card, tp, step_tokens }.parts(model);
    let block_size = start.count("block_size").unwrap_or(32);
    let per_token = model.kv_bytes_per_token(tp, cluster.kv_cache_dtype);
    let block = (per_token * u64::from(block_size), block_size);
    let found = (gpu, gpu.memory(), weights, parts);
    Ok(Found { prediction: prediction(found, (ShareOf::Rest, share), block), block })
}

fn prediction(
    (gpu, memory, weights, start): (&GpuSpec, Bytes, Bytes, StartUp),
    (share_of, share): (ShareOf, f64),
    (block_bytes, block_size): (u64, u32),
) -> Prediction {
    let parts = [memory, weights, start.activation, start.non_torch, start.graphs];
    Prediction {
        gpu: gpu.name.clone(),
        share_of,
        share,
        parts: parts.map(|bytes| bytes.0.cast_signed()),
        given: Vec::new(),
        kv_bytes: 0,
        kv_tokens: Some(0),
        bytes_per_token: block_bytes as f64 / f64::from(block_size),
    }
}

/// What the log says of a part.
fn logged(start: &Start, part: Part, prediction: &Prediction) -> Option<i64> {
    let is_sglang = start.engine() == "sglang";
    let sum = |key| start.logged_bytes(key);
    match part {
        Part::Memory if is_sglang => sum("sglang.avail_before_load_bytes"),
        // The engine prints the share of it to more digits than the share itself.
        Part::Memory => sum("requested_bytes")
            .map(|bytes| (bytes as f64 / prediction.share) as i64)
            .or_else(|| sum("gpu_total_bytes")),
        Part::Weights if is_sglang => sglang_weights(start),
        Part::Weights => sum("weights_bytes"),
        Part::Activation if start.engine() == "tensorrt-llm" => trtllm_activation(start),
        Part::Activation => sum("activation_peak_bytes"),
        Part::NonTorch => sum("non_torch_bytes").or_else(|| consumed(start)),
        Part::Graphs => sum("graph_estimated_bytes"),
    }
}

/// What loading took of what was free.
fn sglang_weights(start: &Start) -> Option<i64> {
    let before = start.logged_bytes("sglang.avail_before_load_bytes");
    let after = start.logged_bytes("sglang.avail_after_load_bytes");
    let taken = before.zip(after).map(|(before, after)| before - after);
    taken.or_else(|| start.logged_bytes("weights_bytes"))
}

/// Of the profiled peak, what is neither weights, nor outside `PyTorch`, nor the temporary cache.
fn trtllm_activation(start: &Start) -> Option<i64> {
    let peak = start.logged_bytes("trtllm.peak_profile_bytes")?;
    let kv = start.logged_bytes("trtllm.tmp_kv_bytes").unwrap_or(0);
    let weights = start.logged_bytes("weights_bytes")?;
    Some(peak - kv - weights - start.logged_bytes("non_torch_bytes")?)
}

/// What is outside `PyTorch` where the log says only the sum of it and the weights.
fn consumed(start: &Start) -> Option<i64> {
    Some(start.logged_bytes("consumed_bytes")? - start.logged_bytes("weights_bytes")?)
}
