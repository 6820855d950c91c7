//! What vLLM's server answers beside OpenAI's API, and the names of its metrics.
//!
//! Paths and bodies as of vLLM 0.33.0 (`vllm/entrypoints/openai/api_server.py` and its routers), metrics as of
//! `vllm/v1/metrics/loggers.py`, `vllm/v1/metrics/buckets.py` and `vllm/v1/spec_decode/metrics.py`; Apache-2.0.
//! Requests never wait for anything but capacity here, as far as watchers are told.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::app::{App, unix_time};
use super::counters::{Buckets, CachedSums, Counters, Histogram};
use super::driver::{Command, Facts, Look, Replica};
use super::error::ApiError;
use super::exposition::{Exposition, Labels};
use super::fields::Fields;
use super::relay::AdaptersInUse;
use crate::engine::DraftCounts;
use crate::engine::tiers::TierKind;
use crate::model::KvDtype;

const REQUEST_S: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
const TOKENS: &[f64] = &[
    1e0, 2e0, 5e0, 1e1, 2e1, 5e1, 1e2, 2e2, 5e2, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6,
    2e6, 5e6, 1e7, 2e7, 5e7, 1e8,
];
const BUCKETS: Buckets = Buckets {
    first_token_s: &[
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
        20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
    ],
    gap_s: &[
        0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
        20.0, 40.0, 80.0,
    ],
    request_s: REQUEST_S,
    queue_s: REQUEST_S,
    tokens: TOKENS,
    step_tokens: &[
        1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0,
    ],
};

/// The buckets of a server whose longest sequence has so many tokens.
pub(super) fn buckets(max_model_len: u32) -> Buckets {
    let most = TOKENS.partition_point(|bound| *bound <= f64::from(max_model_len));
    Buckets { tokens: &TOKENS[..most], ..BUCKETS }
}

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
    gauges(&replicas, out);
    adapters(app, &replicas, out);
    counters(&replicas, out);
    drafts(&replicas, out);
    histograms(&replicas, out);
}

fn labels(app: &App, engine: usize) -> Labels {
    Labels::new(&[("model_name", app.model_of(engine)), ("engine", &engine.to_string())])
}

