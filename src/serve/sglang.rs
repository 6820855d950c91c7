//! What SGLang's server answers beside requests, and the names of its metrics.
//!
//! Paths and bodies as of SGLang 0.5.23 (`python/sglang/srt/entrypoints/http_server.py`), metrics as of
//! `python/sglang/srt/observability/metrics_collector.py`; Apache-2.0. Where one port shows several replicas, the label
//! `replica` tells them apart, which servers of SGLang do not have.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::app::App;
use super::counters::{Answers, Buckets, ByStreaming, Counters, Histogram, Processed};
use super::driver::{Command, Look, Replica};
use super::error::ApiError;
use super::exposition::{Exposition, Labels};
use super::fields::Fields;
use crate::cluster::Role;
use crate::engine::scheduler::Load;
use crate::units::SimTime;

pub(super) const BUCKETS: Buckets = Buckets {
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
    queue_s: &[
        0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 15.0, 20.0,
        30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0,
        800.0, 900.0, 1000.0, 1200.0, 1400.0, 1600.0, 1800.0, 2000.0, 2500.0, 3000.0,
    ],
    tokens: &[
        1e2, 3e2, 5e2, 7e2, 1e3, 1.5e3, 2e3, 3e3, 4e3, 5e3, 6e3, 7e3, 8e3, 9e3, 1e4, 12.5e3, 15e3,
        17.5e3, 20e3, 22.5e3, 25e3, 27.5e3, 30e3, 35e3, 40e3, 60e3, 80e3, 1e5, 2e5, 3e5, 4e5, 6e5,
        8e5, 1e6, 1.1e6,
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
            "memory_usage": {"token_capacity": replica.kv_tokens.all},
        })
    });
    Ok(Json(json!({
        "version": "0.5.23",
        "model_path": model.name, "served_model_name": model.name, "tokenizer_path": model.name,
        "context_length": model.max_model_len,
        "max_total_num_tokens": app.watched(&look).first().map(|replica| replica.kv_tokens.all),
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
            "num_tokens": replica.kv_tokens.held,
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
        let answers = app.rids.ended_by(rid.as_deref().unwrap_or_default());
        app.handle.tell(Command::End(answers));
    }
    Ok(StatusCode::OK.into_response())
}

/// A replica, with the labels of what its scheduler tells and of what the server before it tells.
struct Shown<'a> {
    scheduler: Labels,
    server: Labels,
    replica: &'a Replica,
}

/// The metrics of SGLang's server, for each replica.
pub(super) fn metrics(app: &App, look: &Look, out: &mut Exposition) {
    let watched = app.watched(look);
    let shown = (0..).zip(watched).map(|(engine, replica): (usize, _)| {
        let kind = match replica.facts.role {
            Role::Whole => "unified",
            Role::Prefill => "prefill",
            Role::Decode => "decode",
        };
        let mut server =
            Labels::new(&[("model_name", app.model_of(engine)), ("engine_type", kind)]);
        if watched.len() > 1 {
            server = server.with("replica", &engine.to_string());
        }
        let ranks = ["tp_rank", "pp_rank", "moe_ep_rank"];
        let scheduler = ranks.iter().fold(server.clone(), |labels, rank| labels.with(rank, "0"));
        Shown { scheduler, server, replica }
    });
    let shown: Vec<Shown<'_>> = shown.collect();
    gauges(&shown, look.now, out);
    scheduler_counters(&shown, out);
    server_counters(&shown, out);
    histograms(&shown, out);
}

fn gauges(shown: &[Shown<'_>], now: SimTime, out: &mut Exposition) {
    let mut gauge = |name: &str, help: &str, of: &dyn Fn(&Replica) -> f64| {
        let series = shown.iter().map(|it| (it.scheduler.clone(), of(it.replica)));
        out.gauge(name, help, series);
    };
    gauge("sglang:num_running_reqs", "The number of running requests.", &|it| {
        f64::from(it.load.running)
    });
    gauge("sglang:num_queue_reqs", "The number of requests in the waiting queue.", &|it| {
        // Those whose KV is awaited are in another queue.
        f64::from(it.load.waiting.saturating_sub(it.counters.underway.awaited))
    });
    gauge("sglang:num_grammar_queue_reqs", "Requests that wait for a grammar.", &|_| 0.0);
    gauge("sglang:gen_throughput", "The generation throughput (token/s).", &|it| {
        it.counters.pace.tokens_per_s(now)
    });
    gauge("sglang:cache_hit_rate", "The prefix cache hit rate.", &|it| it.counters.hit_share);
    gauge("sglang:token_usage", "The token usage.", &|it| it.load.kv_utilization());
    gauge("sglang:full_token_usage", "The token usage for full attention layers.", &|it| {
        it.load.kv_utilization()
    });
    gauge("sglang:num_used_tokens", "The number of used tokens.", &|it| it.kv_tokens.held as f64);
    gauge("sglang:kv_used_tokens", "Number of actively used token slots.", &|it| {
        it.kv_tokens.held as f64
    });
    gauge("sglang:num_retracted_reqs", "The number of retracted requests.", &|it| {
        f64::from(it.counters.preempted_last)
    });
    gauge("sglang:num_paused_reqs", "The number of paused requests.", &|_| 0.0);
    gauge("sglang:num_prefill_inflight_queue_reqs", "Prompts whose KV is being sent.", &|it| {
        f64::from(it.counters.underway.sent)
    });
    gauge("sglang:num_decode_transfer_queue_reqs", "Requests whose KV is awaited.", &|it| {
        f64::from(it.counters.underway.awaited)
    });
    gauge("sglang:spec_accept_length", "Mean acceptance length of speculative decoding.", &|it| {
        it.counters.pace.accepted.length
    });
    gauge("sglang:spec_accept_rate", "Accepted drafts of all that were proposed.", &|it| {
        it.counters.pace.accepted.share
    });
    gauge(
        "sglang:max_total_num_tokens",
        "Maximum total number of tokens in the KV cache pool.",
        &|it| it.kv_tokens.all as f64,
    );
    gauge("sglang:page_size", "KV cache page size in tokens.", &|it| {
        f64::from(it.facts.block_tokens)
    });
    gauge("sglang:num_pages", "Number of KV cache pages.", &|it| f64::from(it.load.kv_blocks));
    gauge("sglang:context_len", "Maximum context length.", &|it| f64::from(it.facts.max_model_len));
}

/// What schedulers count as they go.
fn scheduler_counters(shown: &[Shown<'_>], out: &mut Exposition) {
    let mut counter = |name: &str, help: &str, of: &dyn Fn(&Counters) -> u64| {
        let series = shown.iter().map(|it| (it.scheduler.clone(), of(&it.replica.counters)));
        out.counter(name, help, series);
    };
    counter("sglang:num_retracted_requests", "Total number of retracted requests.", &|it| {
        it.preemptions
    });
    counter("sglang:num_retracted_input_tokens", "Input tokens of retracted requests.", &|it| {
        it.preempted.prompt_tokens
    });
    counter("sglang:num_retracted_output_tokens", "Output tokens of retracted requests.", &|it| {
        it.preempted.answer_tokens
    });
    let tokens = shown.iter().flat_map(|it| {
        let Processed { prefilled, cached, decoded } = it.replica.counters.processed;
        let modes =
            [("prefill_compute", prefilled), ("prefill_cache", cached), ("decode", decoded)];
        modes.map(|(mode, tokens)| (it.scheduler.with("mode", mode), tokens))
    });
    out.counter("sglang:realtime_tokens", "Total number of tokens processed.", tokens);
}

/// Whole answers and streams, with their labels.
fn by_streaming<'a>(it: &'a Shown<'_>) -> [(Labels, &'a Answers); 2] {
    let ByStreaming { whole, streamed } = &it.replica.counters.answers;
    [("false", whole), ("true", streamed)]
        .map(|(streams, answers)| (it.server.with("is_streaming", streams), answers))
}

/// What the server counts of requests that are over: whole answers and streams on their own.
fn server_counters(shown: &[Shown<'_>], out: &mut Exposition) {
    let mut counter = |name: &str, help: &str, of: &dyn Fn(&Answers) -> u64| {
        let series = shown.iter().flat_map(by_streaming);
        out.counter(name, help, series.map(|(labels, answers)| (labels, of(answers))));
    };
    counter("sglang:prompt_tokens", "Number of prefill tokens processed.", &|it| it.prompt_tokens);
    counter("sglang:generation_tokens", "Number of generation tokens processed.", &|it| {
        it.generation_tokens
    });
    counter("sglang:num_requests", "Number of requests processed.", &|it| it.requests);
    let cached = shown
        .iter()
        .map(|it| (it.server.with("cache_source", "device"), it.replica.counters.cached_tokens));
    out.counter("sglang:cached_tokens", "Number of cached prompt tokens by source.", cached);
    // One for each call of `abort_request` (`managers/tokenizer_manager.py`), whatever it ends.
    let aborted = shown.iter().map(|it| (it.server.clone(), it.replica.counters.abort_orders));
    out.counter("sglang:num_aborted_requests", "Number of requests aborted.", aborted);
    let verified = shown.iter().filter(|it| it.replica.facts.drafts.is_some());
    let verified =
        verified.map(|it| (it.server.clone(), it.replica.counters.drafts.verifications()));
    out.counter("sglang:spec_verify_calls", "Verification calls of speculation.", verified);
}

fn histograms(shown: &[Shown<'_>], out: &mut Exposition) {
    let mut histogram = |name: &str, help: &str, of: &dyn Fn(&Answers) -> &Histogram| {
        let mut series = Vec::new();
        for (labels, answers) in shown.iter().flat_map(by_streaming) {
            series.push((labels, of(answers)));
        }
        out.histogram(name, help, series.into_iter());
    };
    histogram("sglang:time_to_first_token_seconds", "Time to first token in seconds.", &|it| {
        &it.first_token_s
    });
    histogram("sglang:e2e_request_latency_seconds", "End-to-end latency in seconds.", &|it| {
        &it.request_s
    });
    histogram(
        "sglang:request_time_per_output_token_seconds",
        "Time per output token of requests in seconds.",
        &|it| &it.time_per_output_token_s,
    );
    let mut of_server = |name: &str, help: &str, of: &dyn Fn(&Counters) -> &Histogram| {
        let mut series = Vec::new();
        for it in shown {
            series.push((it.server.clone(), of(&it.replica.counters)));
        }
        out.histogram(name, help, series.into_iter());
    };
    of_server("sglang:inter_token_latency_seconds", "Inter-token latency in seconds.", &|it| {
        &it.gap_s
    });
    of_server("sglang:prompt_tokens_histogram", "Histogram of prompt token length.", &|it| {
        &it.request_prompt_tokens
    });
    of_server(
        "sglang:uncached_prompt_tokens_histogram",
        "Histogram of uncached prompt token length.",
        &|it| &it.request_computed_tokens,
    );
    of_server(
        "sglang:generation_tokens_histogram",
        "Histogram of generation token length.",
        &|it| &it.request_generation_tokens,
    );
    let queued = shown.iter().map(|it| (it.scheduler.clone(), &it.replica.counters.queue_s));
    out.histogram("sglang:queue_time_seconds", "Time in the waiting queue in seconds.", queued);
}
