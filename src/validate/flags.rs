//! Every flag of a server: modelled, without effect on a simulation, or a reason to skip.

use serde_json::Value;

use super::command;
use super::drafts::Drafts;
use super::engine;
use super::inferencex;
use super::parallel::Parallel;
use super::record::{Fields, Record, count, number, shown, switch};
use super::roles::Role;
use super::skip::{self, Skip};
use super::tidy;
use crate::hardware::GpuSpec;
use crate::model::KvDtype;
use crate::model::layout::MambaStrategy;
use crate::scenario::{ReplicaRole, VllmConfig};

/// What the flags of a server say. What they do not say is absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Settings {
    pub(super) parallel: Parallel,
    /// Replicas that prefill and replicas that decode, where they are told apart.
    pub(super) roles: Vec<Role>,
    pub(super) gpu_memory_utilization: Option<f64>,
    pub(super) kv_cache_dtype: KvDtype,
    pub(super) max_model_len: Option<u32>,
    pub(super) max_num_seqs: Option<u32>,
    pub(super) max_num_batched_tokens: Option<u32>,
    /// What the tokens and sequences of a step are where no flag says it, if not the usual.
    default_limits: Option<(u32, u32)>,
    pub(super) enable_prefix_caching: Option<bool>,
    pub(super) enable_chunked_prefill: Option<bool>,
    pub(super) async_scheduling: Option<bool>,
    pub(super) block_size: Option<u32>,
    pub(super) num_gpu_blocks: Option<u32>,
    pub(super) kv_cache_tokens: Option<u32>,
    pub(super) disable_hybrid_kv_cache_manager: Option<bool>,
    pub(super) disable_hybrid_swa_memory: Option<bool>,
    pub(super) swa_full_tokens_ratio: Option<f64>,
    pub(super) max_running_requests: Option<u32>,
    pub(super) chunked_prefill_size: Option<i32>,
    pub(super) max_prefill_tokens: Option<u32>,
    pub(super) mem_fraction_static: Option<f64>,
    pub(super) schedule_conservativeness: Option<f64>,
    pub(super) disable_radix_cache: Option<bool>,
    pub(super) disable_overlap_schedule: Option<bool>,
    /// Whether the flags are those of `InferenceX`'s script, as the record lists none.
    pub(super) is_of_script: bool,
    pub(super) scheduler_recv_interval: Option<u32>,
    pub(super) page_size: Option<u32>,
    pub(super) mamba_full_memory_ratio: Option<f64>,
    pub(super) max_mamba_cache_size: Option<u32>,
    pub(super) mamba_radix_cache_strategy: Option<MambaStrategy>,
    pub(super) mamba_track_interval: Option<u32>,
    pub(super) enable_lora: bool,
    pub(super) max_loras: Option<u32>,
    pub(super) max_lora_rank: Option<u32>,
    pub(super) max_cpu_loras: Option<u32>,
    /// Tokens that SGLang sends at once; more than one changes the gaps that a client sees.
    pub(super) stream_interval: Option<u32>,
    /// No step replays a graph.
    pub(super) enforce_eager: Option<bool>,
    /// The largest decode batch that replays a graph.
    pub(super) max_graph: Option<u32>,
    /// Whether `SGLang` captures batches that prefill.
    pub(super) prefill_graphs: Option<bool>,
    /// Tokens of the largest.
    pub(super) max_prefill_graph: Option<u32>,
    /// The number format that weights are read as, where that is told.
    pub(super) quantization: Option<String>,
    /// A flag chooses kernels, of which step times know nothing.
    pub(super) chooses_kernels: bool,
    pub(super) drafts: Option<Drafts>,
    /// All-reduces are those of NCCL, which more than one GPU feels.
    pub(super) disable_custom_all_reduce: Option<bool>,
}

