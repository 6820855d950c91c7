//! The flags of `sglang.bench_serving` and `vllm bench serve` under their own names, and those of
//! the engine that is simulated.

#![expect(clippy::doc_markdown, reason = "these comments are help texts, printed as they are")]

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::foreign::Foreign;
use super::tool::{Backend, ToolName};
use crate::cli::args::OutputArguments;
use crate::scenario::{Policy, RampUp, SglangPolicy};

// Headings of flags that one tool, or one engine, has.
const VLLM_SERVER: &str = "Server flags of vLLM";
const SGLANG_SERVER: &str = "Server flags of SGLang";
const VLLM_TRAFFIC: &str = "Traffic of vllm bench serve";
const SGLANG_TRAFFIC: &str = "Traffic of sglang.bench_serving";
const VLLM_REPORT: &str = "Report of vllm bench serve";
const SGLANG_REPORT: &str = "Report of sglang.bench_serving";

/// `servecast bench`.
#[derive(Debug, Args)]
#[command(
    infer_long_args = true,
    mut_arg("steps", |it| it.hide_short_help(true)),
    mut_arg("timeline", |it| it.hide_short_help(true)),
    mut_arg("timeline_window", |it| it.hide_short_help(true)),
    mut_arg("overwrite", |it| it.hide_short_help(true)),
    args_override_self = true,
    override_usage = "servecast bench [vllm bench serve | python -m sglang.bench_serving] --model <MODEL> --gpu <GPU> [FLAGS]",
    after_help = "`--help` lists all flags of both tools and of both servers, with examples.",
    after_long_help = "Examples:\n  \
    servecast bench python -m sglang.bench_serving --backend sglang --model Qwen/Qwen2.5-7B-Instruct --gpu H100 \\\n    \
    --dataset-name random --random-input-len 1000 --random-output-len 1000 \\\n    \
    --random-range-ratio 1 --num-prompts 256 --max-concurrency 32\n  \
    servecast bench vllm bench serve --model meta-llama/Llama-3.1-70B --gpu H100 -tp 4 \\\n    \
    --dataset-name random --request-rate 4 --max-num-seqs 128 --save-result\n\n\
    Flags of the tools and of `vllm serve` that do not affect a simulation (--host, --tokenizer, ...) are \
    accepted and named on stderr. Flags that are not modelled are refused with the reason."
)]
pub(in crate::cli) struct BenchArguments {
    #[command(flatten)]
    pub(super) server: ServerArguments,
    #[command(flatten)]
    pub(super) workload: WorkloadArguments,
    #[command(flatten)]
    pub(super) report: ReportArguments,
    /// Override a value of the scenario that the flags make, as in `cluster.api_delay_ms=5`; may
    /// be repeated
    #[arg(long = "set", value_name = "PATH=VALUE", help_heading = "Simulation")]
    pub(super) overrides: Vec<String>,
    /// Simulate a typical server alone: no ranges where a slow and a fast one are simulated for these
    #[arg(long, help_heading = "Simulation")]
    pub(super) point: bool,
    #[command(flatten, next_help_heading = "Simulation")]
    pub(super) output: OutputArguments,
    #[command(flatten)]
    pub(super) foreign: Foreign,
}

