//! SGLang's own API, and the names of its metrics.
//!
//! Paths and bodies as of SGLang 0.5.23 (`python/sglang/srt/entrypoints/http_server.py`), metrics as of
//! `python/sglang/srt/observability/metrics_collector.py`; Apache-2.0. Where one port shows several replicas, the label
//! `replica` tells them apart, which servers of SGLang do not have.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::Progress;
use super::app::{App, Asked, Pending};
use super::clock::wall;
use super::counters::{Bins, Counters, Histogram, Way};
use super::driver::{Command, Look, Replica};
use super::error::ApiError;
use super::exposition::{Exposition, Labels};
use super::fields::Fields;
use super::handover::Parts;
use crate::cluster::Role;
use crate::engine::scheduler::Load;
use crate::units::SimTime;

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

/// The limit of an answer that asks for none.
const DEFAULT_NEW_TOKENS: u32 = 128;

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    fn all(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SamplingParams {
    max_new_tokens: Option<u32>,
    min_new_tokens: u32,
    ignore_eos: bool,
    n: Option<u32>,
    stop: Option<Value>,
    regex: Option<Value>,
    json_schema: Option<Value>,
    ebnf: Option<Value>,
    structural_tag: Option<Value>,
}

impl SamplingParams {
    fn check(&self) -> Result<(), ApiError> {
        let refused = [
            ("stop", &self.stop),
            ("regex", &self.regex),
            ("json_schema", &self.json_schema),
            ("ebnf", &self.ebnf),
            ("structural_tag", &self.structural_tag),
        ];
        let is_said = |value: &&Option<Value>| {
            value.as_ref().is_some_and(|value| *value != json!([]) && *value != json!(""))
        };
        match refused.into_iter().find(|(_, value)| is_said(value)) {
            None => Ok(()),
            Some((name, _)) => Err(ApiError::field(
                name,
                format!("`sampling_params.{name}` is not simulated: answers end by their length"),
            )),
        }
    }
}

/// Fields that change neither how long an answer takes nor how long it is.
const INERT: &[&str] = &[
    "background",
    "custom_logit_processor",
    "extra_key",
    "image_data",
    "logprob_start_len",
    "log_metrics",
    "no_logs",
    "return_bytes",
    "return_text_in_logprobs",
    "rid",
    "routed_dp_rank",
    "token_ids_logprob",
    "top_logprobs_num",
];

/// `POST /generate`.
pub(super) async fn generate(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let is_batch;
    let prompts: Vec<Vec<u32>> = match fields.take::<OneOrMany<String>>("text")? {
        Some(texts) => {
            is_batch = matches!(texts, OneOrMany::Many(_));
            texts.all().iter().map(|text| app.words.tokens(text, true)).collect()
        }
        None => match fields.need::<OneOrManyTokens>("input_ids")? {
            OneOrManyTokens::One(tokens) => {
                is_batch = false;
                vec![tokens]
            }
            OneOrManyTokens::Many(all) => {
                is_batch = true;
                all
            }
        },
    };
    let adapter: Option<String> = fields.take("lora_path")?;
    let target = app.target_of(&fields, adapter.as_deref())?;
    let params: Option<OneOrMany<SamplingParams>> = fields.take("sampling_params")?;
    let params = params.map(OneOrMany::all).unwrap_or_default();
    if !matches!(params.len(), 0 | 1) && params.len() != prompts.len() {
        let message = "`sampling_params` must be one, or as many as prompts";
        return Err(ApiError::field("sampling_params", message));
    }
    let streams: bool = fields.take("stream")?.unwrap_or(false);
    let priority: i32 = fields.take("priority")?.unwrap_or(target.priority);
    fields.only(
        "return_logprob",
        &[json!(false), json!([false])],
        "answers have no probabilities",
    )?;
    fields.only("return_hidden_states", &[json!(false)], "answers have no states")?;
    fields.only("image_data", &[json!([])], "images are not served here")?;
    fields.only("return_routed_experts", &[json!(false)], "experts are not chosen by tokens")?;
    fields.only("return_entropy", &[json!(false)], "answers have no probabilities")?;
    let parts = Parts::read(&mut fields, &app)?.of(prompts.len())?;
    let defaults = SamplingParams::default();
    let mut asked = Vec::with_capacity(prompts.len());
    for (index, (prompt, part)) in prompts.into_iter().zip(parts).enumerate() {
        let params = params.get(index).or(params.first()).unwrap_or(&defaults);
        params.check()?;
        if params.n.is_some_and(|n| n != 1) {
            let message = "`sampling_params.n` is not simulated: send the prompt as often";
            return Err(ApiError::field("n", message));
        }
        let (len, most) = (prompt.len(), target.max_model_len as usize);
        if prompt.is_empty() || len >= most {
            return Err(ApiError::bad(format!(
                "The input ({len} tokens) is empty or longer than the model's context length ({most} tokens)."
            )));
        }
        let limit = params.max_new_tokens.unwrap_or(DEFAULT_NEW_TOKENS).max(1);
        asked.push(Asked {
            came: fields.came,
            prompt: prompt.into(),
            // As SGLang: a limit beyond the context is cut.
            max_tokens: Some(limit.min((most - len) as u32)),
            min_tokens: params.min_new_tokens.min(limit),
            ignore_eos: params.ignore_eos,
            target,
            session: fields.whose.session,
            streams,
            siblings: None,
            priority,
            salt: 0,
            part,
        });
    }
    if asked.is_empty() || asked.len() > app.limits.choices {
        let most = app.limits.choices;
        return Err(ApiError::bad(format!(
            "there must be 1 to {most} prompts, got {}",
            asked.len()
        )));
    }
    fields.finish(INERT)?;
    let pending = asked.into_iter().map(|asked| app.submit(asked));
    let pending: Vec<Pending> = pending.collect::<Result<_, _>>()?;
    if streams {
        return Ok(streamed(&app, pending, is_batch));
    }
    let (began, mut all) = (wall(), Vec::new());
    for pending in pending {
        let progress = pending.answer.end().await;
        if let Some(error) = progress.end.and_then(ApiError::of) {
            return Err(error);
        }
        let mut output = output(&app, &pending, &progress);
        output["output_ids"] = json!(ids(&app, &progress));
        output["meta_info"]["e2e_latency"] = json!(began.elapsed().as_secs_f64());
        all.push(output);
    }
    let body = match (is_batch, all.pop()) {
        (false, Some(only)) => only,
        (_, last) => json!(all.into_iter().chain(last).collect::<Vec<_>>()),
    };
    Ok(Json(body).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrManyTokens {
    One(Vec<u32>),
    Many(Vec<Vec<u32>>),
}

fn ids(app: &App, progress: &Progress) -> Vec<u32> {
    let seed = progress.id.map_or(0, |id| id.0);
    (0..progress.tokens).map(|place| app.words.token(seed, place)).collect()
}

/// An answer so far: the text from its begin on, as SGLang sends it.
fn output(app: &App, pending: &Pending, progress: &Progress) -> Value {
    let seed = progress.id.map_or(0, |id| id.0);
    let reason = progress.end.map(|end| match end.reason() {
        "length" => json!({"type": "length", "length": progress.tokens}),
        "stop" => json!({"type": "stop", "matched": null}),
        reason => json!({"type": reason}),
    });
    json!({
        "text": app.words.text(seed, 0..progress.tokens),
        "meta_info": {
            "id": format!("{seed:032x}"),
            "finish_reason": reason,
            "prompt_tokens": pending.prompt_tokens,
            "completion_tokens": progress.tokens,
            "cached_tokens": progress.cached_tokens,
            "weight_version": "default",
        },
    })
}

fn streamed(app: &Arc<App>, pending: Vec<Pending>, is_batch: bool) -> Response {
    let ways = (0..).zip(pending).map(|(index, pending): (usize, Pending)| {
        let state = (app.clone(), pending, 0, false);
        Box::pin(stream::unfold(state, move |(app, pending, sent, is_over)| async move {
            if is_over {
                return None;
            }
            let progress = pending.answer.beyond(sent).await;
            app.lateness.written(progress.due);
            let error = progress.end.and_then(ApiError::of);
            let mut value = match &error {
                Some(error) => error.json(),
                None => output(&app, &pending, &progress),
            };
            if is_batch {
                value["index"] = json!(index);
            }
            let text = format!("data: {value}\n\n");
            let state = (app, pending, progress.tokens, progress.end.is_some());
            Some((Ok::<_, std::io::Error>(Bytes::from(text)), state))
        }))
    });
    let chunks = stream::select_all(ways);
    let done = stream::once(async { Ok(Bytes::from_static(b"data: [DONE]\n\n")) });
    let headers = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
    (headers, Body::from_stream(chunks.chain(done))).into_response()
}

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
        "max_total_num_tokens": app.kv_tokens.first(),
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

/// `POST /abort_request`: all of them.
pub(super) async fn abort_request(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let all: bool = fields.take("abort_all")?.unwrap_or(false);
    if !all {
        let message =
            "only `abort_all` is simulated: one request is aborted by closing its connection";
        return Err(ApiError::field("rid", message));
    }
    fields.finish(&["rid", "abort_message"])?;
    app.handle.tell(Command::AbortAll(app.replica));
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
        f64::from(it.load.waiting)
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
    gauge("sglang:num_used_tokens", "The number of used tokens.", &|it| it.kv_tokens[1] as f64);
    gauge("sglang:kv_used_tokens", "Number of actively used token slots.", &|it| {
        it.kv_tokens[1] as f64
    });
    gauge("sglang:num_retracted_reqs", "The number of retracted requests.", &|it| {
        f64::from(it.counters.preempted_last)
    });
    gauge("sglang:num_paused_reqs", "The number of paused requests.", &|_| 0.0);
    gauge("sglang:spec_accept_length", "Mean acceptance length of speculative decoding.", &|it| {
        it.counters.pace.accepted[0]
    });
    gauge("sglang:spec_accept_rate", "Accepted drafts of all that were proposed.", &|it| {
        it.counters.pace.accepted[1]
    });
    gauge(
        "sglang:max_total_num_tokens",
        "Maximum total number of tokens in the KV cache pool.",
        &|it| it.kv_tokens[0] as f64,
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
        it.preempted_tokens[0]
    });
    counter("sglang:num_retracted_output_tokens", "Output tokens of retracted requests.", &|it| {
        it.preempted_tokens[1]
    });
    let tokens = shown.iter().flat_map(|it| {
        let Counters { computed_tokens: [prefill, decode], cache_hits, .. } = it.replica.counters;
        let modes =
            [("prefill_compute", prefill), ("prefill_cache", cache_hits), ("decode", decode)];
        modes.map(|(mode, tokens)| (it.scheduler.with("mode", mode), tokens))
    });
    out.counter("sglang:realtime_tokens", "Total number of tokens processed.", tokens);
}

/// What the server counts of requests that are over: whole answers and streams on their own.
fn server_counters(shown: &[Shown<'_>], out: &mut Exposition) {
    let mut by_way = |name: &str, help: &str, of: &dyn Fn(&Way) -> u64| {
        let series = shown.iter().flat_map(|it| {
            let way = |(streams, way)| (it.server.with("is_streaming", streams), of(way));
            ["false", "true"].into_iter().zip(&it.replica.counters.ways).map(way)
        });
        out.counter(name, help, series);
    };
    by_way("sglang:prompt_tokens", "Number of prefill tokens processed.", &|way| way.prompt_tokens);
    by_way("sglang:generation_tokens", "Number of generation tokens processed.", &|way| {
        way.generation_tokens
    });
    by_way("sglang:num_requests", "Number of requests processed.", &|way| way.requests);
    let cached = shown
        .iter()
        .map(|it| (it.server.with("cache_source", "device"), it.replica.counters.cached_tokens));
    out.counter("sglang:cached_tokens", "Number of cached prompt tokens by source.", cached);
    let aborted = shown.iter().map(|it| {
        let Counters { aborted, failed, .. } = it.replica.counters;
        (it.server.clone(), aborted + failed)
    });
    out.counter("sglang:num_aborted_requests", "Number of requests aborted.", aborted);
    let verified = shown.iter().filter(|it| it.replica.facts.drafts.is_some());
    let verified =
        verified.map(|it| (it.server.clone(), it.replica.counters.drafts.verifications()));
    out.counter("sglang:spec_verify_calls", "Verification calls of speculation.", verified);
}

fn histograms(shown: &[Shown<'_>], out: &mut Exposition) {
    let mut by_way = |name: &str, help: &str, of: &dyn Fn(&Way) -> &Histogram| {
        let mut series = Vec::new();
        for it in shown {
            for (streams, way) in ["false", "true"].into_iter().zip(&it.replica.counters.ways) {
                series.push((it.server.with("is_streaming", streams), of(way)));
            }
        }
        out.histogram(name, help, series.into_iter());
    };
    by_way("sglang:time_to_first_token_seconds", "Time to first token in seconds.", &|way| {
        &way.first_token_s
    });
    by_way("sglang:e2e_request_latency_seconds", "End-to-end latency in seconds.", &|way| {
        &way.request_s
    });
    by_way(
        "sglang:request_time_per_output_token_seconds",
        "Time per output token of requests in seconds.",
        &|way| &way.time_per_output_token_s,
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
