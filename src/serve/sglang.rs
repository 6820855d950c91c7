//! What SGLang's server answers beside requests, and the names of its metrics.
//!
//! Paths and bodies as of SGLang 0.5.23 (`python/sglang/srt/entrypoints/http_server.py`), metrics as of
//! `python/sglang/srt/metrics/collector.py`; Apache-2.0.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::app::App;
use super::counters::{Bins, Histogram};
use super::driver::{Command, Look, Replica};
use super::error::ApiError;
use super::exposition::{Exposition, Labels};
use super::fields::Fields;
use crate::engine::scheduler::Load;

pub(super) const BINS: Bins = Bins {
    first_token_s: &[
        0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0,
        200.0, 400.0,
    ],
    gap_s: &[
        0.002, 0.004, 0.006, 0.008, 0.010, 0.015, 0.020, 0.025, 0.030, 0.035, 0.040, 0.060, 0.080,
        0.100, 0.200, 0.400, 0.600, 0.800, 1.000, 2.000, 4.000, 6.000, 8.000,
    ],
    request_s: &[
        0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0,
        200.0, 400.0, 600.0, 1200.0, 1800.0, 2400.0,
    ],
    tokens: &[
        100.0,
        300.0,
        500.0,
        700.0,
        1000.0,
        1500.0,
        2000.0,
        3000.0,
        4000.0,
        5000.0,
        6000.0,
        7000.0,
        8000.0,
        9000.0,
        10_000.0,
        12_000.0,
        15_000.0,
        20_000.0,
        22_000.0,
        25_000.0,
        30_000.0,
        35_000.0,
        40_000.0,
        66_000.0,
        99_000.0,
        132_000.0,
        300_000.0,
        600_000.0,
        900_000.0,
        1_100_000.0,
    ],
    step_tokens: &[1.0, 8.0, 64.0, 512.0, 4096.0, 16_384.0],
};

/// `GET /get_model_info`, `/model_info`.
pub(super) async fn model_info(State(app): State<Arc<App>>) -> Json<Value> {
    let model = &app.models[0].name;
    Json(json!({
        "model_path": model, "tokenizer_path": model, "is_generation": true,
        "preferred_sampling_params": null, "weight_version": "default",
        "has_image_understanding": false, "has_audio_understanding": false,
    }))
}

/// `GET /get_server_info`, `/server_info`.
pub(super) async fn server_info(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let look = app.handle.ask(Command::Look).await.ok_or_else(ApiError::closing)?;
    let model = &app.models[0];
    let states = app.watched(&look).iter().map(|replica| {
        json!({
            "last_gen_throughput": null,
            "load": replica.load.running + replica.load.waiting,
            "memory_usage": {"token_capacity": replica.kv_tokens[0]},
        })
    });
    Ok(Json(json!({
        "version": "0.5.23",
        "model_path": model.name, "served_model_name": model.name, "tokenizer_path": model.name,
        "context_length": model.max_model_len,
        "max_total_num_tokens": app.watched(&look).first().map(|replica| replica.kv_tokens[0]),
        "dp_size": 1,
        "disaggregation_mode": app.disaggregation_mode(),
        "internal_states": states.collect::<Vec<_>>(),
    })))
}

/// `GET /get_load`: what SGLang's router asks for.
pub(super) async fn load(State(app): State<Arc<App>>) -> Result<Json<Value>, ApiError> {
    let look = app.handle.ask(Command::Look).await.ok_or_else(ApiError::closing)?;
    let loads = (0..).zip(app.watched(&look)).map(|(rank, replica): (u32, _)| {
        let Load { running, waiting, .. } = replica.load;
        json!({
            "dp_rank": rank, "num_reqs": running + waiting, "num_waiting_reqs": waiting,
            "num_tokens": replica.kv_tokens[1],
        })
    });
    Ok(Json(json!(loads.collect::<Vec<_>>())))
}

/// `POST /flush_cache`.
pub(super) async fn flush_cache(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let is_flushed = app
        .handle
        .ask(|reply| Command::Flush(app.replica, reply))
        .await
        .ok_or_else(ApiError::closing)?;
    Ok(if is_flushed {
        "Cache flushed.\nPlease check backend logs for more details. (When there are running or \
         waiting requests, the operation will not be performed.)\n"
            .into_response()
    } else {
        (StatusCode::BAD_REQUEST, "there are requests that are not answered\n").into_response()
    })
}