/// The server that is simulated, in the words of `vllm serve` and `sglang.launch_server`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
#[expect(clippy::struct_excessive_bools, reason = "the engine's own switches and their opposites")]
pub(in crate::cli) struct ServerArguments {
    /// Model of the catalogue, or a local config.json
    #[arg(long, visible_alias = "model-path")]
    pub(super) model: String,
    /// GPU of the catalogue
    #[arg(long)]
    pub(super) gpu: String,
    /// GPUs of a replica (also -tp, --tp-size) [default: 1]
    #[arg(long, visible_alias = "tp", alias = "tp-size", value_name = "GPUS")]
    pub(super) tensor_parallel_size: Option<u32>,
    /// Stages of a replica, of as many GPUs each (also -pp) [default: 1]
    #[arg(long, visible_alias = "pp", value_name = "STAGES", help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) pipeline_parallel_size: Option<u32>,
    /// Replicas; requests go to them in turn [default: 1]
    #[arg(long, value_name = "COUNT")]
    pub(super) replicas: Option<u32>,
    /// The engine [default: by backend; vllm for openai]
    #[arg(long, value_enum)]
    pub(super) engine: Option<Engine>,
    /// Place whole experts on the GPUs of a replica (expert parallelism)
    #[arg(long, help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) enable_expert_parallel: bool,
    /// Expert parallelism: GPUs of a replica that share out the experts [default: none]
    #[arg(
        long,
        value_name = "GPUS",
        visible_alias = "ep",
        alias = "expert-parallel-size",
        help_heading = SGLANG_SERVER,
        hide_short_help = true
    )]
    pub(super) ep_size: Option<u32>,
    /// Most sequences in a step [default: by GPU]
    #[arg(long, value_name = "COUNT", value_parser = tokens, help_heading = VLLM_SERVER)]
    pub(super) max_num_seqs: Option<u32>,
    /// Most tokens in a step [default: by GPU]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, help_heading = VLLM_SERVER)]
    pub(super) max_num_batched_tokens: Option<u32>,
    /// Longest sequence in tokens, prompt and answer together [default: by model]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, visible_alias = "context-length")]
    pub(super) max_model_len: Option<u32>,
    /// Share of the GPU memory the engine may use [default: 0.9; sglang: by GPU and graphs]
    #[arg(long, value_name = "SHARE", visible_alias = "mem-fraction-static")]
    pub(super) gpu_memory_utilization: Option<f64>,
    /// Tokens per KV block [default: 16]
    #[arg(long, value_name = "TOKENS", help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) block_size: Option<u32>,
    /// Number of KV blocks, instead of as many as fit
    #[arg(long, value_name = "BLOCKS", help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) num_gpu_blocks_override: Option<u32>,
    /// Type of the KV cache [default: auto]
    #[arg(long, value_enum, value_name = "TYPE", hide_short_help = true)]
    pub(super) kv_cache_dtype: Option<KvCacheDtype>,
    /// Reuse KV blocks of prompts that begin alike (the default)
    #[arg(long, overrides_with = "no_enable_prefix_caching", help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) enable_prefix_caching: bool,
    /// Reuse no KV blocks
    #[arg(long, overrides_with = "enable_prefix_caching", help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) no_enable_prefix_caching: bool,
    /// Split long prompts over several steps (the default)
    #[arg(long, overrides_with = "no_enable_chunked_prefill", help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) enable_chunked_prefill: bool,
    /// Compute each prompt in one step
    #[arg(long, overrides_with = "enable_chunked_prefill", help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) no_enable_chunked_prefill: bool,
    /// Schedule the next batch while the last one runs (the default)
    #[arg(long, overrides_with = "no_async_scheduling", help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) async_scheduling: bool,
    /// Schedule a batch after the last one has ended
    #[arg(long, overrides_with = "async_scheduling", help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) no_async_scheduling: bool,
    /// Order in which requests are admitted [default: fcfs]
    #[arg(long, value_enum, value_name = "POLICY", help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) scheduling_policy: Option<SchedulingPolicy>,
    /// Longest chunk of one prompt where other requests are in the step; 0 for no limit [default: 0]
    #[arg(long, value_name = "TOKENS", value_parser = tokens, help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) long_prefill_token_threshold: Option<u32>,
    /// Steps that only decode between two looks for new requests [default: 1]
    #[arg(long, value_name = "STEPS", help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) scheduler_recv_interval: Option<u32>,
    /// Capture no CUDA graphs
    #[arg(long, help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) enforce_eager: bool,
    /// Largest step with a captured CUDA graph [default: by max-num-seqs]
    #[arg(long, value_name = "TOKENS", help_heading = VLLM_SERVER, hide_short_help = true)]
    pub(super) max_cudagraph_capture_size: Option<u32>,
    /// Tokens that KV memory holds, instead of as many as fit
    #[arg(long, value_name = "TOKENS", help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) max_total_tokens: Option<u32>,
    /// Most running requests [default: by memory]
    #[arg(long, value_name = "COUNT", help_heading = SGLANG_SERVER)]
    pub(super) max_running_requests: Option<u32>,
    /// Most tokens of a prefill batch; longer prompts are split, -1 for no splitting
    /// [default: by GPU]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true, help_heading = SGLANG_SERVER )]
    pub(super) chunked_prefill_size: Option<i32>,
    /// Tokens of a prefill batch after which no request is added [default: 16384]
    #[arg(long, value_name = "TOKENS", help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) max_prefill_tokens: Option<u32>,
    /// Most requests that are added to a prefill batch
    #[arg(long, value_name = "COUNT", help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) prefill_max_requests: Option<u32>,
    /// Tokens per KV page [default: 1]
    #[arg(long, value_name = "TOKENS", help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) page_size: Option<u32>,
    /// Order in which requests are admitted [default: fcfs]
    #[arg(long, value_enum, value_name = "POLICY", help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) schedule_policy: Option<SchedulePolicy>,
    /// Share of the expected answer lengths for which memory is kept [default: 1]
    #[arg(long, value_name = "FACTOR", help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) schedule_conservativeness: Option<f64>,
    /// Reuse no prefixes
    #[arg(long, help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) disable_radix_cache: bool,
    /// Decode in prefill batches too
    #[arg(long, help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) enable_mixed_chunk: bool,
    /// Schedule a batch after the last one has ended
    #[arg(long, help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) disable_overlap_schedule: bool,
    /// Capture no CUDA graphs
    #[arg(long, help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) disable_cuda_graph: bool,
    /// Use a captured graph only for a batch of exactly its size
    #[arg(long, help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) disable_cuda_graph_padding: bool,
    /// Largest decode batch with a captured CUDA graph [default: by GPU]
    #[arg(long, value_name = "COUNT", visible_alias = "cuda-graph-max-bs-decode", help_heading = SGLANG_SERVER, hide_short_help = true)]
    pub(super) cuda_graph_max_bs: Option<u32>,
}