/// Flags that a simulation cannot tell apart: the process, its logs, its files, the texts.
const WITHOUT_EFFECT: [&str; 32] = [
    "host",
    "port",
    "log_level",
    "model",
    "model_path",
    "served_model_name",
    "trust_remote_code",
    "tokenizer_path",
    "tool_call_parser",
    "reasoning_parser",
    "enable_auto_tool_choice",
    "chat_template",
    "watchdog_timeout",
    "disable_log_requests",
    "disable_log_stats",
    "enable_metrics",
    "download_dir",
    "api_key",
    "uvicorn_log_level",
    "disable_uvicorn_access_log",
    "max_log_len",
    "tokenizer",
    "tokenizer_mode",
    // Sampling: lengths are given.
    "seed",
    "random_seed",
    "generation_config",
    // Host memory for several answers to one prompt.
    "swap_space",
    "load_format",
    // A head of each rank, as is modelled.
    "enable_dp_lm_head",
    // Where the API server runs; its time is not modelled.
    "disable_frontend_multiprocessing",
    // Sizes of captured graphs of prompts (V0): a prompt costs the same with and without.
    "max_seq_len_to_capture",
    // Told by the log beside the number of tokens.
    "observed_available_kv_cache_GiB_per_gpu",
];

/// Flags of vLLM that SGLang does not have.
const VLLM_ONLY: [&str; 13] = [
    "gpu_memory_utilization",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enable_prefix_caching",
    "no_enable_prefix_caching",
    "enable_chunked_prefill",
    "no_enable_chunked_prefill",
    "async_scheduling",
    "no_async_scheduling",
    "swap_space",
    "block_size",
    "num_scheduler_step",
];

/// Flags of SGLang that vLLM does not have.
const SGLANG_ONLY: [&str; 21] = [
    "context_length",
    "max_running_requests",
    "chunked_prefill_size",
    "max_prefill_tokens",
    "mem_fraction_static",
    "schedule_policy",
    "schedule_conservativeness",
    "disable_radix_cache",
    "disable_overlap_schedule",
    "scheduler_recv_interval",
    "page_size",
    "mamba_full_memory_ratio",
    "max_mamba_cache_size",
    "mamba_radix_cache_strategy",
    "mamba_scheduler_strategy",
    "mamba_track_interval",
    "stream_interval",
    "num_continuous_decode_steps",
    "enable_dp_attention",
    "enable_dp_lm_head",
    "load_balance_method",
];

/// Flags that choose among kernels for the same work.
const KERNELS: [&str; 13] = [
    "decode_attention_backend",
    "enable_flashinfer_allreduce_fusion",
    "enable_mscclpp",
    "enable_symm_mem",
    "enable_torch_compile",
    "fp4_gemm_backend",
    "fp8_gemm_backend",
    "mm_attention_backend",
    "moe_runner_backend",
    "nsa_decode_backend",
    "nsa_prefill_backend",
    "prefill_attention_backend",
    "sampling_backend",
];

/// Beginnings of environment variables of the same kind.
const ENVIRONMENT_OF_KERNELS: [&str; 9] = [
    // Which neither SGLang nor DeepGEMM is known to read.
    "DEEP_GEMM_DISABLE",
    "SGLANG_ROCM_FUSED_DECODE_MLA",
    "SGLANG_USE_AITER",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_FLASHINFER",
    "VLLM_FLASH_ATTN_VERSION",
    "VLLM_ROCM_USE_AITER",
    "VLLM_USE_DEEP_GEMM",
    "VLLM_USE_FLASHINFER",
];

/// Environment variables of the same kind as flags without effect.
const ENVIRONMENT_WITHOUT_EFFECT: [&str; 11] = [
    "SGLANG_SKIP_WARMUP",
    "SGLANG_USE_CUDA_IPC_TRANSPORT",
    // MXFP4 weights are converted and multiplied in 16 bits, as Marlin does.
    "VLLM_MXFP4_USE_MARLIN",
    "CUDA_VISIBLE_DEVICES",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_HOME",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "VLLM_LOGGING_LEVEL",
    "NCCL_DEBUG",
];

