//! Folders of vLLM (0.33.0).

use serde_json::Value;

use super::flags::{Flags, micros};
use super::{CPU, HostRun, TEXT_BYTES};
use crate::scenario::{Endpoint, EngineConfig, ServerHostConfig, StepTimeConfig, VllmConfig};

/// Flags of the server that decide nothing here: names, places, and the executor that replaces the GPU.
const SERVER_WITHOUT_EFFECT: [&str; 4] =
    ["--served-model-name", "--host", "--port", "--distributed-executor-backend"];
const SERVER: [&str; 8] = [
    "--max-model-len",
    "--max-num-seqs",
    "--max-num-batched-tokens",
    "--no-async-scheduling",
    "--async-scheduling",
    "--stream-interval",
    "--api-server-count",
    "--no-enable-prefix-caching",
];
/// What the client was told of requests that the table holds, of names, and of its output.
const CLIENT_WITHOUT_EFFECT: [&str; 24] = [
    "--model",
    "--served-model-name",
    "--tokenizer",
    "--host",
    "--port",
    "--num-prompts",
    "--seed",
    "--ignore-eos",
    "--temperature",
    "--disable-tqdm",
    "--request-id-prefix",
    "--save-result",
    "--save-detailed",
    "--result-dir",
    "--result-filename",
    "--percentile-metrics",
    "--metric-percentiles",
    "--dataset-path",
    "--disable-shuffle",
    "--random-input-len",
    "--random-output-len",
    "--random-range-ratio",
    "--request-rate",
    "--burstiness",
];
const CLIENT: [&str; 4] = ["--dataset-name", "--max-concurrency", "--backend", "--endpoint"];

/// Of a card of 80 GB: defaults of the version, and blocks as its documentation of the runs states them.
const BLOCKS: u32 = 27_648;
const SEQS: u32 = 1024;
const TOKENS: u32 = 8192;

pub(super) fn run(meta: &Value) -> Result<HostRun, String> {
    let server = Flags::of(meta, "server_flags")?;
    let client = Flags::of(meta, "client_flags")?;
    server.only(&[&SERVER_WITHOUT_EFFECT, &SERVER])?;
    client.only(&[&CLIENT_WITHOUT_EFFECT, &CLIENT])?;
    if has_rust_front_end(meta) {
        return Err("cpu_s: the Rust front end of vLLM is not modelled".to_owned());
    }
    let law = |key| micros(meta, "step_law_ms", key, 1e3);
    let (token_us, seq_us) = (law("b_per_token_beyond_one_per_seq")?, law("c_per_seq")?);
    let is_random = match client.value("--dataset-name") {
        Some("random") => true,
        Some("sharegpt") => false,
        other => {
            let other = other.unwrap_or("nothing");
            return Err(format!("client_flags: --dataset-name {other} is not modelled"));
        }
    };
    let endpoint = match client.value("--backend") {
        None | Some("vllm" | "openai") => Endpoint::Completions,
        Some("openai-chat") => Endpoint::Chat,
        Some(other) => return Err(format!("client_flags: --backend {other} is not modelled")),
    };
    let tokens = server.count("--max-num-batched-tokens")?.unwrap_or(TOKENS);
    Ok(HostRun {
        engine: EngineConfig::VllmV1(VllmConfig {
            num_gpu_blocks: Some(BLOCKS),
            max_num_seqs: Some(server.count("--max-num-seqs")?.unwrap_or(SEQS.min(tokens))),
            max_num_batched_tokens: Some(tokens),
            max_model_len: server.count("--max-model-len")?,
            async_scheduling: !server.has("--no-async-scheduling"),
            enable_prefix_caching: !server.has("--no-enable-prefix-caching"),
            ..VllmConfig::default()
        }),
        law: StepTimeConfig::Linear {
            base_us: law("a")?,
            prefill_token_us: token_us,
            decode_seq_us: seq_us,
            prefill_base_us: None,
            prefill_seq_us: seq_us - token_us,
            context_token_us: 0.0,
        },
        host: ServerHostConfig {
            endpoint,
            bytes_per_token: if is_random {
                ServerHostConfig::RANDOM_BYTES_PER_TOKEN
            } else {
                TEXT_BYTES
            },
            api_servers: api_servers(meta, &server)?,
            stream_interval: server.count("--stream-interval")?.unwrap_or(1),
            // The processes were pinned: the API process and its threads to one core.
            tokenizer_shares_core: true,
            cpu: CPU,
            wakes: 1.0,
            ..ServerHostConfig::default()
        },
        max_concurrency: client.count("--max-concurrency")?,
        columns: ["send_ms", "ttft_ms", "e2e_ms", "prompt_tokens", "output_tokens"],
        unit_s: 1e-3,
    })
}

fn api_servers(meta: &Value, server: &Flags<'_>) -> Result<u32, String> {
    if let Some(count) = server.count("--api-server-count")? {
        return Ok(count);
    }
    let Some(told) = meta.get("api_servers") else { return Ok(1) };
    let count = told.as_u64().and_then(|count| u32::try_from(count).ok());
    count
        .filter(|count| *count > 0)
        .ok_or_else(|| format!("api_servers: must be a whole number above 0, got {told}"))
}

/// Chosen by the environment, which the file does not hold; its threads tell.
fn has_rust_front_end(meta: &Value) -> bool {
    let processes = meta.get("cpu_s").and_then(Value::as_object);
    let threads = processes.into_iter().flatten().filter_map(|(_, threads)| threads.as_object());
    threads.into_iter().flatten().any(|(thread, _)| thread == "vllm-rs")
}