/// The requests, in the words of both tools.
#[derive(Debug, Args)]
#[command(next_help_heading = "Traffic")]
pub(in crate::cli) struct WorkloadArguments {
    /// Benchmark tool whose defaults, draws and report are used [default: told by the pasted command
    /// or the backend]
    #[arg(long, value_enum, hide_short_help = true)]
    pub(in crate::cli) tool: Option<ToolName>,
    /// The server that the tool talks to [default: sglang of sglang.bench_serving, openai of vllm
    /// bench serve]
    #[arg(long, value_enum, hide_short_help = true)]
    pub(in crate::cli) backend: Option<Backend>,
    /// Data set, such as random, sharegpt or mooncake [default: sharegpt for sglang, random for vllm]
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) dataset_name: Option<String>,
    /// File of lengths (sharegpt) or trace (mooncake, timed_trace)
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) dataset_path: Option<PathBuf>,
    /// Number of requests [default: 1000]
    #[arg(long, value_name = "COUNT")]
    pub(in crate::cli) num_prompts: Option<u32>,
    /// Seed of every draw [default: 42 for sglang, 0 for vllm]
    #[arg(long)]
    pub(in crate::cli) seed: Option<u32>,
    /// Requests per second, or inf for all at once [default: inf]
    #[arg(long, value_name = "REQ_PER_S", value_parser = rate, allow_negative_numbers = true)]
    pub(in crate::cli) request_rate: Option<f64>,
    /// Most requests in flight; others wait at the client
    #[arg(long, value_name = "COUNT")]
    pub(in crate::cli) max_concurrency: Option<u32>,
    /// Copies of the first prompt that are answered before the clock starts [default: 1]
    #[arg(long, value_name = "COUNT", help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) warmup_requests: Option<u32>,
    /// Copies of the first prompt that are answered before the clock starts [default: 0]
    #[arg(long, value_name = "COUNT", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) num_warmups: Option<u32>,
    /// Above 0, a request tests the server before the warm-up [default: 0]
    #[arg(long, value_name = "SECONDS", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) ready_check_timeout_sec: Option<u32>,
    /// Forget what the warm-up left in the prefix cache
    #[arg(long, help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) flush_cache: bool,
    /// Gaps are gamma distributed with this shape; 1 is Poisson, inf is constant
    #[arg(long, value_name = "SHAPE", allow_negative_numbers = true, help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) burstiness: Option<f64>,
    /// How the rate grows from the first request to the last
    #[arg(long, value_enum, value_name = "STRATEGY", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) ramp_up_strategy: Option<Strategy>,
    /// Requests per second at the first request
    #[arg(long, value_name = "REQ_PER_S", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) ramp_up_start_rps: Option<u32>,
    /// Requests per second at the last request
    #[arg(long, value_name = "REQ_PER_S", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) ramp_up_end_rps: Option<u32>,
    /// Length of prompts [default: 1024]
    #[arg(long, value_name = "TOKENS", visible_alias = "input-len")]
    pub(super) random_input_len: Option<u32>,
    /// Length of answers [default: 1024 for sglang, 128 for vllm]
    #[arg(long, value_name = "TOKENS", visible_alias = "output-len")]
    pub(super) random_output_len: Option<u32>,
    /// Spread of lengths. sglang: the shortest as a share of the longest, 1 for equal lengths. vllm: how
    /// far to either side, 0 for equal lengths, or {"input": .., "output": ..} [default: 0]
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true)]
    pub(super) random_range_ratio: Option<String>,
    /// Tokens that all prompts begin with, on top of their length [default: 0]
    #[arg(long, value_name = "TOKENS", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) random_prefix_len: Option<u32>,
    /// Answer length of every sharegpt request, instead of the recorded one
    #[arg(long, value_name = "TOKENS", hide_short_help = true)]
    pub(super) sharegpt_output_len: Option<u32>,
    /// Leave out sharegpt requests longer than this
    #[arg(long, value_name = "TOKENS", help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) sharegpt_context_len: Option<u32>,
    /// Groups that share a system prompt [default: 64]
    #[arg(long, value_name = "COUNT", help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) gsp_num_groups: Option<u32>,
    /// Prompts of a group [default: 16]
    #[arg(long, value_name = "COUNT", help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) gsp_prompts_per_group: Option<u32>,
    /// Length of a system prompt [default: 2048]
    #[arg(long, value_name = "TOKENS", help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) gsp_system_prompt_len: Option<u32>,
    /// Length of a question [default: 128]
    #[arg(long, value_name = "TOKENS", help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) gsp_question_len: Option<u32>,
    /// Length of an answer [default: 256]
    #[arg(long, value_name = "TOKENS", help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) gsp_output_len: Option<u32>,
    /// Shortest length as a share of the longest [default: 1]
    #[arg(long, value_name = "RATIO", help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) gsp_range_ratio: Option<f64>,
    /// Send one group after the other
    #[arg(long, help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) gsp_ordered: bool,
    /// Distribution of prompts over groups [default: uniform]
    #[arg(long, value_enum, value_name = "NAME", help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) gsp_group_distribution: Option<Spread>,
    /// Exponent of a zipf spread
    #[arg(long, value_name = "EXPONENT", help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) gsp_zipf_alpha: Option<f64>,
    /// Tokens of a shared prefix [default: 256]
    #[arg(long, value_name = "TOKENS", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) prefix_repetition_prefix_len: Option<u32>,
    /// Tokens after it [default: 256]
    #[arg(long, value_name = "TOKENS", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) prefix_repetition_suffix_len: Option<u32>,
    /// Different prefixes [default: 10]
    #[arg(long, value_name = "COUNT", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) prefix_repetition_num_prefixes: Option<u32>,
    /// Length of an answer [default: 128]
    #[arg(long, value_name = "TOKENS", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) prefix_repetition_output_len: Option<u32>,
    /// Report the rate as that of the trace
    #[arg(long, help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) use_trace_timestamps: bool,
    /// Stretch the times of the trace by this factor [default: 1]
    #[arg(long, value_name = "FACTOR", help_heading = SGLANG_TRAFFIC, hide_short_help = true)]
    pub(super) mooncake_slowdown_factor: Option<f64>,
    /// Tokens per hash id of the trace [default: 16]
    #[arg(long, value_name = "TOKENS", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) timed_trace_chunk_hash_size: Option<u32>,
    /// Seconds per unit of the trace's clock: 1, 0.001, 1e-6 or 1e-9 [default: 1]
    #[arg(long, value_name = "SECONDS", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) timed_trace_sec_multiplier: Option<f64>,
    /// Key of the time [default: timestamp]
    #[arg(long, value_name = "KEY", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) timed_trace_label_timestamp: Option<String>,
    /// Key of the prompt length [default: input_length]
    #[arg(long, value_name = "KEY", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) timed_trace_label_input_length: Option<String>,
    /// Key of the answer length [default: output_length]
    #[arg(long, value_name = "KEY", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) timed_trace_label_output_length: Option<String>,
    /// Key of the hash ids [default: hash_ids]
    #[arg(long, value_name = "KEY", help_heading = VLLM_TRAFFIC, hide_short_help = true)]
    pub(super) timed_trace_label_hash_ids: Option<String>,
}