impl Settings {
    /// Reads the flags of a record: those it lists, or of a server whose script is known, then those of its command that it does not
    /// list, then its environment.
    pub(super) fn read(record: &Record, gpu: &GpuSpec) -> Result<Self, Skip> {
        let mut settings = Self::default();
        let mut seen: Vec<String> = Vec::new();
        let script = inferencex::flags(record);
        settings.is_of_script = script.is_some();
        let listed = script.unwrap_or(&record.engine_flags);
        for (flag, value) in listed {
            if flag == "env" {
                let text = value.as_object().map_or_else(|| shown(value), tidy::assigned);
                settings.take_environment(&text, record)?;
                continue;
            }
            let flag = normal(flag);
            settings.take(&flag, value, record, gpu)?;
            seen.push(flag);
        }
        let command = record.server_command.as_deref().unwrap_or_default();
        for (flag, value) in command::flags(command) {
            let flag = normal(&flag);
            if !seen.contains(&flag) {
                settings.take(&flag, &value, record, gpu)?;
            }
        }
        settings.take_environment(command, record)?;
        settings.take_environment(record.engine.env.as_deref().unwrap_or_default(), record)?;
        settings.take_parallel(&record.parallel)?;
        if let Some((tokens, seqs)) = settings.default_limits {
            let tokens = *settings.max_num_batched_tokens.get_or_insert(tokens);
            settings.max_num_seqs.get_or_insert(seqs.min(tokens));
        }
        Ok(settings)
    }

