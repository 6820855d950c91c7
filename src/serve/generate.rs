//! `POST /generate` of SGLang 0.5.23 (`python/sglang/srt/entrypoints/http_server.py`, `managers/io_struct.py`,
//! `sampling/sampling_params.py`).

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::answer::Progress;
use super::app::{App, Asked, Dialect, Pending};
use super::clock::wall;
use super::context;
use super::error::ApiError;
use super::fields::Fields;
use super::handover::Parts;
use super::prompts::Prompts;
use super::salts;

/// The limit of an answer that says nothing of it.
const DEFAULT_NEW_TOKENS: u32 = 128;

/// Fields that change neither how long an answer takes nor how long it is.
const INERT: &[&str] = &[
    "background",
    "bootstrap_pair_key",
    "conversation_id",
    "custom_labels",
    "custom_logit_processor",
    "logprob_start_len",
    "log_metrics",
    "no_logs",
    "return_bytes",
    "return_text_in_logprobs",
    "session_id",
    "token_ids_logprob",
    "top_logprobs_num",
];
/// The same of `sampling_params`.
const INERT_PARAMS: &[&str] = &[
    "custom_params",
    "frequency_penalty",
    "logit_bias",
    "min_p",
    "no_stop_trim",
    "presence_penalty",
    "repetition_penalty",
    "sampling_seed",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "temperature",
    "top_k",
    "top_p",
];

/// How long an answer is to be.
#[derive(Debug, Clone, Copy)]
struct Params {
    limit: Limit,
    min_new_tokens: u32,
    ignore_eos: bool,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    /// Said by nobody, and no longer than the context.
    Default,
    Asked(u32),
    /// `null`: none but that of the context.
    None,
}

impl Params {
    const DEFAULT: Self = Self { limit: Limit::Default, min_new_tokens: 0, ignore_eos: false };

    fn read(mut fields: Fields) -> Result<Self, ApiError> {
        const PLACE: &str = "sampling_params";
        let no = [json!([]), json!(""), json!({})];
        for name in ["stop", "stop_token_ids", "stop_regex"] {
            fields.only(name, &no, "answers end by their length")?;
        }
        for name in ["regex", "json_schema", "ebnf", "structural_tag", "choice"] {
            fields.only(name, &no, "answers follow no grammar")?;
        }
        fields.only("n", &[json!(1)], "send the prompt as often")?;
        fields.only("beam_width", &[json!(1)], "answers are sampled one by one")?;
        fields.only("stream_interval", &[json!(1)], "tokens are sent as they come")?;
        let limit = if fields.is_null("max_new_tokens") {
            Limit::None
        } else {
            fields.take("max_new_tokens")?.map_or(Limit::Default, Limit::Asked)
        };
        let min_new_tokens = fields.take("min_new_tokens")?.unwrap_or(0);
        let ignore_eos = fields.take("ignore_eos")?.unwrap_or(false);
        fields.finish_in(PLACE, INERT_PARAMS)?;
        let params = Self { limit, min_new_tokens, ignore_eos };
        match params.said() {
            Some(most) if min_new_tokens > most => {
                let message = format!(
                    "min_new_tokens must be in [0, max_new_tokens({most})], got {min_new_tokens}."
                );
                Err(ApiError::field("min_new_tokens", message))
            }
            _ => Ok(params),
        }
    }

    fn said(self) -> Option<u32> {
        match self.limit {
            Limit::Default => Some(DEFAULT_NEW_TOKENS),
            Limit::Asked(limit) => Some(limit),
            Limit::None => None,
        }
    }
}