fn gauges(replicas: &[(Labels, &Replica)], out: &mut Exposition) {
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
    let waiting = replicas.iter().flat_map(|(labels, it)| {
        let by_reason = [("capacity", it.load.waiting), ("deferred", 0)];
        by_reason.map(|(reason, count)| (labels.with("reason", reason), f64::from(count)))
    });
    out.gauge(
        "vllm:num_requests_waiting_by_reason",
        "Number of waiting requests by reason, which add up to vllm:num_requests_waiting.",
        waiting,
    );
    let awake = replicas.iter().flat_map(|(labels, _)| {
        let states = [("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)];
        states.map(|(state, value)| (labels.with("sleep_state", state), value))
    });
    out.gauge("vllm:engine_sleep_state", "Whether the engine is awake or asleep.", awake);
    let caches =
        (0..).zip(replicas).map(|(engine, (_, it))| (cache_config(engine, &it.facts), 1.0));
    out.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", caches);
}

/// What is known of `vllm/config/cache.py`, as Python writes it.
fn cache_config(engine: u32, facts: &Facts) -> Labels {
    let dtype = match facts.kv_cache_dtype {
        KvDtype::Auto => "auto",
        KvDtype::Fp8 => "fp8",
    };
    let none = || "None".to_owned();
    let labels = [
        ("block_size", facts.block_tokens.to_string()),
        ("cache_dtype", dtype.to_owned()),
        ("enable_prefix_caching", if facts.keeps_prefixes { "True" } else { "False" }.to_owned()),
        (
            "gpu_memory_utilization",
            facts.gpu_memory_utilization.map_or_else(none, |share| format!("{share:?}")),
        ),
        ("is_attention_free", "False".to_owned()),
        ("num_gpu_blocks", facts.kv_blocks.to_string()),
        ("num_gpu_blocks_override", facts.kv_blocks_given.map_or_else(none, |it| it.to_string())),
        ("engine", engine.to_string()),
    ];
    Labels::new(&labels.each_ref().map(|(name, value)| (*name, value.as_str())))
}

/// The adapters in use, of which one series tells; its value is the time. Each is in both labels, whatever its
/// requests do (`LoRARequestStates.update_scheduler_stats`, `vllm/v1/metrics/stats.py`).
fn adapters(app: &App, replicas: &[(Labels, &Replica)], out: &mut Exposition) {
    let Some(most) = replicas.iter().filter_map(|(_, it)| it.facts.max_adapters).max() else {
        return;
    };
    let used = AdaptersInUse::in_order(replicas.iter().map(|(_, it)| &it.adapters));
    let names: Vec<&str> = used
        .iter()
        .filter_map(|id| app.adapters.names.get(id.index()))
        .map(String::as_str)
        .collect();
    let names = names.join(",");
    let labels = Labels::new(&[
        ("max_lora", &most.to_string()),
        ("waiting_lora_adapters", &names),
        ("running_lora_adapters", &names),
    ]);
    let series = std::iter::once((labels, unix_time()));
    out.gauge("vllm:lora_requests_info", "Running stats on lora requests.", series);
}

fn counters(replicas: &[(Labels, &Replica)], out: &mut Exposition) {
    let mut counter = |name: &str, help: &str, of: &dyn Fn(&Counters) -> u64| {
        let series = replicas.iter().map(|(labels, it)| (labels.clone(), of(&it.counters)));
        out.counter(name, help, series);
    };
    counter("vllm:num_preemptions", "Cumulative number of preemptions.", &|it| it.preemptions);
    counter("vllm:prompt_tokens", "Number of prefill tokens processed.", &|it| it.prompt_tokens);
    counter("vllm:prompt_tokens_cached", "Cached prompt tokens, local and external.", &|it| {
        it.prompt_tokens_cached.local + it.prompt_tokens_cached.external
    });
    counter("vllm:generation_tokens", "Number of generation tokens processed.", &|it| {
        it.generation_tokens
    });
    counter("vllm:prefix_cache_queries", "Prefix cache queries, in tokens.", &|it| {
        it.cache.queries
    });
    counter("vllm:prefix_cache_hits", "Prefix cache hits, in tokens.", &|it| it.cache.hits);
    counter("vllm:external_prefix_cache_queries", "The same of KV connectors.", &|it| {
        it.elsewhere.queries
    });
    counter("vllm:external_prefix_cache_hits", "The same of KV connectors.", &|it| {
        it.elsewhere.hits
    });
    let tiers = replicas.iter().flat_map(|(labels, it)| {
        by_tier(&it.counters).map(|(tier, tokens)| (labels.with("source", tier), tokens))
    });
    out.counter(
        "vllm:prompt_tokens_cached_by_source",
        "Prefix-cache hits by the tier that supplied them, in tokens.",
        tiers,
    );
    let sources = replicas.iter().flat_map(|(labels, it)| {
        let CachedSums { local, external } = it.counters.prompt_tokens_cached;
        let computed = it.counters.prompt_tokens.saturating_sub(local + external);
        let all = [
            ("local_compute", computed),
            ("local_cache_hit", local),
            ("external_kv_transfer", external),
        ];
        all.map(|(source, tokens)| (labels.with("source", source), tokens))
    });
    out.counter("vllm:prompt_tokens_by_source", "Number of prompt tokens by source.", sources);
    let ended = replicas.iter().flat_map(|(labels, it)| {
        let Counters { stopped, cut, aborted, failed, .. } = it.counters;
        let by_reason = [
            ("stop", stopped),
            ("length", cut),
            ("abort", aborted),
            ("error", failed),
            ("repetition", 0),
        ];
        by_reason.map(|(reason, count)| (labels.with("finished_reason", reason), count))
    });
    out.counter("vllm:request_success", "Count of successfully processed requests.", ended);
}

/// Hits by their tier (`vllm/v1/metrics/cache_hit_source.py`): what a server that decodes is sent is `p2p`, as of
/// `NixlConnector`; of a tier that all replicas share a connector does not say what it is.
fn by_tier(counters: &Counters) -> [(&'static str, u64); 5] {
    let Counters { cache, elsewhere, from_replicas: p2p, from_tiers, .. } = counters;
    let [disk, pool] = [TierKind::Disk, TierKind::Pool].map(|kind| from_tiers[kind as usize]);
    // Host memory, be it a tier or the engine's own.
    let host = elsewhere.hits.saturating_sub(disk + pool + p2p);
    [
        ("device", cache.hits),
        ("host", host),
        ("p2p", *p2p),
        ("disk", disk),
        ("external_unspecified", pool),
    ]
}

/// Of engines that speculate.
fn drafts(replicas: &[(Labels, &Replica)], out: &mut Exposition) {
    let speculating = || replicas.iter().filter(|(_, it)| it.facts.drafts.is_some());
    let mut counter = |name: &str, help: &str, of: &dyn Fn(&DraftCounts) -> u64| {
        let series = speculating().map(|(labels, it)| (labels.clone(), of(&it.counters.drafts)));
        out.counter(name, help, series);
    };
    let name = "vllm:spec_decode_num_drafts";
    counter(name, "Number of spec decoding drafts.", &DraftCounts::verifications);
    let name = "vllm:spec_decode_num_draft_tokens";
    counter(name, "Number of draft tokens.", &DraftCounts::draft_tokens);
    let name = "vllm:spec_decode_num_accepted_tokens";
    counter(name, "Number of accepted tokens.", &DraftCounts::accepted_tokens);
    let by_position = speculating().flat_map(|(labels, it)| {
        let drafts = &it.counters.drafts;
        let (steps, shares) = (drafts.verifications() as f64, drafts.acceptance_per_position());
        (0..it.facts.drafts.unwrap_or(0)).map(move |position| {
            let share = shares.get(position as usize).copied().unwrap_or(0.0);
            let accepted = if steps > 0.0 { (share * steps).round() as u64 } else { 0 };
            (labels.with("position", &position.to_string()), accepted)
        })
    });
    let name = "vllm:spec_decode_num_accepted_tokens_per_pos";
    out.counter(name, "Accepted tokens per draft position.", by_position);
}

fn histograms(replicas: &[(Labels, &Replica)], out: &mut Exposition) {
    let mut histogram = |name: &str, help: &str, of: &dyn Fn(&Counters) -> &Histogram| {
        let series = replicas.iter().map(|(labels, it)| (labels.clone(), of(&it.counters)));
        out.histogram(name, help, series);
    };
    histogram("vllm:time_to_first_token_seconds", "Time to first token in seconds.", &|it| {
        &it.answers.whole.first_token_s
    });
    histogram("vllm:inter_token_latency_seconds", "Inter-token latency in seconds.", &|it| {
        &it.gap_s
    });
    histogram(
        "vllm:request_time_per_output_token_seconds",
        "Time per output token of requests in seconds.",
        &|it| &it.answers.whole.time_per_output_token_s,
    );
    histogram("vllm:e2e_request_latency_seconds", "End-to-end latency in seconds.", &|it| {
        &it.answers.whole.request_s
    });
    histogram("vllm:request_queue_time_seconds", "Time in the waiting queue in seconds.", &|it| {
        &it.queue_s
    });
    histogram("vllm:request_prefill_time_seconds", "Time in prefill in seconds.", &|it| {
        &it.prefill_s
    });
    histogram("vllm:request_decode_time_seconds", "Time in decode in seconds.", &|it| &it.decode_s);
    histogram("vllm:request_inference_time_seconds", "Time in running in seconds.", &|it| {
        &it.inference_s
    });
    histogram("vllm:request_prompt_tokens", "Number of prefill tokens of requests.", &|it| {
        &it.request_prompt_tokens
    });
    histogram(
        "vllm:request_prefill_kv_computed_tokens",
        "Prompt tokens of requests that were computed.",
        &|it| &it.request_computed_tokens,
    );
    histogram("vllm:request_generation_tokens", "Number of generated tokens of requests.", &|it| {
        &it.request_generation_tokens
    });
    histogram(
        "vllm:request_max_num_generation_tokens",
        "Generated tokens of the longest answer to each prompt.",
        &|it| &it.request_longest_tokens,
    );
    histogram("vllm:request_params_n", "The n of requests.", &|it| &it.request_answers);
    histogram("vllm:request_params_max_tokens", "The max_tokens of requests.", &|it| {
        &it.request_max_tokens
    });
    histogram("vllm:request_num_preemptions", "How often requests were preempted.", &|it| {
        &it.request_preemptions
    });
    histogram("vllm:iteration_tokens_total", "Number of tokens per engine step.", &|it| {
        &it.step_tokens
    });
}