/// What is reported, in the words of both tools.
#[derive(Debug, Args)]
#[command(next_help_heading = "Report")]
#[expect(clippy::struct_excessive_bools, reason = "the tools' own switches")]
pub(in crate::cli) struct ReportArguments {
    /// Latency limits in ms, as in `ttft:500 tpot:50 e2el:4000`
    #[arg(long, value_name = "METRIC:MS", num_args = 1..)]
    pub(super) goodput: Vec<String>,
    /// Latencies to report, of ttft, tpot, itl, e2el [default: ttft,tpot,itl]
    #[arg(long, value_name = "LIST", help_heading = VLLM_REPORT, hide_short_help = true)]
    pub(super) percentile_metrics: Option<String>,
    /// Percentiles to report, as in 50,99.9 [default: 99]
    #[arg(long, value_name = "LIST", help_heading = VLLM_REPORT, hide_short_help = true)]
    pub(super) metric_percentiles: Option<String>,
    /// Read answers as a whole, so that TTFT equals E2E
    #[arg(long, help_heading = SGLANG_REPORT, hide_short_help = true)]
    pub(super) disable_stream: bool,
    /// Report cached prompt tokens
    #[arg(long, help_heading = SGLANG_REPORT, hide_short_help = true)]
    pub(super) cache_report: bool,
    /// Text that is written into the JSON line
    #[arg(long, help_heading = SGLANG_REPORT, hide_short_help = true)]
    pub(super) tag: Option<String>,
    /// Append the tool's JSON line to this file; without a name, to the tool's own
    /// BACKEND_MMDD_PROMPTS_INPUT_OUTPUT.jsonl
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "",
          value_parser = clap::value_parser!(OsString), help_heading = SGLANG_REPORT, hide_short_help = true)]
    pub(super) output_file: Option<OsString>,
    /// Write the tool's JSON file, named LABEL-RATEqps-MODEL-DATE.json (UTC)
    #[arg(long, help_heading = VLLM_REPORT, hide_short_help = true)]
    pub(super) save_result: bool,
    /// Append to the file instead of replacing it
    #[arg(long, help_heading = VLLM_REPORT, hide_short_help = true)]
    pub(super) append_result: bool,
    /// Folder of that file
    #[arg(long, value_name = "DIR", help_heading = VLLM_REPORT, hide_short_help = true)]
    pub(super) result_dir: Option<PathBuf>,
    /// Name of that file
    #[arg(long, value_name = "NAME", help_heading = VLLM_REPORT, hide_short_help = true)]
    pub(super) result_filename: Option<PathBuf>,
    /// Prefix of that file's name [default: the backend]
    #[arg(long, help_heading = VLLM_REPORT, hide_short_help = true)]
    pub(super) label: Option<String>,
    /// Pairs that are written into the JSON
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., help_heading = VLLM_REPORT, hide_short_help = true)]
    pub(super) metadata: Vec<String>,
}

