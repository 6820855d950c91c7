//! Folders of SGLang (0.5.23).

use serde_json::Value;

use super::flags::{Flags, micros};
use super::{CPU, HostRun, TEXT_BYTES};
use crate::scenario::{EngineConfig, ServerHostConfig, SglangConfig, StepTimeConfig};

/// Flags of the server that decide nothing here: names, places, what replaces the GPU, and how an idle server
/// waits.
const SERVER_WITHOUT_EFFECT: [&str; 8] = [
    "--model-path",
    "--device",
    "--attention-backend",
    "--load-format",
    "--host",
    "--port",
    "--watchdog-timeout",
    "--sleep-on-idle",
];
const SERVER: [&str; 7] = [
    "--max-total-tokens",
    "--max-running-requests",
    "--chunked-prefill-size",
    "--context-length",
    "--disable-overlap-schedule",
    "--disable-radix-cache",
    "--stream-interval",
];
/// What the client was told of requests that the table holds, of names, and of its output.
const CLIENT_WITHOUT_EFFECT: [&str; 13] = [
    "--base-url",
    "--model",
    "--tokenizer",
    "--dataset-name",
    "--dataset-path",
    "--num-prompts",
    "--random-input-len",
    "--random-output-len",
    "--random-range-ratio",
    "--seed",
    "--disable-tqdm",
    "--flush-cache",
    "--request-rate",
];
const CLIENT: [&str; 2] = ["--backend", "--max-concurrency"];

pub(super) fn run(meta: &Value) -> Result<HostRun, String> {
    let server = Flags::of(meta, "server_args")?;
    let client = Flags::of(meta, "bench_args")?;
    server.only(&[&SERVER_WITHOUT_EFFECT, &SERVER])?;
    client.only(&[&CLIENT_WITHOUT_EFFECT, &CLIENT])?;
    if let Some(backend) = client.value("--backend").filter(|backend| *backend != "sglang") {
        return Err(format!("bench_args: --backend {backend} is not modelled"));
    }
    let law = |key| micros(meta, "gpu_us", key, 1.0);
    Ok(HostRun {
        engine: EngineConfig::Sglang(SglangConfig {
            max_total_tokens: server.count("--max-total-tokens")?,
            max_running_requests: server.count("--max-running-requests")?,
            chunked_prefill_size: server.count("--chunked-prefill-size")?.map(u32::cast_signed),
            context_length: server.count("--context-length")?,
            disable_overlap_schedule: server.has("--disable-overlap-schedule"),
            disable_radix_cache: server.has("--disable-radix-cache"),
            ..SglangConfig::default()
        }),
        law: StepTimeConfig::Linear {
            base_us: law("dec_a")?,
            prefill_token_us: law("ext_b")?,
            decode_seq_us: law("dec_b")?,
            prefill_base_us: Some(law("ext_a")?),
            prefill_seq_us: law("ext_s")?,
            context_token_us: law("dec_c")?,
        },
        host: ServerHostConfig {
            // The tool cuts its random prompts from text.
            bytes_per_token: TEXT_BYTES,
            stream_interval: server.count("--stream-interval")?.unwrap_or(1),
            cpu: CPU,
            wakes: 1.0,
            ..ServerHostConfig::default()
        },
        max_concurrency: client.count("--max-concurrency")?,
        columns: ["send_us", "ttft_us", "e2e_us", "prompt_tokens", "output_tokens"],
        unit_s: 1e-6,
    })
}