/// `POST /generate`.
pub(super) async fn generate(
    State(app): State<Arc<App>>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let prompts: Prompts = match fields.take("text")? {
        Some(texts) => texts,
        None => fields.need("input_ids")?,
    };
    let is_list = prompts.is_list;
    let adapter: Option<String> = fields.take("lora_path")?;
    let target = app.target_of_sglang(None, adapter.as_deref())?;
    let target = app.of_class(&fields, adapter.is_some(), target)?;
    let most = target.max_model_len;
    let prompts = prompts.tokens(&app, most, true)?;
    if prompts.is_empty() || prompts.len() > app.limits.choices {
        let (most, got) = (app.limits.choices, prompts.len());
        return Err(ApiError::bad(format!("there must be 1 to {most} prompts, got {got}")));
    }
    let params = fields.objects("sampling_params", app.limits.choices)?;
    let params = params.into_iter().map(Params::read).collect::<Result<Vec<_>, _>>()?;
    if !matches!(params.len(), 0 | 1) && params.len() != prompts.len() {
        let message = "`sampling_params` must be one, or as many as prompts";
        return Err(ApiError::field("sampling_params", message));
    }
    let streams: bool = fields.take("stream")?.unwrap_or(false);
    let priority: i32 = fields.take("priority")?.unwrap_or(target.priority);
    refuse(&mut fields)?;
    let salts = salts::read(&mut fields, Dialect::Sglang, prompts.len())?;
    let parts = Parts::read(&mut fields, &app)?.of(prompts.len())?;
    let named = app.rids.read(&mut fields, (prompts.len(), is_list, 1))?;
    let mut asked = Vec::with_capacity(prompts.len());
    let each = prompts.into_iter().zip(parts).zip(salts).zip(named);
    for (index, (((prompt, part), salt), named)) in each.enumerate() {
        let params = *params.get(index).or(params.first()).unwrap_or(&Params::DEFAULT);
        let limit = match params.limit {
            Limit::Asked(limit) => Some(limit),
            Limit::Default | Limit::None => None,
        };
        let room = context::room(Dialect::Sglang, most, prompt.len(), limit)?;
        let max_tokens = params.said().map(|limit| limit.clamp(1, room));
        asked.push(Asked {
            came: fields.came,
            prompt: prompt.into(),
            max_tokens,
            min_tokens: params.min_new_tokens.min(max_tokens.unwrap_or(room)),
            ignore_eos: params.ignore_eos,
            target,
            session: fields.whose.session,
            streams,
            siblings: None,
            priority,
            salt,
            part,
            named,
        });
    }
    fields.finish(INERT)?;
    let pending = asked.into_iter().map(|asked| app.submit(asked));
    let pending: Vec<Pending> = pending.collect::<Result<_, _>>()?;
    if streams {
        return Ok(streamed(&app, pending, is_list));
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
    let body = match (is_list, all.pop()) {
        (false, Some(only)) => only,
        (_, last) => json!(all.into_iter().chain(last).collect::<Vec<_>>()),
    };
    Ok(Json(body).into_response())
}

/// What would change an answer, and is not simulated.
fn refuse(fields: &mut Fields) -> Result<(), ApiError> {
    let no = [json!(false), json!([]), json!([false])];
    for name in ["return_logprob", "return_entropy", "return_sampling_mask"] {
        fields.only(name, &no, "answers have no probabilities")?;
    }
    fields.only("return_hidden_states", &no, "answers have no states")?;
    fields.only("return_routed_experts", &no, "experts are not chosen by tokens")?;
    for name in ["image_data", "video_data", "audio_data"] {
        fields.only(name, &no, "prompts are texts")?;
    }
    super::openai::refuse_ranks(fields)
}

fn ids(app: &App, progress: &Progress) -> Vec<u32> {
    let seed = progress.id.map_or(0, |id| id.0);
    (0..progress.tokens).map(|place| app.words.token(seed, place)).collect()
}

/// An answer so far: the text from its begin on, as SGLang sends it.
fn output(app: &App, pending: &Pending, progress: &Progress) -> Value {
    let seed = progress.id.map_or(0, |id| id.0);
    let error = progress.end.and_then(ApiError::of);
    let reason = progress.end.map(|end| match (end.reason(), error) {
        ("length", _) => json!({"type": "length", "length": progress.tokens}),
        ("stop", _) => json!({"type": "stop", "matched": null}),
        (reason, Some(error)) => json!({
            "type": reason, "message": error.message, "status_code": error.status.as_u16(),
            "err_type": null,
        }),
        // One that has no tokens yet is taken out of the queue.
        (reason, None) if progress.tokens == 0 => {
            json!({"type": reason, "message": "Abort in waiting queue"})
        }
        (reason, None) => json!({
            "type": reason, "message": "Aborted", "status_code": null, "err_type": null,
        }),
    });
    let named = pending.named.as_ref().map(|named| named.rid.clone());
    json!({
        "text": app.words.text(seed, 0..progress.tokens),
        "meta_info": {
            "id": named.unwrap_or_else(|| format!("{seed:032x}")),
            "finish_reason": reason,
            "prompt_tokens": pending.prompt_tokens,
            "completion_tokens": progress.tokens,
            "cached_tokens": progress.cached_tokens,
            "weight_version": "default",
        },
    })
}

/// Answers in server-sent events. One that fails says so in its last event, as one that is aborted.
fn streamed(app: &Arc<App>, pending: Vec<Pending>, is_list: bool) -> Response {
    let ways = (0..).zip(pending).map(|(index, pending): (usize, Pending)| {
        let state = (app.clone(), pending, 0, false);
        Box::pin(stream::unfold(state, move |(app, pending, sent, is_over)| async move {
            if is_over {
                return None;
            }
            let progress = pending.answer.beyond(sent).await;
            app.lateness.written(progress.due);
            let mut value = output(&app, &pending, &progress);
            if is_list {
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