    fn take(
        &mut self,
        flag: &str,
        value: &Value,
        record: &Record,
        gpu: &GpuSpec,
    ) -> Result<(), Skip> {
        let unmodelled = || Skip::Flag { flag: flag.replace('_', "-"), value: shown(value) };
        let whole = || count(value).map(Some).ok_or_else(unmodelled);
        let real = || number(value).map(Some).ok_or_else(unmodelled);
        let on = || switch(value).map(Some).ok_or_else(unmodelled);
        let only = |holds: bool| if holds { Ok(()) } else { Err(unmodelled()) };
        let is_sglang = record.engine.name.eq_ignore_ascii_case("sglang");
        let foreign: &[&str] = if is_sglang { &VLLM_ONLY } else { &SGLANG_ONLY };
        match flag {
            _ if foreign.contains(&flag) => return Err(unmodelled()),
            _ if WITHOUT_EFFECT.contains(&flag) => {}
            _ if self.parallel.take(flag, value, unmodelled)? => {}
            // In turn, unless prefill and decode are apart.
            "load_balance_method" => {
                only(["round_robin", "auto"].contains(&shown(value).as_str()))?;
            }
            "gpu_memory_utilization" => self.gpu_memory_utilization = real()?,
            "max_model_len" | "context_length" => self.max_model_len = whole()?,
            "max_num_seqs" => self.max_num_seqs = whole()?,
            "max_num_batched_tokens" => self.max_num_batched_tokens = whole()?,
            "enable_prefix_caching" => self.enable_prefix_caching = on()?,
            "no_enable_prefix_caching" => self.enable_prefix_caching = on()?.map(|off| !off),
            "enable_chunked_prefill" => self.enable_chunked_prefill = on()?,
            "no_enable_chunked_prefill" => self.enable_chunked_prefill = on()?.map(|off| !off),
            "async_scheduling" => self.async_scheduling = on()?,
            "no_async_scheduling" => self.async_scheduling = on()?.map(|off| !off),
            "disable_custom_all_reduce" => self.disable_custom_all_reduce = on()?,
            "block_size" => self.block_size = whole()?,
            "observed_num_gpu_blocks" => self.num_gpu_blocks = whole()?,
            "observed_kv_cache_tokens" | "observed_max_total_num_tokens" => {
                self.kv_cache_tokens = whole()?;
            }
            "disable_hybrid_kv_cache_manager" => self.disable_hybrid_kv_cache_manager = on()?,
            "disable_hybrid_swa_memory" => self.disable_hybrid_swa_memory = on()?,
            "swa_full_tokens_ratio" => self.swa_full_tokens_ratio = real()?,
            "max_running_requests" => self.max_running_requests = whole()?,
            "chunked_prefill_size" => {
                self.chunked_prefill_size = real()?.map(|size| size as i32);
            }
            "max_prefill_tokens" => self.max_prefill_tokens = whole()?,
            "mem_fraction_static" => self.mem_fraction_static = real()?,
            "schedule_policy" => only(shown(value) == "fcfs")?,
            "schedule_conservativeness" => self.schedule_conservativeness = real()?,
            "disable_radix_cache" => self.disable_radix_cache = on()?,
            "disable_overlap_schedule" => self.disable_overlap_schedule = on()?,
            "scheduler_recv_interval" => self.scheduler_recv_interval = whole()?,
            "page_size" => self.page_size = whole()?,
            _ if flag.contains("mamba") => self.take_states(flag, value, unmodelled)?,
            "stream_interval" => self.stream_interval = whole()?,
            "num_continuous_decode_steps" | "num_scheduler_step" | "num_scheduler_steps" => {
                only(count(value) == Some(1))?;
            }
            "kv_cache_dtype" => match shown(value).as_str() {
                "auto" | "bfloat16" => {}
                text => {
                    only(text.starts_with("fp8"))?;
                    self.kv_cache_dtype = KvDtype::Fp8;
                }
            },
            "dtype" => only(is_sixteen_bits(&shown(value)))?,
            "enforce_eager" => self.enforce_eager = on()?,
            "quantization" => {
                let told = shown(value).to_lowercase();
                self.quantization = (told != "none").then_some(told);
            }
            "cpu_offload_gb" => only(number(value) == Some(0.0))?,
            "distributed_executor_backend" => {
                only(["mp", "uni"].contains(&shown(value).as_str()))?;
            }
            "attention_backend" => {
                self.chooses_kernels |= !is_default_attention(&shown(value), record, gpu);
            }
            _ if KERNELS.contains(&flag) => self.chooses_kernels |= switch(value) != Some(false),
            "max_cudagraph_capture_size" | "cuda_graph_max_bs" => self.max_graph = whole()?,
            _ if is_sglang && flag.contains("cuda_graph") => {
                self.take_graphs(flag, value, unmodelled)?;
            }
            "spec_decoding" if shown(value) == "none" => {}
            "spec_decoding" => return Err(skip::DRAFTS_NOT_STATED),
            "speculative_config" if !is_sglang => self.drafts = Some(Drafts::of_vllm(value)?),
            _ if is_sglang && flag.starts_with("speculative") => {
                self.drafts.get_or_insert_default().take_sglang(flag, value, unmodelled)?;
            }
            // Twice the defaults (0.33.0, `vllm/engine/arg_utils.py`). The third mode captures graphs of every size up to 32.
            "performance_mode" if !is_sglang => match shown(value).as_str() {
                "balanced" => {}
                "throughput" => {
                    let (tokens, seqs) = VllmConfig::default_batch_limits(gpu);
                    self.default_limits = Some((2 * tokens, 2 * seqs));
                }
                _ => return Err(unmodelled()),
            },
            "disaggregation" => self.roles = Role::both(value)?,
            "enable_lora" => self.enable_lora = switch(value).ok_or_else(unmodelled)?,
            "max_loras" | "max_loras_per_batch" => self.max_loras = whole()?,
            "max_lora_rank" => self.max_lora_rank = whole()?,
            "max_cpu_loras" => self.max_cpu_loras = whole()?,
            _ if flag.contains("lora") => return Err(skip::LORA),
            _ => return Err(unmodelled()),
        }
        Ok(())
    }

    /// Takes a flag of what `SGLang` captures.
    fn take_graphs(
        &mut self,
        flag: &str,
        value: &Value,
        unmodelled: impl Fn() -> Skip + Copy,
    ) -> Result<(), Skip> {
        let on = || switch(value).map(Some).ok_or_else(unmodelled);
        match flag {
            "disable_cuda_graph" => self.enforce_eager = on()?,
            "enable_piecewise_cuda_graph" | "enforce_piecewise_cuda_graph" => {
                self.prefill_graphs = on()?;
            }
            "disable_piecewise_cuda_graph" | "disable_prefill_cuda_graph" => {
                self.prefill_graphs = on()?.map(|off| !off);
            }
            "piecewise_cuda_graph_max_tokens" | "cuda_graph_max_bs_prefill" => {
                self.max_prefill_graph = Some(count(value).ok_or_else(unmodelled)?);
            }
            _ => return Err(unmodelled()),
        }
        Ok(())
    }

