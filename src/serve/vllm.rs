//! What vLLM's server answers beside OpenAI's API, and the names of its metrics.
//!
//! Paths and bodies as of vLLM 0.33.0 (`vllm/entrypoints/openai/api_server.py` and its routers), metrics as of
//! `vllm/v1/metrics/loggers.py`; Apache-2.0.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::app::App;
use super::counters::{Bins, Counters, Histogram};
use super::driver::{Command, Look, Replica};
use super::error::ApiError;
use super::exposition::{Exposition, Labels};
use super::fields::Fields;

pub(super) const BINS: Bins = Bins {
    first_token_s: &[
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
        20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
    ],
    gap_s: &[
        0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
        20.0, 40.0, 80.0,
    ],
    request_s: &[
        0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0,
        240.0, 480.0, 960.0, 1920.0, 7680.0,
    ],
    tokens: &[
        1.0,
        2.0,
        5.0,
        10.0,
        20.0,
        50.0,
        100.0,
        200.0,
        500.0,
        1000.0,
        2000.0,
        5000.0,
        10_000.0,
        20_000.0,
        50_000.0,
        100_000.0,
        200_000.0,
        500_000.0,
        1_000_000.0,
    ],
    step_tokens: &[
        1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0,
    ],
};

/// `GET /version`.
pub(super) async fn version() -> Json<Value> {
    Json(json!({"version": "0.33.0"}))
}

/// `POST /v1/load_lora_adapter`: one that the scenario has.
pub(super) async fn load_adapter(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let name: String = fields.need("lora_name")?;
    fields.finish(&["lora_path", "load_inplace", "is_3d_lora_weight"])?;
    let Some(adapter) = app.adapters.find(&name) else {
        let known = if app.adapters.names.is_empty() { "it has none" } else { "it has others" };
        let message = format!("the scenario has no adapter `{name}` (workload.adapters: {known})");
        return Err(ApiError::field("lora_name", message));
    };
    if !app.adapters.lock().insert(adapter.0) {
        let message = format!("The lora adapter '{name}' has already been loaded.");
        return Err(ApiError::field("lora_name", message));
    }
    Ok(format!("Success: LoRA adapter '{name}' added successfully.").into_response())
}

/// `POST /v1/unload_lora_adapter`.
pub(super) async fn unload_adapter(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let name: String = fields.need("lora_name")?;
    fields.finish(&["lora_int_id"])?;
    let adapter = app.adapters.find(&name);
    if !adapter.is_some_and(|adapter| app.adapters.lock().remove(&adapter.0)) {
        return Err(ApiError::unknown(format!("The lora adapter '{name}' cannot be found.")));
    }
    Ok(format!("Success: LoRA adapter '{name}' removed successfully.").into_response())
}

/// `POST /reset_prefix_cache`.
pub(super) async fn reset_prefix_cache(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let is_empty = app
        .handle
        .ask(|reply| Command::Flush(app.replica, reply))
        .await
        .ok_or_else(ApiError::closing)?;
    let status = if is_empty { StatusCode::OK } else { StatusCode::CONFLICT };
    Ok(status.into_response())
}

/// `GET /load`: requests that are being answered.
pub(super) async fn load(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let look = app.handle.ask(Command::Look).await.ok_or_else(ApiError::closing)?;
    let of = |replica: &Replica| replica.load.running + replica.load.waiting;
    let load: u32 = app.watched(&look).iter().map(of).sum();
    Ok(Json(json!({"server_load": load})))
}

/// The metrics of vLLM's server, for each replica as for an engine of it.
pub(super) fn metrics(app: &App, look: &Look, out: &mut Exposition) {
    let replicas: Vec<(Labels, &Replica)> = (0..)
        .zip(app.watched(look))
        .map(|(engine, replica)| (labels(app, engine), replica))
        .collect();
    let mut gauge = |name: &str, help: &str, of: &dyn Fn(&Replica) -> f64| {
        out.gauge(name, help, replicas.iter().map(|(labels, it)| (labels.clone(), of(it))));
    };
    gauge("vllm:num_requests_running", "Number of requests in model execution batches.", &|it| {
        f64::from(it.load.running)
    });
    gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", &|it| {
        f64::from(it.load.waiting)
    });
    gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", &|it| {
        it.load.kv_utilization()
    });
    let mut counter = |name: &str, help: &str, of: &dyn Fn(&Replica) -> u64| {
        out.counter(name, help, replicas.iter().map(|(labels, it)| (labels.clone(), of(it))));
    };
    counter("vllm:num_preemptions", "Cumulative number of preemptions.", &|it| {
        it.counters.preemptions
    });
    counter("vllm:prompt_tokens", "Number of prefill tokens processed.", &|it| {
        it.counters.prompt_tokens
    });
    counter("vllm:generation_tokens", "Number of generation tokens processed.", &|it| {
        it.counters.generation_tokens
    });
    counter("vllm:prefix_cache_queries", "Prefix cache queries, in tokens.", &|it| {
        it.counters.cache_queries
    });
    counter("vllm:prefix_cache_hits", "Prefix cache hits, in tokens.", &|it| {
        it.counters.cache_hits
    });
    let ended = replicas.iter().flat_map(|(labels, it)| {
        let Counters { stopped, cut, aborted, failed, .. } = it.counters;
        let by_reason = [("stop", stopped), ("length", cut), ("abort", aborted), ("error", failed)];
        by_reason.map(|(reason, count)| (labels.with("finished_reason", reason), count))
    });
    out.counter("vllm:request_success", "Count of successfully processed requests.", ended);
    let mut histogram = |name: &str, help: &str, of: &dyn Fn(&Replica) -> &Histogram| {
        out.histogram(name, help, replicas.iter().map(|(labels, it)| (labels.clone(), of(it))));
    };
    histogram("vllm:time_to_first_token_seconds", "Time to first token in seconds.", &|it| {
        &it.counters.first_token_s
    });
    histogram("vllm:inter_token_latency_seconds", "Inter-token latency in seconds.", &|it| {
        &it.counters.gap_s
    });
    histogram(
        "vllm:request_time_per_output_token_seconds",
        "Time per output token of requests in seconds.",
        &|it| &it.counters.time_per_output_token_s,
    );
    histogram("vllm:e2e_request_latency_seconds", "End-to-end latency in seconds.", &|it| {
        &it.counters.request_s
    });
    histogram("vllm:request_queue_time_seconds", "Time in the waiting queue in seconds.", &|it| {
        &it.counters.queue_s
    });
    histogram("vllm:request_prefill_time_seconds", "Time in prefill in seconds.", &|it| {
        &it.counters.prefill_s
    });
    histogram("vllm:request_decode_time_seconds", "Time in decode in seconds.", &|it| {
        &it.counters.decode_s
    });
    histogram("vllm:request_inference_time_seconds", "Time in running in seconds.", &|it| {
        &it.counters.inference_s
    });
    histogram("vllm:request_prompt_tokens", "Number of prefill tokens of requests.", &|it| {
        &it.counters.request_prompt_tokens
    });
    histogram("vllm:request_generation_tokens", "Number of generated tokens of requests.", &|it| {
        &it.counters.request_generation_tokens
    });
    histogram("vllm:request_params_max_tokens", "The max_tokens of requests.", &|it| {
        &it.counters.request_max_tokens
    });
    histogram("vllm:iteration_tokens_total", "Number of tokens per engine step.", &|it| {
        &it.counters.step_tokens
    });
}

fn labels(app: &App, engine: usize) -> Labels {
    Labels::new(&[("model_name", app.model_of(engine)), ("engine", &engine.to_string())])
}