/// `POST /abort_request`: that of a name, or all of them. A name that no request has ends nothing.
pub(super) async fn abort_request(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let all: bool = fields.take("abort_all")?.unwrap_or(false);
    let rid: Option<String> = fields.take("rid")?;
    // Its message is for servers that end requests of each other.
    fields.finish(&["abort_message"])?;
    if all {
        app.handle.tell(Command::AbortAll(app.replica));
    } else {
        for answer in app.rids.ended_by(rid.as_deref().unwrap_or_default()) {
            app.handle.tell(Command::Cancel(answer));
        }
    }
    Ok(StatusCode::OK.into_response())
}

/// The metrics of SGLang's server, for each replica.
pub(super) fn metrics(app: &App, look: &Look, out: &mut Exposition) {
    let replicas: Vec<(Labels, &Replica)> = (0..)
        .zip(app.watched(look))
        .map(|(engine, replica): (usize, _)| {
            let engine_label = engine.to_string();
            let labels = [
                ("model_name", app.model_of(engine)),
                ("engine_type", "unified"),
                ("tp_rank", "0"),
                ("pp_rank", "0"),
                ("replica", engine_label.as_str()),
            ];
            (Labels::new(&labels), replica)
        })
        .collect();
    let mut gauge = |name: &str, help: &str, of: &dyn Fn(&Replica) -> f64| {
        out.gauge(name, help, replicas.iter().map(|(labels, it)| (labels.clone(), of(it))));
    };
    gauge("sglang:num_running_reqs", "The number of running requests.", &|it| {
        f64::from(it.load.running)
    });
    gauge("sglang:num_queue_reqs", "The number of requests in the waiting queue.", &|it| {
        f64::from(it.load.waiting)
    });
    gauge("sglang:num_used_tokens", "The number of used tokens.", &|it| it.kv_tokens[1] as f64);
    gauge(
        "sglang:max_total_num_tokens",
        "Maximum total number of tokens in the KV cache pool.",
        &|it| it.kv_tokens[0] as f64,
    );
    gauge("sglang:token_usage", "The token usage.", &|it| it.load.kv_utilization());
    gauge("sglang:cache_hit_rate", "The prefix cache hit rate.", &|it| {
        it.counters.cache_hits as f64 / it.counters.cache_queries.max(1) as f64
    });
    let mut counter = |name: &str, help: &str, of: &dyn Fn(&Replica) -> u64| {
        out.counter(name, help, replicas.iter().map(|(labels, it)| (labels.clone(), of(it))));
    };
    counter("sglang:prompt_tokens", "Number of prefill tokens processed.", &|it| {
        it.counters.prompt_tokens
    });
    counter("sglang:generation_tokens", "Number of generation tokens processed.", &|it| {
        it.counters.generation_tokens
    });
    counter("sglang:cached_tokens", "Number of cached prompt tokens.", &|it| {
        it.counters.cache_hits
    });
    counter("sglang:num_requests", "Number of requests processed.", &|it| {
        it.counters.stopped + it.counters.cut
    });
    counter("sglang:num_aborted_requests", "Number of requests aborted.", &|it| {
        it.counters.aborted + it.counters.failed
    });
    let mut histogram = |name: &str, help: &str, of: &dyn Fn(&Replica) -> &Histogram| {
        out.histogram(name, help, replicas.iter().map(|(labels, it)| (labels.clone(), of(it))));
    };
    histogram("sglang:time_to_first_token_seconds", "Time to first token in seconds.", &|it| {
        &it.counters.first_token_s
    });
    histogram("sglang:inter_token_latency_seconds", "Inter-token latency in seconds.", &|it| {
        &it.counters.gap_s
    });
    histogram("sglang:e2e_request_latency_seconds", "End-to-end latency in seconds.", &|it| {
        &it.counters.request_s
    });
    histogram("sglang:queue_time_seconds", "Time in the waiting queue in seconds.", &|it| {
        &it.counters.queue_s
    });
    histogram("sglang:prompt_tokens_histogram", "Histogram of prompt token length.", &|it| {
        &it.counters.request_prompt_tokens
    });
    histogram(
        "sglang:generation_tokens_histogram",
        "Histogram of generation token length.",
        &|it| &it.counters.request_generation_tokens,
    );
}
