//! What a model costs on a GPU: memory and step times, at the defaults of vLLM.

use std::path::Path;

use serde_json::{Value, json};

use crate::cost::{CapturedSizes, CostModel, StepShape};
use crate::load::{self, LoadError};
use crate::model::{KvCapacity, KvDtype};
use crate::resolved::KvSource;
use crate::scenario::{
    ClusterConfig, EngineConfig, ReportConfig, ScenarioFile, VllmConfig, WorkloadConfig,
};
use crate::units::{Bytes, SimDuration};

/// Tokens of context of every sequence in the decode steps.
pub(super) const CONTEXT_TOKENS: u32 = 1024;
/// Tokens of the prompt in the prefill step.
pub(super) const PROMPT_TOKENS: u32 = 1024;
const BATCHES: [u32; 3] = [1, 32, 128];

/// A model on GPUs that share it.
#[derive(Debug, Clone, PartialEq)]
pub struct OnGpu {
    /// The GPU.
    pub gpu: String,
    /// How many share the model.
    pub tensor_parallel_size: u32,
    /// Memory of each, and the KV blocks in it.
    pub kv: KvCapacity,
    /// Tokens of a KV block.
    pub block_size: u32,
    /// KV bytes of a token on each GPU.
    pub kv_bytes_per_token: u64,
    /// Sequences and duration of decode steps, at 1,024 tokens of context each.
    pub decode: Vec<(u32, SimDuration)>,
    /// Duration of a step that prefills a prompt of 1,024 tokens.
    pub prefill: SimDuration,
    /// Where the durations come from.
    pub provenance: String,
}

impl OnGpu {
    /// A model and a GPU, by names of the catalogue or files of one's own, with so many GPUs that share the model.
    ///
    /// # Errors
    /// When there is no such model or GPU, or the one does not fit on the other.
    ///
    /// # Panics
    /// Never: the defaults of vLLM derive KV blocks from memory.
    pub fn of(model: &str, gpu: &str, tensor_parallel_size: u32) -> Result<Self, LoadError> {
        let tp = tensor_parallel_size;
        let scenario = load::resolved(engine_defaults(model, gpu, tp), Path::new(""))?;
        let group = scenario.first();
        let (EngineConfig::VllmV1(engine), KvSource::Derived(kv)) =
            (&group.cluster.engine, group.kv)
        else {
            unreachable!("vLLM's defaults derive the number of KV blocks from memory");
        };
        let cost = crate::sim::step_time(group)?;
        let graphs = CapturedSizes::new(engine.cudagraph_capture_sizes.iter().flatten().copied());
        let decode = |sequences: u32| {
            let mut shape = StepShape { cuda_graph: graphs.pad(sequences), ..StepShape::default() };
            (0..sequences).for_each(|_| shape.add_decode(CONTEXT_TOKENS, 0));
            (sequences, cost.step_duration(&shape))
        };
        let mut prompt = StepShape::seeing(cost.prefill_window());
        prompt.add_prefill(PROMPT_TOKENS, 0, true);
        Ok(Self {
            gpu: group.gpu.name.clone(),
            tensor_parallel_size,
            kv,
            block_size: engine.block_size,
            kv_bytes_per_token: group.model.kv_bytes_per_token(tp, KvDtype::Auto),
            decode: BATCHES.into_iter().map(decode).collect(),
            prefill: cost.step_duration(&prompt),
            provenance: cost.provenance().to_owned(),
        })
    }

    /// KV bytes of one token on one GPU.
    pub(crate) fn kv_per_token(&self) -> Bytes {
        Bytes(self.kv_bytes_per_token)
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let decode: Vec<Value> = self
            .decode
            .iter()
            .map(|(sequences, time)| json!({ "sequences": sequences, "ms": time.as_millis_f64() }))
            .collect();
        json!({
            "gpu": self.gpu,
            "tensor_parallel_size": self.tensor_parallel_size,
            "weights_bytes_per_gpu": self.kv.weights,
            "reserve_bytes_per_gpu": self.kv.reserve,
            "kv_bytes_per_token_per_gpu": self.kv_bytes_per_token,
            "kv_blocks": self.kv.blocks,
            "kv_block_tokens": self.block_size,
            "kv_tokens": self.kv.tokens(self.block_size),
            "decode_context_tokens": CONTEXT_TOKENS,
            "decode_step": decode,
            "prefill_tokens": PROMPT_TOKENS,
            "prefill_ms": self.prefill.as_millis_f64(),
            "provenance": self.provenance,
        })
    }
}

/// A scenario of the engine's defaults, in which any model fits that has room for one sequence.
pub(crate) fn engine_defaults(model: &str, gpu: &str, tp: u32) -> ScenarioFile {
    let engine = VllmConfig { max_model_len: Some(2), ..VllmConfig::default() };
    ScenarioFile {
        name: "profile".to_owned(),
        seed: crate::rng::Seed::default(),
        trace: None,
        workload: WorkloadConfig::at_once(Some(1)),
        cluster: ClusterConfig {
            tensor_parallel_size: tp,
            engine: EngineConfig::VllmV1(engine),
            ..ClusterConfig::new(model, gpu)
        },
        report: ReportConfig::default(),
        faults: Vec::new(),
        measured: None,
    }
}