/// Engines that are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Engine {
    /// vLLM's V1 engine.
    Vllm,
    /// SGLang.
    Sglang,
}

impl Engine {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
        }
    }
}

/// vLLM's names for types of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum KvCacheDtype {
    Auto,
    Bfloat16,
    Fp8,
    #[value(name = "fp8_e4m3")]
    Fp8E4m3,
    #[value(name = "fp8_e5m2")]
    Fp8E5m2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SchedulingPolicy {
    Fcfs,
    Priority,
}

/// SGLang's orders of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SchedulePolicy {
    Fcfs,
    Lpm,
    Lof,
}

impl From<SchedulePolicy> for SglangPolicy {
    fn from(policy: SchedulePolicy) -> Self {
        match policy {
            SchedulePolicy::Fcfs => Self::Fcfs,
            SchedulePolicy::Lpm => Self::Lpm,
            SchedulePolicy::Lof => Self::Lof,
        }
    }
}

impl From<SchedulingPolicy> for Policy {
    fn from(policy: SchedulingPolicy) -> Self {
        match policy {
            SchedulingPolicy::Fcfs => Self::Fcfs,
            SchedulingPolicy::Priority => Self::Priority,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Strategy {
    Linear,
    Exponential,
}

impl Strategy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Exponential => "exponential",
        }
    }
}

impl From<Strategy> for RampUp {
    fn from(strategy: Strategy) -> Self {
        match strategy {
            Strategy::Linear => Self::Linear,
            Strategy::Exponential => Self::Exponential,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Spread {
    Uniform,
    Zipf,
}

/// A rate above zero, as Python's `float` reads it.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| *rate > 0.0);
    rate.ok_or_else(|| "must be above 0 requests per second, or inf for all at once".to_owned())
}

/// A number of tokens or sequences as vLLM reads it: 8192, 8k = 8,000, 8K = 8,192.
fn tokens(text: &str) -> Result<u32, String> {
    let (digits, unit) = match text.chars().last() {
        Some('k') => (&text[..text.len() - 1], 1000.0),
        Some('K') => (&text[..text.len() - 1], 1024.0),
        Some('m') => (&text[..text.len() - 1], 1e6),
        Some('M') => (&text[..text.len() - 1], 1_048_576.0),
        _ => {
            return text.parse().map_err(|_| {
                "must be a whole number below 2^32, such as 8192, 8k (8,000) or 8K (8,192)".into()
            });
        }
    };
    let number = digits.parse::<f64>().ok().map(|number| number * unit);
    let number = number.filter(|n| (0.0..f64::from(u32::MAX)).contains(n));
    number.map(|n| n as u32).ok_or_else(|| "must be a number such as 8k or 1.5K".to_owned())
}