    /// Takes a flag of what `SGLang` keeps of layers with states.
    fn take_states(
        &mut self,
        flag: &str,
        value: &Value,
        unmodelled: impl Fn() -> Skip + Copy,
    ) -> Result<(), Skip> {
        let whole = || count(value).map(Some).ok_or_else(unmodelled);
        match flag {
            "mamba_full_memory_ratio" => {
                self.mamba_full_memory_ratio = Some(number(value).ok_or_else(unmodelled)?);
            }
            "max_mamba_cache_size" => self.max_mamba_cache_size = whole()?,
            "mamba_track_interval" => self.mamba_track_interval = whole()?,
            // Its name before.
            "mamba_radix_cache_strategy" | "mamba_scheduler_strategy" => {
                let named = || serde_json::from_value(value.clone()).map_err(|_| unmodelled());
                let is_auto = shown(value) == "auto";
                self.mamba_radix_cache_strategy = if is_auto { None } else { Some(named()?) };
            }
            _ => return Err(unmodelled()),
        }
        Ok(())
    }

    /// Takes the variables that are set before a command.
    fn take_environment(&mut self, command: &str, record: &Record) -> Result<(), Skip> {
        for word in command::words(command) {
            let Some((name, value)) = word.split_once('=') else { continue };
            let is_variable = name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
            // The engine that the version has by default.
            let by_default = if engine::is_v0(record) { "0" } else { "1" };
            if (name, value) == ("VLLM_USE_V1", by_default) {
                continue;
            }
            if is_variable && ENVIRONMENT_OF_KERNELS.iter().any(|start| name.starts_with(start)) {
                self.chooses_kernels = true;
                continue;
            }
            if is_variable && !ENVIRONMENT_WITHOUT_EFFECT.contains(&name) {
                return Err(Skip::Flag { flag: name.to_owned(), value: value.to_owned() });
            }
        }
        Ok(())
    }

    fn take_parallel(&mut self, parallel: &Fields) -> Result<(), Skip> {
        for (key, value) in parallel {
            let unread = || Skip::Setting(format!("parallel.{key}={}", shown(value)));
            if self.parallel.take(key, value, unread)? {
                continue;
            }
            match key.as_str() {
                "prefill" => self.roles.push(Role::read(ReplicaRole::Prefill, value)?),
                "decode" => self.roles.push(Role::read(ReplicaRole::Decode, value)?),
                // How the experts are cut follows from the rest; the batch is a limit of the
                // source's own search, not of the server.
                "batch_size" => {}
                _ => return Err(Skip::Setting(format!("parallel.{key}"))),
            }
        }
        Ok(())
    }
}

/// Whether kernels are those of 16 bits, or of the checkpoint's own format.
fn is_sixteen_bits(dtype: &str) -> bool {
    ["auto", "bfloat16", "bf16", "float16", "half"].contains(&dtype)
}

/// Whether this is the attention kernel that the engine would have chosen, which step times stand
/// for: `SGLang` takes `FlashAttention` 3 on Hopper and `FlashInfer` on Ampere and Ada
/// (`sglang/srt/server_args.py`), vLLM `FlashAttention` on all of them
/// (`vllm/platforms/cuda.py`).
fn is_default_attention(name: &str, record: &Record, gpu: &GpuSpec) -> bool {
    let chip = gpu.architecture.to_lowercase();
    let default = match record.engine.name.to_lowercase().as_str() {
        "sglang" if chip.contains("hopper") => "fa3",
        "vllm" if ["hopper", "ampere", "ada"].iter().any(|one| chip.contains(one)) => "flash_attn",
        "sglang" if chip.contains("ampere") || chip.contains("ada") => "flashinfer",
        _ => return false,
    };
    name.eq_ignore_ascii_case(default)
}

/// The name of a flag with its words joined by `_`, however a record joins them.
pub(super) fn normal(flag: &str) -> String {
    flag.trim_start_matches('-').replace('-', "_")
}
